"""Functions of the user over generated code; see :mod:`tilelang.target.postproc` for what they mean to the kernel cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tilelang.attributes import attributes
from tilelang.target.postproc import Rewrite, register

__getattr__ = attributes(__name__, {})


def register_cuda_postproc(func: Rewrite | None, override: bool = True) -> None:
    """Has ``func(code, target)`` give the CUDA code that is compiled, from now on; None ends that.

    Kernels that are made meanwhile are compiled anew in every process.
    """
    register("cuda", func, override)


def register_c_postproc(func: Rewrite | None, override: bool = True) -> None:
    """As :func:`register_cuda_postproc`, for the code of the target ``"c"``."""
    register("c", func, override)


def register_cuda_postproc_callback(func: Callable[..., Any] | bool | None = None, override: bool = True) -> Any:
    """Decorator for :func:`register_cuda_postproc`, with or without arguments."""
    return _decorator(register_cuda_postproc, func, override)


def register_c_postproc_callback(func: Callable[..., Any] | bool | None = None, override: bool = True) -> Any:
    """Decorator for :func:`register_c_postproc`, with or without arguments."""
    return _decorator(register_c_postproc, func, override)


def _decorator(registering: Callable[..., None], func: Any, override: bool) -> Any:
    if not callable(func):
        return partial(_decorator, registering, override=override if func is None else bool(func))
    registering(func, override)
    return func
