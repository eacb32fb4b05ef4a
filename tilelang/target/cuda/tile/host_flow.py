"""Control flow around kernels: what the host decides before each launch, and what a kernel has to find out itself.

The host knows sizes, integer arguments and the variables of its own loops (:mod:`tilelang.ir.host_value`). A condition over
these skips launches, and a loop over these repeats them (:attr:`tilelang.artifact.KernelLaunch.within`). Any other condition
(over floats, or over what tensors hold) is evaluated by every thread at the beginning of the kernel, in the arithmetic of the
device; no kernel that it guards may change what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.host_value import host_names
from tilelang.ir.span import location_of
from tilelang.ir.visit import walk, walk_expr
from tilelang.transform.in_place import WRITE, accesses, sources_of
from tilelang.transform.substitute import substitute


class HostValues:
    """What is known on the host before a kernel: its variables, values with names, and which of them read tensors.

    Attributes:
        names: the variables that the host knows, with their names there.
        loops: (variable, extent) of the host's loops around, which count from 0.
        values: values that the program names outside of kernels, over variables that the host or the kernels know.
    """

    def __init__(self, func: Any):
        self.names = host_names(func)
        self.loops: tuple[tuple[Any, Any], ...] = ()
        self.values: dict[Any, Any] = {}
        self._sources = sources_of(func.body)
        self._spans: dict[Any, Any] = {}
        self._written: dict[Any, set[Any]] = {}

    @contextmanager
    def inside(self, loop: tuple[Any, Any], values: Mapping[Any, Any]) -> Iterator[None]:
        """The body of a loop of the host: its (variable, extent), and what is known in it."""
        outer = self.loops, self.names, self.values
        self.loops, self.names = (*self.loops, loop), {**self.names, loop[0]: str(loop[0].name)}
        self.values = {**self.values, **values}
        yield
        self.loops, self.names, self.values = outer

    def name(self, stmt: Any) -> None:
        """Notes the value of a ``Bind``."""
        self.values[stmt.var] = self.resolved(stmt.value)
        if self.tensors(stmt.value):
            self._spans[stmt.var] = stmt.span
            # From here on, what kernels write is collected for this value: `check_use` then knows what has changed since it was
            # taken.
            self._written[stmt.var] = set()

    def resolved(self, expr: Any) -> Any:
        """``expr`` without the names of values."""
        return expr if isinstance(expr, int) else substitute(expr, self.values)

    def tensors(self, expr: Any) -> set[Any]:
        """The tensors whose elements an expression reads."""
        return {self._root(part.source) for part in walk_expr(self.resolved(expr)) if isinstance(part, ir.TensorLoad)}

    def will_write(self, stmt: Any) -> set[Any]:
        """Notes that ``stmt`` runs, for the values that are named already; gives the tensors that it writes."""
        written = {self._root(b) for each in walk(stmt) for b, kind in accesses(each) if kind == WRITE}
        for tensors in self._written.values():
            tensors |= written
        return written

    def check_use(self, kernel: Any) -> None:
        """Refuses a kernel that would read a tensor again, for a value that the program took before it changed.

        Raises:
            UnsupportedError: it uses such a value.
        """
        for var in self._written.keys() & set(ir.tirx.analysis.undefined_vars(kernel)):
            changed = self._written[var] & self.tensors(var)
            if changed:
                raise UnsupportedError(
                    f"{var.name} reads {sorted(str(b.name) for b in changed)[0]} before kernels that write it",
                    location_of(self._spans[var]),
                    hint="on CUDA each kernel reads what it needs: read it inside one, from what no earlier kernel writes",
                )

    def _root(self, buffer: Any) -> Any:
        while buffer in self._sources:
            buffer = self._sources[buffer]
        return buffer
