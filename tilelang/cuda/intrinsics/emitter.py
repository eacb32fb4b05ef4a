"""Products by tensor cores, written by hand: operands go to registers, ``mma`` multiplies them, results go to memory.

A block of ``block_row_warps x block_col_warps`` warps computes a tile; each warp has ``warp_row_tiles x warp_col_tiles`` of
it, in instructions of 16 x 16 (two ``mma`` of 16 x 8) or, where that does not divide, 16 x 8. Registers are ``T.alloc_local``
arrays: those of instruction ``i`` of an operand are ``local_size_a`` (``local_size_b``) elements from ``i * local_size_a`` on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import tilelang.language as T
from tilelang.cuda.intrinsics.maps import get_ldmatrix_offset, mma_store_index_map, operand_element
from tilelang.dtypes import canonical
from tilelang.errors import ShapeError, UnsupportedError

_WARP = 32


class TransformKind(IntEnum):
    """How an operand lies in shared memory: as it is, or in the order in which lanes hold it (see ``ldmatrix_b``)."""

    NonTransform = 0
    InterWarpTransform = 1
    IntraWarpTransform = 2
    LDMatrixTransform = 3


@dataclass(frozen=True)
class _Operand:
    """An operand of a warp.

    Attributes:
        matrix: ``"A"`` or ``"B"``.
        bits: of an element.
        transposed: as :func:`~tilelang.cuda.intrinsics.get_ldmatrix_offset` means it.
        count: instructions along it.
        extent: its rows (of B: columns) in one instruction.
        size: elements of a lane in one instruction.
    """

    matrix: str
    bits: int
    transposed: bool
    count: int
    extent: int
    size: int

    @property
    def k_first(self) -> bool:
        """Whether memory's first axis is k."""
        return self.transposed == (self.matrix == "A")

    @property
    def by_ldmatrix(self) -> bool:
        """Whether ``ldmatrix`` loads it: from rows along k, and of 16 bits from the others too."""
        return self.bits <= 32 and (self.bits == 16 or not self.k_first)

    def element(self, lane: Any, register: Any) -> tuple[Any, Any]:
        """(row or column of the product, k) of a register of a lane."""
        if self.bits == 64:
            return lane // 4, lane % 4
        return operand_element(self.matrix, 32 // self.bits, lane, register)


@T.macro
def _load(operand: Any, registers: Any, tile: Any, lane: Any, first: Any, k: Any) -> None:
    """One k step of a warp's operand: from row (or column) ``first`` and from ``k`` of a shared tile on."""
    for at in T.unroll(operand.count):
        begin = first + at * operand.extent
        if operand.by_ldmatrix:
            matrices = operand.size * operand.bits // 32
            # ldmatrix reads the address of a row of 16 bytes from each of 8 lanes a matrix; what the other lanes give is not
            # read.
            source = lane % (8 * matrices)
            row, column = get_ldmatrix_offset(operand.matrix, source, 0, 0, f"int{operand.bits}", operand.transposed)
            place = (k + row, begin + column) if operand.k_first else (begin + row, k + column)
            T.ptx_ldmatrix(operand.k_first, matrices, tile[place], registers[at * operand.size])
        else:
            for register in T.unroll(operand.size):
                side, inner = operand.element(lane, register)
                place = (k + inner, begin + side) if operand.k_first else (begin + side, k + inner)
                registers[at * operand.size + register] = tile[place]


@T.macro
def _multiply(emitter: Any, a: Any, b: Any, c: Any, row: Any, column: Any) -> None:
    shape, a_type, b_type, accumulator = emitter.mma_prefix, emitter.a_dtype, emitter.b_dtype, emitter.accum_dtype
    left = row * emitter.local_size_a
    # An `mma` has 8 columns: 16 columns are two of them, with the halves of the registers of B and C.
    for half in T.unroll(emitter.n_dim // 8):
        right = column * emitter.local_size_b + half * (emitter.local_size_b * 8 // emitter.n_dim)
        total = (row * emitter.warp_cols + column) * emitter.local_size_out + half * (emitter.local_size_out * 8 // emitter.n_dim)
        T.ptx_mma(
            accumulator, shape, "row", "col", a_type, b_type, accumulator, a.data, left, b.data, right, c.data, total, False
        )  # fmt: skip


@T.macro
def _store(emitter: Any, c: Any, target: Any, thread: Any, first_row: Any, first_column: Any) -> None:
    """Accumulators to memory; ``first_*`` count instructions."""
    lane, warp_n, warp_m = emitter.extract_thread_binding(thread)
    for i, j in T.grid(emitter.warp_rows, emitter.warp_cols):
        tile_row = first_row + warp_m * emitter.warp_rows + i
        tile_column = first_column + warp_n * emitter.warp_cols + j
        for pair in T.unroll(emitter.local_size_out // 2):
            for each in T.vectorized(2):
                register = pair * 2 + each
                row, column = mma_store_index_map(lane, register)
                value = c[(i * emitter.warp_cols + j) * emitter.local_size_out + register]
                if len(target.shape) == 2:
                    target[tile_row * emitter.micro_size_x + row, tile_column * emitter.micro_size_y + column] = value
                else:
                    target[tile_row, tile_column, row, column] = value


class TensorCoreIntrinEmitter:
    """Loads, products and stores of the warps of a block; its methods are called inside of a kernel.

    Args:
        a_dtype, b_dtype: element types of the operands: float16, bfloat16, float32 (as tf32), float64, float8, int8 or int4.
        accum_dtype: of the accumulators.
        a_transposed: A is (k, m) in memory, else (m, k).
        b_transposed: B is (n, k) in memory, else (k, n).
        block_row_warps, block_col_warps: warps along m and n.
        warp_row_tiles, warp_col_tiles: m and n of a warp.
        chunk: k of a shared tile.
        reduce_k: groups of warps that share k.
        num_elems_per_byte: packed elements of a stored byte; kept as given.
        is_m_first: warps count along n first, instead of along m.
        thread_var: the thread's number in the block; by default that of the kernel's first axis.

    Attributes:
        micro_size_x, micro_size_y, micro_size_k: m, n and k of an instruction.
        warp_rows, warp_cols: instructions of a warp along m and n.
        local_size_a, local_size_b, local_size_out: registers of a lane, in elements, in one instruction.

    Raises:
        CompileError: sizes that instructions do not divide.
    """

    WARP_SIZE = _WARP

    def __init__(
        self,
        a_dtype: Any = "float16",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        thread_var: Any = None,
    ):
        self.a_dtype, self.b_dtype, self.accum_dtype = (str(canonical(each)) for each in (a_dtype, b_dtype, accum_dtype))
        self.a_transposed, self.b_transposed = a_transposed, b_transposed
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles = warp_row_tiles, warp_col_tiles
        self.chunk, self.reduce_k, self.num_elems_per_byte = chunk, reduce_k, num_elems_per_byte
        self.is_m_first, self.thread_var = bool(is_m_first), thread_var
        self.threads = _WARP * block_row_warps * block_col_warps * reduce_k
        bits = canonical(self.a_dtype).bits
        self.M_DIM = self.micro_size_x = 8 if bits == 64 else 16
        self.n_dim = self.micro_size_y = 8 if bits == 64 or warp_col_tiles % 16 else 16
        self.k_dim = self.micro_size_k = 256 // bits
        self._check()
        self.mma_prefix = f"m{self.M_DIM}n8k{self.k_dim}"
        self.warp_rows, self.warp_cols = warp_row_tiles // self.M_DIM, warp_col_tiles // self.n_dim
        self.local_size_a = self.M_DIM * self.k_dim // _WARP
        self.local_size_b = self.n_dim * self.k_dim // _WARP
        self.local_size_out = self.M_DIM * self.n_dim // _WARP

    def _check(self) -> None:
        """Whether instructions divide the tile."""
        sizes = (
            ("warp_row_tiles", self.warp_row_tiles, self.M_DIM),
            ("warp_col_tiles", self.warp_col_tiles, self.n_dim),
            ("chunk", self.chunk, self.k_dim),
        )
        for name, size, unit in sizes:
            if size % unit or not size:
                raise ShapeError(f"TensorCoreIntrinEmitter: {name}={size} is no multiple of {unit}")

    mma_num_inst_m = property(lambda self: self.warp_rows)
    mma_num_inst_n = property(lambda self: self.warp_cols)

    def get_thread_binding(self) -> Any:
        """The thread's number in the block."""
        return T.get_thread_binding() if self.thread_var is None else self.thread_var

    def extract_thread_binding(self, thread_id: Any, is_m_first: bool | None = None) -> tuple[Any, Any, Any]:
        """(lane, warp along n, warp along m) of a thread."""
        warp = thread_id // _WARP
        if self.is_m_first if is_m_first is None else is_m_first:
            return thread_id % _WARP, warp % self.block_col_warps, warp // self.block_col_warps % self.block_row_warps
        return thread_id % _WARP, warp // self.block_row_warps % self.block_col_warps, warp % self.block_row_warps

    def _operand(self, matrix: str) -> _Operand:
        if matrix == "A":
            count, extent, size = self.warp_rows, self.micro_size_x, self.local_size_a
            return _Operand("A", canonical(self.a_dtype).bits, self.a_transposed, count, extent, size)
        count, extent, size = self.warp_cols, self.micro_size_y, self.local_size_b
        return _Operand("B", canonical(self.b_dtype).bits, self.b_transposed, count, extent, size)

    def ldmatrix_a(self, A_local_buf: Any, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Loads the warp's rows of A at one k step of a shared tile.

        Args:
            A_local_buf: registers of a lane, ``warp_rows * local_size_a`` elements.
            A_shared_buf: the tile, (m, k), or (k, m) with ``a_transposed``.
            ki: the k step, in instructions.
            rk: which part of ``chunk`` elements along k.
        """
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        k = rk * self.chunk + ki * self.micro_size_k
        _load(self._operand("A"), A_local_buf, A_shared_buf, lane, warp_m * self.warp_row_tiles, k)

    def ldmatrix_b(self, B_local_buf: Any, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Loads the warp's columns of B at one k step of a shared tile.

        Args:
            B_local_buf: registers of a lane, ``warp_cols * local_size_b`` elements.
            B_shared_buf: the tile, (k, n), or (n, k) with ``b_transposed``.
            ki: the k step, in instructions.
            rk: which part of ``chunk`` elements along k.
        """
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        k = rk * self.chunk + ki * self.micro_size_k
        _load(self._operand("B"), B_local_buf, B_shared_buf, lane, warp_n * self.warp_col_tiles, k)

    def mma(self, A_local_buf: Any, B_local_buf: Any, C_local_buf: Any, k_inner: Any = 0) -> None:
        """Adds the product of the loaded operands to the accumulators.

        Args:
            A_local_buf, B_local_buf: what :meth:`ldmatrix_a` and :meth:`ldmatrix_b` loaded.
            C_local_buf: accumulators of a lane, ``warp_rows * warp_cols * local_size_out`` elements.
            k_inner: accepted for compatibility; the operands are those of one k step.
        """
        for row in range(self.warp_rows):
            for column in range(self.warp_cols):
                self.mma_atom(A_local_buf, B_local_buf, C_local_buf, row, column, k_inner)

    def mma_atom(
        self, A_local_buf: Any, B_local_buf: Any, C_local_buf: Any, inst_m_idx: Any, inst_n_idx: Any, k_inner: Any = 0
    ) -> None:
        """One instruction of :meth:`mma`.

        Args:
            A_local_buf, B_local_buf, C_local_buf: as for :meth:`mma`.
            inst_m_idx, inst_n_idx: number of the instruction along m and n.
            k_inner: has no effect, as the buffers hold one step of k.
        """
        _multiply(self, A_local_buf, B_local_buf, C_local_buf, inst_m_idx, inst_n_idx)

    def stmatrix(self, C_local_buf: Any, C_buf: Any, pid_m: Any = None, pid_n: Any = None) -> None:
        """Stores the accumulators.

        Args:
            C_local_buf: accumulators.
            C_buf: a tile of the block, (m, n) or (m / 16, n / 16, 16, 16); or, with ``pid_m`` and ``pid_n``, the whole product.
            pid_m, pid_n: which tile of the product the block computes.
        """
        row = 0 if pid_m is None else pid_m * (self.block_row_warps * self.warp_rows)
        column = 0 if pid_n is None else pid_n * (self.block_col_warps * self.warp_cols)
        _store(self, C_local_buf, C_buf, self.get_thread_binding(), row, column)

    def make_mma_store_layout(self, local_buf: Any) -> Any:
        """The fragment layout of a tile of accumulators, for :func:`T.annotate_layout`."""
        rows, columns, m, n = self.warp_rows, self.warp_cols, self.micro_size_x, self.micro_size_y

        def place(i: int, j: int) -> tuple[int, int]:
            warp_m, warp_n, tile = i // m // rows, j // n // columns, i // m % rows * columns + j // n % columns
            warp = warp_m * self.block_col_warps + warp_n if self.is_m_first else warp_n * self.block_row_warps + warp_m
            register = i % m // 8 * 2 + j % 2 + j % n // 8 * 4
            return warp * _WARP + i % 8 * 4 + j % 8 // 2, tile * self.local_size_out + register

        return T.Fragment(local_buf.shape, place)

    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Any:
        """The fragment layout of a block's operand, as :meth:`ldmatrix_a` and :meth:`ldmatrix_b` load it.

        Args:
            local_buf: a fragment: all rows (of B: columns) of the block by ``chunk``, in the operand's order in memory.
            matrix: ``"A"`` or ``"B"``. Warps that share its rows hold copies.
        """
        operand = self._operand(matrix)
        places = {operand.element(lane, at): (lane, at) for lane in range(_WARP) for at in range(operand.size)}
        rows, columns = self.block_row_warps, self.block_col_warps

        def place(i: int, j: int, copy: int) -> tuple[int, int]:
            side, k = (j, i) if operand.k_first else (i, j)
            tile, step = side // operand.extent, k // self.micro_size_k
            lane, register = places[side % operand.extent, k % self.micro_size_k]
            own = tile // operand.count
            warp_m, warp_n = (own, copy) if matrix == "A" else (copy, own)
            warp = warp_m * columns + warp_n if self.is_m_first else warp_n * rows + warp_m
            return warp * _WARP + lane, (step * operand.count + tile % operand.count) * operand.size + register

        return T.Fragment(local_buf.shape, place, replicate=columns if matrix == "A" else rows)


class TensorCoreIntrinEmitterWithLadderTransform(TensorCoreIntrinEmitter):
    """An emitter whose operands may lie in shared memory in the order in which lanes hold them.

    Args:
        transform_kind_a, transform_kind_b: a :class:`TransformKind`. With ``LDMatrixTransform`` a tile is
            (tiles along m or n, tiles along k, 16, bytes of 16 rows / 16): each lane's elements follow those of the lane before.
        args, kwargs: of :class:`TensorCoreIntrinEmitter`.

    Raises:
        CompileError: another kind.
    """

    def __init__(self, *args: Any, transform_kind_a: Any = 0, transform_kind_b: Any = 0, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.transform_kind_a, self.transform_kind_b = TransformKind(transform_kind_a), TransformKind(transform_kind_b)
        for kind in (self.transform_kind_a, self.transform_kind_b):
            if kind not in (TransformKind.NonTransform, TransformKind.LDMatrixTransform):
                raise UnsupportedError(f"TensorCoreIntrinEmitterWithLadderTransform: no {kind.name} operands")

    def ldmatrix_a(self, A_local_buf: Any, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Loads the warp's rows of A at one k step, from a tile of ``transform_kind_a``.

        Args:
            A_local_buf, A_shared_buf, ki, rk: as for :meth:`TensorCoreIntrinEmitter.ldmatrix_a`.
        """
        if self.transform_kind_a is TransformKind.NonTransform:
            super().ldmatrix_a(A_local_buf, A_shared_buf, ki, rk)
            return
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        step = rk * (self.chunk // self.micro_size_k) + ki
        _load_in_order(A_local_buf, A_shared_buf, lane, warp_m * self.warp_rows, step, self.warp_rows, self.local_size_a)

    def ldmatrix_b(self, B_local_buf: Any, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Loads the warp's columns of B at one k step, from a tile of ``transform_kind_b``.

        Args:
            B_local_buf, B_shared_buf, ki, rk: as for :meth:`TensorCoreIntrinEmitter.ldmatrix_b`.
        """
        if self.transform_kind_b is TransformKind.NonTransform:
            super().ldmatrix_b(B_local_buf, B_shared_buf, ki, rk)
            return
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        step = rk * (self.chunk // self.micro_size_k) + ki
        size = self.local_size_b // self.num_elems_per_byte
        _load_in_order(B_local_buf, B_shared_buf, lane, warp_n * self.warp_cols, step, self.warp_cols, size)


@T.macro
def _load_in_order(registers: Any, tile: Any, lane: Any, first: Any, step: Any, count: Any, size: Any) -> None:
    """Elements that lie by lanes: ``size`` of each, ``count`` tiles of 16 rows from ``first`` on."""
    width = tile.shape[-1]
    for at in T.unroll(count):
        for element in T.vectorized(size):
            place = lane * size + element
            registers[at * size + element] = tile[first + at, step, place // width, place % width]
