"""Loads the simulator's shared library and hands out its functions."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang.errors import SimulatorUnavailableError

LIBRARY = Path(__file__).resolve().parent.parent / "lib" / "libtilelang_simulator.so"


@functools.cache
def _library(path: Path) -> ctypes.CDLL:
    import tvm_ffi  # noqa: F401  (its library must be loaded before ours)

    if not path.exists():
        raise SimulatorUnavailableError(str(path), "it has not been built")
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise SimulatorUnavailableError(str(path), str(error)) from None


@functools.cache
def function(name: str) -> Callable[..., Any]:
    """The native function ``tilelang.simulator.<name>``.

    Raises:
        SimulatorUnavailableError: the library is missing or does not load.
    """
    import tvm_ffi

    _library(LIBRARY)
    return tvm_ffi.get_global_func("tilelang.simulator." + name)
