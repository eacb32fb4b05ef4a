"""Mistakes of a program in the tile language: its operands, their shapes and types, its layouts and schedules."""

from __future__ import annotations

from tilelang.errors.base import CompileError, Location


class OperandError(CompileError):
    """An argument of the wrong kind for a function of the language: a number in place of a tile, memory of another scope."""


class OptionError(CompileError):
    """An option that does not exist or is out of its range, or two that exclude each other."""


class ShapeError(CompileError):
    """Sizes, extents or numbers of axes that do not fit each other."""


class DtypeError(CompileError):
    """An element type that does not exist, or that an operation does not take."""


class DeclarationError(CompileError):
    """Invalid declarations of a program's parameters, sizes or results."""


class MisplacedError(CompileError):
    """A statement in a place where it is not allowed: ``break`` outside of a loop, an operator outside of a kernel."""


class RunTimeValueError(CompileError):
    """A value that is known at run time only, where the compiler or Python needs it earlier."""


class LayoutError(CompileError):
    """A layout that no memory or no threads can have, or that does not fit the tile that it is given for."""


class DivergenceError(CompileError):
    """Threads that run a statement at different times, while it needs them together or in an order."""


class CopyShapeError(ShapeError):
    """The two regions of a copy have different extents."""

    def __init__(self, source: str, target: str, operator: str = "T.copy", remedy: str | None = None):
        super().__init__(
            f"{operator}: the source is {source} and the destination is {target}",
            hint=remedy
            or "the extents must agree, axes of length 1 aside; slice both sides alike, or copy to a buffer of the same shape",
        )


class GemmShapeError(ShapeError):
    """An operand of a matrix product has the wrong shape."""

    def __init__(self, operand: str, got: str, want: str, context: str, remedy: str | None = None):
        super().__init__(
            f"T.gemm: {operand} is {got}, expected {want} ({context})",
            hint=remedy
            or "A is (M, K), or (K, M) with transpose_A=True; B is (K, N), or (N, K) with transpose_B=True; C is (M, N)",
        )


class GemmDtypeError(DtypeError):
    """The element types of a matrix product do not match."""

    def __init__(self, a: str, b: str, c: str, reason: str):
        super().__init__(f"T.gemm: A is {a}, B is {b}, C is {c}: {reason}")


class ReduceShapeError(ShapeError):
    """Source and destination of a reduction or a scan do not fit."""

    def __init__(self, kind: str, dim: int, source: str, target: str, expected: str):
        super().__init__(
            f"T.{kind if kind.startswith('cum') else 'reduce_' + kind}: source {source} and destination "
            f"{target} do not fit for dim={dim}",
            hint=f"the destination has the shape {expected}, axes of length 1 aside",
        )


class ReducerError(CompileError):
    """A reducer is used so that the partial results of the threads would not combine to its result."""

    def __init__(self, name: str, operation: str, problem: str, hint: str):
        super().__init__(f"reducer {name} (op={operation!r}) {problem}", hint=hint)


def axes_text(rank: int) -> str:
    """A number of axes, as ``1 axis`` or ``3 axes``."""
    return "1 axis" if rank == 1 else f"{rank} axes"


class BufferIndexError(CompileError):
    """A subscript that does not fit its buffer."""

    def __init__(self, name: str, indices: int, rank: int):
        super().__init__(f"{name} has {axes_text(rank)}, but is indexed with {indices}")


class IndexRangeError(BufferIndexError):
    """An index that is out of range for all arguments."""

    def __init__(self, name: str, axis: int, index: int, size: object):
        CompileError.__init__(self, f"index {index} is out of range for axis {axis} of {name}, which has {size} elements")


class LayoutConflictError(LayoutError):
    """Two statements need the elements of a fragment in different threads."""

    def __init__(self, name: str, other: Location | None, reason: str, hint: str | None = None):
        where = f" (its layout comes from {other.file}:{other.line})" if other is not None else ""
        super().__init__(
            f"no layout of fragment {name} suits every statement: {reason}{where}",
            hint=hint or "copy it to another fragment first; T.copy between fragments moves elements between threads",
        )


class LoopLayoutError(LayoutError):
    """A ``loop_layout`` that is of another shape than its loop, or names threads that do not run it."""

    def __init__(self, origin: str, shape: tuple[int, ...], threads: int, extents: tuple[int, ...], count: int):
        super().__init__(
            f"loop_layout of {origin} distributes {shape} over {threads} threads, but its loop is {extents} on {count} threads",
            hint="give a T.Fragment of the loop's shape for at most so many threads",
        )


class PipelineScheduleError(CompileError):
    """``order``, ``stage`` or ``group`` of a ``T.Pipelined`` loop that do not fit its body."""

    def __init__(self, reason: str, location: Location | None, hint: str | None = None):
        super().__init__(f"T.Pipelined: {reason}", location, hint)
