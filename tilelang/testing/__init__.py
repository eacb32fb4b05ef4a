"""Helpers for testing kernels with pytest."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from typing import Any

__all__ = [
    "main", "process_func", "regression", "requires_cdna", "requires_cuda", "requires_cuda_or_cdna", "requires_gfx",
    "requires_metal", "requires_rocm",
    "requires_cuda_compute_version", "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge", "requires_cuda_compute_version_gt", "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt", "requires_llvm", "requires_package", "set_random_seed", "torch_assert_close",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "torch_assert_close":
        from tilelang.utils.tensor import torch_assert_close

        return torch_assert_close
    if name in ("process_func", "regression"):
        from tilelang.testing import latencies

        return getattr(latencies, name)
    raise AttributeError(f"tilelang.testing has no {name!r}")


def main() -> None:
    """Runs the tests of the calling file: ``if __name__ == "__main__": tilelang.testing.main()``."""
    import pytest

    file = inspect.getsourcefile(sys._getframe(1))
    sys.exit(pytest.main([str(file), *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Seeds Python's, numpy's and torch's generators."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def _skip_unless(condition: Callable[[], bool], reason: str) -> Callable[..., Any]:
    """A decorator that skips a test where ``condition`` does not hold when it runs."""
    import functools

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            import pytest

            if not condition():
                pytest.skip(reason)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _compute_capability() -> tuple[int, int]:
    """Of the GPU, or of the architecture that the simulator stands in for; (0, 0) without either."""
    from tilelang.target.info import cuda_is_available, parse_target

    if not cuda_is_available():
        return (0, 0)
    return divmod(parse_target("cuda").sm, 10)


def requires_cuda(function: Callable[..., Any]) -> Callable[..., Any]:
    """Skips a test where neither a GPU nor the simulator runs CUDA kernels."""
    return _skip_unless(lambda: _compute_capability() > (0, 0), "needs a CUDA device or TILELANG_DEVICE=simulator")(function)


def requires_cuda_compute_version(major: int, minor: int = 0, mode: str = "ge") -> Callable[..., Any]:
    """Skips a test unless the device, or the one that the simulator stands in for, has a compute capability.

    Args:
        major, minor: the capability.
        mode: how the device's compares to it: ``"ge"``, ``"gt"``, ``"eq"``, ``"le"`` or ``"lt"``.

    Returns:
        The decorator.
    """
    import operator

    compare = getattr(operator, mode)
    return _skip_unless(
        lambda: _compute_capability() > (0, 0) and compare(_compute_capability(), (major, minor)),
        f"needs compute capability {mode} {major}.{minor}",
    )


def _versions(mode: str) -> Callable[..., Any]:
    return lambda major, minor=0: requires_cuda_compute_version(major, minor, mode)


requires_cuda_compute_version_ge = _versions("ge")
requires_cuda_compute_version_gt = _versions("gt")
requires_cuda_compute_version_eq = _versions("eq")
requires_cuda_compute_version_le = _versions("le")
requires_cuda_compute_version_lt = _versions("lt")


def requires_llvm(function: Callable[..., Any]) -> Callable[..., Any]:
    """Every installation has LLVM, so the test always runs."""
    return function


def requires_cuda_or_cdna(function: Callable[..., Any]) -> Callable[..., Any]:
    """As :func:`requires_cuda`."""
    return requires_cuda(function)


def _unsupported(what: str) -> Callable[..., Any]:
    def requires(function: Callable[..., Any]) -> Callable[..., Any]:
        return _skip_unless(lambda: False, f"{what} is not a target here")(function)

    requires.__doc__ = f"Skips a test: {what} is not a target here."
    return requires


requires_rocm, requires_cdna, requires_metal = _unsupported("ROCm"), _unsupported("ROCm"), _unsupported("Metal")


def requires_gfx(*archs: str) -> Callable[..., Any]:
    """Skips a test of AMD architectures, which are not targets here."""
    return requires_rocm


def requires_package(*names: str) -> Callable[..., Any]:
    """Skips a test unless every named package is installed."""
    from importlib.util import find_spec

    return _skip_unless(lambda: all(find_spec(name) for name in names), f"needs {', '.join(names)}")
