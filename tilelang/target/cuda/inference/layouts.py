"""What layout inference finds: where every tile of a kernel lives, and which threads run what.

The solver fills such a table; :meth:`Layouts.frozen` is what all later steps see.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from tilelang.errors import LayoutConflictError
from tilelang.layout.fragment import FragmentLayout
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.inference.products import Product
from tilelang.target.cuda.reading.tree import Operator, Parallel


@dataclass(frozen=True, slots=True)
class ThreadScope:
    """Which threads of the block run a statement: ``count`` of them from number ``first``."""

    first: int
    count: int


@dataclass(frozen=True, eq=False)
class Layouts:
    """Layouts of a kernel.

    Attributes:
        fragments: layout of each fragment.
        memory: layout of each shared buffer.
        loops: distribution of each nest.
        products: how each matrix product is computed.
        scopes: the threads that run each node.
        reducers: fragments of which each thread has its own partial values.
        own: nests that each thread runs for itself, its stores to memory included.
        conversions: copies that bring a fragment's elements to other places for some statements, with the error to raise where
            only some of the threads run one.
        origins: span of the statement that fixed a fragment.
    """

    fragments: Mapping[Any, FragmentLayout] = field(default_factory=dict)
    memory: Mapping[Any, Any] = field(default_factory=dict)
    loops: Mapping[Parallel, LoopLayout] = field(default_factory=dict)
    products: Mapping[Operator, Product] = field(default_factory=dict)
    scopes: Mapping[Any, ThreadScope] = field(default_factory=dict)
    reducers: Mapping[Any, str] = field(default_factory=dict)
    origins: Mapping[Any, Any] = field(default_factory=dict)
    own: Set[Any] = field(default_factory=set)
    conversions: Mapping[Any, LayoutConflictError] = field(default_factory=dict)

    def frozen(self) -> Layouts:
        """The same table, which nobody can change."""
        tables = {each.name: getattr(self, each.name) for each in fields(self)}
        return Layouts(**{name: _frozen(table) for name, table in tables.items()})


def _frozen(table: Any) -> Any:
    return frozenset(table) if isinstance(table, Set) else MappingProxyType(dict(table))
