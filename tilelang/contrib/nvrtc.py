"""NVRTC, under the names that programs call it by."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.attributes import attributes
from tilelang.contrib.nvcc import get_target_arch, get_target_compute_version
from tilelang.errors import OptionError
from tilelang.target.cuda.toolchain import nvrtc

__getattr__ = attributes(__name__, {})


def get_nvrtc_version() -> tuple[int, int]:
    """``(13, 5)``."""
    major, minor = map(int, nvrtc.version().split("."))
    return major, minor


def compile_cuda(
    code: str,
    target_format: str = "ptx",
    arch: int | None = None,
    options: str | Sequence[str] | None = None,
    verbose: bool = False,
) -> bytearray:
    """Compiles CUDA C++.

    Args:
        code: the text.
        target_format: what to give: ``"ptx"`` or ``"cubin"``.
        arch: the compute capability as a number, 80 or 90; by default that of the device.
        options: further options of NVRTC.
        verbose: whether to print what NVRTC says of a text that compiles.

    Raises:
        DeviceCompileError: it does not compile; the message is the compiler's.
        OptionError: another format.
    """
    if target_format not in ("ptx", "cubin"):
        raise OptionError(f"compile_cuda: target_format={target_format!r} is neither 'ptx' nor 'cubin'")
    version = get_target_compute_version() if arch is None else f"{arch // 10}.{arch % 10}"
    flags = [options] if isinstance(options, str) else list(options or ())
    binary = nvrtc.compile_source(code, f"sm_{get_target_arch(version)}", flags)
    if verbose:
        print(binary.log)
    return bytearray(getattr(binary, target_format))
