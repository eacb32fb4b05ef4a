"""The simulator's pure functions, called on NumPy arrays."""

import numpy as np
import tvm_ffi

from tilelang.simulator import native


def call(name: str, *arguments) -> None:
    """Calls `tilelang.simulator.testing.<name>`; arrays are not copied, outputs are written in place."""
    function = native.function("testing." + name)
    function(*[_tensor(a) if isinstance(a, np.ndarray) else a for a in arguments])


def _tensor(array: np.ndarray):
    if not array.flags.c_contiguous:
        raise ValueError("native functions need contiguous arrays")
    return tvm_ffi.from_dlpack(array)
