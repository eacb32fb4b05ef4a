"""Fast device and host compilers for most programs; one in eight uses the regular ones.

The code that tilelang generates is the same for both. The fast ones are NVRTC without most of its optimisations and without the
assembler (the simulator executes PTX), LLVM and the C compiler at -O0, and hosts that are not compiled or check no arguments.
Faults that only an optimiser reveals, such as a wrong alias or a missing clobber, are left to the programs that use the regular
compilers. A program that fails with the fast compilers is compiled again with the regular ones, and only that result counts:
without optimisation, registers become local memory, and an undefined value that is stored there counts as used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilelang.target.cpu import edges
from tilelang.target.cuda.toolchain import nvrtc
from tilelang.target.cuda.toolchain.records import DeviceBinary

QUICK = "-Ofc=mid"
"""NVRTC's option for quick compilation."""
_CUDA = {"execution_backend": "nvrtc", "compile_flags": [QUICK]}
_CPU = {"execution_backend": "ctypes", "compile_flags": ["-O0"]}
_OPTIONS: dict[str, dict[str, Any]] = {"cpu": _CPU, "c": _CPU, "sm_80": _CUDA, "sm_90a": _CUDA}


def options(target: str, thorough: bool) -> dict[str, Any]:
    """What ``tilelang.compile`` takes besides the program and its target."""
    return {} if thorough else _OPTIONS[target]


_compiled = nvrtc.compile_source


def _ptx_where_quick(source: str, arch: str, flags: Sequence[str] = ()) -> DeviceBinary:
    """NVRTC as it is, but where quick compilation is asked for: then it makes PTX alone.

    The accumulators of ``wgmma`` must stay in the registers that they are in, which takes the optimiser.
    """
    if QUICK not in flags:
        return _compiled(source, arch, flags)
    flags = [flag for flag in flags if flag != QUICK or "wgmma" not in source]
    return _compiled(source, arch.replace("sm_", "compute_"), flags)


nvrtc.compile_source = _ptx_where_quick


@contextmanager
def every_edge_cut() -> Iterator[None]:
    """Around the compilation of a kernel that is drawn: the CPU target cuts its edges, though it is small."""
    least, edges.LEAST = edges.LEAST, 1
    try:
        yield
    finally:
        edges.LEAST = least
