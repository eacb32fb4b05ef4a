"""Tensor-core instructions of sm_80 to sm_89 (``mma.sync``), how warps share a product, and the fragments that they demand.

Layouts: PTX manual, "Warp-level matrix instructions". In every shape a row of eight (A: m, B: n) goes to lanes in steps of four,
and along K each lane takes one 32-bit register's worth of neighbours, four lanes side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.layout.fragment import FragmentLayout, Mode, merge_modes, on_register, on_thread
from tilelang.policy import GemmWarpPolicy
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP, Arch, Feature
from tilelang.target.cuda.ir.cpp_types import product_types


class Side(Record):
    """What an instruction takes of A or of B: a tile of rows along M or N, and of the elements that are stored along K.

    Attributes:
        rows, depth: its extents.
        pack: elements in one register of a lane.
    """

    rows: int
    depth: int
    pack: int

    @property
    def groups(self) -> int:
        """Groups of eight rows."""
        return self.rows // 8

    @property
    def halves(self) -> int:
        """Registers of one row along K."""
        return self.depth // (4 * self.pack)

    @property
    def elements(self) -> int:
        """Elements in one lane."""
        return self.groups * self.halves * self.pack


class Instruction(Record):
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
    def a(self) -> Side:
        """What it takes of A."""
        return Side(self.m, self.k // 2 if self.sparse else self.k, self.pack)

    @property
    def b(self) -> Side:
        """What it takes of B."""
        return Side(self.n, self.k, self.pack)

    @property
    def c_elements(self) -> int:
        """Elements of C in one lane."""
        return 2 * self.a.groups

    def reads_pairs(self, bits: int, along_k: bool) -> bool:
        """Whether a shared operand, of elements of so many bits, is best read in pairs of neighbours along M or N.

        So it is where M or N is contiguous (not K), and ``ldmatrix`` cannot transpose the elements: a transposing ``ldmatrix`` of
        pairs of bytes, or a load of two 32-bit elements, replaces two to eight loads of single ones.
        """
        return not along_k and bits in (8, 32) and self.operand is None and not self.sparse


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

    A ``sparse`` one keeps two of four elements of A (32-bit types: one of two), and so takes twice the depth."""
    a, b, c = canonical(a), canonical(b), canonical(c)
    row = _TABLE.get((a, c))
    if row is None or (b, c) not in _TABLE or (sparse and not {a, b} <= _SPARSE):
        return None
    m, n, k, pack, needed = row
    if arch.uses(needed):
        return Instruction(m, n, 2 * k if sparse else k, product_types(a, b, c), pack, sparse=sparse)
    # Every float8 number is a float16 number, so products of float8 are exact in the float16 instruction.
    converted = not sparse and a.is_float and a.bits == 8 and arch.uses(Feature.MMA)
    return Instruction(16, 8, 16, "f32_f16", 2, "float16") if converted else None


