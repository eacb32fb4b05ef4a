"""The readable summary of a search, ``scripts/<name>/<hash>/summary.txt``, and links to its kernels."""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.autotuner.configs import config_text
from tilelang.autotuner.records import Task, Trial
from tilelang.cache.command.units import counted
from tilelang.cache.entries import scripts
from tilelang.cache.kernel_cache import default_cache

SEARCHED = 1


def leave(task: Task, trials: Sequence[Trial]) -> None:
    """Writes the summary of a search whose results are kept; marks and links its kernels."""
    cache = default_cache()
    if task.key is None or not cache.keeps_files or not cache.disk.keeps_index:
        return
    compiled = [trial.kernel_key for trial in trials if trial.kernel_key]
    linked = set(scripts.links(cache.root, task.name, task.key).values())
    for key in dict.fromkeys(compiled):
        if key not in linked:
            scripts.link(cache.root, task.name, task.key, key)
    cache.disk.index.set_space(compiled, SEARCHED)
    numbers = {key: number for number, key in scripts.links(cache.root, task.name, task.key).items()}
    scripts.write(cache.root, task.name, task.key, scripts.SUMMARY, text(task, trials, numbers))


def text(task: Task, trials: Sequence[Trial], numbers: dict[str, str]) -> str:
    """The summary: candidates from the fastest to those that failed.

    Args:
        task: whose name heads the text.
        trials: every candidate's.
        numbers: kernel key -> number of its link.

    Returns:
        A line for each candidate, below a heading.
    """
    ranked = sorted(trials, key=lambda trial: (trial.milliseconds is None, trial.milliseconds or 0.0))
    lines = [f"# {task.name}: {counted(len(trials), 'candidate')}", "program latency_ms state config"]
    for trial in ranked:
        latency = "-" if trial.milliseconds is None else f"{trial.milliseconds:.6f}"
        number = numbers.get(trial.kernel_key, "-")
        detail = f"  # {trial.detail.splitlines()[0]}" if trial.detail else ""
        lines.append(f"{number} {latency} {trial.state} {config_text(trial.config)}{detail}")
    return "\n".join(lines) + "\n"
