"""Products of warp groups (sm_90a), written by hand: descriptors of shared tiles, and ``wgmma`` instructions one by one.

A warp group is four warps along m. Its instruction ``(i, j)`` begins at row ``64 i`` and column ``wgmma_inst_n * j`` of its part
of the product; registers are those of one instruction after the other, along n first. Shared tiles lie in the panels of
``tilelang.layout.make_full_bank_swizzled_layout`` and its narrower relatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tilelang.language as T
from tilelang.cuda.intrinsics.emitter import TensorCoreIntrinEmitter
from tilelang.dtypes import canonical
from tilelang.errors import LayoutError, OperandError, OptionError
from tilelang.frontend.access import as_region
from tilelang.ir.memory import lies_in_registers
from tilelang.layout.memory import TileLayout
from tilelang.layout.panels import SwizzleMode, panel_bytes_of

_LANES, _GROUP, _ROWS = 32, 4, 64


@dataclass(frozen=True)
class WGMMADescriptorParams:
    """A shared operand as descriptors say it.

    Attributes:
        swizzle_mode: width of its panels.
        leading_byte_offset, stride_byte_offset: as ``T.initialize_wgmma_descriptor`` takes them, in units of 16 bytes.
        swizzle_atom_elems: elements of a panel's row.
        elems_in_bytes: bytes of an element.
        is_k_major: whether its rows run along K.
        slice_byte_offset: bytes from the buffer's start to the operand's.
        layout: of the buffer.
    """

    swizzle_mode: SwizzleMode
    leading_byte_offset: int
    stride_byte_offset: int
    swizzle_atom_elems: int
    elems_in_bytes: int
    is_k_major: bool
    slice_byte_offset: Any
    layout: TileLayout

    def offset(self, across: Any, k: Any) -> Any:
        """Units of 16 bytes from the operand's start to row (of B: column) ``across`` and to ``k``."""
        place = (across, k) if self.is_k_major else (k, across)
        return self.layout.linear([*[0] * (len(self.layout.shape) - 2), *place]) * self.elems_in_bytes // 16


def compute_gmma_descriptor(
    tl_layout: Any, buffer: Any, transposed: bool, micro_size_k: int = 16, region: Any = None
) -> WGMMADescriptorParams:
    """What descriptors say of a shared operand.

    Args:
        tl_layout: the layout that :func:`T.annotate_layout` gives it.
        buffer: the tile, or the slice of it that is the operand.
        transposed: whether the operand's rows run along M or N instead of K.
        micro_size_k, region: accepted for compatibility; a slice says where it begins.

    Returns:
        The fields of its descriptors, and where its rows and columns lie.

    Raises:
        LayoutError: the layout is not in panels.
    """
    operand = as_region(buffer, "compute_gmma_descriptor")
    bits = canonical(operand.dtype).bits
    width = panel_bytes_of(tl_layout, bits)
    if width is None:
        raise LayoutError(
            f"compute_gmma_descriptor: {operand.buffer.name} is not in panels, which descriptors are of",
            hint="annotate tilelang.layout.make_full_bank_swizzled_layout, make_half_... or make_quarter_...",
        )
    leading = tl_layout.shape[-2] * width if transposed else 16
    start = tl_layout.linear(list(operand.mins)) * bits // 8
    mode = SwizzleMode.of_bytes(width)
    return WGMMADescriptorParams(
        mode, leading // 16, 8 * width // 16, width * 8 // bits, bits // 8, not transposed, start, tl_layout
    )


def select_wgmma_inst_n(columns: int) -> int:
    """The widest instruction that divides ``columns``: a multiple of 16 up to 256, or 8."""
    return next((width for width in range(256, 8, -16) if columns % width == 0), 8)


