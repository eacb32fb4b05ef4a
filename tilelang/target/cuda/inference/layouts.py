"""What layout inference finds: where every tile of a kernel lives, and which threads run what."""

from __future__ import annotations

from dataclasses import dataclass, field
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


@dataclass(eq=False)
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

    fragments: dict[Any, FragmentLayout] = field(default_factory=dict)
    memory: dict[Any, Any] = field(default_factory=dict)
    loops: dict[Parallel, LoopLayout] = field(default_factory=dict)
    products: dict[Operator, Product] = field(default_factory=dict)
    scopes: dict[Any, ThreadScope] = field(default_factory=dict)
    reducers: dict[Any, str] = field(default_factory=dict)
    origins: dict[Any, Any] = field(default_factory=dict)
    own: set[Any] = field(default_factory=set)
    conversions: dict[Any, LayoutConflictError] = field(default_factory=dict)
