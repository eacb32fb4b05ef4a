"""Programs without a signature: their parameters come from a list, and a macro writes the body."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilelang.errors import Location, MisplacedError
from tilelang.frontend import builder as frontend
from tilelang.frontend.declare import EagerState, declared_parameter
from tilelang.frontend.program import finished_program
from tilelang.ir.span import user_location


class Builder:
    """Makes one program whose parameters are declared by calls::

    builder = Builder()
    with builder.prim_func("add_one"):
        tensors = [builder.arg(name, T.Tensor((n,), "float32")) for name in ("A", "B")]
        body(*tensors)  # a T.macro
    program = builder.get()
    """

    def __init__(self) -> None:
        self._builder = frontend.Builder()
        self._builder.eager = EagerState({})
        self._params: list[Any] = []
        self._program: Any = None

    @contextmanager
    def prim_func(self, name: str) -> Iterator[None]:
        """Everything called inside belongs to the program.

        Args:
            name: the program's name, which its kernel gets.
        """
        definition = user_location()
        with frontend.activate(self._builder):
            yield
        self._program = finished_program(name, definition or Location("<unknown>", 0), self._params, self._builder)

    def arg(self, name: str, value: Any) -> Any:
        """Declares the next parameter.

        Args:
            name: its name.
            value: what would be its annotation: ``T.Tensor(shape, dtype)``, or the dtype of a scalar.

        Returns:
            The tensor or the variable.
        """
        if frontend.active_builder() is not self._builder:
            raise MisplacedError("Builder.arg only works inside `with builder.prim_func(name)`", user_location())
        self._builder.unique(name)
        self._params.append(declared_parameter(name, value))
        return self._params[-1]

    def get(self) -> Any:
        """The program; ``with builder.prim_func(name)`` must have ended."""
        if self._program is None:
            raise MisplacedError("Builder.get only works after `with builder.prim_func(name)`", user_location())
        return self._program
