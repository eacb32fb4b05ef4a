"""Written by ``python -m testing.stubs``."""

from tilelang import autotuner as autotuner
from tilelang import cache as cache
from tilelang import carver as carver
from tilelang import dtypes as dtypes
from tilelang import engine as engine
from tilelang import env as env
from tilelang import errors as errors
from tilelang import execution as execution
from tilelang import interpreter as interpreter
from tilelang import language as language
from tilelang import layout as layout
from tilelang import math as math
from tilelang import option as option
from tilelang import profiler as profiler
from tilelang import testing as testing
from tilelang import tools as tools
from tilelang import transform as transform
from tilelang import utils as utils
from tilelang.autotuner import AutoTuner as AutoTuner
from tilelang.autotuner import autotune as autotune
from tilelang.cache.kernel_cache import cached as cached
from tilelang.cache.kernel_cache import clear_cache as clear_cache
from tilelang.cache.kernel_cache import disable_cache as disable_cache
from tilelang.cache.kernel_cache import enable_cache as enable_cache
from tilelang.cache.kernel_cache import is_cache_enabled as is_cache_enabled
from tilelang.engine.callback import register_c_postproc as register_c_postproc
from tilelang.engine.callback import register_cuda_postproc as register_cuda_postproc
from tilelang.interpreter.session import interpret as interpret
from tilelang.jit import JITKernel as JITKernel
from tilelang.jit import lazy_jit as lazy_jit
from tilelang.jit.compiler import compile as compile
from tilelang.jit.compiler import lower as lower
from tilelang.jit.compiler import par_compile as par_compile
from tilelang.jit.function import jit as jit
from tilelang.layout import Fragment as Fragment
from tilelang.layout import Layout as Layout
from tilelang.log import set_log_level as set_log_level
from tilelang.math import cdiv as cdiv
from tilelang.math import next_power_of_2 as next_power_of_2
from tilelang.profiler import Profiler as Profiler
from tilelang.profiler import TensorSupplyType as TensorSupplyType
from tilelang.profiler import do_bench as do_bench
from tilelang.simulator import simulator as simulator
from tilelang.transform.config import PassConfigKey as PassConfigKey
from tilelang.utils.deprecated import deprecated as deprecated
from tvm_ffi._dtype import dtype as DataType
from typing import Any
import builtins
import tvm as tvm

__version__: builtins.str
