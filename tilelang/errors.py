"""Every error that a user of tilelang can meet.

An error says what is wrong, which two things disagree, where in the user's program, and what to do. Each kind is a class
with a message template; the location is attached by :class:`TileLangError`, so that all of them read alike:

    tilelang.errors.GemmShapeError: T.gemm: the K extents of A and B differ: A is (128, 32), B is (64, 128)
      --> /home/me/gemm.py:21
      21 |         T.gemm(A_shared, B_shared, C_local)
         |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: B must be (32, N), or (N, 32) with transpose_B=True
"""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Location:
    """A range in a source file; lines and columns count from 1, ``end_column`` is exclusive."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0

    def excerpt(self) -> str:
        """The line with a caret under the range, or only ``file:line`` where the source cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        head = f"  --> {self.file}:{self.line}"
        if not text.strip():
            return head
        number = str(self.line)
        gutter = " " * len(number)
        column = self.column or len(text) - len(text.lstrip()) + 1
        # A range that ends in a later line is underlined up to the end of its first one.
        end = self.end_column if self.end_column > column else len(text) + 1
        carets = " " * (column - 1) + "^" * max(1, min(end, len(text) + 1) - column)
        return f"{head}\n  {number} | {text}\n  {gutter} | {carets}"


class TileLangError(Exception):
    """Base of every error of this package.

    Args:
        message: what is wrong, in one or two lines.
        location: where in the user's source, if known; it may be attached later with :meth:`at`.
        hint: what to do about it.
    """

    def __init__(self, message: str, location: Location | None = None, hint: str | None = None):
        super().__init__(message)
        self.message = message
        self.location = location
        self.hint = hint

    def at(self, location: Location | None) -> Self:
        """Attaches ``location`` unless the error already has one; returns the error."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.location is not None:
            parts.append(self.location.excerpt())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


def concise(error: TileLangError) -> TileLangError:
    """``error`` without the compiler's frames, unless ``TILELANG_TRACEBACK=full`` asks for them; raise the result ``from None``.

    The functions that users call catch what comes from inside and raise this, so that a traceback is the user's own frames,
    one of this package, and the message.
    """
    from tilelang import env

    return error if env.get("TILELANG_TRACEBACK") == "full" else error.with_traceback(None)


class CompileError(TileLangError, ValueError):
    """A program that cannot be compiled."""


class CacheError(TileLangError):
    """A kernel cache that cannot be used."""


class CacheWarning(UserWarning):
    """The kernel cache could not do all it should; the kernel is right all the same."""


class IgnoredParameterWarning(UserWarning):
    """A parameter that is accepted for other releases' programs, and has no effect, was set."""


class PerformanceWarning(UserWarning):
    """A statement is compiled to code that is much slower than what the machine can do; the kernel is right all the same."""


ON_THE_SIMULATOR = "TILELANG_DEVICE=simulator, or `with tilelang.simulator():`, runs CUDA kernels on CPU tensors"
"""What to do where there is no GPU."""


class ExecutionError(TileLangError, RuntimeError):
    """A kernel that cannot be loaded or launched."""


class CopyShapeError(CompileError):
    """The two regions of a copy have different extents."""

    def __init__(self, source: str, target: str, operator: str = "T.copy"):
        super().__init__(
            f"{operator}: the source is {source} and the destination is {target}",
            hint="the extents must agree, axes of length 1 aside; slice one side, or copy to a buffer of the same shape",
        )


class GemmShapeError(CompileError):
    """An operand of a matrix product has the wrong shape."""

    def __init__(self, operand: str, got: str, want: str, context: str):
        super().__init__(
            f"T.gemm: {operand} is {got}, expected {want} ({context})",
            hint="A is (M, K), or (K, M) with transpose_A=True; B is (K, N), or (N, K) with transpose_B=True; C is (M, N)",
        )


class GemmDtypeError(CompileError):
    """The element types of a matrix product do not go together."""

    def __init__(self, a: str, b: str, c: str, reason: str):
        super().__init__(f"T.gemm: A is {a}, B is {b}, C is {c}: {reason}")


