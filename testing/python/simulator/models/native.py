"""The simulator's pure functions, called on NumPy arrays."""

import numpy as np
import tilelang.simulator  # noqa: F401  (loads the native library)
import tvm_ffi


def call(name: str, *arguments) -> None:
    """Calls `tilelang.simulator.testing.<name>`; arrays travel without a copy, and outputs are written in place."""
    function = tvm_ffi.get_global_func("tilelang.simulator.testing." + name)
    function(*[_tensor(a) if isinstance(a, np.ndarray) else a for a in arguments])


def _tensor(array: np.ndarray):
    if not array.flags.c_contiguous:
        raise ValueError("native functions need contiguous arrays")
    return tvm_ffi.from_dlpack(array)
