"""The state of the random generator: random numbers, sizes, fresh names, and the pair of constructs to combine."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from testing.fuzz import dtypes, ends
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.tree import Expr, Scalar, Stmt, Tensor, evaluate

Choice = TypeVar("Choice")


class Draw:
    """The state while one program is generated.

    Attributes:
        random: the random number generator of the seed.
        sizes: values of the named sizes.
        tensors: the parameters generated so far.
        beginning: the declarations at the start of the current kernel.
        declared: the tiles of the current kernel.
        results: tensors that earlier kernels have written, each with the tile that was stored to it.
        kept: for tiles of this kernel, the tensor that they are loaded from and stored to.
        scalars: the scalar arguments.
        lengths: sizes that are arguments of the call, and that no tile has.
        promises: conditions of the call, over its arguments.
        exact: whether operations on floats must keep NaN, infinities and subnormals.
        padded: whether tensors may have padding between their rows, or columns one after the other.
        dynamic: whether the number of blocks is an argument of the call.
        aim: a pair of constructs to combine: the second inside of, after, or reading from the first.
        avoid: statements and element types that are not generated.
        threads: threads of a block of the current kernel.
    """

    def __init__(self, seed: int, aim: tuple[str, str] | None = None, avoid: Collection[str] = ()):
        self.random = random.Random(seed)
        self.aim, self.avoid = aim, avoid
        self.sizes: dict[str, int] = {"G": self.random.choice([1, 2, 2, 3])}
        self.tensors: list[Tensor] = []
        self.beginning: list[Stmt] = []
        self.declared: list[Tile] = []
        self.results: list[tuple[Tensor, Tile]] = []
        self.kept: dict[str, Tensor] = {}
        self.scalars: dict[str, Scalar] = {}
        self.lengths: dict[str, int] = {}
        self.promises: list[str] = []
        self.exact = False
        self.padded = True
        self.dynamic = self.chance(0.12)
        self.threads = 128
        self._names = 0

    def name(self, base: str) -> str:
        """A unique name."""
        self._names += 1
        return f"{base}{self._names}"

    @property
    def common(self) -> list[str]:
        """Element types for a tile of any type; a type that is repeated is drawn more often."""
        return [dtype for dtype in dtypes.COMMON if dtype not in self.avoid]

    def dtype(self, types: Sequence[str]) -> str:
        """One of several element types."""
        return self.pick([dtype for dtype in types if dtype not in self.avoid])

    def size(self, text: str) -> int:
        """A size as a number."""
        return evaluate(text, self.sizes | self.lengths)

    def elements(self, shape: Sequence[str]) -> int:
        """How many elements a shape has."""
        found = 1
        for size in shape:
            found *= self.size(size)
        return found

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, items: Sequence[Choice]) -> Choice:
        return self.random.choice(items)

    # Tiles -------------------------------------------------------------------------------------------------------------

    def tile(
        self, scope: Scope, shape: Sequence[str], types: Sequence[str] = (), memories: Sequence[str] = ("shared", "fragment"),
        wide: bool | None = False, apart: Sequence[str] = (),
    ) -> Tile:  # fmt: skip
        """A tile of the given shape: one that is in scope, or a new one.

        Args:
            scope: where it is used.
            shape: texts of its sizes.
            types: element types it may have, all if empty.
            memories: where it may be.
            wide: whether it holds sums; None for any.
            apart: names that it must not have.
        """
        shape = tuple(shape)
        found = [
            tile for tile in self.visible(scope)
            if tile.shape == shape and (not types or tile.dtype in types) and tile.memory in memories
            and wide in (None, tile.wide) and tile.name not in apart
        ]  # fmt: skip
        if found and self.chance(0.85):
            return self.pick(found)
        choices = types or (dtypes.WIDE if wide else self.common)
        return self.declare(scope, shape, self.pick(choices), self.pick(memories), bool(wide))

    def visible(self, scope: Scope) -> list[Tile]:
        """Tiles of the kernel that a statement may use."""
        here = {tile.name for tile in scope.tiles}
        return scope.tiles + [tile for tile in self.declared if tile.name not in here | scope.hidden]

    def declare(self, scope: Scope, shape: Sequence[str], dtype: str, memory: str, wide: bool = False) -> Tile:
        """A new tile with a first value, at the beginning of the kernel."""
        tile = Tile(self.name({"shared": "s", "fragment": "f"}[memory]), memory, tuple(shape), dtype, wide)
        scope.tiles.append(tile)
        self.declared.append(tile)
        self.beginning.append(self._first_value(tile))
        return tile

    def declare_result(self, scope: Scope, memory: str) -> None:
        """A tile that begins with what a kernel before this one has stored."""
        tensor, stored = self.pick(self.results)
        block = self.pick(["bx", "bx", "G - 1 - bx", "(bx + 1) % G"])
        self._declare_from(scope, tensor, replace(stored, memory=memory), block)

    def declare_kept(self, scope: Scope, tensor: Tensor, memory: str) -> None:
        """A tile that begins with its block's part of a tensor, and is stored there at the end."""
        tile = Tile("", memory, tensor.shape[1:], tensor.dtype, tensor.dtype in dtypes.WIDE)
        self.kept[self._declare_from(scope, tensor, tile, "bx").name] = tensor

    def _declare_from(self, scope: Scope, tensor: Tensor, like: Tile, block: str) -> Tile:
        tile = replace(like, name=self.name({"shared": "s", "fragment": "f"}[like.memory]))
        scope.tiles.append(tile)
        self.declared.append(tile)
        allocation = f'{tile.name} = T.alloc_{tile.memory}(({", ".join(tile.shape)},), "{tile.dtype}")'
        source = f"{tensor.name}[{block}{', 0' * len(tile.shape)}]"
        self.beginning.append(Stmt("declare", (allocation, f"T.copy({source}, {tile.name})"), writes=(tile.name,)))
        return tile

    def _first_value(self, tile: Tile) -> Stmt:
        """Allocation and first value, one statement, so that no shrunk program reads what was never written."""
        shape = ", ".join(tile.shape)
        lines = [f'{tile.name} = T.alloc_{tile.memory}(({shape},), "{tile.dtype}")']
        if tile.wide or self.chance(0.35):
            low = 0 if dtypes.is_unsigned(tile.dtype) else -3
            lines.append(self.pick([f"T.fill({tile.name}, {self.random.randint(low, 1)})", f"T.clear({tile.name})"]))
        else:
            lines.append(f"T.copy({self.source(tile)}, {tile.name})")
        return Stmt("declare", tuple(lines), writes=(tile.name,))

    def source(self, tile: Tile) -> str:
        """A region of a new input with the shape of ``tile``, as an operand of a copy."""
        if tile.dtype not in dtypes.PACKED and self.chance(0.3):
            return self.overhanging(tile, self.input)
        tensor = self.input(("G", *tile.shape), tile.dtype)
        return f"{tensor.name}[bx{', 0' * len(tile.shape)}]"

    def overhanging(self, tile: Tile, declare: Callable[[Sequence[str], str], Tensor]) -> str:
        """A region with the shape of ``tile``, one for each block; the last ones may overhang the tensor.

        Args:
            tile: what is copied.
            declare: makes the tensor, of a shape and an element type.
        """
        along = self.random.randrange(len(tile.shape)) if self.padded and self.chance(0.4) else 0
        axes: list[tuple[str, str]] = []
        for axis, size in enumerate(tile.shape):
            if axis == along:
                axes.append((self.shortened(f"G * ({size})"), f"bx * ({size}):(bx + 1) * ({size})"))
            else:
                length = self.shortened(size) if self.padded and self.chance(0.2) else size
                axes.append((length, f"0:{size}"))
        if self.padded and len(axes) < 4 and self.chance(0.25):
            axes.insert(self.random.randrange(len(axes) + 1), ("2", self.pick(["0", "1", "bx % 2"])))
        tensor = declare([length for length, _ in axes], tile.dtype)
        return f"{tensor.name}[{', '.join(index for _, index in axes)}]"

    def shortened(self, size: str) -> str:
        """A size up to the given one, as an expression or an argument of the call."""
        most = self.size(size) - 1
        cut = self.random.randint(0, min(3, most) if self.chance(0.6) else most)
        if self.chance(0.35):
            return self.length(most + 1 - cut)
        return f"({size}) - {cut}" if cut else size

    def input(self, shape: Sequence[str], dtype: str, low: int = -4, high: int = 4) -> Tensor:
        """A new input, or one there is."""
        shape = tuple(shape)
        wanted = (shape, dtype, "in", low, high, False)
        same = [t for t in self.tensors if (t.shape, t.dtype, t.role, t.low, t.high, t.ends) == wanted]
        if same and self.chance(0.5):
            return self.pick(same)
        pad = self._pad(shape, dtype)
        turned = not pad and self._turned(shape, dtype)
        address = self.padded and not pad and not turned and dtype not in dtypes.PACKED and self.chance(0.02)
        self.tensors.append(Tensor(self.name("A"), shape, dtype, "in", low, high, pad=pad, turned=turned, address=address))
        return self.tensors[-1]

    def ends(self, shape: Sequence[str], dtype: str) -> Tensor:
        """A new input of values at the ends of its type."""
        self.tensors.append(Tensor(self.name("A"), tuple(shape), dtype, ends=True))
        return self.tensors[-1]

    def output(self, shape: Sequence[str], dtype: str, ends: bool = False) -> Tensor:
        """A new output."""
        pad = 0 if ends else self._pad(shape, dtype)
        turned = not pad and not ends and self._turned(shape, dtype)
        self.tensors.append(Tensor(self.name("O"), tuple(shape), dtype, "out", pad=pad, turned=turned, ends=ends))
        return self.tensors[-1]

    def workspace(self, shape: Sequence[str], dtype: str) -> Tensor:
        """New memory of the call, which begins uninitialised."""
        self.tensors.append(Tensor(self.name("W"), tuple(shape), dtype, "work"))
        return self.tensors[-1]

    def argument(self, real: bool = False) -> str:
        """A new integer argument, or a float one."""
        name = self.name("x" if real else "n")
        value = self.pick([-2.0, -0.5, 1.0, 3.0]) if real else self.random.randint(0, 3)
        self.scalars[name] = Scalar("float32" if real else "int32", value)
        return name

    def end_argument(self, dtype: str) -> str:
        """A new argument of any type, with a value at an end of it."""
        name = self.name("e")
        self.scalars[name] = Scalar(dtype, ends.scalar(dtype, self.random.randrange(1000)), small=False)
        return name

    @property
    def whole(self) -> list[str]:
        """The small integer arguments."""
        return [name for name, scalar in self.scalars.items() if scalar.small and scalar.dtype == "int32"]

    @property
    def real(self) -> list[str]:
        """The small float arguments."""
        return [name for name, scalar in self.scalars.items() if scalar.small and scalar.dtype == "float32"]

    def whole_argument(self) -> str:
        """An integer argument: a new one, or one there is."""
        return self.pick(self.whole) if self.whole and self.chance(0.7) else self.argument()

    def length(self, value: int) -> str:
        """A new size that is an argument of the call, which some tensor must have."""
        name = self.name("N")
        self.lengths[name] = value
        return name

    def _pad(self, shape: Sequence[str], dtype: str) -> int:
        """Elements between the rows of a tensor: of most, none."""
        fits = self.padded and len(shape) > 1 and dtype not in dtypes.PACKED and "G" not in " ".join(shape[1:])
        return self.pick([1, 3, 8, 16]) if fits and self.chance(0.05) else 0

    def _turned(self, shape: Sequence[str], dtype: str) -> bool:
        """Whether the columns of a tensor lie one after the other: of most, not."""
        names = set(re.findall(r"\w+", " ".join(shape[-2:])))
        fits = self.padded and len(shape) > 1 and dtype not in dtypes.PACKED and names.isdisjoint({"G", *self.lengths})
        return fits and self.chance(0.04)

    # Choices -----------------------------------------------------------------------------------------------------------

    def steered(self, names: Sequence[str], weights: Sequence[float], scope: Scope) -> str:
        """A construct, more often one of the pair that is aimed at."""
        if self.aim is not None:
            first, second = self.aim
            if second in names and first in (scope.kind, scope.previous) and self.chance(0.6):
                return second
            if first in names and self.chance(0.3):
                return first
        return self.random.choices(list(names), list(weights))[0]


def constant(value: int, kind: str) -> Expr:
    """A number of a type."""
    texts = {"float": f"T.float32({value})", "int": str(value), "bool": str(bool(value))}
    return Expr("constant", texts[kind], kind)
