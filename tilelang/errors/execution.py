"""Calls of kernels, and what is found while they run: on a device, on the simulator, in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors.base import ExecutionError

ON_THE_SIMULATOR = "TILELANG_DEVICE=simulator, or `with tilelang.simulator():`, runs CUDA kernels on CPU tensors"
"""What to do where there is no GPU."""


class ArgumentError(ExecutionError):
    """Arguments that a kernel cannot be called with."""


class ArgumentCountError(ArgumentError):
    """Too few or too many arguments, or a name that the kernel does not have."""

    def __init__(self, kernel: str, problem: str, signature: str, otherwise: str = ""):
        super().__init__(f"{kernel}: {problem}", hint=f"call it as {kernel}({signature}){otherwise}")


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


def _first_of(findings: Sequence[object]) -> str:
    more = len(findings) - 1
    return f"{findings[0]}\n... and {more} more finding{'s' * (more > 1)}" if more else str(findings[0])


class SimulatorError(ExecutionError):
    """What the simulator's checkers found; ``findings`` has all of it, the message the first."""

    def __init__(self, findings: Sequence[object]):
        super().__init__(_first_of(findings))
        self.findings = tuple(findings)


class InterpreterError(ExecutionError):
    """A program with undefined behaviour; ``findings`` has all that the interpreter found, the message the first."""

    def __init__(self, findings: Sequence[object]):
        super().__init__(_first_of(findings))
        self.findings = tuple(findings)
