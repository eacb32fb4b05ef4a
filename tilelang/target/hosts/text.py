"""What the C host and the Python host have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tilelang.artifact import KernelLaunch, KernelParam, TensorMapSpec
from tilelang.assumptions import Assumption
from tilelang.identifiers import usable

MAP_BYTES = 128
"""Size of a tensor map."""

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "bool": 8}


@dataclass(frozen=True, slots=True)
class HostProgram:
    """What a host does: take the parameters, launch the kernels in order.

    Attributes:
        name: the program's name.
        params: its parameters in order.
        dynamic: dynamic sizes and strides, in the order in which the plain entry takes them.
        launches: the kernels.
        assumptions: what is checked before the first one.
    """

    name: str
    params: tuple[KernelParam, ...]
    dynamic: tuple[str, ...]
    launches: tuple[KernelLaunch, ...]
    assumptions: tuple[Assumption, ...] = ()


class Names:
    """Distinct identifiers for a program's names, none of them reserved or beginning with ``tl_``, which is ours."""

    def __init__(self, reserved: Iterable[str], is_reserved: Callable[[str], bool] = lambda name: False):
        self._taken = set(reserved)
        self._is_reserved = is_reserved
        self._given: dict[tuple[str, str], str] = {}

    def __call__(self, name: str) -> str:
        """The identifier of the number ``name``: a scalar argument, a size, a loop's variable."""
        return self._identifier("number", name)

    def address(self, name: str) -> str:
        """The identifier of the tensor ``name``: a size may have the same name."""
        return self._identifier("address", name)

    def of(self, param: KernelParam) -> str:
        """The identifier of a parameter."""
        return self(param.name) if param.kind == "scalar" else self.address(param.name)

    def _identifier(self, kind: str, name: str) -> str:
        if (kind, name) not in self._given:
            plain = usable(re.sub(r"[^A-Za-z0-9_]", "_", name))
            plain = f"u_{plain}" if plain.startswith("tl_") else plain
            while plain in self._taken or self._is_reserved(plain):
                plain += "_"
            self._taken.add(plain)
            self._given[kind, name] = plain
        return self._given[kind, name]


def tensor_maps(launch: KernelLaunch) -> dict[str, tuple[int, TensorMapSpec]]:
    """Number and record of each of a launch's tensor maps, by name."""
    return {spec.name: (index, spec) for index, spec in enumerate(launch.tensor_maps)}


def launch_steps(launches: Sequence[KernelLaunch]) -> Iterator[tuple[str, Any]]:
    """What a host does, in order: ``("open", step)`` of :attr:`~tilelang.artifact.KernelLaunch.within`, ``("close", None)``,
    and ``("launch", number)``."""
    within: tuple[tuple, ...] = ()
    for index, launch in enumerate(launches):
        # Loops and conditions that two launches in a row have in common stay open: ("for", i) ("if", c) after ("for", i) closes
        # nothing, and opens one.
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(within, launch.within)))
        yield from (("close", None) for _ in within[kept:])
        yield from (("open", step) for step in launch.within[kept:])
        yield "launch", index
        within = launch.within
    yield from (("close", None) for _ in within)
