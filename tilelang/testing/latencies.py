"""Latencies of a program's cases, as scripts named ``regression_*.py`` print them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

_latencies: dict[str, float] = {}


def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> None:
    """Calls a function that measures, and keeps what it gives.

    Args:
        func: gives a latency.
        name: of the case; by default that of the function's module.
        kwargs: of the call.
    """
    _latencies[(name or func.__module__).removeprefix("regression_")] = float(func(**kwargs))


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> None:
    """Runs the calling module's functions whose names begin with a prefix, and prints the latencies that they keep.

    Args:
        prefixes: of the names.
        verbose: whether to print what failed.

    Raises:
        SystemExit: a function failed; the others have run.
    """
    cases = {
        name: value for name, value in sys._getframe(1).f_globals.items() if callable(value) and name.startswith(tuple(prefixes))
    }
    _latencies.clear()
    failed = [name for name in sorted(cases) if not _runs(cases[name], verbose)]
    width = max(map(len, _latencies), default=0)
    for name, latency in _latencies.items():
        print(f"{name:{width}}  {latency:.6g}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def _runs(function: Callable[[], Any], verbose: bool) -> bool:
    try:
        function()
    except Exception:
        if verbose:
            traceback.print_exc()
        return False
    return True
