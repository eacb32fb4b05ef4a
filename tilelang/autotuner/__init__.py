"""Searching the fastest configuration of a kernel: :func:`autotune`, :class:`AutoTuner`, :func:`set_autotune_inputs`."""

from tilelang.attributes import attributes
from tilelang.autotuner.capture import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.decorator import AutoTunedFunction, autotune
from tilelang.autotuner.dispatch import DispatchedKernel
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult, CompileArgs, ProfileArgs

__getattr__ = attributes(__name__, {})

__all__ = [
    "AutoTunedFunction", "AutoTuner", "AutotuneResult", "CompileArgs", "DispatchedKernel", "ProfileArgs", "autotune",
    "get_autotune_inputs", "set_autotune_inputs",
]  # fmt: skip
