"""Matrix products of tiles."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from tilelang.errors import OptionError
from tilelang.frontend.access import as_region
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.values import as_expr, is_symbolic
from tilelang.ignored import ignored
from tilelang.ir.region import Region
from tilelang.policy import GemmWarpPolicy
from tilelang.tileop.gemm import Gemm, GemmSparse


def _operand(value: Any) -> Region:
    return as_region(value, "T.gemm")


def _clear(value: Any) -> Any:
    return as_expr(value) if is_symbolic(value) else bool(value)


def _number(policy: Any) -> int:
    """The number of a policy."""
    try:
        return int(GemmWarpPolicy(int(policy)))
    except (TypeError, ValueError):
        names = ", ".join(f"T.GemmWarpPolicy.{each.name}" for each in GemmWarpPolicy)
        raise OptionError(f"policy={policy!r} is none of {names}") from None


def _emit_product(
    A: Any, B: Any, C: Any, transpose_A: bool, transpose_B: bool, policy: int, clear: Any, unit: str, wait: int,
    mbar: Any = None, k_pack: int = 1,
) -> None:  # fmt: skip
    """The product of one of the functions below, by the ``unit`` that it names."""
    barrier = None if mbar is None else as_region(mbar, "T.gemm")
    operands = _operand(A), _operand(B), _operand(C), _clear(clear), barrier
    product = Gemm(*operands, bool(transpose_A), bool(transpose_B), _number(policy), unit, int(wait), k_pack)
    require_kernel("T.gemm").perform(product)


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    mbar: Any = None,
    annotations: Any = None,
    k_pack: int = 1,
    wg_wait: int = 0,
) -> None:
    """``C += op(A) @ op(B)`` over tiles in shared memory or fragments, in any mix.

    Args:
        A: (M, K), or (K, M) with ``transpose_A``.
        B: (K, N), or (N, K) with ``transpose_B``.
        transpose_A, transpose_B: whether the operand is stored with its axes exchanged.
        C: (M, N); its element type is the accumulator's (float32 for float16, bfloat16 and float8; int32 for int8).
        policy: how the warps share C.
        clear_accum: start from zero instead of C's old value; a Python bool or a run-time condition.
        k_pack: K steps packed in one instruction on targets that know it, 1 or 2.
        wg_wait: warp-group products that may stay in flight; 0 completes the statement.
        mbar: has no effect, as the product is complete when the statement is; a value warns. Only
            :func:`tcgen05_gemm` signals a barrier.
        annotations: has no effect; a value warns.

    Raises:
        GemmShapeError, GemmDtypeError: the operands do not fit.
        OptionError: another ``k_pack``.
    """
    ignored("T.gemm", mbar=mbar, annotations=annotations)
    if not isinstance(k_pack, Integral) or isinstance(k_pack, bool) or k_pack not in (1, 2):
        raise OptionError(f"T.gemm k_pack must be an int equal to 1 or 2, got {k_pack!r}")
    _emit_product(A, B, C, transpose_A, transpose_B, policy, clear_accum, "gemm", wg_wait, k_pack=int(k_pack))


def wgmma_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Any = None,
) -> None:
    """Like :func:`gemm`, by warp-group instructions that stay in flight until ``T.wait_wgmma`` (sm_90a).

    Args:
        A, B, C, transpose_A, transpose_B, policy, clear_accum: as for :func:`gemm`; B is in shared memory, C a fragment.
        annotations: has no effect; a value warns.

    Raises:
        GemmShapeError, GemmDtypeError: the operands do not fit.
    """
    ignored("T.wgmma_gemm", annotations=annotations)
    _emit_product(A, B, C, transpose_A, transpose_B, policy, clear_accum, "wgmma", -1)


def tcgen05_gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    mbar: Any = None,
    use_2cta: bool = False,
    annotations: Any = None,
) -> None:
    """Like :func:`gemm`, by fifth-generation tensor cores; ``mbar`` is signalled when the product is complete (sm_100a).

    Args:
        A, B, C, transpose_A, transpose_B, policy, clear_accum: as for :func:`gemm`; C is in tensor memory.
        mbar: an element of ``T.alloc_barrier``.
        use_2cta: has no effect; True warns.
        annotations: has no effect; a value warns.

    Raises:
        GemmShapeError, GemmDtypeError: the operands do not fit.
    """
    ignored("T.tcgen05_gemm", use_2cta=use_2cta, annotations=annotations)
    _emit_product(A, B, C, transpose_A, transpose_B, policy, clear_accum, "tcgen05", -1, mbar)


def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    wg_wait: int = 0,
    annotations: Any = None,
) -> None:
    """``C += A @ B`` where A keeps two of every four consecutive K elements (2:4 structured sparsity).

    Args:
        A_sparse: the kept elements, (M, K / 2).
        E: metadata, (M, K / 4 / groups a word): four bits for each group of four, the positions of its kept elements, ascending;
            groups from the low bits of a word up. Of float32, one of two elements is kept: 0b0100 the first, 0b1110 the second.
        B, C: as in :func:`gemm`.
        transpose_A, transpose_E, transpose_B: whether the operand (of A and E, both its kept elements and its metadata) is
            stored with its axes exchanged.
        policy, clear_accum, wg_wait: as in :func:`gemm`.
        annotations: has no effect; a value warns.

    Raises:
        GemmShapeError, GemmDtypeError: the operands do not fit.
    """
    ignored("T.gemm_sp", annotations=annotations)
    require_kernel("T.gemm_sp").perform(
        GemmSparse(_operand(A_sparse), as_region(E, "T.gemm_sp"), _operand(B), _operand(C), _clear(clear_accum),
                   bool(transpose_A), bool(transpose_B), bool(transpose_E), _number(policy), int(wg_wait))
    )  # fmt: skip


def wgmma_gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Any = None,
) -> None:
    """:func:`gemm_sp`, which is complete at its end: a ``T.wait_wgmma`` after it has nothing to wait for.

    Args:
        A_sparse, E, B, C, transpose_A, transpose_E, transpose_B, policy, clear_accum, annotations: as for :func:`gemm_sp`.

    Raises:
        GemmShapeError, GemmDtypeError: the operands do not fit.
    """
    gemm_sp(A_sparse, E, B, C, transpose_A, transpose_E, transpose_B, policy, clear_accum, annotations=annotations)
