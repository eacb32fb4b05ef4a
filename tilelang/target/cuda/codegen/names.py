"""C++ identifiers of a kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.target.cuda.ir.values import Name, Value

_RESERVED = frozenset(
    """asm auto bool break case catch char class const continue default delete do double else enum explicit extern false float
    for friend goto half if inline int long new operator private protected public register return short signed sizeof static
    struct switch template this throw true try typedef typename uint union unsigned using virtual void volatile while tid tl
    pool main warp_group_id""".split()
)


class Names:
    """Identifiers, each used once in a kernel, and what they stand for.

    Attributes:
        values: what each variable of the program is.
        arrays: the name of each buffer's pointer, array or variable.
    """

    def __init__(self) -> None:
        self.used: set[str] = set(_RESERVED)
        self.kernel_wide: set[str] = set()
        self.values: dict[Any, Value] = {}
        self.arrays: dict[Any, str] = {}

    def take(self, wanted: str) -> Name:
        """``wanted``, made an identifier and numbered where it is taken."""
        base = re.sub(r"\W", "_", wanted) or "v"
        base = f"_{base}" if base[0].isdigit() else base
        name, number = base, 0
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return Name(name)

    def declare(self, wanted: str) -> Name:
        """A name for something that is declared at the kernel's top."""
        name = self.take(wanted)
        self.kernel_wide.add(name.text)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names taken inside stand in braces of their own, and are free again afterwards."""
        before = set(self.used)
        yield
        self.used = before | self.kernel_wide