class ReduceShapeError(CompileError):
    """Source and destination of a reduction or a scan do not fit."""

    def __init__(self, kind: str, dim: int, source: str, target: str):
        super().__init__(
            f"T.{kind if kind.startswith('cum') else 'reduce_' + kind}: source {source} and destination "
            f"{target} do not fit for dim={dim}"
        )


class ReducerError(CompileError):
    """A reducer whose threads' parts would not add up to its result."""

    def __init__(self, name: str, operation: str, problem: str, hint: str):
        super().__init__(f"reducer {name} (op={operation!r}) {problem}", hint=hint)


class PassFailedError(CompileError):
    """A compiler pass failed in a way that is not the program's fault."""

    def __init__(self, step: str, cause: BaseException):
        first_line = next(iter(str(cause).splitlines()), "")
        super().__init__(
            f"internal error in pass {step!r}: {type(cause).__name__}: {first_line}",
            hint="this is a defect of the compiler; TILELANG_TRACEBACK=full shows where it happened",
        )


class SourceUnavailableError(CompileError):
    """The text of a kernel function cannot be found."""

    def __init__(self, name: str, file: str):
        super().__init__(
            f"the source of {name}() is not available ({file})",
            hint="define kernels in a file or a notebook cell, or keep the text in a variable of the code that calls exec()",
        )


class UnsupportedSyntaxError(CompileError):
    """A Python construct that has no meaning inside a kernel."""

    def __init__(self, what: str, location: Location | None = None):
        super().__init__(
            f"{what} is not supported inside a kernel",
            location,
            hint="move it to a helper function outside of the kernel, or compute it before",
        )


class CarriedValueError(CompileError):
    """An immutable value that a loop would have to carry from one iteration to the next."""

    def __init__(self, name: str, location: Location | None = None):
        super().__init__(
            f"{name!r} is read and reassigned in a run-time loop, but it is an immutable value",
            location,
            hint=f"declare it before the loop: {name} = T.alloc_var(dtype, init=value)",
        )


class StaleValueError(CompileError):
    """A name whose value depends on which path the kernel took at run time."""

    def __init__(self, name: str, where: str, location: Location | None = None):
        super().__init__(
            f"{name!r} was assigned inside a run-time {where} and cannot be used after it",
            location,
            hint=f"declare it before: {name} = T.alloc_var(dtype, init=value)",
        )


class TraceError(CompileError):
    """Python raised an exception while a kernel was being traced."""

    def __init__(self, error: BaseException):
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        for pattern, message, hint in _MEANINGS:
            if found := re.search(pattern, str(error)):
                super().__init__(found.expand(message) if message else said, hint=hint)
                return
        super().__init__(said)


_MACRO = "decorate the helper with @T.macro to trace it"
_OWN_FUNCTIONS = "functions of other libraries do not take run-time values; use this language's: T.sqrt, T.exp, T.max, …"

FLOAT_DIVISION = "use T.floor(a / b), T.fmod(a, b)"
"""What to do about ``//`` and ``%`` of floats."""

_MEANINGS: tuple[tuple[str, str | None, str | None], ...] = (
    ("Cannot use and / or / not operator to Expr", "a run-time value is used where Python needs True or False", _MACRO),
    ("'(Var|TensorLoad)' object does not support item assignment", "a plain Python function cannot store to a buffer", _MACRO),
    ("must be real number, not|must be Tensor, not|ufunc does not support", None, _OWN_FUNCTIONS),
    (
        "unsupported operand type.* 'Var'",
        None,
        "operators take elements, not buffers: index it, below for i, j in T.Parallel(m, n)",
    ),
    (
        r"'(Var|TensorLoad)' object has no attribute '(\w+)'",
        r"tensors and scalars of a kernel have no attribute '\2'",
        "operators are functions: T.reduce_sum(tile, out, dim=1), T.exp(x), T.cast(x, dtype)",
    ),
    ("object of type 'Var' has no len", "a tensor of a kernel has no len()", "its sizes are A.shape"),
    ("(?s)^Expression of type .*BufferType.* cannot be called", "a buffer is called like a function", "index it: A[i, j]"),
    (
        "^list index out of range$",
        None,
        "the body of a run-time loop is traced once, and appends once; a loop over a Python list is repeated while compiling,"
        " and T.alloc_local((n,), dtype) is an array of the kernel",
    ),
    (r"^Check failed: .*DLDataTypeCode::kDLInt.* is false: (?!Expected)", "// and % of floating-point values", FLOAT_DIVISION),
    (r"^Check failed: .* is false: (.*)", r"\1", None),
)
"""What exceptions of TVM and of libraries that get its expressions say, what it means (None: what they say), and what to do."""


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


