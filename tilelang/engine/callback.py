"""Hooks on generated code, all refused: the cache key of a kernel determines its code, which a hook would change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import CompileError
from tilelang.refusals import attributes

__getattr__ = attributes(__name__, {})


def register_cuda_postproc_callback(func: Callable[..., Any] | None = None, override: bool = True) -> Any:
    """Refused.

    Raises:
        CompileError: always.
    """
    raise CompileError(
        "generated code cannot be replaced by a callback", hint="T.import_source and T.call_extern add CUDA code to a program"
    )


register_c_postproc_callback = register_cuda_postproc_callback
register_cuda_postproc = register_cuda_postproc_callback
register_c_postproc = register_cuda_postproc_callback
