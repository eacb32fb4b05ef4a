"""Kernels with dynamic sizes: the schedule that is best for the sizes of the call.

gemm = tilelang.autotuner.DispatchedKernel(factory, configs={"block_m": [32, 128]}, variables=("m",))
for m in (16, 4096):
    gemm.tune((m,), lambda m: (torch.randn(m, 1024), weights))
c = gemm(a, weights)          # picks the schedule by a's first size
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.autotuner import records
from tilelang.autotuner.capture import set_autotune_inputs
from tilelang.autotuner.configs import Configs, configured
from tilelang.autotuner.tuner import AutoTuner, AutotuneResult
from tilelang.cache.dispatch import DispatchTable, Row, Sizes
from tilelang.cache.kernel_cache import default_cache
from tilelang.errors import TuningError
from tilelang.jit.function import JitFunction
from tilelang.jit.kernel import JITKernel


class DispatchedKernel:
    """A kernel factory whose tunable arguments follow from the dynamic sizes of each call.

    Args:
        function: a ``@tilelang.jit`` factory whose program has dynamic variables.
        configs: what to try, see :func:`~tilelang.autotuner.configs.expand`.
        variables: names of the dynamic variables that decide.
        args, kwargs: the factory's other arguments.
        profile: fields of :class:`~tilelang.autotuner.ProfileArgs`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        configs: Configs,
        variables: Sequence[str],
        args: tuple = (),
        kwargs: Mapping[str, Any] | None = None,
        profile: Mapping[str, Any] | None = None,
    ):
        function = function if isinstance(function, JitFunction) else JitFunction(function, {})
        self.function = function.pinned()  # the table is that of one target
        self.configs = configs
        self.variables = tuple(variables)
        self.arguments = (tuple(args), dict(kwargs or {}))
        self.profile = dict(profile or {})
        self.table = self._open()
        self._places: tuple[tuple[int, int], ...] | None = None

    def tune(self, sizes: Sizes, make_inputs: Callable[..., Sequence[Any]], **search: Any) -> AutotuneResult:
        """Searches the best configuration for ``sizes``; the winner goes into the dispatch table.

        Args:
            sizes: values of the variables.
            make_inputs: takes the sizes, returns the kernel's inputs.
            search: keyword arguments of :meth:`AutoTuner.run`.

        Returns:
            The search's result.

        Raises:
            TuningError: no configuration works.
        """
        tuner = AutoTuner(self.function, self.configs).set_kernel_parameters(*self.arguments)
        tuner.set_profile_args(**self.profile)
        with set_autotune_inputs(*make_inputs(*sizes)):
            found = tuner.run(**search)
        self.table.put(Row(tuple(sizes), found.kernel.cache_key, found.config, found.latency / 1e3))
        return found

    def __call__(self, *tensors: Any) -> Any:
        """What the kernel of the best schedule for these tensors returns."""
        return self.kernel(self._sizes(tensors))(*tensors)

    def kernel(self, sizes: Sizes) -> JITKernel:
        """The kernel that calls of these sizes take.

        Raises:
            TuningError: nothing was tuned yet.
        """
        row = self.table.choose(tuple(sizes))
        if row is None:
            raise TuningError(f"the dispatch table of {self.table.name} is empty", hint="call tune(sizes, make_inputs) first")
        args, kwargs = self.arguments
        return configured(self.function, args, kwargs, row.config)

    def _sizes(self, tensors: Sequence[Any]) -> Sizes:
        if self._places is None:
            any_row = next(iter(self.table.rows), (0,) * len(self.variables))
            self._places = _places(self.kernel(any_row), self.variables)
        return tuple(tensors[position].shape[axis] for position, axis in self._places)

    def _open(self) -> DispatchTable:
        options, _ = self.function.resolved()
        args, kwargs = self.arguments
        plain = (*options.plain(), "dispatch", self.variables)
        task = records.make_task(self.function.function, args, kwargs, plain, ())
        cache = default_cache()
        disk = cache.disk if cache.keeps_files else None
        return DispatchTable(disk, task.key, task.name, options.target.text, self.variables)


def _places(kernel: JITKernel, variables: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """For each variable, the (input, axis) that binds it."""
    inputs = [param for position, param in enumerate(kernel.params) if position not in kernel.artifact.out_idx]
    found = {
        size: (position, axis)
        for position, param in reversed(list(enumerate(inputs)))
        for axis, size in reversed(list(enumerate(param.shape)))
    }
    missing = [name for name in variables if name not in found]
    if missing:
        raise TuningError(f"{kernel.artifact.name} has no dynamic size {missing[0]!r} in the shapes of its inputs")
    return tuple(found[name] for name in variables)