class WGMMATensorCoreIntrinEmitter(TensorCoreIntrinEmitter):
    """Products of a block's warp groups; its methods are called inside of a kernel.

    Args:
        args, kwargs: of :class:`TensorCoreIntrinEmitter`; four warps or a multiple along m.

    Attributes:
        wgmma_inst_m, wgmma_inst_n: rows and columns of an instruction.
        wgmma_prefix: its shape, ``"m64n128k16"``.

    Raises:
        CompileError: warps that make no groups along m.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if self.block_row_warps % _GROUP or (self.is_m_first and self.block_col_warps > 1):
            raise OptionError("WGMMATensorCoreIntrinEmitter: warp groups are four warps along m: block_row_warps=4, 8, ...")
        self.wgmma_inst_m, self.wgmma_inst_n = _ROWS, select_wgmma_inst_n(self.warp_col_tiles)
        self.wgmma_prefix = f"m{_ROWS}n{self.wgmma_inst_n}k{self.micro_size_k}"
        self.a_shared_layout: Any = None
        self.b_shared_layout: Any = None

    wgmma_num_inst_m = property(lambda self: self.warp_rows)
    wgmma_num_inst_n = property(lambda self: self.warp_col_tiles // self.wgmma_inst_n)
    wgmma_num_k_atoms = property(lambda self: self.chunk // self.micro_size_k)

    @property
    def wgmma_a_regs(self) -> int:
        """32-bit registers of A, where it is in registers."""
        return self.warp_rows * self.local_size_a * self.wgmma_num_k_atoms * canonical(self.a_dtype).bits // 32

    @property
    def wgmma_accum_regs(self) -> int:
        """32-bit registers of the accumulators."""
        return self.warp_rows * self.warp_col_tiles // 2 * canonical(self.accum_dtype).bits // 32

    def _assign_a_shared_layout(self, layout: Any) -> WGMMATensorCoreIntrinEmitter:
        self.a_shared_layout = layout
        return self

    def _assign_b_shared_layout(self, layout: Any) -> WGMMATensorCoreIntrinEmitter:
        self.b_shared_layout = layout
        return self

    # Descriptors -------------------------------------------------------------------------------------------------------

    def compute_wgmma_a_desc_params(self, A_region: Any) -> WGMMADescriptorParams:
        """What descriptors of A say, a tile or a slice of one."""
        return compute_gmma_descriptor(self.a_shared_layout, A_region, self.a_transposed)

    def compute_wgmma_b_desc_params(self, B_region: Any) -> WGMMADescriptorParams:
        """What descriptors of B say, a tile or a slice of one."""
        return compute_gmma_descriptor(self.b_shared_layout, B_region, not self.b_transposed)

    def init_wgmma_a_desc(self, desc_a: Any, A_region: Any, a_params: WGMMADescriptorParams) -> None:
        """Makes a descriptor that of A.

        Args:
            desc_a: of ``T.alloc_wgmma_desc()``.
            A_region: the tile, or a slice of it.
            a_params: of :meth:`compute_wgmma_a_desc_params`.
        """
        _initialise(desc_a, A_region, a_params)

    def init_wgmma_b_desc(self, desc_b: Any, B_region: Any, b_params: WGMMADescriptorParams) -> None:
        """Makes a descriptor that of B.

        Args:
            desc_b: of ``T.alloc_wgmma_desc()``.
            B_region: the tile, or a slice of it.
            b_params: of :meth:`compute_wgmma_b_desc_params`.
        """
        _initialise(desc_b, B_region, b_params)

    # Instructions ------------------------------------------------------------------------------------------------------

    def wgmma_fence_a(self, A_buf: Any) -> None:
        """Keeps the compiler from moving accesses of A's registers across this point."""
        T.warpgroup_fence_operand(A_buf, num_regs=self.wgmma_a_regs)

    def wgmma_fence_c(self, C_buf: Any) -> None:
        """Keeps the compiler from moving accesses of the accumulators across this point."""
        T.warpgroup_fence_operand(C_buf, num_regs=self.wgmma_accum_regs)

    def wgmma_arrive(self) -> None:
        """Orders what was written before the instructions that follow."""
        T.warpgroup_arrive()

    def wgmma_commit(self) -> None:
        """Closes the group of instructions so far."""
        T.warpgroup_commit_batch()

    def wgmma_wait(self, n: int = 0) -> None:
        """Waits until at most ``n`` groups are in flight."""
        T.warpgroup_wait(n)

    def wgmma_ss_atom(
        self, desc_a: Any, desc_b: Any, C_buf: Any, inst_m_idx: Any, inst_n_idx: Any, ki: Any,
        a_params: WGMMADescriptorParams, b_params: WGMMADescriptorParams, clear_accum: Any = False,
    ) -> None:  # fmt: skip
        """One instruction with both operands in shared memory.

        Args:
            desc_a, desc_b: initialised descriptors.
            C_buf: the accumulators, of :meth:`make_mma_store_layout`.
            inst_m_idx, inst_n_idx, ki: number of the instruction along m, n and k.
            a_params, b_params: of the operands.
            clear_accum: whether the first one along k overwrites the accumulators.
        """
        group, column = self._part(inst_n_idx)
        row, k = (group * self.warp_rows + inst_m_idx) * _ROWS, ki * self.micro_size_k
        T.ptx_wgmma_ss(
            self.accum_dtype, self.wgmma_prefix, a_params.is_k_major, b_params.is_k_major, self.a_dtype, self.b_dtype,
            self.accum_dtype, desc_a, a_params.offset(row, k), desc_b, b_params.offset(column, k), C_buf,
            self._accumulator(inst_m_idx, inst_n_idx), T.Or(ki != 0, T.Not(clear_accum)),
        )  # fmt: skip

    def wgmma_rs_atom(
        self, A_buf: Any, desc_b: Any, C_buf: Any, inst_m_idx: Any, inst_n_idx: Any, ki: Any, b_params: WGMMADescriptorParams,
        clear_accum: Any = False,
    ) -> None:  # fmt: skip
        """One instruction with A in registers.

        Args:
            A_buf: registers of A, of :meth:`make_mma_load_layout`.
            desc_b, C_buf, inst_m_idx, inst_n_idx, ki, b_params, clear_accum: as for :meth:`wgmma_ss_atom`.
        """
        (_, column), k = self._part(inst_n_idx), ki * self.micro_size_k
        T.ptx_wgmma_rs(
            self.accum_dtype, self.wgmma_prefix, b_params.is_k_major, self.a_dtype, self.b_dtype, self.accum_dtype,
            A_buf, (ki * self.warp_rows + inst_m_idx) * self.local_size_a, desc_b, b_params.offset(column, k),
            C_buf, self._accumulator(inst_m_idx, inst_n_idx), T.Or(ki != 0, T.Not(clear_accum)),
        )  # fmt: skip

    def wgmma(self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False, wg_wait: int = 0) -> None:
        """The product of whole tiles.

        Args:
            A_region: a shared tile, or registers of :meth:`make_mma_load_layout`.
            B_region: a shared tile.
            C_region: the accumulators.
            clear_accum: whether to overwrite them.
            wg_wait: products that may stay in flight; -1 for all.
        """
        held = lies_in_registers(as_region(A_region, "wgmma"))
        a, b = None if held else self.compute_wgmma_a_desc_params(A_region), self.compute_wgmma_b_desc_params(B_region)
        desc_b = T.alloc_wgmma_desc()
        self.init_wgmma_b_desc(desc_b, B_region, b)
        desc_a = None if a is None else T.alloc_wgmma_desc()
        if a is not None:
            self.init_wgmma_a_desc(desc_a, A_region, a)
        self.wgmma_fence_c(C_region)
        self.wgmma_arrive()
        for j in range(self.wgmma_num_inst_n):
            for i in range(self.wgmma_num_inst_m):
                for ki in range(self.wgmma_num_k_atoms):
                    if a is None:
                        self.wgmma_rs_atom(A_region, desc_b, C_region, i, j, ki, b, clear_accum)
                    else:
                        self.wgmma_ss_atom(desc_a, desc_b, C_region, i, j, ki, a, b, clear_accum)
        self.wgmma_commit()
        if wg_wait >= 0:
            self.wgmma_wait(wg_wait)
        self.wgmma_fence_c(C_region)

    def _part(self, inst_n_idx: Any) -> tuple[Any, Any]:
        """The thread's warp group along m, and the first column of its instruction."""
        if self.block_row_warps == _GROUP and self.block_col_warps == 1:
            return 0, inst_n_idx * self.wgmma_inst_n
        _, warp_n, warp_m = self.extract_thread_binding(self.get_thread_binding())
        return warp_m // _GROUP, warp_n * self.warp_col_tiles + inst_n_idx * self.wgmma_inst_n

    def _accumulator(self, inst_m_idx: Any, inst_n_idx: Any) -> Any:
        """The first register of an instruction."""
        return inst_m_idx * (self.warp_col_tiles // 2) + inst_n_idx * (self.wgmma_inst_n // 2)

    # Registers ---------------------------------------------------------------------------------------------------------

    def _warp_and_tile(self, row: int) -> tuple[int, int]:
        """The warp along m that has a row, and in which of its instructions."""
        group, tile = divmod(row // _ROWS, self.warp_rows)
        return group * _GROUP + row % _ROWS // 16, tile

    def make_mma_store_layout(self, local_buf: Any) -> Any:
        """The fragment layout of a block's accumulators (PTX manual, "Register Fragments for wgmma … Matrix D")."""

        def place(i: int, j: int) -> tuple[int, int]:
            (warp_m, tile), (warp_n, column) = self._warp_and_tile(i), divmod(j, self.warp_col_tiles)
            lane, register = i % 8 * 4 + j % 8 // 2, column // 8 * 4 + i % 16 // 8 * 2 + j % 2
            warp = warp_n * self.block_row_warps + warp_m
            return warp * _LANES + lane, tile * (self.warp_col_tiles // 2) + register

        return T.Fragment(local_buf.shape, place)

    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Any:
        """The fragment layout of A in registers, all rows of the block by ``chunk``.

        Args:
            local_buf: the fragment, (m, k).
            matrix: ``"A"``; B is in shared memory.

        Raises:
            OperandError: B, or A with M innermost.
        """
        if matrix != "A" or self.a_transposed:
            raise OperandError("WGMMATensorCoreIntrinEmitter: registers hold A with K innermost")
        operand = self._operand("A")
        places = {operand.element(lane, at): (lane, at) for lane in range(_LANES) for at in range(operand.size)}

        def place(i: int, k: int, copy: int = 0) -> tuple[int, int]:
            warp_m, tile = self._warp_and_tile(i)
            lane, register = places[i % 16, k % self.micro_size_k]
            step = k // self.micro_size_k
            warp = copy * self.block_row_warps + warp_m
            return warp * _LANES + lane, (step * self.warp_rows + tile) * operand.size + register

        return T.Fragment(local_buf.shape, place, replicate=self.block_col_warps)


def _initialise(descriptor: Any, operand: Any, params: WGMMADescriptorParams) -> None:
    """The descriptor of the buffer's start, moved to that of the operand."""
    buffer = as_region(operand, "T.initialize_wgmma_descriptor").buffer
    mode = params.swizzle_mode.wgmma_layout_type()
    first = buffer[(0,) * len(buffer.shape)]
    T.initialize_wgmma_descriptor(descriptor, first, mode, params.leading_byte_offset, params.stride_byte_offset)
    if not (isinstance(params.slice_byte_offset, int) and params.slice_byte_offset == 0):
        T.increase_descriptor_offset(descriptor, params.slice_byte_offset)
