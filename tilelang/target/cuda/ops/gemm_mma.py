"""Tensor-core instructions of sm_80 to sm_89 (``mma.sync``), how warps share a product, and the fragments that they demand.

Layouts: PTX manual, "Warp-level matrix instructions". In every shape a row of eight (A: m, B: n) goes to lanes in steps of four,
and along K each lane takes one 32-bit register's worth of neighbours, four lanes side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.layout.fragment import FragmentLayout, Mode, merge_modes, on_register, on_thread
from tilelang.policy import GemmWarpPolicy
from tilelang.target.cuda.arch import WARP, Arch, Feature
from tilelang.target.cuda.ir.cpp_types import ptx_operand, ptx_type


@dataclass(frozen=True, slots=True)
class Instruction:
    """One tensor-core instruction.

    Attributes:
        m, n, k: its shape.
        suffix: of the device function ``tl::mma_m<m>n<n>k<k>_<suffix>``.
        pack: A and B elements in one register of a lane (32 bits; 64 for float64).
        operand: element type that A and B are converted to before; their own where None.
        sparse: whether A keeps one half of K, and metadata say which (``mma.sp``).
    """

    m: int
    n: int
    k: int
    suffix: str
    pack: int
    operand: str | None = None
    sparse: bool = False

    @property
    def function(self) -> str:
        """The device function."""
        return f"tl::mma_{'sp_' if self.sparse else ''}m{self.m}n{self.n}k{self.k}_{self.suffix}"

    @property
    def a_depth(self) -> int:
        """Columns of A that are stored."""
        return self.k // 2 if self.sparse else self.k

    @property
    def rows(self) -> int:
        """Groups of eight rows of A: 2, or 1 for float64."""
        return self.m // 8

    @property
    def halves(self) -> int:
        """Registers of one column of B along K."""
        return self.k // (4 * self.pack)

    @property
    def a_halves(self) -> int:
        """Registers of one row of A along K."""
        return self.a_depth // (4 * self.pack)

    @property
    def a_elements(self) -> int:
        """Elements of A in one lane."""
        return self.rows * self.a_halves * self.pack

    @property
    def b_elements(self) -> int:
        """Elements of B in one lane."""
        return self.halves * self.pack

    @property
    def c_elements(self) -> int:
        """Elements of C in one lane."""
        return 2 * self.rows


_TABLE: Mapping[tuple[str, str], tuple[int, int, int, int, Feature]] = {
    # (type of A, type of C) -> m, n, k, elements a register, what it needs
    ("float16", "float32"): (16, 8, 16, 2, Feature.MMA),
    ("float16", "float16"): (16, 8, 16, 2, Feature.MMA),
    ("bfloat16", "float32"): (16, 8, 16, 2, Feature.MMA),
    ("float32", "float32"): (16, 8, 8, 1, Feature.MMA),
    ("float64", "float64"): (8, 8, 4, 1, Feature.MMA),
    ("int8", "int32"): (16, 8, 32, 4, Feature.MMA),
    ("uint8", "int32"): (16, 8, 32, 4, Feature.MMA),
    ("int4", "int32"): (16, 8, 64, 8, Feature.MMA),
    ("uint4", "int32"): (16, 8, 64, 8, Feature.MMA),
    ("float8_e4m3fn", "float32"): (16, 8, 32, 4, Feature.FP8_MMA),
    ("float8_e5m2", "float32"): (16, 8, 32, 4, Feature.FP8_MMA),
}

_SPARSE = frozenset({"float16", "bfloat16", "float32", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"})
"""Types of operands that ``mma.sp`` has."""


def instruction(a: str, b: str, c: str, arch: Arch, sparse: bool = False) -> Instruction | None:
    """The instruction for element types of A, B and C on an architecture; None where the tensor cores have none.

    Args:
        a, b, c: the element types.
        arch: the architecture.
        sparse: whether two of four elements of A (32-bit types: one of two) are kept: it then takes twice the depth.
    """
    a, b, c = canonical(a), canonical(b), canonical(c)
    row = _TABLE.get((a, c))
    if row is None or (b, c) not in _TABLE or (sparse and not {a, b} <= _SPARSE):
        return None
    m, n, k, pack, needed = row
    if arch.uses(needed):
        return Instruction(m, n, 2 * k if sparse else k, _suffix(a, b, c), pack, sparse=sparse)
    converted = not sparse and a.is_float and a.bits == 8 and arch.uses(Feature.MMA)
    return Instruction(16, 8, 16, "f32_f16", 2, "float16") if converted else None


def _suffix(a: str, b: str, c: str) -> str:
    left, right = map(ptx_operand, (a, b))
    pair = left if left == right else f"{left}_{right}"
    return "f64" if c == "float64" else f"{ptx_type(c)}_{pair}"


@dataclass(frozen=True, slots=True)
class WarpGrid:
    """How the warps of a block share C: ``m`` by ``n`` of them, those along M numbered first."""

    m: int
    n: int


def warp_grid(rows: int, columns: int, mma: Instruction, warps: int, policy: int) -> WarpGrid:
    """The distribution of the tile of C over warps.

    As many warps as possible compute different parts. If the tile is too small for all, several warps compute the same part.

    Args:
        rows, columns: of C, multiples of the instruction's.
        mma: the instruction.
        warps: number of warps.
        policy: a ``T.GemmWarpPolicy`` as a number.
    """
    tiles_m, tiles_n = rows // mma.m, columns // mma.n
    grids = [
        WarpGrid(m, n)
        for m in range(1, min(warps, tiles_m) + 1)
        for n in range(1, min(warps // m, tiles_n) + 1)
        if tiles_m % m == 0 and tiles_n % n == 0 and warps % (m * n) == 0
    ]
    return max(grids, key=lambda grid: (grid.m * grid.n, *_preference(grid, rows, columns, mma, policy)))


def _preference(grid: WarpGrid, rows: int, columns: int, mma: Instruction, policy: int) -> tuple:
    if policy == GemmWarpPolicy.FullRow:
        return (grid.m,)
    if policy == GemmWarpPolicy.FullCol:
        return (grid.n,)
    # Bytes of A and B that a warp reads grow with the rows and columns of its part; pairs of n8 tiles share one ldmatrix.
    height, width = rows // grid.m, columns // grid.n
    pairs = width % (2 * mma.n) == 0
    return (pairs, -(height + width), grid.m)


def accumulator_layout(
    rows: int, columns: int, mma: Instruction, grid: WarpGrid, warps: int, pairs: tuple[bool, bool] = (False, False)
) -> FragmentLayout:
    """The fragment layout of C.

    Args:
        rows, columns: of C.
        mma: the instruction.
        grid: the distribution over warps.
        warps: number of warps.
        pairs: whether neighbours along M (N) belong to one lane, see :func:`reads_pairs`: along M rows eight apart of the
            instruction, along N columns of two instructions.
    """
    tiles_m, tiles_n = rows // mma.m // grid.m, columns // mma.n // grid.n
    each = mma.c_elements
    m = (on_thread(8, 4), on_register(mma.rows, 2))
    n = (on_register(2, 1), on_thread(4, 1), on_register(tiles_n, each))
    if pairs[0]:
        m = m[::-1]
    if pairs[1]:
        n = (on_register(2, each), on_register(2, 1), on_thread(4, 1), on_register(tiles_n // 2, 2 * each))
    m = (*m, on_register(tiles_m, each * tiles_n), on_thread(grid.m, WARP))
    n = (*n, on_thread(grid.n, WARP * grid.m))
    return _layout((rows, columns), (m, n), (), grid, warps)


def reads_pairs(bits: int, along_k: bool, mma: Instruction) -> bool:
    """Whether a shared operand is best read in pairs of neighbours along M or N, which then belong to one lane.

    So it is where M or N is contiguous and ``ldmatrix`` cannot transpose the elements: a transposing ``ldmatrix`` of pairs of
    bytes, or a load of two 32-bit elements, replaces two to eight loads of single ones.

    Args:
        bits: of an element.
        along_k: whether K is the contiguous axis.
        mma: the instruction.
    """
    return not along_k and bits in (8, 32) and mma.operand is None and not mma.sparse


def a_layout(rows: int, depth: int, mma: Instruction, grid: WarpGrid, warps: int) -> FragmentLayout:
    """The fragment layout of A as (M, K).

    Args:
        rows: M.
        depth: columns that are stored; of a sparse A, half of K.
        mma: the instruction.
        grid: the distribution over warps.
        warps: number of warps.
    """
    tiles_m, tiles_k = rows // mma.m // grid.m, depth // mma.a_depth
    each, pack = mma.a_elements, mma.pack
    m = (on_thread(8, 4), on_register(mma.rows, pack), on_register(tiles_m, each * tiles_k), on_thread(grid.m, WARP))
    k = (on_register(pack, 1), on_thread(4, 1), on_register(mma.a_halves, pack * mma.rows), on_register(tiles_k, each))
    return _layout((rows, depth), (m, k), (on_thread(grid.n, WARP * grid.m),), grid, warps)


def b_layout(depth: int, columns: int, mma: Instruction, grid: WarpGrid, warps: int) -> FragmentLayout:
    """The fragment layout of B as (K, N).

    Args:
        depth: K.
        columns: N.
        mma: the instruction.
        grid: the distribution over warps.
        warps: number of warps.
    """
    tiles_n, tiles_k = columns // mma.n // grid.n, depth // mma.k
    each, pack = mma.b_elements, mma.pack
    n = (on_thread(8, 4), on_register(tiles_n, each * tiles_k), on_thread(grid.n, WARP * grid.m))
    k = (on_register(pack, 1), on_thread(4, 1), on_register(mma.halves, pack), on_register(tiles_k, each))
    return _layout((depth, columns), (k, n), (on_thread(grid.m, WARP),), grid, warps)


def transposed(layout: FragmentLayout) -> FragmentLayout:
    """The fragment of the transposed matrix."""
    return FragmentLayout(layout.shape[::-1], layout.modes[::-1], layout.replicas)


def _layout(shape: tuple[int, int], axes: Any, replicas: tuple[Mode, ...], grid: WarpGrid, warps: int) -> FragmentLayout:
    """Modes of extent 1 dropped; warps beyond the grid hold copies."""
    used = grid.m * grid.n
    copies = (*replicas, on_thread(warps // used, WARP * used))
    modes = tuple(tuple(mode for mode in axis if mode.extent > 1) for axis in axes)
    return FragmentLayout(shape, modes, merge_modes(copies))
