"""The search: compile every candidate, check and measure each, keep the fastest."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from tilelang.attributes import attributes
from tilelang.autotuner import modelled, records, summary
from tilelang.autotuner.capture import get_autotune_inputs
from tilelang.autotuner.configs import Configs, check_arguments, config_digest, config_text, configured, expand
from tilelang.autotuner.records import Task, Trial
from tilelang.autotuner.workers import can_fork, compile_all
from tilelang.cache.kernel_cache import default_cache
from tilelang.errors import TuningError
from tilelang.ignored import ignored
from tilelang.jit.function import JitFunction
from tilelang.jit.kernel import JITKernel
from tilelang.profiler import Profiler, cloned, compared, do_bench
from tilelang.profiler.bench import CLOCKS, device_of, on_device
from tilelang.progress import progress
from tilelang.utils.tensor import TensorSupplyType, torch_assert_close

__getattr__ = attributes(__name__, {"tilelang.autotuner.decorator": "AutoTuneImpl=AutoTunedFunction"})


@dataclass(frozen=True)
class CompileArgs:
    """How candidates are compiled; see :func:`tilelang.jit`."""

    out_idx: Any = None
    target: Any = None
    execution_backend: str | None = None
    target_host: Any = None
    verbose: bool | None = None
    pass_configs: Mapping[Any, Any] | None = None


@dataclass(frozen=True)
class ProfileArgs:
    """How candidates are checked and measured.

    Attributes:
        warmup, rep: milliseconds before and while measuring.
        timeout: seconds that one candidate may take to compile, and again to run.
        supply_type: what made-up inputs hold.
        ref_prog: takes the inputs, returns what the kernel should, or changes them as it should; candidates that disagree are
            skipped.
        supply_prog: takes the kernel's parameters, returns inputs.
        rtol, atol, max_mismatched_ratio: of the check.
        skip_check: do not check.
        manual_check_prog: takes the kernel's and the reference's results, raises where they disagree.
        backend: the clock, see :func:`~tilelang.profiler.do_bench`; or ``"model"``, the simulator's model of time, for a GPU
            that is not there.
    """

    warmup: int = 25
    rep: int = 100
    timeout: float = 30
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = True
    backend: str = "event"

    def __post_init__(self) -> None:
        """Refuses values under which every candidate would fail.

        Raises:
            TuningError: an unknown clock or kind of inputs, or a time that is negative.
        """
        clocks = (*CLOCKS, modelled.MODEL)
        if self.backend not in clocks:
            raise TuningError(f"backend={self.backend!r} is none of {', '.join(clocks)}")
        if not isinstance(self.supply_type, TensorSupplyType):
            names = ", ".join(TensorSupplyType.__members__)
            raise TuningError(f"supply_type={self.supply_type!r} is no TensorSupplyType", hint=f"there are {names}")
        if self.warmup < 0 or self.rep < 0:
            raise TuningError(f"warmup={self.warmup!r} and rep={self.rep!r} are milliseconds, which are not negative")
        if self.timeout <= 0:
            raise TuningError(f"timeout={self.timeout!r} leaves no candidate any time; it is in seconds")


@dataclass(frozen=True)
class AutotuneResult:
    """What a search found.

    Attributes:
        latency: milliseconds of the fastest candidate.
        config: its configuration.
        ref_latency: milliseconds of the reference program, where there is one.
        kernel: the compiled kernel.
        trials: every candidate's result.
    """

    latency: float
    config: dict[str, Any]
    ref_latency: float | None
    kernel: JITKernel
    trials: tuple[Trial, ...] = field(default=(), repr=False)


class AutoTuner:
    """Searches the configurations of one kernel factory.

    Args:
        fn: a factory, or a :class:`~tilelang.jit.function.JitFunction`.
        configs: see :func:`~tilelang.autotuner.configs.expand`.
    """

    def __init__(self, fn: Callable[..., Any], configs: Configs):
        self.fn = fn
        self.configs = configs
        self.compile_args: CompileArgs | None = None
        self.profile_args = ProfileArgs()
        self.arguments: tuple[tuple, dict[str, Any]] = ((), {})

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Configs) -> AutoTuner:
        """A tuner of ``kernel``."""
        return cls(kernel, configs)

    def set_compile_args(self, **options: Any) -> AutoTuner:
        """Sets fields of :class:`CompileArgs`; returns the tuner."""
        self.compile_args = dataclasses.replace(self.compile_args or CompileArgs(), **options)
        return self

    def set_profile_args(self, **options: Any) -> AutoTuner:
        """Sets fields of :class:`ProfileArgs`; returns the tuner."""
        self.profile_args = dataclasses.replace(self.profile_args, **options)
        return self

    def set_kernel_parameters(self, k_parameters: tuple, f_parameters: Mapping[str, Any]) -> AutoTuner:
        """The factory's own arguments, by position and by name, those that no configuration gives; returns the tuner."""
        self.arguments = (tuple(k_parameters), dict(f_parameters))
        return self

    # The search ------------------------------------------------------------------------------------------------------

    def run(
        self, warmup: float | None = None, rep: float | None = None, timeout: float | None = None, use_pipeline: bool = False,
        enable_grouped_compile: bool = False, group_compile_size: int = 2, benchmark_devices: Any = None,
        benchmark_multi_gpu: bool = False, early_stop: bool = False, early_stop_factor: float = 2.0,
        num_workers: int | None = None,
    ) -> AutotuneResult:  # fmt: skip
        """Tries every configuration that has no result yet; returns the fastest.

        Args:
            warmup, rep, timeout: replace those of :class:`ProfileArgs`.
            early_stop: give a candidate up where a first estimate is ``early_stop_factor`` times slower than the best so far.
            early_stop_factor: that factor.
            num_workers: candidates that compile at a time; by default one a core.
            use_pipeline, enable_grouped_compile, group_compile_size: have no effect, as candidates compile while others run.
            benchmark_devices, benchmark_multi_gpu: have no effect, as candidates run on the current device; a value warns.

        Returns:
            The fastest candidate, and every candidate's result.

        Raises:
            TuningError: no candidate compiled, ran and gave right results; lists why.
        """
        ignored("AutoTuner.run", benchmark_devices=benchmark_devices, benchmark_multi_gpu=benchmark_multi_gpu)
        given = {"warmup": warmup, "rep": rep, "timeout": timeout}
        profile = dataclasses.replace(self.profile_args, **{k: v for k, v in given.items() if v is not None})
        function = self._jit_function().pinned()  # candidates are measured in other threads
        args, kwargs = self.arguments
        candidates = expand(self.configs, args, kwargs)
        check_arguments(function, args, kwargs, candidates)
        if profile.backend == modelled.MODEL:
            modelled.check_target(function.resolved()[0].target.kind)
        task = self._task(function, profile)
        if task.reason and sys.stderr.isatty():
            print(f"tilelang: results of tuning {task.name} are not kept: {task.reason}", file=sys.stderr)
        search = _Search(function, args, kwargs, profile, task, early_stop_factor if early_stop else math.inf)
        # Of several processes that tune the same task, one searches and the others wait: measured together, they would disturb
        # each other.
        with records.only_one(task):
            # After a wait for another process its results are in the index.
            again = ("timeout",) if early_stop else ("timeout", "stopped")  # given up after an estimate: now it is asked for more
            trials = {key: trial for key, trial in records.load_trials(task).items() if trial.state not in again}
            todo = [config for config in candidates if config_digest(config) not in trials]
            search.best = min((trial.latency for trial in trials.values()), default=math.inf)
            for trial in search.run(todo, num_workers or os.cpu_count() or 1):
                trials[config_digest(trial.config)] = trial
            ordered = [trials[config_digest(config)] for config in candidates]
            summary.leave(task, ordered)
        return search.result(ordered)

    def __call__(self) -> AutotuneResult:
        return self.run()

    def _jit_function(self) -> JitFunction:
        if isinstance(self.fn, JitFunction):
            extra = {} if self.compile_args is None else _given(self.compile_args)
            return self.fn.with_options(extra) if extra else self.fn
        return JitFunction(self.fn, _given(self.compile_args or CompileArgs()))

    def _task(self, function: JitFunction, profile: ProfileArgs) -> Task:
        options, _ = function.resolved()
        plain = (
            *options.plain(), profile.supply_type.name, profile.rtol, profile.atol, profile.max_mismatched_ratio,
            profile.skip_check, profile.backend, _input_shapes(),
        )  # fmt: skip
        callbacks = (profile.ref_prog, profile.supply_prog, profile.manual_check_prog)
        args, kwargs = self.arguments
        described = {name: _described(value) for name, value in kwargs.items()}
        return records.make_task(function.function, tuple(map(_described, args)), described, plain, callbacks)