HELD_BY_PYTHON = "held"
"""What the front end calls a value that a program put into a Python list or attribute."""


class OutOfScopeError(CompileError):
    """A value that is used where the loop or branch that defines it is over."""

    def __init__(self, name: str, location: Location | None = None):
        if name.startswith(HELD_BY_PYTHON):
            message = "a value that a run-time loop or condition put into a Python list or attribute is used outside of it"
            hint = "what a kernel computes is kept in T.alloc_local or T.alloc_var"
        else:
            message = f"{name!r} is used outside of the scope that defines it"
            hint = "keep it in a T.alloc_var declared before the loop or condition"
        super().__init__(message, location, hint=hint)


class ArgumentError(ExecutionError):
    """Arguments that a kernel cannot be called with."""


class ArgumentCountError(ArgumentError):
    """Too few or too many arguments, or a name that the kernel does not have."""

    def __init__(self, kernel: str, problem: str, signature: str):
        super().__init__(f"{kernel}: {problem}", hint=f"call it as {kernel}({signature})")


class ArgumentValueError(ArgumentError):
    """One argument has the wrong type, dtype, shape, strides, device, alignment or range.

    Args:
        kernel: the kernel's name.
        parameter: the parameter's name.
        position: its position in the call, from 0.
        aspect: what is wrong about it, for example ``"dtype"``.
        expected: what it must be.
        got: what it is.
    """

    def __init__(self, kernel: str, parameter: str, position: int, aspect: str, expected: str, got: str, hint: str | None = None):
        super().__init__(
            f"{kernel}: wrong {aspect} of argument {parameter} (position {position}): expected {expected}, got {got}", hint=hint
        )
        self.parameter = parameter
        self.aspect = aspect


class UnsupportedBackendError(ExecutionError):
    """An execution backend that does not exist, or that cannot run kernels of this target."""

    def __init__(self, backend: str, target: str, supported: list[str]):
        super().__init__(
            f"execution backend {backend!r} cannot run kernels for target {target!r}",
            hint=f"backends for {target!r}: auto, {', '.join(supported)}",
        )


class KernelFailedError(ExecutionError):
    """A kernel's host code or device code reported a failure."""

    def __init__(self, kernel: str, reason: str):
        super().__init__(f"{kernel}: {reason}")


class UnknownTargetError(CompileError):
    """A target, architecture or execution backend that does not exist."""

    def __init__(self, name: str, known: list[str], what: str = "target"):
        near = difflib.get_close_matches(name, known, n=1)
        super().__init__(
            f"unknown {what} {name!r}", hint=(f"did you mean {near[0]!r}? " if near else "") + f"known: {', '.join(known)}"
        )


class ToolchainMissingError(CompileError):
    """A compiler or tool of the CUDA toolchain that is not installed."""

    def __init__(self, name: str, remedy: str):
        super().__init__(f"{name} is not available", hint=remedy)


class DeviceCompileError(CompileError):
    """Generated CUDA source that the device compiler refuses."""

    def __init__(self, compiler: str, log: str, options: str):
        lines = log.splitlines() or ["no message"]
        first = next((line for line in lines if "error" in line.lower()), lines[0])
        super().__init__(f"{compiler} failed: {first}", hint=f"the options were: {options}" if options else None)
        self.log = log


class ThreadsOnCpuError(CompileError):
    """A construct that names threads, warps or asynchronous units in a program for the CPU."""

    def __init__(self, construct: str):
        super().__init__(
            f"{construct} names threads, which a CPU target does not have",
            hint='compile for target="cuda", or express the work over tiles (T.Parallel, T.copy, T.reduce_*)',
        )


