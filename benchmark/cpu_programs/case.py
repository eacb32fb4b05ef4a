"""One row of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Case:
    """A program, what torch does in its place, and what bounds both.

    Attributes:
        name: the operation, with its type.
        size: the shapes, as text.
        program: the tile program.
        tensors: its arguments; the last ones are the results.
        theirs: torch's own, which returns the result, or as many as there are.
        resource: what the row needs most of: operations (``float32``, ``bfloat16``, ``int8``) or memory (``read``, ``copy``,
            ``sum``).
        amount: how many operations, or bytes.
        tolerance: the relative error allowed, and the absolute one relative to the largest element.
        exponentials: how many there are, where they may bind the row in place of its memory.
    """

    name: str
    size: str
    program: Any
    tensors: tuple[torch.Tensor, ...]
    theirs: Callable[[], torch.Tensor | tuple[torch.Tensor, ...]]
    resource: str
    amount: float
    tolerance: float = 1e-5
    exponentials: int = 0

    def check(self, kernel: Callable[..., Any]) -> None:
        """Compares the results once.

        Raises:
            AssertionError: they differ.
        """
        kernel(*self.tensors)
        wanted = self.theirs()
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for want, got in zip(wanted, self.tensors[-len(wanted) :], strict=True):
            want = want.to(got.dtype).reshape(got.shape)
            largest = float(want.float().abs().max())
            torch.testing.assert_close(got, want, rtol=self.tolerance, atol=self.tolerance * largest)


def nbytes(*tensors: torch.Tensor) -> int:
    """The bytes of all tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
