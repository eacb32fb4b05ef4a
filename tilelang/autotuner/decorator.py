"""``@tilelang.autotune``: a factory whose tunable arguments are searched when the caller leaves them out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, overload

from tilelang.autotuner.capture import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.configs import Configs, applied, expand
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult, ProfileArgs
from tilelang.errors import OptionError, TileLangError, concise
from tilelang.ignored import ignored
from tilelang.jit.function import JitFunction
from tilelang.jit.kernel import JITKernel
from tilelang.jit.portable import by_name
from tilelang.keywords import near_keywords

if TYPE_CHECKING:
    from tilelang.ir import nodes as ir

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(eq=False, repr=False)
class AutoTunedFunction(Generic[_R]):
    """A ``@tilelang.jit`` function whose tunable arguments are searched.

    Attributes:
        jit_function: the factory or eager function.
        configs: what to try.
        profile: how.
        search: keyword arguments of :meth:`AutoTuner.run`.
    """

    jit_function: JitFunction[..., _R]
    configs: Configs
    profile: ProfileArgs
    search: Mapping[str, Any]

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.jit_function.function)

    def __reduce__(self) -> str:
        return by_name(self)

    def __deepcopy__(self, memo: Any) -> AutoTunedFunction[_R]:
        """The function itself, as of any function."""
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> _R:
        """Of a factory, the tuned kernel; of an eager function, what the tuned kernel returns for the given tensors.

        Where the caller gives every tunable argument, nothing is searched. With ``__return_kernel=True`` it is :meth:`compile`.
        """
        found: Any = self._called(args, kwargs)
        return found

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if kwargs.pop("__return_kernel", False):
            return self.compile(*args, **kwargs)
        try:
            if self._is_decided(args, kwargs):
                return self.jit_function(*args, **kwargs)
            result = self.tune(*args, **kwargs)
        except TileLangError as error:
            raise concise(error) from None
        if not self.jit_function.is_eager:
            return result.kernel
        function, chosen = applied(self.jit_function, result.config)
        return function(*args, **{**kwargs, **chosen})

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel, tuned unless the caller gives every tunable argument."""
        decided = self._is_decided(args, kwargs)
        return self.jit_function.compile(*args, **kwargs) if decided else self.tune(*args, **kwargs).kernel

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """The search's result for these arguments; remembered in this process and in the cache's index."""
        tuner = self.get_tunner().set_kernel_parameters(args, kwargs)
        if not self.jit_function.is_eager or get_autotune_inputs() is not None:
            return tuner.run(**self.search)
        tensors = [value for value in (*args, *kwargs.values()) if hasattr(value, "data_ptr")]
        with set_autotune_inputs(*tensors):
            return tuner.run(**self.search)

    def get_tunner(self) -> AutoTuner:
        """A new search over the configurations; classes of programs that change how it is done override this."""
        tuner = AutoTuner(self.jit_function, self.configs)
        tuner.profile_args = self.profile
        return tuner

    def with_jit(self, options: Mapping[str, Any], mode: str) -> AutoTunedFunction[_R]:
        """The same search over the function under other options: ``@tilelang.jit(...)`` above ``@tilelang.autotune``.

        Raises:
            OptionError: it stands above another ``@tilelang.jit``, too.
        """
        if any(value is not None for value in self.jit_function.options.values()):
            raise OptionError(
                f"{self.jit_function.function.__name__} is decorated with @tilelang.jit twice", hint="leave one of them out"
            )
        function: JitFunction[..., _R] = JitFunction(self.jit_function.function, options, mode)
        return AutoTunedFunction(function, self.configs, self.profile, self.search)

    def _is_decided(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        names = list(inspect.signature(self.jit_function.function).parameters)
        given = set(names[: len(args)]) | set(kwargs)
        tunable = set().union(*(config for config in expand(self.configs, args, kwargs)))
        return bool(tunable) and tunable <= given


class AutotuneDecorator(Protocol):
    """``@tilelang.autotune(...)``: what decorates a function."""

    @overload
    def __call__(self, func: JitFunction[_P, _R], /) -> AutoTunedFunction[_R]: ...
    @overload
    def __call__(self, func: Callable[_P, ir.PrimFunc], /) -> AutoTunedFunction[JITKernel]: ...
    @overload
    def __call__(self, func: Callable[_P, _R], /) -> AutoTunedFunction[_R]: ...


@overload
def autotune(
    func: Callable[..., Any],
    *,
    configs: Configs,
    warmup: int = 25,
    rep: int = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = True,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    backend: str = "event",
    do_not_specialize: Sequence[str] | None = None,
) -> AutoTunedFunction[Any]: ...
@overload
def autotune(
    func: None = None,
    *,
    configs: Configs,
    warmup: int = 25,
    rep: int = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = True,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    backend: str = "event",
    do_not_specialize: Sequence[str] | None = None,
) -> AutotuneDecorator: ...
@near_keywords
def autotune(
    func: Callable[..., Any] | None = None,
    *,
    configs: Configs,
    warmup: int = 25,
    rep: int = 100,
    timeout: float = 100,
    supply_type: Any = None,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = True,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    backend: str = "event",
    do_not_specialize: Sequence[str] | None = None,
) -> Any:
    """Decorator over or under ``@tilelang.jit``: searches ``configs`` for the fastest kernel; see :class:`ProfileArgs`.

    The kernel that a call gives has ``latency``, ``config`` and ``ref_latency``.

    Args:
        func: the function, where the decorator stands without parentheses.
        configs: a list of dicts of keyword arguments, a dict of lists (their product), or a function of the kernel's arguments
            that gives either.
        warmup, rep: milliseconds to spend before and while measuring a candidate.
        timeout: seconds that one candidate may take to compile, and again to run.
        supply_type: what made-up inputs hold, a ``TensorSupplyType``.
        ref_prog: takes the inputs, returns what the kernel should, or changes them as it should; candidates that disagree are
            skipped.
        supply_prog: takes the kernel's parameters, returns inputs.
        rtol, atol, max_mismatched_ratio: of the check: an element agrees where ``|a - b| <= atol + rtol * |b|``, and that share
            of the elements may disagree.
        skip_check: do not check.
        manual_check_prog: takes the kernel's and the reference's results, raises where they disagree.
        cache_input_tensors: make inputs once for all candidates, not for each.
        early_stop: give a candidate up where a first estimate is ``early_stop_factor`` times slower than the best so far.
        early_stop_factor: that factor.
        backend: the clock; ``"model"`` ranks by the simulator's model of time, where there is no GPU, and the trials' ``detail``
            says so.
        do_not_specialize: has no effect, as results are remembered for the values of all arguments; a value warns.

    Returns:
        The decorated function; a call without the tunable arguments searches, one with all of them does not.
    """
    ignored("autotune", do_not_specialize=do_not_specialize)
    from tilelang.utils.tensor import TensorSupplyType

    profile = ProfileArgs(
        warmup, rep, timeout, supply_type or TensorSupplyType.Auto, ref_prog, supply_prog, rtol, atol, max_mismatched_ratio,
        skip_check, manual_check_prog, cache_input_tensors, backend,
    )  # fmt: skip

    def decorate(function: Any) -> AutoTunedFunction[Any]:
        wrapped = function if isinstance(function, JitFunction) else JitFunction(function, {})
        return AutoTunedFunction(wrapped, configs, profile, {"early_stop": early_stop, "early_stop_factor": early_stop_factor})

    return decorate if func is None else decorate(func)