class ToolchainError(CompileError):
    """The system's linker or C compiler is missing or failed."""

    def __init__(self, what: str, detail: str):
        lines = detail.splitlines() or [""]
        first = next((line for line in lines if "error" in line), lines[0])
        super().__init__(f"{what}: {first}")
        self.log = detail


class SimulatorUnavailableError(ExecutionError):
    """The simulator's native library is missing or does not load."""

    def __init__(self, path: str, problem: str):
        super().__init__(
            f"the PTX simulator cannot be used: {path}: {problem}",
            hint="build it (for a processor without AVX2 with -DTILELANG_SIMULATOR_ARCH=native):"
            " cmake -S src/simulator -B build/simulator -G Ninja && cmake --build build/simulator",
        )


class PtxError(ExecutionError):
    """PTX text that is malformed, or that has an instruction the simulator does not know."""

    def __init__(self, problem: str):
        super().__init__(problem)


class SimulatorArgumentError(ArgumentError):
    """Sizes, arguments or options that a launch on the simulator cannot take."""

    def __init__(self, problem: str, hint: str | None = None):
        super().__init__(problem, hint=hint)


class SimulatorError(ExecutionError):
    """What the simulator's checkers found; ``findings`` has all of it, the message the first."""

    def __init__(self, findings: Sequence[object]):
        others = f"\n... and {len(findings) - 1} more findings" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{others}")
        self.findings = tuple(findings)


class InterpreterError(ExecutionError):
    """A program that has no meaning; ``findings`` has all that the interpreter found, the message the first."""

    def __init__(self, findings: Sequence[object]):
        others = f"\n... and {len(findings) - 1} more findings" if len(findings) > 1 else ""
        super().__init__(f"{findings[0]}{others}")
        self.findings = tuple(findings)


class UnsupportedOnCpuError(CompileError):
    """A construct that the CPU target cannot carry out."""

    def __init__(self, construct: str, remedy: str):
        super().__init__(f"{construct} is not supported on the CPU target", hint=remedy)


class TuningError(TileLangError):
    """A search for configurations that cannot be made or found nothing."""


class LayoutConflictError(CompileError):
    """Two statements need the elements of a fragment in different threads."""

    def __init__(self, name: str, other: Location | None, reason: str):
        where = f" (its layout comes from {other.file}:{other.line})" if other is not None else ""
        super().__init__(
            f"no layout of fragment {name} suits every statement: {reason}{where}",
            hint="copy it to another fragment first; T.copy between fragments moves elements between threads",
        )


class LoopLayoutError(CompileError):
    """A ``loop_layout`` that is of another shape than its loop, or names threads that do not run it."""

    def __init__(self, origin: str, shape: tuple[int, ...], threads: int, extents: tuple[int, ...], count: int):
        super().__init__(
            f"loop_layout of {origin} distributes {shape} over {threads} threads, but its loop is {extents} on {count} threads",
            hint="give a T.Fragment of the loop's shape for at most so many threads",
        )


class LayoutProofError(CompileError):
    """The compiler cannot prove that a statement finds a fragment's elements in the threads that run it."""

    def __init__(self, name: str, reason: str, location: Location | None):
        super().__init__(
            f"internal error in layout inference: fragment {name}: {reason}",
            location,
            hint="this is a defect of the compiler, and no code was made from it",
        )


class OrderProofError(CompileError):
    """The compiler cannot prove that barriers order what threads do to memory, or that all of them reach a barrier."""

    def __init__(self, name: str, reason: str):
        super().__init__(
            f"internal error in synchronisation: {name}: {reason}",
            hint="this is a defect of the compiler, and no code was made from it",
        )


class PipelineScheduleError(CompileError):
    """``order``, ``stage`` or ``group`` of a ``T.Pipelined`` loop that do not fit its body."""

    def __init__(self, reason: str, location: Location | None, hint: str | None = None):
        super().__init__(f"T.Pipelined: {reason}", location, hint)


class SharedMemoryError(CompileError):
    """A block that needs more shared memory than the target has."""

    def __init__(self, kernel: str, needed: int, limit: int, arch: str, largest: str):
        super().__init__(
            f"{kernel} needs {needed} bytes of shared memory a block, {arch} has {limit}; the largest tiles: {largest}",
            hint="use smaller tiles or fewer pipeline stages",
        )
