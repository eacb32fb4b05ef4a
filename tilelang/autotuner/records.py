"""Results of a search in the cache's index, so that an interrupted one goes on and a finished one is not repeated."""

from __future__ import annotations

import contextlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilelang import env
from tilelang.autotuner.configs import config_digest, config_text
from tilelang.cache.kernel_cache import default_cache
from tilelang.cache.keys.source_key import FunctionTracker
from tilelang.fingerprint import Describer, Unfaithful
from tilelang.fingerprint.canonical import digest

STATES = ("measured", "failed", "wrong", "timeout", "stopped")
"""What became of a candidate: measured; it did not compile or run; wrong results; too slow to compile or run; given up early."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One candidate's result.

    Attributes:
        config: the configuration.
        state: one of :data:`STATES`.
        milliseconds: latency of a measured one.
        detail: the error of any other; of a measured one, what said so if no clock did.
        kernel_key: the kernel, where it compiled.
    """

    config: Mapping[str, Any]
    state: str
    milliseconds: float | None = None
    detail: str = ""
    kernel_key: str = ""

    @property
    def latency(self) -> float:
        """Milliseconds of a measured candidate, infinity of any other."""
        return self.milliseconds if self.state == "measured" and self.milliseconds is not None else math.inf


@dataclass(frozen=True, slots=True)
class Task:
    """What is searched: its key in the index, or why its results are not kept."""

    key: str | None
    name: str
    reason: str = ""


def make_task(function: Callable[..., Any], args: tuple, kwargs: dict, options: tuple, callbacks: tuple) -> Task:
    """The task of tuning ``function`` for these arguments.

    Args:
        function: the factory.
        args, kwargs: its arguments, without the tunable ones.
        options: everything else that decides kernels and measurements, as plain values.
        callbacks: the user's reference, supply and check functions (None where not given); where one cannot be fingerprinted,
            results are not kept.

    Returns:
        The task, with its key in the index or the reason why it has none.
    """
    name = function.__qualname__
    source = FunctionTracker(function, lambda: options).source_key(args, kwargs)
    if source.digest is None:
        return Task(None, name, source.reason)
    describer = Describer(trusting=True)
    try:
        describer.value(tuple(callbacks))
    except Unfaithful as error:
        return Task(None, name, str(error))
    return Task(digest("tilelang-tuning-1", device_name(), source.digest, describer.digest()), name)


def device_name() -> str:
    """The machine's device, as its results hold for no other."""
    import torch

    if torch.cuda.is_available():
        name = torch.cuda.get_device_name()
        return f"{name}, simulated" if env.on_simulator() else name
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        model = platform.processor()
    return f"{platform.machine()} {model} {torch.get_num_threads()} threads"


@contextlib.contextmanager
def only_one(task: Task) -> Iterator[None]:
    """Holds a task against other processes and threads: each candidate is measured once, and measured alone."""
    cache = default_cache()
    if task.key is None or not cache.keeps_files:
        yield
        return
    with cache.disk.only_one(task.key, patience=math.inf):
        yield


def load_trials(task: Task) -> dict[str, Trial]:
    """Earlier results of a task, by configuration digest."""
    cache = default_cache()
    if task.key is None or not cache.keeps_files:
        return {}
    return {
        config: Trial(json.loads(values), state, None if seconds is None else seconds * 1e3, detail, kernel)
        for config, values, state, seconds, detail, kernel in cache.disk.index.trials(task.key)
    }


def keep_trial(task: Task, trial: Trial) -> None:
    """Writes one result to the index."""
    cache = default_cache()
    if task.key is None or not cache.keeps_files:
        return
    cache.disk.index.put_trial(
        {
            "task": task.key,
            "config": config_digest(trial.config),
            "values": config_text(trial.config),
            "state": trial.state,
            "seconds": None if trial.milliseconds is None else trial.milliseconds / 1e3,
            "detail": trial.detail[:2000],
            "kernel_key": trial.kernel_key,
            "recorded": time.time(),
        }
    )
