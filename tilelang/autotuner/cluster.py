"""A search on an existing engine: any ``concurrent.futures.Executor``, for example ``dask.distributed.Client.get_executor()``.

Each candidate is compiled, checked and measured by a worker; with the shared tier of the cache
(``TILELANG_CACHE_URL``) the winner's kernel is there for everyone. Workers should be machines of one kind: latencies of
different devices do not compare.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from typing import Any

from tilelang.autotuner.configs import Configs, configured, expand
from tilelang.autotuner.records import Trial
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult, result_of
from tilelang.errors import TuningError

Job = tuple[str, str, tuple, dict[str, Any], dict[str, Any], dict[str, Any]]


def tune_on(
    executor: Executor,
    function: Any,
    configs: Configs,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    profile: Mapping[str, Any] | None = None,
    progress: Callable[[Trial], None] = lambda trial: None,
) -> AutotuneResult:
    """Searches ``configs`` for the fastest kernel of a factory, one candidate a task.

    Args:
        executor: where candidates run.
        function: a ``@tilelang.jit`` factory at the top level of a module that workers can import.
        configs: see :func:`~tilelang.autotuner.configs.expand`.
        args, kwargs: the factory's other arguments; they travel to the workers.
        profile: fields of :class:`~tilelang.autotuner.ProfileArgs`; they travel too.
        progress: called with each trial as it comes in.

    Returns:
        The fastest candidate, its kernel compiled or fetched here.

    Raises:
        TuningError: no candidate works, or the function cannot be imported by name.
    """
    module, name = _address(function)
    keywords = dict(kwargs or {})
    candidates = expand(configs, args, keywords)
    jobs = [(module, name, tuple(args), keywords, dict(profile or {}), config) for config in candidates]
    futures = [executor.submit(measure, job) for job in jobs]
    trials = []
    for future in as_completed(futures):
        trials.append(future.result())
        progress(trials[-1])
    return result_of(trials, lambda config: configured(function, args, keywords, config))


def measure(job: Job) -> Trial:
    """What a worker does: one candidate's trial."""
    module, name, args, kwargs, profile, config = job
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        function = getattr(function, part)
    tuner = AutoTuner(function, [config]).set_kernel_parameters(args, kwargs).set_profile_args(**profile)
    try:
        return tuner.run(num_workers=1).trials[0]
    except TuningError as error:
        return Trial(config, "failed", detail=error.message.splitlines()[-1].strip())


def _address(function: Any) -> tuple[str, str]:
    module, name = function.__module__, function.__qualname__
    if module == "__main__" or "<locals>" in name:
        raise TuningError(f"{name} cannot be imported by workers", hint="put it at the top level of a module of its own")
    return module, name
