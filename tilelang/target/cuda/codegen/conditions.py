"""What the program itself tests around the code being lowered, so that an access that it guards is not guarded again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from tilelang.ir.facts import Facts
from tilelang.transform.substitute import substitute


class Conditions:
    """The conditions of the branches, choices and loops around the code being lowered.

    They are known for questions alone: code is not simplified by them, since parts of it (addresses) move to before the test.
    """

    def __init__(self, facts: Facts):
        self._facts = facts
        self._around: list[tuple[Any, bool]] = []
        self._named: dict[Any, Any] = {}

    def name(self, var: Any, condition: Any) -> None:
        """A variable of the program is the value of a condition."""
        self._named[var] = substitute(condition, self._named)

    @contextmanager
    def assuming(self, condition: Any, holds: bool = True) -> Iterator[None]:
        """While this lasts, what is lowered runs only where a condition holds (or does not)."""
        self._around.append((substitute(condition, self._named), holds))
        yield
        self._around.pop()

    def imply(self, fact: Any) -> bool:
        """Whether a fact holds wherever the conditions do."""
        with ExitStack() as stack:
            for condition, holds in self._around:
                stack.enter_context(self._facts.assuming(condition, holds))
            return bool(self._around) and self._facts.holds(fact)
