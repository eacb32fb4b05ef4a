"""The records of a search, under the names that programs import."""

from tilelang.attributes import attributes
from tilelang.autotuner.tuner import AutotuneResult, ProfileArgs

__all__ = ["AutotuneResult", "ProfileArgs"]

_FILES = "DEVICE_KERNEL_PATH EXECUTABLE_PATH HOST_KERNEL_PATH KERNEL_CUBIN_PATH KERNEL_LIB_PATH KERNEL_PY_PATH PARAMS_PATH"

__getattr__ = attributes(
    __name__, {"tilelang.artifact": "KernelParam", "tilelang.jit.kernel": "JITKernel", "tilelang.cache.kernel_cache": _FILES}
)
