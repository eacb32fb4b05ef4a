"""What a statement may name where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Axis:
    """A loop variable, a block index: values from 0 to ``extent`` - 1.

    Attributes:
        name: of the variable.
        extent: text of the size.
        parallel: that it is of a ``T.Parallel``.
    """

    name: str
    extent: str
    parallel: bool = False


@dataclass(frozen=True)
class Tile:
    """A buffer of a kernel.

    Attributes:
        name: of the buffer.
        memory: ``"shared"``, ``"fragment"``, ``"local"``.
        shape: texts of the sizes.
        dtype: of the elements.
        wide: that its elements are sums, which may be large; else they are at most 4, as numbers.
    """

    name: str
    memory: str
    shape: tuple[str, ...]
    dtype: str
    wide: bool = False


@dataclass(frozen=True)
class Variable:
    """A mutable scalar; ``type`` is ``"int"``, ``"float"`` or ``"bool"``."""

    name: str
    type: str


@dataclass
class Scope:
    """What is visible.

    Attributes:
        axes: loop variables, outermost first.
        tiles, variables: that statements here may read and write; hidden: names of tiles that they may not.
        values: names of values that are read once, with their types.
        depth: of the nesting.
        trips: how often at most a statement here runs.
        kind: of the statement that this is the body of.
        previous: of the statement before.
        written: tiles that the surrounding ``T.Parallel`` writes, and at which indices: elsewhere they may not be read.
        loop: that ``break`` and ``continue`` would leave a serial loop.
        apart: that not all threads of the block come here.
    """

    axes: tuple[Axis, ...] = ()
    tiles: list[Tile] = field(default_factory=list)
    hidden: frozenset[str] = frozenset()
    variables: list[Variable] = field(default_factory=list)
    values: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 0
    trips: int = 1
    kind: str = "kernel"
    previous: str = ""
    written: dict[str, str] = field(default_factory=dict)
    loop: bool = False
    apart: bool = False

    def inside(self, kind: str, *axes: Axis, trips: int = 1, loop: bool | None = None) -> Scope:
        """The scope of a body of a statement."""
        return replace(
            self, axes=(*self.axes, *axes), tiles=list(self.tiles), variables=list(self.variables), values=list(self.values),
            depth=self.depth + 1, trips=self.trips * trips, kind=kind, previous="", written=dict(self.written),
            loop=self.loop if loop is None else loop,
        )  # fmt: skip

    @property
    def parallel(self) -> bool:
        """Whether this is inside of a ``T.Parallel``."""
        return any(axis.parallel for axis in self.axes)
