"""A compiled kernel that can be called."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import KernelArtifact, KernelParam
from tilelang.cache.entries.entry import CacheEntry
from tilelang.cache.printable import one_line
from tilelang.errors import ExecutionError, MisplacedError, OptionError, TileLangError, concise
from tilelang.execution import Executor, load
from tilelang.keywords import near_keywords
from tilelang.unknown import unknown_attribute

if TYPE_CHECKING:
    from tilelang.profiler import Profiler


def loaded(entry: CacheEntry, verbose: bool) -> JITKernel:
    """The kernel of an entry; ``verbose`` prints where it comes from."""
    if verbose:
        print(one_line(f"tilelang: {entry.artifact.name} for {entry.artifact.target} from {entry.origin}: {entry.path}"))
    return JITKernel(entry)


def misplaced_call(name: str) -> MisplacedError | None:
    """The error of a call of kernel ``name`` that fails because a program is being traced, whose tensors it does not take."""
    builder = sys.modules.get("tilelang.frontend.builder")  # without it nothing is traced
    if builder is None or not builder.is_tracing():
        return None
    return MisplacedError(f"{name} is a kernel, which programs cannot call", hint="a helper that kernels call is a @T.macro")


class JITKernel:
    """A compiled kernel that is loaded and can be called.

    ``kernel(A, B)`` takes the parameters that are not outputs, in the order of the signature or by name, and returns the
    output, a list of several outputs, or None. ``JITKernel(program, out_idx, target=...)`` is :func:`tilelang.compile`.

    Args:
        func: a traced program, or a cache entry.
        out_idx, options: of a program, as for :func:`tilelang.compile`.
        executor: of an entry, its code where that is loaded already.

    Attributes:
        entry: where its files are, and where it came from (``memory``, ``disk``, ``layer``, ``shared``, ``compiled``).
        latency: milliseconds, where the autotuner measured it.
        config: the configuration that the autotuner chose.
        ref_latency: milliseconds of the reference program, where the autotuner measured it.
        source_reason: why the kernel cannot be found before tracing; empty where it can.
        traced: gives its program; None where it was loaded without (unpickled, for instance).
        made_by: the function and its arguments that make a kernel again which is in no cache; None for kernels of a cache.
        reads_files: whether the toolchain reads files of the user for it, so that the program alone does not tell which it is.
    """

    def __init__(self, func: CacheEntry | Any, out_idx: Any = None, *, executor: Executor | None = None, **options: Any):
        if not isinstance(func, CacheEntry):
            from tilelang.jit.compiler import compile

            self.__dict__.update(compile(func, out_idx, **options).__dict__)
            return
        self.entry = entry = func
        self.executor = executor or load(entry.artifact, entry.path)
        self._call: Callable[..., Any] = self.executor.call
        self.latency: float | None = None
        self.config: dict[str, Any] | None = None
        self.ref_latency: float | None = None
        self.source_reason = ""
        self.traced: Callable[[], Any] | None = None
        self.reads_files = False
        self.made_by: tuple[Callable[..., JITKernel], tuple[Any, ...]] | None = None
        from tilelang.execution.traced import TraceableCall, is_dynamo_compiling

        self._is_traced = is_dynamo_compiling
        self._in_graph = TraceableCall(self.executor)

    def __class_getitem__(cls, parameters: Any) -> type:
        """``JITKernel[P, R]`` in annotations is the class."""
        return cls

    def __reduce__(self) -> tuple[Any, ...]:
        from tilelang.jit.portable import packed

        return packed(self)

    def __deepcopy__(self, memo: Any) -> JITKernel:
        """A kernel never changes: the copy shares the loaded code."""
        return self.__copy__()

    def __copy__(self) -> JITKernel:
        copied = JITKernel(self.entry, executor=self.executor)
        copied.__dict__.update(self.__dict__)
        return copied

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_traced():
            return self._in_graph(*args, **kwargs)
        try:
            return self._call(*args, **kwargs)
        except TileLangError as error:
            raise concise(misplaced_call(self.artifact.name) or error) from None

    def __repr__(self) -> str:
        artifact = self.artifact
        return f"<JITKernel {artifact.name} for {self.target} by {artifact.backend}, key {self.cache_key[:12]}>"

    @property
    def artifact(self) -> KernelArtifact:
        """The compiler's output: files, parameters, launch metadata."""
        return self.entry.artifact

    @property
    def params(self) -> tuple[KernelParam, ...]:
        """The parameters, outputs included."""
        return self.artifact.params

    @property
    def prim_func(self) -> Any:
        """The traced program; of a kernel that was found before tracing it is traced now.

        Raises:
            ExecutionError: the kernel was loaded without its function, or what the function reads has changed since.
        """
        if self.traced is None:
            raise ExecutionError(
                f"{self.artifact.name} was loaded without its program", hint="get_tir() of the decorated function traces one"
            )
        return self.traced()

    @property
    def out_idx(self) -> tuple[int, ...]:
        """Positions of the parameters that a call allocates."""
        return self.artifact.out_idx

    @property
    def target(self) -> str:
        """Canonical text of the target."""
        return self.artifact.target

    @property
    def execution_backend(self) -> str:
        """The backend that runs it."""
        return self.artifact.backend

    @property
    def cache_key(self) -> str:
        """Its kernel key, 64 hexadecimal digits."""
        return self.entry.key

    @property
    def func(self) -> Callable[..., Any]:
        """The function that a call runs, without this object around it."""
        return self._call

    torch_function = func

    @property
    def adapter(self) -> JITKernel:
        """The kernel itself, which has the adapter's ``func``, ``get_kernel_source`` and ``get_host_source``."""
        return self

    @property
    def kernel_source(self) -> str:
        """The generated device code."""
        return self.artifact.kernel_source

    @property
    def host_source(self) -> str:
        """The generated host code."""
        return self.artifact.host_source

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """One call on made-up inputs, of the kernel or of ``func``."""
        return self.get_profiler().run_once(func)

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated device code; with ``kernel_only=False`` the host code after it."""
        source = self.artifact.kernel_source
        return source if kernel_only else source + "\n" + self.artifact.host_source

    def get_host_source(self) -> str:
        """The generated host code."""
        return self.artifact.host_source

    def show_source(self, which: str = "kernel") -> None:
        """Prints the source: ``"kernel"``, ``"host"`` or ``"both"``."""
        if which in ("kernel", "both"):
            print(self.get_kernel_source())
        if which in ("host", "both"):
            print(self.get_host_source())

    def print_source_code(self, which: str = "kernel", file: str | Path | None = None) -> None:
        """Prints the source (as :meth:`show_source`), or writes it to ``file``."""
        if file is None:
            self.show_source(which)
        else:
            Path(file).write_text(self.get_kernel_source() if which == "kernel" else self.get_host_source(), encoding="utf-8")

    def export_sources(self, kernel_path: str | Path | None = None, host_path: str | Path | None = None) -> None:
        """Writes the device and host sources to files."""
        for path, text in ((kernel_path, self.get_kernel_source()), (host_path, self.get_host_source())):
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(text, encoding="utf-8")

    def show_ptx(self) -> None:
        """Prints the PTX of the device code.

        Raises:
            ExecutionError: a kernel for a CPU.
        """
        print(self._ptx())

    def export_ptx(self, path: str | Path) -> None:
        """Writes the PTX of the device code to a file.

        Raises:
            ExecutionError: a kernel for a CPU.
        """
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self._ptx(), encoding="utf-8")

    def _ptx(self) -> str:
        if not self.artifact.ptx:
            raise ExecutionError(f"{self.artifact.name} has no PTX: its target is {self.artifact.target}")
        return self.artifact.ptx

    def show_sass(self) -> None:
        """Prints the machine code of the device code, as nvdisasm does.

        Raises:
            ExecutionError: the kernel has no cubin.
            ToolchainMissingError: nvdisasm is not installed.
        """
        print(self._sass())

    def export_sass(self, path: str | Path) -> None:
        """Writes the machine code of the device code to a file, as nvdisasm prints it.

        Raises:
            ExecutionError: the kernel has no cubin.
            ToolchainMissingError: nvdisasm is not installed.
        """
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(self._sass(), encoding="utf-8")

    def _sass(self) -> str:
        cubin = self.artifact.files.get("kernel.cubin")
        if not cubin:
            raise ExecutionError(f"{self.artifact.name} has no machine code of a GPU: its target is {self.artifact.target}")
        from tilelang.target.cuda.toolchain.sass import disassemble

        return disassemble(cubin)

    def export_library(self, kernel_file: str | Path) -> Path:
        """Writes the kernel as a shared library for programs without Python, with a C header beside it, whose path is returned.

        Raises:
            ExecutionError: the kernel has no machine code.
            ToolchainError: the system's C compiler is missing or fails.
        """
        from tilelang.jit.library import export_library

        return export_library(self.artifact, kernel_file)

    def as_jax(self) -> Callable[..., Any]:
        """The kernel as a function of JAX arrays, which may stand inside of ``jax.jit``; needs JAX and ``jax-tvm-ffi``.

        Raises:
            ExecutionError: the kernel has no outputs or no entry of tvm-ffi; JAX is missing.
        """
        from tilelang.jit.jax import jax_function

        return jax_function(self.artifact)

    def resource_usage(self) -> dict[str, Any]:
        """The toolchain's report: registers, spills and shared memory of each device kernel (empty on a CPU)."""
        return dict(self.artifact.metadata.get("resources", {}))

    @property
    def n_regs(self) -> int | None:
        """Registers of a thread of the first device kernel; None on a CPU."""
        return self._first_usage().get("registers")

    @property
    def n_spills(self) -> int | None:
        """Registers of 32 bits of a thread of the first device kernel that are stored to local memory; None on a CPU."""
        stored = self._first_usage().get("spill_store_bytes")
        return None if stored is None else stored // 4

    @property
    def n_max_threads(self) -> int | None:
        """Threads of a block of the first device kernel, for which it is compiled; None on a CPU, or where a call gives them."""
        extents = [extent for launch in self.artifact.launches[:1] for extent in launch.block if isinstance(extent, int)]
        return math.prod(extents) if len(extents) == 3 else None

    def _first_usage(self) -> dict[str, int]:
        usage: dict[str, dict[str, int]] = self.resource_usage()
        first = [usage[launch.symbol] for launch in self.artifact.launches if launch.symbol in usage]
        return first[0] if first else {}

    def update_tuner_result(self, latency: float, config: dict[str, Any], ref_latency: float | None) -> JITKernel:
        """Sets what a search found, and gives the kernel.

        Args:
            latency: milliseconds of the kernel.
            config: its configuration.
            ref_latency: milliseconds of the reference program.

        Returns:
            The kernel itself.
        """
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """``latency``, ``config`` and ``ref_latency``.

        Raises:
            ValueError: no search has measured the kernel.
        """
        if self.latency is None:
            raise ValueError(f"{self.artifact.name} was not measured by a search")
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            known = [] if name.startswith("_") else [*dir(type(self)), *vars(self)]
            raise unknown_attribute(f"JITKernel has no {name!r}", name, known)

    @near_keywords
    def get_profiler(self, tensor_supply_type: Any = None) -> Profiler:
        """A profiler of this kernel, which makes inputs of this type."""
        from tilelang.profiler import Profiler, TensorSupplyType

        if not isinstance(tensor_supply_type, (TensorSupplyType, type(None))):
            known = ", ".join(f"tilelang.TensorSupplyType.{each.name}" for each in TensorSupplyType)
            raise OptionError(f"tensor_supply_type={tensor_supply_type!r} is none of {known}")
        return Profiler.of(self, tensor_supply_type or TensorSupplyType.Auto)
