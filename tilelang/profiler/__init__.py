"""Checking and measuring a compiled kernel: :class:`Profiler` and :func:`do_bench`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tilelang.artifact import KernelParam, dim_names
from tilelang.attributes import attributes
from tilelang.ignored import ignored
from tilelang.keywords import near_keywords
from tilelang.profiler.bench import device_of, do_bench
from tilelang.utils.tensor import TensorSupplyType, extent, get_tensor_supply, torch_assert_close

__getattr__ = attributes(__name__, {"tilelang.profiler.bench": "bench_with_wall suppress_stdout_stderr"})

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


DEFAULT_SIZE = 128
"""Dynamic sizes of made-up inputs that nothing gives."""


@dataclass
class Profiler:
    """Tries a kernel on made-up inputs.

    Attributes:
        kernel: what is called: takes the inputs, returns the outputs.
        params: the kernel's parameters.
        result_idx: positions of the parameters that a call allocates and returns.
        supply_type: what the inputs hold.
        device: where they are.
    """

    kernel: Callable[..., Any]
    params: Sequence[KernelParam]
    result_idx: Sequence[int]
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    device: Any = "cpu"

    @property
    def func(self) -> Callable[..., Any]:
        """What is called."""
        return self.kernel

    @property
    def adapter(self) -> Callable[..., Any]:
        """What is called."""
        return self.kernel

    @staticmethod
    def of(kernel: Any, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> Profiler:
        """The profiler of a ``JITKernel``."""
        on_gpu = "cuda" in str(kernel.artifact.target) and torch.cuda.is_available()
        return Profiler(kernel, kernel.artifact.params, kernel.artifact.out_idx, supply_type, "cuda" if on_gpu else "cpu")

    def inputs(self, sizes: Mapping[str, int] | None = None, with_output: bool = False) -> list[Any]:
        """One argument for each parameter that a caller passes.

        Args:
            sizes: the dynamic variables; what is left out is :data:`DEFAULT_SIZE`.
            with_output: also one for each parameter that a call allocates.
        """
        names = dim_names(dim for param in self.params for dim in (*param.shape, *(param.strides or ())))
        supply = get_tensor_supply(self.supply_type, self.device, {**dict.fromkeys(names, DEFAULT_SIZE), **(sizes or {})})
        return [supply(p) for i, p in enumerate(self.params) if with_output or i not in self.result_idx]

    @near_keywords
    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:
        """Asserts that the kernel's results agree with those of ``reference_program`` on the same inputs.

        A kernel without outputs is compared by the tensors that it changed, against copies that the reference changed or
        against what the reference returns.

        Args:
            reference_program: a function of the kernel's inputs.
            input_tensors: what is passed, instead of made-up inputs.
            atol, rtol: an element agrees where it is that close.
            max_mismatched_ratio: share of elements that may disagree.
            dynamic_symbolic_constraints: dynamic sizes of made-up inputs.

        Raises:
            AssertionError: they differ; see :func:`~tilelang.utils.tensor.torch_assert_close`.
        """
        inputs = list(input_tensors) if input_tensors is not None else self.inputs(dynamic_symbolic_constraints)
        copies = cloned(inputs)
        wanted = reference_program(*copies)
        results = self.kernel(*inputs)
        for position, (result, want) in enumerate(compared(results, inputs, wanted, copies)):
            torch_assert_close(
                result, want, rtol=rtol, atol=atol, max_mismatched_ratio=max_mismatched_ratio, check_dtype=False,
                check_device=False, base_name=f"kernel output {position}", ref_name="reference",
            )  # fmt: skip

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], None] | None = None,
    ) -> None:
        """Compares the kernel's results with a reference's by a function of the caller.

        Args:
            reference_program: a function of the kernel's inputs.
            input_tensors: what is passed, instead of made-up inputs.
            manual_check_prog: takes the kernel's and the reference's results as lists, raises where they disagree; without it
                nothing is run.
        """
        inputs = list(input_tensors) if input_tensors is not None else self.inputs()
        if manual_check_prog is not None:
            copies = cloned(inputs)  # a kernel may change its arguments
            manual_check_prog(_as_list(self.kernel(*inputs)), _as_list(reference_program(*copies)))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Asserts that ``repeat`` calls on the same inputs give the same bits."""
        inputs = self.inputs()
        first = _as_list(self.kernel(*inputs))
        for _ in range(repeat):
            for expected, got in zip(first, _as_list(self.kernel(*inputs))):
                assert torch.equal(expected, got), "results of two calls on the same inputs differ"

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """One call on made-up inputs, of the kernel or of ``func``."""
        return (func or self.kernel)(*self.inputs())

    @near_keywords
    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: Any = None,
        early_stop_baseline: float | None = None,
        profiler: str | None = None,
    ) -> float | list[float]:
        """Milliseconds of a call of the kernel.

        Args:
            func: measured instead of the kernel, on the same inputs.
            warmup, rep: milliseconds to spend before and while measuring.
            n_warmup, n_repeat: numbers of calls instead; 0 leaves them to ``warmup`` and ``rep``.
            input_tensors: what is passed, instead of made-up inputs.
            backend, quantiles, return_mode, early_stop_baseline: as for :func:`.do_bench`.
            dynamic_symbolic_constraints: the dynamic sizes of made-up inputs, by name.
            profiler: has no effect; a value warns.
            device: where the call runs; by default the kernel's.

        Returns:
            Milliseconds; a list of them where several quantiles are asked for.

        Raises:
            ValueError: unknown ``return_mode`` or ``backend``.
        """
        ignored("do_bench", profiler=profiler)
        inputs = list(input_tensors) if input_tensors is not None else self.inputs(dynamic_symbolic_constraints)
        call = func or self.kernel
        place = device_of(inputs) if self.device == "cuda" else self.device
        return do_bench(
            lambda: call(*inputs), warmup, rep, n_warmup, n_repeat, quantiles, backend=backend, return_mode=return_mode,
            device=place if device is None else device, early_stop_baseline=early_stop_baseline,
        )  # fmt: skip

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.kernel(*args, **kwargs)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (tuple, list)) else [value]


def cloned(arguments: Sequence[Any]) -> list[Any]:
    """Arguments that a call may change without changing the given ones."""
    return [_clone(value) if isinstance(value, torch.Tensor) else value for value in arguments]


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which torch's own has only where the elements leave no gaps."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return tensor.clone()
    memory = tensor.as_strided((extent(tensor.shape, tensor.stride()),), (1,)).clone()
    return memory.as_strided(tensor.shape, tensor.stride())


def compared(results: Any, inputs: Sequence[Any], wanted: Any, copies: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The results of a kernel, each with what a reference gives for it.

    Args:
        results: what the kernel returned. Where that is nothing, its results are the last of its arguments, as many as the
            reference returned.
        inputs: the tensors and numbers that the kernel was called with.
        wanted: what the reference returned. Where neither returned anything, all tensors that they were called with are compared.
        copies: what the reference was called with.

    Returns:
        Pairs of a result and what is wanted.

    Raises:
        AssertionError: there are not as many of one as of the other.
    """
    got, wanted = _as_list(results), _as_list(wanted)
    if not got:
        got = [value for value in inputs if isinstance(value, torch.Tensor)]
        got = got[-len(wanted) :] if wanted else got
        wanted = wanted or [value for value in copies if isinstance(value, torch.Tensor)]
    if len(got) != len(wanted):
        raise AssertionError(f"the kernel gives {len(got)} tensors, the reference {len(wanted)}")
    return list(zip(got, wanted))
