"""What a target, the toolchain or the compiler itself cannot do."""

from __future__ import annotations

import difflib
import re

from tilelang.errors.base import CompileError, Location, first_line


class UnsupportedError(CompileError):
    """A construct that a target, an architecture or the interpreter does not have."""


class UnknownTargetError(CompileError):
    """A target, architecture or execution backend that does not exist."""

    def __init__(self, name: str, known: list[str], what: str = "target"):
        near = difflib.get_close_matches(name, known, n=1)
        super().__init__(
            f"unknown {what} {name!r}", hint=(f"did you mean {near[0]!r}? " if near else "") + f"known: {', '.join(known)}"
        )


class ThreadsOnCpuError(UnsupportedError):
    """A construct that names threads, warps or asynchronous units in a program for the CPU."""

    def __init__(self, construct: str):
        super().__init__(
            f"{construct} names threads, which a CPU target does not have",
            hint='compile for target="cuda", or express the work over tiles (T.Parallel, T.copy, T.reduce_*)',
        )


class UnsupportedOnCpuError(UnsupportedError):
    """A construct that the CPU target cannot carry out."""

    def __init__(self, construct: str, remedy: str):
        super().__init__(f"{construct} is not supported on the CPU target", hint=remedy)


class SharedMemoryError(CompileError):
    """A block that needs more shared memory than the target has.

    Attributes:
        beyond: how many bytes more.
    """

    def __init__(self, kernel: str, needed: int, limit: int, arch: str, largest: str):
        super().__init__(
            f"{kernel} needs {needed} bytes of shared memory a block, {arch} has {limit}; the largest tiles: {largest}",
            hint="use smaller tiles or fewer pipeline stages",
        )
        self.beyond = needed - limit


class PassFailedError(CompileError):
    """A compiler pass failed in a way that is not the program's fault."""

    def __init__(self, step: str, cause: BaseException):
        super().__init__(
            f"internal error in pass {step!r}: {type(cause).__name__}: {first_line(cause)}",
            hint="this is a defect of the compiler; TILELANG_TRACEBACK=full shows where it happened",
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


class ToolchainMissingError(CompileError):
    """A compiler or tool of the CUDA toolchain that is not installed."""

    def __init__(self, name: str, remedy: str):
        super().__init__(f"{name} is not available", hint=remedy)


class ToolchainError(CompileError):
    """The system's linker or C compiler is missing or failed."""

    def __init__(self, what: str, detail: str):
        lines = detail.splitlines() or [""]
        first = next((line for line in lines if "error" in line), lines[0])
        super().__init__(f"{what}: {first}")
        self.log = detail


_HINTS = {
    "Register allocation failed": "more values live through a group of threads than the registers that T.set_max_nreg leaves it: "
    "raise its count, or make the fragments that are used before and after the group smaller",
}
"""What to do about a message of the device compiler that contains a text."""


class DeviceCompileError(CompileError):
    """Generated CUDA source that the device compiler refuses.

    Attributes:
        log: all that the compiler says.
        line: of the source, from 1, where the first error is; None where the compiler names none.
    """

    def __init__(self, compiler: str, log: str, options: str):
        log = log.replace("\0", "")  # NVRTC ends the assembler's messages as C does
        lines = log.splitlines() or ["no message"]
        first = next((line for line in lines if re.search("error|fatal", line, re.IGNORECASE)), lines[0])
        known = (hint for text, hint in _HINTS.items() if text in first)
        super().__init__(f"{compiler} failed: {first}", hint=next(known, f"the options were: {options}" if options else None))
        self.log = log
        place = re.search(r"device_kernel\.cu\((\d+)\)", first)
        self.line = int(place[1]) if place else None
