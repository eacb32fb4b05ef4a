"""From a traced program to a kernel: key, cache, compile, load."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from tilelang import env
from tilelang.artifact import KernelArtifact
from tilelang.cache.kernel_cache import KernelCache, default_cache
from tilelang.cache.keys.key import KernelKey
from tilelang.cache.keys.source_key import SourceKey
from tilelang.errors import DeclarationError, OperandError, OptionError, TileLangError, concise
from tilelang.frontend.program_object import factory_of, is_program
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import same_product
from tilelang.ir.span import location_of
from tilelang.ir.text import program_text
from tilelang.jit import rewrites
from tilelang.jit.includes import UserFiles
from tilelang.jit.interpreted import interpreted
from tilelang.jit.kernel import JITKernel, loaded
from tilelang.jit.options import CompileOptions, annotated_options, output_positions, resolve_options
from tilelang.jit.tools import Tools
from tilelang.keywords import near_keywords
from tilelang.progress import progress
from tilelang.target import enclosing
from tilelang.target.request import CompileRequest, compile_program
from tilelang.tileop.base import plain
from tilelang.transform import enclosing as enclosing_passes


@near_keywords
def compile(
    func: Any,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> JITKernel:
    """The kernel of a traced program, from the cache or compiled now.

    Args:
        func: what ``@T.prim_func`` gives.
        out_idx: positions of the parameters that a call allocates and returns, in this order; negative counts from the end.
        execution_backend: ``"auto"``, ``"tvm_ffi"``, ``"ctypes"``, ``"cython"``, ``"torch"`` or ``"nvrtc"``.
        target: ``"auto"``, ``"cpu"``, ``"c"``, ``"cuda"``, or a dict such as ``{"kind": "cuda", "arch": "sm_90a"}``; by default
            that of an enclosing ``with tvm.target.Target(...):``, else ``TILELANG_DEFAULT_TARGET``.
        target_host: has no effect, as the host is the machine that compiles; a value warns.
        verbose: print where the kernel comes from, and what is compiled; by default ``TILELANG_VERBOSE``.
        pass_configs: values by ``tilelang.PassConfigKey``.
        compile_flags: for the toolchain, as a list or as one text that is split at spaces.

    Returns:
        The loaded kernel.

    Raises:
        CompileError: the program or an option is wrong.
        ToolchainMissingError: the target needs a compiler that is not installed.
    """
    try:
        options = resolve_options(
            out_idx, enclosing.in_force(target), target_host, execution_backend, pass_configs, compile_flags, verbose
        )
        return kernel_of(func, options, default_cache(), _named(func))
    except TileLangError as error:
        raise concise(error) from None


@near_keywords
def lower(
    func: Any,
    target: Any = None,
    target_host: Any = None,
    *,
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    runtime_only: bool = False,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> KernelArtifact:
    """Compiles a traced program without the cache and without loading it.

    Args:
        func, target, target_host, out_idx, execution_backend, compile_flags: as for :func:`compile`.
        pass_configs: as for :func:`compile`; added to those of an enclosing ``with tvm.transform.PassContext(config=...)``.
        runtime_only, enable_host_codegen, enable_device_compile: have no effect, as the artifact always has everything; True
            warns.

    Returns:
        The sources, binaries and launch data, as plain values.

    Raises:
        CompileError: the program or an option is wrong.
        ToolchainMissingError: the target needs a compiler that is not installed.
    """
    ignored("lower", runtime_only=runtime_only, enable_host_codegen=enable_host_codegen)
    ignored("lower", enable_device_compile=enable_device_compile)
    try:
        configs = {**enclosing_passes.configs(), **(pass_configs or {})}
        options = resolve_options(out_idx, enclosing.in_force(target), target_host, execution_backend, configs, compile_flags)
        options = annotated_options(_program(func), options)
        func = _with_outputs(func, options)
        request = request_of(func, options)
        if options.target.kind == "interpret":
            return interpreted(func, request).artifact
        return compile_program(func, request)
    except TileLangError as error:
        raise concise(error) from None


def build_kernel(
    func: Any, *, out_idx: Any = None, args: Sequence[Any] = (), target: Any = None, target_host: Any = None,
    execution_backend: str | None = None, verbose: bool | None = None, pass_configs: Any = None, compile_flags: Any = None,
    cache: KernelCache | None = None,
) -> JITKernel:  # fmt: skip
    """Compiles a kernel for ``KernelCache.cached``.

    Args:
        func: a traced program, or a factory of one.
        args: arguments of the factory.
        out_idx, target, target_host, execution_backend, verbose, pass_configs, compile_flags: as for :func:`compile`.
        cache: where to look the kernel up and keep it; the process's own by default.

    Returns:
        The loaded kernel.
    """
    program = func(*args) if callable(func) and not is_program(func) else func
    options = resolve_options(out_idx, target, target_host, execution_backend, pass_configs, compile_flags, verbose)
    return kernel_of(program, options, cache or default_cache(), _named(program))


@near_keywords
def par_compile(
    funcs: Iterable[Any],
    out_idx: int | Sequence[int] | None = None,
    execution_backend: str | None = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
) -> list[JITKernel | None]:
    """The kernels of many programs, compiled by several threads (the compilers run outside of Python's lock).

    On a terminal a bar shows how many are done.

    Args:
        funcs: traced programs.
        out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags: as for :func:`compile`, the same
            for every program.
        num_workers: threads; by default one a core.
        ignore_error: give None for a program that cannot be compiled, instead of raising.

    Returns:
        A kernel for each program, in their order.

    Raises:
        CompileError: the first program that cannot be compiled, unless ``ignore_error``.
    """
    try:
        if is_program(funcs):
            raise OperandError("par_compile takes a list of programs, got one", hint="tilelang.compile takes one")
        options = resolve_options(
            out_idx, enclosing.in_force(target), target_host, execution_backend, pass_configs, compile_flags, verbose
        )
        jobs = [functools.partial(kernel_of, func, options, default_cache(), _named(func)) for func in funcs]
        return compile_in_parallel(jobs, num_workers, ignore_error)
    except TileLangError as error:
        raise concise(error) from None


def compile_in_parallel(jobs: Sequence[Callable[[], JITKernel]], workers: int | None, ignore_error: bool) -> list[Any]:
    """Runs jobs in threads.

    Args:
        jobs: each makes one kernel.
        workers: threads; by default one a core.
        ignore_error: give None for a job that raises, instead of raising the first error once all have ended.

    Returns:
        The kernels, in the order of the jobs.
    """
    title = "compiling"
    with ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1) as pool, progress(len(jobs), title) as advance:
        # All jobs are waited for, so that an error of one stops no compiler half-way.
        futures = [pool.submit(job) for job in jobs]
        for _ in as_completed(futures):
            advance(title)
    return [None if ignore_error and future.exception() else future.result() for future in futures]


def kernel_of(
    func: Any,
    options: CompileOptions,
    cache: KernelCache,
    source: SourceKey | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> JITKernel:
    """The kernel of ``func``: looked up by its kernel key, compiled where it is not there.

    Args:
        func: a traced program.
        options: how it is compiled.
        cache: where the kernel is looked up and kept.
        source: the source key of the call that led here, so that the next process finds the kernel without tracing.
        metadata: kept with the artifact and part of its key (an eager program's signature).

    Returns:
        The loaded kernel.
    """
    options = annotated_options(_program(func), options)
    func = _with_outputs(func, options)
    request = request_of(func, options)
    if options.target.kind == "interpret":
        kernel = interpreted(func, request, metadata)
        kernel.traced = lambda: func
        return kernel
    tools = options.tools()
    files = _files_of_user(func, options, tools)
    key = _key(func, options, request, tools, files, metadata)

    def make() -> KernelArtifact:
        return _with_metadata(compile_program(func, request), metadata or {})

    kernel = cache.get_or_build(key, make, functools.partial(loaded, verbose=options.verbose), source)
    kernel.traced = lambda: func
    kernel.reads_files = bool(key.unknown or files.digests or files.searched)
    return kernel


def _positions(func: Any, attribute: str) -> tuple[int, ...] | None:
    return tuple(plain(func.attrs[attribute])) if func.attrs and attribute in func.attrs else None


def _with_outputs(func: Any, options: CompileOptions) -> Any:
    """The program, marked with what ``out_idx`` names where it allocates workspaces besides or returns in another order."""
    own = _positions(func, "tl.out_idx") or ()
    if not options.out_idx:
        return func
    # The program returns what T.empty made, in its own order: out_idx may say the same, and nothing else.
    if _positions(func, "tl.returned"):
        if tuple(sorted(i % len(func.params) for i in options.out_idx)) != own:
            raise OptionError("out_idx is given, but the program allocates its outputs by T.empty")
        return func
    outputs = output_positions(options, len(func.params) - len(own))
    # Ascending, and no workspace after them: `request_of` finds them by the options alone.
    if outputs == (*sorted(outputs), *own):
        return func
    return func.with_attr("tl.out_idx", [*sorted(outputs), *own]).with_attr("tl.returned", list(outputs))


def _with_metadata(artifact: KernelArtifact, metadata: Mapping[str, Any]) -> KernelArtifact:
    return dataclasses.replace(artifact, metadata={**artifact.metadata, **metadata})


def request_of(func: Any, options: CompileOptions) -> CompileRequest:
    """The compile request for the target."""
    own = _positions(func, "tl.out_idx")
    outputs = output_positions(options, len(func.params)) if own is None else own  # ascending, see _with_outputs
    _check_outputs(func, outputs)
    _check_computes(func, outputs)
    return CompileRequest(
        options.target, options.backend, outputs, options.pass_configs, options.compile_flags, options.dump_ir, options.verbose
    )


def _check_outputs(func: Any, outputs: Sequence[int]) -> None:
    """A call allocates tensors only."""
    for index in outputs:
        param = func.params[index]
        if not ir.is_buffer_var(param):
            raise OptionError(f"out_idx={index} names {param.name}, which is no tensor", hint="a call allocates tensors")
        if not _is_compact(param):
            raise OptionError(
                f"out_idx={index} names {param.name}, a T.StridedTensor whose elements do not follow each other",
                hint="a call allocates contiguous tensors: declare it T.Tensor, or pass it",
            )


def _is_compact(tensor: Any) -> bool:
    """Whether the declared strides, if any, are those of a contiguous tensor in every call."""
    shape = list(tensor.shape)
    return all(same_product([stride], shape[axis + 1 :]) for axis, stride in enumerate(tensor.strides))


def _check_computes(func: Any, outputs: Sequence[int]) -> None:
    """A program without statements is an error where its call would return memory that no statement writes."""
    if not (isinstance(func.body, ir.Evaluate) and isinstance(func.body.value, ir.IntImm)):
        return
    name = func.attrs["global_symbol"]
    for param in (func.params[index] for index in outputs):
        if 0 not in map(to_dim, param.shape):
            raise DeclarationError(
                f"{name} computes nothing: its call would return {param.name} as it was allocated",
                location_of(func.body.span),
                hint="compute in a kernel: with T.Kernel(blocks) as block:",
            )


def _key(
    func: Any,
    options: CompileOptions,
    request: CompileRequest,
    tools: Tools,
    files: UserFiles,
    metadata: Mapping[str, Any] | None,
) -> KernelKey:
    return KernelKey(
        name=str(func.attrs["global_symbol"]),
        program=program_text(func),
        target=options.target.text,
        backend=options.backend,
        out_idx=request.out_idx,
        pass_configs=request.pass_configs,
        compile_flags=request.compile_flags,
        toolchain={**tools.versions(), **env.of_tools(options.target.kind)},
        options={"dump_ir": options.dump_ir, "space": options.space, **_as_options(files), **(metadata or {})},
        unknown=files.problem or rewrites.problem(options.target.kind),
    )


def _as_options(files: UserFiles) -> dict[str, str]:
    return {f"file {name}": digest for name, digest in sorted(files.digests.items())}


def without_files(source: SourceKey, func: Any, options: CompileOptions) -> SourceKey:
    """The source key of a program, disabled if its kernel depends on the user's files, or on something that has no fingerprint.

    Args:
        source: the key of the call.
        func: the traced program, whose sources may include such files.
        options: how it is compiled; flags may name such files.

    Returns:
        The same key, or one whose ``reason`` says what disabled it.
    """
    if source.here is None or not is_program(func):
        return source
    annotated = annotated_options(func, options)
    found = _files_of_user(func, annotated, annotated.tools())
    reason = found.problem or rewrites.problem(options.target.kind)
    if not reason and found.digests:
        reason = f"the toolchain reads file {min(found.digests)}"
    elif not reason and found.searched:
        reason = f"the toolchain looks for {found.searched}{f' in {found.folders[0]}' if found.folders else ''}"
    elif not reason and found.folders and annotated != options:
        reason = f"the toolchain looks for files in {found.folders[0]}"
    return SourceKey(None, source.function, reason) if reason else source


def _files_of_user(func: Any, options: CompileOptions, tools: Tools) -> UserFiles:
    """The user's files that the toolchain reads for a program."""
    return options.files(str(func.attrs["tl.import_source"]) if func.attrs and "tl.import_source" in func.attrs else "", tools)


def _named(func: Any) -> SourceKey:
    """A source key without a digest: it only records the name of the program's function, for lists of kernels."""
    return SourceKey(None, factory_of(func))


def _program(func: Any) -> Any:
    if is_program(func):
        return func
    raise OperandError(
        f"expected a program traced by @T.prim_func, got {type(func).__name__}",
        hint="call the factory first: tilelang.compile(factory(1024)); or decorate the function with @tilelang.jit",
    )


__all__ = ["build_kernel", "compile", "kernel_of", "lower", "par_compile"]
