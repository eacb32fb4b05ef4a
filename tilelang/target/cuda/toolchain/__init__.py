"""From CUDA C++ text to a cubin: NVRTC in this process, or nvcc, and tools that look at the result.

``compile_device(source, arch)`` is all that the target needs; ``python -m tilelang.target.cuda.toolchain`` is the same by hand.
"""

from tilelang.target.cuda.toolchain.compile import choose_compiler, compile_device, toolchain_versions
from tilelang.target.cuda.toolchain.records import DeviceBinary, KernelResources

__all__ = ["DeviceBinary", "KernelResources", "choose_compiler", "compile_device", "toolchain_versions"]
