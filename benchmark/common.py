"""Running snippets in several Python environments, interleaved, and printing medians."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def arguments(description: str) -> argparse.Namespace:
    """The options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--tilelang", help="Python of an environment with the peer tilelang")
    parser.add_argument("--triton", help="Python of an environment with triton")
    parser.add_argument("--runs", type=int, default=9, help="processes of each kind")
    return parser.parse_args()


def run(python: str, code: str, env: Mapping[str, str] | None = None) -> float:
    """Seconds (or whatever number) that ``code`` prints last, in a new process that sees this source tree if it is ours."""
    full = {**os.environ, **(env or {})}
    full.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have byte code, so the source tree has to have it, too
    if python == sys.executable:
        full["PYTHONPATH"] = str(ROOT)
    # Elsewhere than in the source tree, which would otherwise hide a peer of the same name.
    result = subprocess.run(
        [python, "-c", code], env=full, capture_output=True, text=True, check=False, cwd=tempfile.gettempdir()
    )
    if result.returncode:
        raise RuntimeError(f"{python} failed:\n{result.stderr[-2000:]}")
    return float(result.stdout.split()[-1])


def measure(kinds: Mapping[str, tuple[str, str, Mapping[str, str]]], runs: int) -> dict[str, float]:
    """The median of each kind, (python, code, environment) by label; the kinds take turns."""
    samples: dict[str, list[float]] = {label: [] for label in kinds}
    for _ in range(runs):
        for label, (python, code, env) in kinds.items():
            samples[label].append(run(python, code, env))
    return {label: statistics.median(values) for label, values in samples.items()}


def table(title: str, rows: Mapping[str, float], unit: str, ours: str) -> None:
    """Prints the medians, each with its ratio to ours."""
    print(f"\n{title}")
    for label, value in rows.items():
        ratio = "" if label == ours else f"   {value / rows[ours]:.2f} x ours" if rows[ours] > 0 else ""
        print(f"  {label:<44} {value:10.4g} {unit}{ratio}")


def emit(value: object) -> None:
    """Prints a machine-readable line."""
    print(json.dumps(value))
