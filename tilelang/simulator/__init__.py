"""The PTX simulator: CUDA kernels run on a CPU, with checkers and counters.

    module = tilelang.simulator.load(ptx_text)
    report = module.get_function("add").launch((4, 1, 1), (256, 1, 1), [a, b, c, n])
    print(report)

``with tilelang.simulator():`` makes it the device that kernels of the cuda target run on. See ``docs/simulator.md``.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from tilelang.simulator.module import Function, Module, load
from tilelang.simulator.report import Counters, Finding, Report
from tilelang.simulator.session import Settings, current, session
from tilelang.simulator.tensor_map import TensorMap, encode_tensor_map

__all__ = [
    "Counters", "Finding", "Function", "Module", "Report", "Settings", "TensorMap", "current", "encode_tensor_map", "load",
    "session", "simulator",
]  # fmt: skip


class _CallableModule(types.ModuleType):
    """The module itself opens a session: ``with tilelang.simulator():``."""

    __call__ = staticmethod(session)

    if TYPE_CHECKING:
        Counters, Finding, Function, Module, Report, Settings, TensorMap = (
            Counters, Finding, Function, Module, Report, Settings, TensorMap
        )  # fmt: skip
        current = staticmethod(current)
        encode_tensor_map = staticmethod(encode_tensor_map)
        load = staticmethod(load)
        session = staticmethod(session)

    @property
    def virtual_device(self) -> Any:
        """``with tilelang.simulator.virtual_device("h100"):``, see :mod:`tilelang.simulator.virtual`."""
        from tilelang.simulator.virtual.session import virtual_device

        return virtual_device


def __getattr__(name: str) -> types.ModuleType:
    """:mod:`tilelang.simulator.timing` and :mod:`tilelang.simulator.page`, loaded when they are asked for."""
    if name not in ("timing", "page"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")


sys.modules[__name__].__class__ = _CallableModule

simulator: _CallableModule = sys.modules[__name__]  # pyright: ignore[reportAssignmentType]
"""This module: ``tilelang.simulator`` is the same object, however it was imported."""
