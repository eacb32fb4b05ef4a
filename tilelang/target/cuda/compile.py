"""From a program to the artifact: lowering, the device compiler, the host files."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilelang.artifact import ORIGINS_FILE, KernelArtifact, KernelLaunch
from tilelang.errors import DeviceCompileError, SharedMemoryError
from tilelang.records import Record
from tilelang.target.assemble import assemble
from tilelang.target.assumptions import assumptions
from tilelang.target.cuda.codegen.origins import origins_file, place_in
from tilelang.target.cuda.headers import names_in, prelude
from tilelang.target.cuda.intrinsics.values import GRID_DECLARATION, GRID_STATE
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.pipeline import PIPELINE, CudaContext, options_of
from tilelang.target.cuda.toolchain.alignment import tensor_alignment
from tilelang.target.cuda.toolchain.compile import compile_device, toolchain_versions
from tilelang.target.cuda.toolchain.records import DeviceBinary, compile_script
from tilelang.target.hosts.files import host_files
from tilelang.target.hosts.text import HostProgram
from tilelang.target.params import dynamic_names, kernel_params
from tilelang.target.postproc import rewritten
from tilelang.target.request import CompileRequest
from tilelang.transform.config import PassConfigKey
from tilelang.transform.pipeline import run


class Lowered(Record):
    """CUDA text with its launches, its origins in the program, the time of each step, and the dumps."""

    source: str
    launches: tuple[KernelLaunch, ...]
    origins: bytes
    seconds: Mapping[str, float]
    dumps: Mapping[str, bytes]


_DRIVER_HEADER = re.compile(r"^\s*#\s*include\s*[<\"]cuda\.h[>\"]", re.M)

_EXCHANGED = 16 * 1024
"""Bytes of shared memory that reductions may take to exchange all their results, about."""


def _in_memory(attempt: Callable[[CudaContext], Any], request: CompileRequest) -> Any:
    """What an attempt gives that does with the target's shared memory."""
    options = options_of(request)
    try:
        return attempt(CudaContext(request, options))
    except SharedMemoryError:
        # Tiles that gathers fill ahead take memory for each stage, those that they fill in their place do not.
        options = replace(options, gathers=False)
    try:
        return attempt(CudaContext(request, options))
    except SharedMemoryError as error:
        if error.beyond > _EXCHANGED:
            raise
    return attempt(CudaContext(request, replace(options, together=False)))


def lower(func: Any, request: CompileRequest) -> Lowered:
    """Runs the pipeline."""
    result = _in_memory(partial(run, PIPELINE, func, dump=request.dump_ir), request)
    imported = func.attrs["tl.import_source"] if "tl.import_source" in func.attrs else ""
    texts = result.value.kernels
    kernels = "\n".join(kernel.text for kernel in texts)
    mentioned = names_in(str(imported)).union(*(kernel.mentioned for kernel in texts))
    globals_ = Printer().instruction(GRID_DECLARATION) if GRID_STATE.text in mentioned else []
    body = "\n".join(filter(None, [str(imported), *globals_, kernels]))
    launches = tuple(kernel.launch for kernel in texts)
    # The driver's header declares what the headers of kernels would declare in its absence.
    driver = "#include <cuda.h>\n" if _DRIVER_HEADER.search(str(imported)) else ""
    generated = driver + prelude(mentioned) + "\n" + body
    source = rewritten("cuda", generated, request.target)
    known = texts if source == generated else ()  # of lines that a user's function wrote nothing is known
    return Lowered(source, launches, origins_file(source, known), result.seconds, result.dumps)


def compile_program(func: Any, request: CompileRequest) -> KernelArtifact:
    """The artifact of a program."""
    name = str(func.attrs["global_symbol"])
    lowered = lower(func, request)
    params = kernel_params(func)
    flags = _flags(request)
    host = HostProgram(name, params, dynamic_names(params), lowered.launches, assumptions(func))
    with host_files(host, request.backend) as hosts_done:  # its compiler runs beside that of the device
        start = time.perf_counter()
        binary = _compiled(lowered, request.target.arch, flags)
        device_seconds = time.perf_counter() - start
        start = time.perf_counter()
        hosts = hosts_done()
        host_seconds = time.perf_counter() - start
    files = {
        "device_kernel.cu": lowered.source.encode(),
        ORIGINS_FILE: lowered.origins,
        "kernel.cubin": binary.cubin,
        "kernel.ptx": binary.ptx,
        "compile.sh": compile_script(binary, request.target.arch, flags).encode(),
        "compile_log.txt": f"{binary.compiler} {' '.join(binary.options)}\n{binary.log}".encode(),
        **hosts,
        **lowered.dumps,
    }
    metadata = {
        "alignment": tensor_alignment(binary.ptx, params, lowered.launches),
        "toolchain": toolchain_versions(),
        "seconds": {**lowered.seconds, "device_compiler": device_seconds, "host": host_seconds},
        "resources": {symbol: used.as_dict() for symbol, used in binary.resources.items()},
    }
    return assemble(func, request, files, metadata, lowered.launches)


def _compiled(lowered: Lowered, arch: str, flags: Sequence[str]) -> DeviceBinary:
    """The binary; what the device compiler refuses is said of the statement that it comes from, such as a ``T.call_extern``."""
    try:
        return compile_device(lowered.source, arch, flags=flags)
    except DeviceCompileError as error:
        place = None if error.line is None else place_in(lowered.origins, error.line)
        raise error.at(place) from None


def _flags(request: CompileRequest) -> tuple[str, ...]:
    extra = request.config(PassConfigKey.TL_DEVICE_COMPILE_FLAGS, ())
    extra = tuple(extra.split()) if isinstance(extra, str) else tuple(extra or ())
    fast = ("--use_fast_math",) if request.config(PassConfigKey.TL_ENABLE_FAST_MATH, False) else ()
    return (*request.compile_flags, *extra, *fast)
