"""The files of a host, by execution backend.

A backend's host checks nothing but what a launch needs; arguments were checked before it is entered (the packed entry checks
tensors itself). It reaches the device through the runtime that the loader hands to it (``src/runtime/host_api.h``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tilelang import temporary
from tilelang.dtypes import canonical
from tilelang.errors import DtypeError
from tilelang.target.hosts.c import c_source
from tilelang.target.hosts.python import python_source
from tilelang.target.hosts.text import HostProgram
from tilelang.target.toolchain import c_compiler, linker, run, started


@contextmanager
def host_files(program: HostProgram, backend: str) -> Iterator[Callable[[], Mapping[str, bytes]]]:
    """The host of a program for an execution backend: a call gives its files by name, and waits for the C compiler.

    The C compiler runs beside what the caller does before the call. ``tvm_ffi`` gets ``executable.so``, ``nvrtc`` gets
    ``kernel.py``, the others ``kernel_lib.so``; all but ``nvrtc`` come with their text in ``host_kernel.cu``.

    Raises:
        ToolchainError: the system's C compiler is missing or fails.
        DtypeError: a scalar argument has a type that no launch passes.
    """
    for param in program.params:
        if param.kind == "scalar" and canonical(param.dtype).is_float and canonical(param.dtype).bits < 16:
            raise DtypeError(
                f"{program.name}: a launch cannot pass argument {param.name}, a scalar of {param.dtype}",
                hint="declare it float32 and convert it in the kernel",
            )
    if backend == "nvrtc":
        files = {"kernel.py": python_source(program).encode()}
        yield lambda: files
        return
    text = c_source(program, packed=backend == "tvm_ffi")
    library = "executable.so" if backend == "tvm_ffi" else "kernel_lib.so"
    with _compiled(text) as compiled:
        yield lambda: {"host_kernel.cu": text.encode(), library: compiled()}


@contextmanager
def _compiled(text: str) -> Iterator[Callable[[], bytes]]:
    """A shared library from a generated host, once it is asked for."""
    with tempfile.TemporaryDirectory(prefix="tilelang-host-", dir=temporary.folder()) as folder:
        source, compiled, library = (Path(folder) / name for name in ("host.c", "host.o", "host.so"))
        source.write_text(text)

        def linked() -> bytes:
            done()
            run([*linker(), "-shared", "-o", str(library), str(compiled)])
            return library.read_bytes()

        command = [c_compiler(), "-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-c", str(source), "-o", str(compiled)]
        with started(command) as done:
            yield linked
