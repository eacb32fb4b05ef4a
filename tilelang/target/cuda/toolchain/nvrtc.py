"""NVRTC by ctypes.

The bindings of cuda-python take 66 ms to import and make the first call, ctypes 10 ms (medians of fresh processes); the seven
functions used here do not change between CUDA 11.2 and 13.
"""

from __future__ import annotations

import ctypes
import functools
import re
import time
from collections.abc import Sequence

from tilelang.errors import DeviceCompileError, ToolchainMissingError
from tilelang.target.cuda.toolchain.locate import cuda_include_directory, nvrtc_library, template_directory
from tilelang.target.cuda.toolchain.records import DeviceBinary, parse_resources

SOURCE_NAME = "device_kernel.cu"
"""What messages and line information call the source."""

# Line information takes a relative name below the current directory, which would make the cubin depend on it.
_ROOTED_NAME = f"/{SOURCE_NAME}"

_SUCCESS = 0
_BASE_OPTIONS = ("--std=c++17", "--generate-line-info", "--ptxas-options=-v")
_FIRST_HEADERS = "tl_templates/nvrtc/first"
"""Headers that are taken in the place of the toolkit's."""

_STANDARD_HEADERS = "tl_templates/nvrtc"
"""Headers of the C library that device code of users includes; where the directories before have one, that is taken."""

_BUILTINS = ("-D__builtin_memcpy=memcpy", "-D__builtin_memset=memset")
"""Functions of host compilers that nvcc knows."""

_MINIMAL = "--minimal"
"""Leaves out textures, surfaces and the runtime's types, of which our headers use nothing: 20 of 146 ms of a product."""

_ONLY_NVCC = re.compile(r"-O\d|-W.*|--expt-(relaxed-constexpr|extended-lambda)|--threads.*|-Xcompiler=.*|--compiler-options=.*")
"""Options that say how nvcc drives the host compiler and its own front end; NVRTC knows none of them and needs none."""
_ASSEMBLER = re.compile(r"(--ptxas-options|-Xptxas)=(.*)")


def translated(flags: Sequence[str]) -> list[str]:
    """nvcc's options as NVRTC takes them: without those of the host compiler, one option of the assembler at a time."""
    found: list[str] = []
    for flag in flags:
        assembler = _ASSEMBLER.fullmatch(flag)
        if assembler is not None:
            found += [f"--ptxas-options={option}" for option in assembler.group(2).split(",")]
        elif not _ONLY_NVCC.fullmatch(flag):
            found.append(flag)
    return [flag for flag in found if flag not in _BASE_OPTIONS]


@functools.cache
def _library() -> ctypes.CDLL:
    path = nvrtc_library()
    if path is None:
        raise ToolchainMissingError("NVRTC", "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime")
    # NVRTC opens its built-in functions by name when it compiles, and not every version looks for them beside itself.
    for builtins in path.resolve().parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins))
    library = ctypes.CDLL(str(path))
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


@functools.cache
def version() -> str:
    """``"13.5"``."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return f"{major.value}.{minor.value}"


def compile_source(source: str, arch: str, flags: Sequence[str] = ()) -> DeviceBinary:
    """Compiles CUDA C++ for ``arch`` (``"sm_90a"``); ``flags`` are nvcc's.

    Args:
        source: the text of ``device_kernel.cu``.
        arch: the architecture, as ``"sm_90a"``.
        flags: further options, in nvcc's spelling.

    Raises:
        DeviceCompileError: the source does not compile; the message is the compiler's first error.
        ToolchainMissingError: NVRTC is not installed.
    """
    options = (f"--gpu-architecture={arch}", *_BASE_OPTIONS, *translated(flags))
    try:
        return _compiled(source, (*options, _MINIMAL))
    except DeviceCompileError:  # the program's own text needs more, this NVRTC does not know the option, or it is an error
        return _compiled(source, options)


def _compiled(source: str, options: tuple[str, ...]) -> DeviceBinary:
    start = time.perf_counter()
    library = _library()
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), _ROOTED_NAME.encode(), 0, None, None))
    try:
        templates = template_directory()
        folders = (templates / _FIRST_HEADERS, templates, cuda_include_directory(), templates / _STANDARD_HEADERS)
        texts = [text.encode() for text in (*options, *_BUILTINS, *(f"--include-path={folder}" for folder in folders if folder))]
        status = library.nvrtcCompileProgram(program, len(texts), (ctypes.c_char_p * len(texts))(*texts))
        log = _fetch(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
        log = log.replace(_ROOTED_NAME, SOURCE_NAME)
        if status != _SUCCESS:
            message = log or library.nvrtcGetErrorString(status).decode()
            raise DeviceCompileError(f"nvrtc {version()}", message, " ".join(options))
        cubin, ptx = _fetch(program, "CUBIN"), _fetch(program, "PTX").rstrip(b"\0")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    seconds = time.perf_counter() - start
    return DeviceBinary(cubin, ptx, parse_resources(log), f"nvrtc {version()}", options, log, seconds)


def _fetch(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(getattr(_library(), f"nvrtcGet{what}")(program, content))
    return content.raw


def _check(status: int) -> None:
    if status != _SUCCESS:
        raise DeviceCompileError("nvrtc", _library().nvrtcGetErrorString(status).decode(), "")