def _given(options: CompileArgs) -> dict[str, Any]:
    return {f.name: getattr(options, f.name) for f in dataclasses.fields(options) if getattr(options, f.name) is not None}


def _input_shapes() -> tuple:
    tensors = get_autotune_inputs() or ()
    return tuple(_described(t) if isinstance(t, torch.Tensor) else repr(t) for t in tensors)


def _described(value: Any) -> Any:
    """What decides how fast a kernel is for an argument of a call: of a tensor, how it lies in memory."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    return "tensor", tuple(value.shape), tuple(value.stride()), str(value.dtype)


class _Search:
    """One run over the candidates."""

    def __init__(
        self, function: JitFunction, args: tuple, kwargs: dict[str, Any], profile: ProfileArgs, task: Task, give_up_factor: float
    ):
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.profile = profile
        self.task = task
        self.give_up_factor = give_up_factor
        self.best = math.inf
        self._captured = get_autotune_inputs()  # belongs to the calling thread; candidates run in others
        self._device = device_of(self._captured or ())  # so does the current device
        self._inputs: list[Any] | None = None
        self._arguments: Sequence[Any] = ()
        self._reference: tuple[Any, list[Any]] | None = None
        self.ref_latency: float | None = None

    def compile(self, config: Mapping[str, Any]) -> JITKernel:
        """The kernel of one configuration."""
        return configured(self.function, self.args, self.kwargs, config)

    def run(self, configs: Sequence[dict[str, Any]], workers: int) -> Any:
        """Yields a trial for each configuration."""
        title = f"tuning {self.task.name}"
        with progress(len(configs), title) as advance:
            # Only failures come back: the kernels themselves are in the cache on disk, where `measure` finds them.
            failures = dict(self._compile_ahead(configs, workers)) if len(configs) > 1 else {}
            for position, config in enumerate(configs):
                trial = failures.get(position) or self.measure(config)
                self.best = min(self.best, trial.latency)
                records.keep_trial(self.task, trial)
                advance(title if math.isinf(self.best) else f"{title}, best {self.best:.3f} ms")
                yield trial

    def _compile_ahead(self, configs: Sequence[dict[str, Any]], workers: int) -> Iterator[tuple[int, Trial]]:
        """Compiles all candidates in parallel; the trials of those that fail, by position."""
        if can_fork() and default_cache().keeps_files:
            jobs = [lambda config=config: self.compile(config) for config in configs]
            for position, state, detail in compile_all(jobs, workers, self.profile.timeout):
                yield position, Trial(configs[position], state, detail=detail)

    def measure(self, config: Mapping[str, Any]) -> Trial:
        """Compiles (or finds), checks and times one candidate, within the time limit."""
        outcome: list[Trial] = []
        # A kernel that hangs cannot be interrupted: its thread is left behind, and does not keep the process from ending.
        thread = threading.Thread(target=lambda: outcome.append(self._measure(config)), daemon=True)
        thread.start()
        thread.join(self.profile.timeout)
        return outcome[0] if outcome else Trial(config, "timeout", detail=f"it ran for more than {self.profile.timeout:g} s")

    def _measure(self, config: Mapping[str, Any]) -> Trial:
        key = ""
        try:
            kernel = self.compile(config)
            key = kernel.cache_key
            with on_device(self._device):
                try:
                    with modelled.surroundings(self.profile.backend):
                        self._check(kernel)
                except AssertionError as error:
                    return Trial(config, "wrong", None, str(error), key)
                latency, detail = self._latency(kernel)
        except Exception as error:  # a candidate that raises anything at all does not end the search
            return Trial(config, "failed", None, f"{type(error).__name__}: {error}", key)
        if math.isinf(latency):
            return Trial(config, "stopped", None, f"slower than {self.give_up_factor:g} times the best", key)
        return Trial(config, "measured", latency, detail, key)

    def _latency(self, kernel: JITKernel) -> tuple[float, str]:
        """Milliseconds of a candidate, and how they were found where that is not by a clock."""
        if self.profile.backend == modelled.MODEL:
            return modelled.milliseconds(kernel, self._arguments)
        return self._time(kernel, self.best * self.give_up_factor, self._arguments), modelled.note()

    def _time(self, call: Callable[..., Any], limit: float, arguments: Sequence[Any]) -> float:
        measured = do_bench(
            lambda: call(*arguments), self.profile.warmup, self.profile.rep, backend=self.profile.backend,
            early_stop_baseline=None if math.isinf(limit) else limit,
        )  # fmt: skip
        return cast(float, measured)  # a list where quantiles are asked for

    def _check(self, kernel: JITKernel) -> None:
        if self._inputs is None or not self.profile.cache_input_tensors:
            self._inputs = self._make_inputs(kernel)
            self._reference = None
        # A kernel may change its arguments, which may be the caller's own, and so may measuring it and the reference: each
        # candidate is to begin with the same.
        self._arguments = cloned(self._inputs)
        reference = self.profile.ref_prog
        unchecked = self.profile.skip_check or reference is None
        if unchecked and self.profile.backend == modelled.MODEL:
            return  # nothing needs the results, and a whole launch takes the simulator long
        if unchecked or reference is None:
            kernel(*self._arguments)
            return
        results = kernel(*self._arguments)
        if self._reference is None:
            copies = cloned(self._inputs)
            self._reference = reference(*copies), copies
            if self.profile.backend != modelled.MODEL:
                self.ref_latency = self._time(reference, math.inf, cloned(self._inputs))
        wanted, copies = self._reference
        if self.profile.manual_check_prog is not None:
            self.profile.manual_check_prog(results, wanted)
            return
        for result, want in compared(results, self._arguments, wanted, copies):
            torch_assert_close(
                result, want, self.profile.rtol, self.profile.atol, self.profile.max_mismatched_ratio, check_dtype=False
            )

    def _make_inputs(self, kernel: JITKernel) -> list[Any]:
        if self._captured is not None:
            return self._captured
        if self.profile.supply_prog is not None:
            made = self.profile.supply_prog(kernel.params)
            return list(made) if isinstance(made, (list, tuple)) else [made]
        return Profiler.of(kernel, self.profile.supply_type).inputs()

    def result(self, trials: Sequence[Trial]) -> AutotuneResult:
        """The fastest candidate's kernel."""
        return result_of(trials, self.compile, self.ref_latency)


def result_of(
    trials: Sequence[Trial], compile: Callable[[Mapping[str, Any]], JITKernel], ref_latency: float | None = None
) -> AutotuneResult:
    """The result of a search.

    Args:
        trials: every candidate's.
        compile: the kernel of a configuration.
        ref_latency: milliseconds of the reference program.

    Returns:
        The fastest measured candidate with its kernel.

    Raises:
        TuningError: no candidate was measured; lists why.
    """
    measured = [trial for trial in trials if trial.state == "measured"]
    if not measured:
        lines = [f"  {config_text(t.config)}: {t.state}: {_first_line(t.detail)}" for t in trials[:8]]
        raise TuningError("no configuration gave a kernel that runs and computes the correct result\n" + "\n".join(lines))
    best = min(measured, key=lambda trial: trial.latency)
    kernel, config = compile(best.config), dict(best.config)
    kernel.latency, kernel.config, kernel.ref_latency = best.latency, config, ref_latency
    return AutotuneResult(best.latency, config, ref_latency, kernel, tuple(trials))


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")
