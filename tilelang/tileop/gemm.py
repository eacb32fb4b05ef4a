"""Matrix products of tiles: ``T.gemm``, ``T.wgmma_gemm`` and ``T.gemm_sp``."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import GemmDtypeError, GemmShapeError, OperandError
from tilelang.ir.expr import same
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.policy import GemmWarpPolicy
from tilelang.tileop.base import TileOp, operand, reads, tile_operator, updates


class _MatrixProduct(TileOp):
    a: Region
    b: Region
    c: Region
    transpose_b: bool

    @property
    def m(self) -> Any:
        """Rows of C."""
        return self.c.matrix_extents[0]

    @property
    def n(self) -> Any:
        """Columns of C."""
        return self.c.matrix_extents[1]

    @property
    def k(self) -> Any:
        """The contracted extent, counted in elements of B."""
        rows, columns = self.b.matrix_extents
        return columns if self.transpose_b else rows

    def _expected(self, operand_name: str, region: Region, want: tuple[Any, Any], transposed: bool) -> None:
        want = (want[1], want[0]) if transposed else want
        if not all(map(same, region.matrix_extents, want)):
            raise GemmShapeError(
                operand_name,
                shape_text(region.matrix_extents),
                shape_text(want),
                f"C is {shape_text(self.c.matrix_extents)}, K is {self.k}"
                + (f", transpose_{operand_name}=True" if transposed else ""),
                self._remedy(),
            )

    def _remedy(self) -> str | None:
        """What makes the shapes fit, if that is simple."""
        return None

    def _matrices(self) -> list[tuple[str, Region]]:
        return [("A", self.a), ("B", self.b), ("C", self.c)]

    def _check_ranks(self) -> None:
        for name, region in self._matrices():
            if len(region.extents) < 2 or len(region.shape) > 2:
                raise GemmShapeError(name, shape_text(region.extents), "a matrix", "all axes but two must have length 1")


@tile_operator("tl.gemm")
class Gemm(_MatrixProduct):
    """``C += op(A) @ op(B)``, or ``C = op(A) @ op(B)`` with ``clear_accum``.

    A is (M, K), or (K, M) with ``transpose_a``; B is (K, N), or (N, K) with ``transpose_b``; C is (M, N). Operands and the
    accumulator may be shared tiles or fragments in any mix. Products are formed and summed in C's element type (float16,
    bfloat16 and float8 operands are widened to it).

    Attributes:
        clear_accum: a bool or a boolean expression; where true, C's old value is not used.
        policy: how the warps share C.
        kind: ``"gemm"`` (complete when the statement is), ``"wgmma"`` or ``"tcgen05"`` (left in flight; the user waits).
        barrier: mbarrier element that ``"tcgen05"`` signals.
        wg_wait: ``wgmma`` groups that may stay in flight after the statement; -1 leaves all.
        k_pack: K steps packed in one instruction on targets that know it.
    """

    a: Region = reads()
    b: Region = reads()
    c: Region = updates()
    clear_accum: Any = operand(default=False)
    barrier: Any = operand(default=None)
    transpose_a: bool = False
    transpose_b: bool = False
    policy: int = GemmWarpPolicy.Square
    kind: str = "gemm"
    wg_wait: int = 0
    k_pack: int = 1

    def _remedy(self) -> str | None:
        """The flags with which the shapes fit, in place of those given."""
        given = self.transpose_a, self.transpose_b
        others = [flags for flags in ((False, False), (False, True), (True, False), (True, True)) if self._fits(*flags)]
        if len(others) != 1:
            return None
        changed = [(name, flag) for name, flag, old in zip(("transpose_A", "transpose_B"), others[0], given) if flag != old]
        return "the shapes fit with " + " and ".join(f"{name}={flag}" for name, flag in changed)

    def _fits(self, transpose_a: bool, transpose_b: bool) -> bool:
        """Whether the shapes agree with these flags."""
        m, k = reversed(self.a.matrix_extents) if transpose_a else self.a.matrix_extents
        depth, n = reversed(self.b.matrix_extents) if transpose_b else self.b.matrix_extents
        return all(map(same, (m, n, k), (self.m, self.n, depth)))

    def check(self) -> None:
        """Shapes must agree; A and B must have types of one family that C can accumulate."""
        self._check_ranks()
        self._expected("A", self.a, (self.m, self.k), self.transpose_a)
        self._expected("B", self.b, (self.k, self.n), self.transpose_b)
        check_gemm_dtypes(self.a.dtype, self.b.dtype, self.c.dtype)
        for name, region in (("A", self.a), ("B", self.b)):
            if region.buffer == self.c.buffer and all(map(same, region.mins, self.c.mins)):
                raise OperandError(f"T.gemm: C is {name} itself, which is read until the last element of C is known")


@tile_operator("tl.gemm_sp")
class GemmSparse(_MatrixProduct):
    """``C += A @ B`` where A holds, of every four consecutive K elements, the two non-zero ones (2:4 structured sparsity).

    A is (M, K / 2) (or its transpose), E the metadata that says which two, B and C as in :class:`Gemm`.
    """

    a: Region = reads()
    e: Region = reads()
    b: Region = reads()
    c: Region = updates()
    clear_accum: Any = operand(default=False)
    transpose_a: bool = False
    transpose_b: bool = False
    transpose_e: bool = False
    policy: int = GemmWarpPolicy.Square
    wg_wait: int = 0

    def _matrices(self) -> list[tuple[str, Region]]:
        return [*super()._matrices(), ("E", self.e)]

    @property
    def group(self) -> int:
        """Consecutive elements of which half are kept: four, or two of 32 bits; each group has four bits of metadata."""
        return 2 if canonical(self.a.dtype).bits == 32 else 4

    def check(self) -> None:
        """Shapes must agree, A having half of K and E four bits for each group; dtypes as for :class:`Gemm`."""
        self._check_ranks()
        self._expected("A", self.a, (self.m, self.k // 2), self.transpose_a)
        self._expected("B", self.b, (self.k, self.n), self.transpose_b)
        check_gemm_dtypes(self.a.dtype, self.b.dtype, self.c.dtype)
        covered = self.group * (canonical(self.e.dtype).bits // 4)
        if isinstance(self.k, int) and self.k % covered == 0:
            self._expected("E", self.e, (self.m, self.k // covered), self.transpose_e)


def check_gemm_dtypes(a: str, b: str, c: str) -> None:
    """Checks the types of a matrix product.

    Args:
        a, b: types of the operands: one type, two float8 formats, or integers of one size.
        c: type of the accumulator.

    Raises:
        GemmDtypeError: the operands do not go together, or the accumulator is too narrow for them.
    """
    left, right, accumulator = canonical(a), canonical(b), canonical(c)
    same_type = left == right
    both_fp8 = left.bits == right.bits == 8 and left.is_float and right.is_float
    both_int = left.is_integer and right.is_integer and left.bits == right.bits
    if not (same_type or both_fp8 or both_int):
        raise GemmDtypeError(a, b, c, "A and B must have the same type")
    wide_enough = accumulator.bits >= (left.bits if left.is_float else min(32, left.bits * 2))
    if accumulator.kind.removeprefix("u") != left.kind.removeprefix("u") or not wide_enough:
        wanted = "float32" if left.is_float else "int32"
        raise GemmDtypeError(a, b, c, f"C must be a type that accumulates {a}, such as {wanted}")
