"""Functions that run with the kernel cache off."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def without_cache(function: Callable[..., Any], cache: Callable[[], Any]) -> Callable[..., Any]:
    """A function that disables a cache while it runs ``function``.

    Args:
        function: what is run.
        cache: gives the cache; a fork has another one than its parent.

    Returns:
        A function of the same parameters and result; afterwards the cache is as it was.
    """

    @functools.wraps(function)
    def uncached(*args: Any, **kwargs: Any) -> Any:
        used = cache()
        before = used.is_enabled_here
        used.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if before:
                used.enable()

    return uncached
