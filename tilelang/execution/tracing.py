"""Marks on functions for the tracer of ``torch.compile``, which are set without loading torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def run_while_tracing(function: F) -> F:
    """Have the tracer run ``function`` instead of reading it, and take what it returns for a constant.

    This is ``torch.compiler.assume_constant_result`` without the import of the tracer, which that function makes.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function
