"""The simulator's pure functions, called on NumPy arrays."""

import numpy as np
import tvm_ffi

from tilelang.simulator import native


def call(name: str, *arguments) -> object:
    """What `tilelang.simulator.testing.<name>` returns; arrays are not copied, outputs are written in place."""
    function = native.function("testing." + name)
    return function(*[_tensor(a) if isinstance(a, np.ndarray) else a for a in arguments])


def _tensor(array: np.ndarray):
    if not array.flags.c_contiguous:
        raise ValueError("native functions need contiguous arrays")
    return tvm_ffi.from_dlpack(array)
