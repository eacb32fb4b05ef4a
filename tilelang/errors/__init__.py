"""Every error that a user of tilelang can encounter.

An error says what is wrong, which two things disagree, where in the user's program, and what to do. Each kind is a class
with a message template; the location is attached by :class:`TileLangError`, so that all of them read alike:

    tilelang.errors.program.GemmShapeError: T.gemm: the K extents of A and B differ: A is (128, 32), B is (64, 128)
      --> /home/me/gemm.py:21
      21 |         T.gemm(A_shared, B_shared, C_local)
         |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      hint: B must be (32, N), or (N, 32) with transpose_B=True

========= ====================================================================================
base      what all of them have in common, and the families: compiling, executing, the cache, tuning
program   mistakes in the use of the tile language
tracing   Python in a kernel that cannot be traced
compiling what a target, the toolchain or the compiler itself cannot do
execution calls of kernels, and what is found while they run
========= ====================================================================================
"""

from __future__ import annotations

from tilelang.errors.base import (
    CacheError,
    CacheWarning,
    CompileError,
    ExecutionError,
    IgnoredParameterWarning,
    Location,
    PerformanceWarning,
    ShadowedNameWarning,
    TileLangError,
    TuningError,
    UninitialisedWarning,
    concise,
    first_line,
)
from tilelang.errors.compiling import (
    DeviceCompileError,
    LayoutProofError,
    OrderProofError,
    PassFailedError,
    SharedMemoryError,
    ThreadsOnCpuError,
    ToolchainError,
    ToolchainMissingError,
    UnknownTargetError,
    UnsupportedError,
    UnsupportedOnCpuError,
)
from tilelang.errors.execution import (
    ON_THE_SIMULATOR,
    ArgumentCountError,
    ArgumentError,
    ArgumentValueError,
    InterpreterError,
    KernelFailedError,
    PtxError,
    SimulatorArgumentError,
    SimulatorError,
    SimulatorUnavailableError,
    UnsupportedBackendError,
)
from tilelang.errors.program import (
    BufferIndexError,
    CopyShapeError,
    DeclarationError,
    DivergenceError,
    DtypeError,
    GemmDtypeError,
    GemmShapeError,
    IndexRangeError,
    LayoutConflictError,
    LayoutError,
    LoopLayoutError,
    MisplacedError,
    OperandError,
    OptionError,
    PipelineScheduleError,
    ReducerError,
    ReduceShapeError,
    RunTimeValueError,
    ShapeError,
    axes_text,
)
from tilelang.errors.tracing import (
    ARRAY_OF_THE_KERNEL,
    FLOAT_DIVISION,
    HELD_BY_PYTHON,
    INTEGER_DIVISION,
    CarriedValueError,
    ChangedContainerError,
    ComputedKeyError,
    OutOfScopeError,
    SourceUnavailableError,
    StaleValueError,
    TraceError,
    UnsupportedSyntaxError,
)

__all__ = [
    "ARRAY_OF_THE_KERNEL",
    "ArgumentCountError",
    "ArgumentError",
    "ArgumentValueError",
    "BufferIndexError",
    "CacheError",
    "CacheWarning",
    "CarriedValueError",
    "ChangedContainerError",
    "ComputedKeyError",
    "CompileError",
    "CopyShapeError",
    "DeclarationError",
    "DeviceCompileError",
    "DivergenceError",
    "DtypeError",
    "ExecutionError",
    "FLOAT_DIVISION",
    "GemmDtypeError",
    "GemmShapeError",
    "HELD_BY_PYTHON",
    "INTEGER_DIVISION",
    "IgnoredParameterWarning",
    "IndexRangeError",
    "InterpreterError",
    "KernelFailedError",
    "LayoutConflictError",
    "LayoutError",
    "LayoutProofError",
    "Location",
    "LoopLayoutError",
    "MisplacedError",
    "ON_THE_SIMULATOR",
    "OperandError",
    "OptionError",
    "OrderProofError",
    "OutOfScopeError",
    "PassFailedError",
    "PerformanceWarning",
    "PipelineScheduleError",
    "PtxError",
    "ReduceShapeError",
    "ReducerError",
    "RunTimeValueError",
    "ShapeError",
    "SharedMemoryError",
    "SimulatorArgumentError",
    "SimulatorError",
    "SimulatorUnavailableError",
    "SourceUnavailableError",
    "StaleValueError",
    "ThreadsOnCpuError",
    "TileLangError",
    "ToolchainError",
    "ToolchainMissingError",
    "TraceError",
    "TuningError",
    "ShadowedNameWarning",
    "UninitialisedWarning",
    "UnknownTargetError",
    "UnsupportedBackendError",
    "UnsupportedError",
    "UnsupportedOnCpuError",
    "UnsupportedSyntaxError",
    "axes_text",
    "concise",
    "first_line",
]