class ByWarps(Record):
    """A product by ``mma.sync``, and the fragments that it demands.

    Attributes:
        mma: the instruction.
        m, n: warps along M and N that share C, those along M numbered first.
        warps: of the group; those beyond ``m * n`` hold copies.
        pairs: whether A (B) is read in pairs of neighbours along M (N), which then belong to one lane
            (:meth:`Instruction.reads_pairs`): along M rows eight apart of the instruction, along N columns of two instructions.
    """

    mma: Instruction
    m: int
    n: int
    warps: int
    pairs: tuple[bool, bool] = (False, False)

    def c_layout(self, rows: int, columns: int) -> FragmentLayout:
        """The fragment of C."""
        mma, each = self.mma, self.mma.c_elements
        tiles_m, tiles_n = rows // mma.m // self.m, columns // mma.n // self.n
        # PTX manual, fragments of mma.m16n8: row r lies in lanes 4 (r % 8) to 4 (r % 8) + 3, rows eight apart in the registers of
        # one lane; column c in lane c // 2 of those four, two columns side by side.
        m = (on_thread(8, 4), on_register(mma.a.groups, 2))
        n = (on_register(2, 1), on_thread(4, 1), on_register(tiles_n, each))
        # The instruction does not know which row of memory its row r is. Where lanes take memory's rows 2 r and 2 r + 1 as the
        # instruction's r and r + 8, a pair of neighbours in memory is one load; C has its rows in that order, too.
        if self.pairs[0]:
            m = m[::-1]
        if self.pairs[1]:
            n = (on_register(2, each), on_register(2, 1), on_thread(4, 1), on_register(tiles_n // 2, 2 * each))
        m = (*m, on_register(tiles_m, each * tiles_n), on_thread(self.m, WARP))
        return self._layout((rows, columns), (m, (*n, on_thread(self.n, WARP * self.m))))

    def a_layout(self, rows: int, depth: int) -> FragmentLayout:
        """The fragment of A as (M, K); of a sparse A half of the columns are stored."""
        return self._operand(self.mma.a, (rows, depth), on_thread(self.m, WARP), on_thread(self.n, WARP * self.m))

    def b_layout(self, depth: int, columns: int) -> FragmentLayout:
        """The fragment of B as (K, N)."""
        return transposed(self._operand(self.mma.b, (columns, depth), on_thread(self.n, WARP * self.m), on_thread(self.m, WARP)))

    def _operand(self, side: Side, shape: tuple[int, int], shares: Mode, copies: Mode) -> FragmentLayout:
        """The fragment of an operand, rows along M or N first; warps share the rows along one axis, and hold copies along the
        other."""
        each, pack = side.elements, side.pack
        tiles, steps = shape[0] // side.rows // shares.extent, shape[1] // self.mma.k
        rows = (on_thread(8, 4), on_register(side.groups, pack), on_register(tiles, each * steps), shares)
        k = (on_register(pack, 1), on_thread(4, 1), on_register(side.halves, pack * side.groups), on_register(steps, each))
        return self._layout((shape[0], steps * side.depth), (rows, k), copies)

    def _layout(self, shape: tuple[int, int], axes: Any, *replicas: Mode) -> FragmentLayout:
        """Modes of extent 1 dropped; warps beyond the grid hold copies."""
        used = self.m * self.n
        copies = (*replicas, on_thread(self.warps // used, WARP * used))
        modes = tuple(tuple(mode for mode in axis if mode.extent > 1) for axis in axes)
        return FragmentLayout(shape, modes, merge_modes(copies))


def warp_grid(mma: Instruction, shape: tuple[int, int], warps: int, policy: int) -> ByWarps:
    """The distribution of C, of so many rows and columns, over warps.

    As many warps as possible compute different parts. If the tile is too small for all, several warps compute the same part.

    Args:
        shape: of C, multiples of the instruction's.
        policy: a ``T.GemmWarpPolicy`` as a number.
    """
    tiles_m, tiles_n = shape[0] // mma.m, shape[1] // mma.n
    grids = [
        (m, n)
        for m in range(1, min(warps, tiles_m) + 1)
        for n in range(1, min(warps // m, tiles_n) + 1)
        if tiles_m % m == 0 and tiles_n % n == 0 and warps % (m * n) == 0
    ]

    def preference(grid: tuple[int, int]) -> tuple:
        m, n = grid
        if policy == GemmWarpPolicy.FullRow:
            return m * n, m
        if policy == GemmWarpPolicy.FullCol:
            return m * n, n
        # Bytes of A and B that a warp reads grow with the rows and columns of its part; pairs of n8 tiles share one ldmatrix.
        height, width = shape[0] // m, shape[1] // n
        return m * n, width % (2 * mma.n) == 0, -(height + width), m

    return ByWarps(mma, *max(grids, key=preference), warps)


def transposed(layout: FragmentLayout) -> FragmentLayout:
    """The fragment of the transposed matrix."""
    return FragmentLayout(layout.shape[::-1], layout.modes[::-1], layout.replicas)
