"""Control flow around kernels: what the host decides before each launch, and what a kernel has to find out itself.

The host knows sizes, integer arguments and the variables of its own loops. A condition over these skips launches, and a loop
over these repeats them (:attr:`tilelang.artifact.KernelLaunch.within`). Any other condition (over floats, or over what tensors
hold) is evaluated by every thread at the beginning of the kernel, in the arithmetic of the device; no kernel that it guards may
change what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilelang.artifact import Dim
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.ir.visit import variables, walk, walk_expr
from tilelang.transform.in_place import WRITE, accesses, sources_of
from tilelang.transform.substitute import substitute

_ARITHMETIC = {
    ir.Add: "add",
    ir.Sub: "sub",
    ir.Mul: "mul",
    ir.Min: "min",
    ir.Max: "max",
    ir.FloorDiv: "floordiv",
    ir.FloorMod: "floormod",
}
_COMPARISONS = {ir.LT: "lt", ir.LE: "le", ir.EQ: "eq", ir.NE: "ne"}
_SWAPPED = {ir.GT: "lt", ir.GE: "le"}
_LOGIC = {ir.And: "min", ir.Or: "max"}


def host_value(expr: Any, names: Mapping[Any, str]) -> Dim | None:
    """An integer expression as the host computes it in 64 bits; None where it cannot, or would compute something else.

    Args:
        expr: the expression; a condition is 0 or 1.
        names: the variables that the host knows, with their names there.
    """
    if isinstance(expr, int):
        return int(expr)
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return names.get(expr) if _is_signed(expr) else None
    if isinstance(expr, ir.Cast):
        return host_value(expr.value, names) if _widens(expr) else None
    if isinstance(expr, ir.Not):
        return _combined("eq", expr.a, ir.IntImm("int32", 0), names)
    for table, left, right in ((_COMPARISONS, "a", "b"), (_SWAPPED, "b", "a"), (_LOGIC, "a", "b")):
        if type(expr) in table:
            return _combined(table[type(expr)], getattr(expr, left), getattr(expr, right), names)
    if type(expr) in _ARITHMETIC and _is_signed(expr) and not _divides_by_unknown(expr):
        return _combined(_ARITHMETIC[type(expr)], expr.a, expr.b, names)
    return None


def _combined(name: str, a: Any, b: Any, names: Mapping[Any, str]) -> Dim | None:
    left, right = host_value(a, names), host_value(b, names)
    return None if left is None or right is None else (name, left, right)


def _is_signed(expr: Any) -> bool:
    return str(expr.ty).startswith(("int", "bool"))


def _widens(cast: Any) -> bool:
    """Whether a cast changes no value: from an integer to one that is at least as wide."""
    source, target = str(cast.value.ty), str(cast.ty)
    if not (_is_signed(cast) and _is_signed(cast.value)) or target == "bool":
        return False
    return source == "bool" or int(target[3:]) >= int(source[3:])


def _divides_by_unknown(expr: Any) -> bool:
    """A division by zero has a value in the language, and none on the host."""
    return isinstance(expr, (ir.FloorDiv, ir.FloorMod)) and not (isinstance(expr.b, ir.IntImm) and int(expr.b.value) != 0)


class HostValues:
    """What is known on the host before a kernel: its variables, values with names, and which of them read tensors.

    Attributes:
        names: the variables that the host knows, with their names there.
        loops: (variable, extent) of the host's loops around, which count from 0.
        values: values that the program names outside of kernels, over variables that the host or the kernels know.
    """

    def __init__(self, func: Any):
        self.names = {param: str(param.name) for param in func.params if not ir.is_buffer_var(param)}
        sizes = [size for param in func.params if ir.is_buffer_var(param) for size in (*param.shape, *param.strides)]
        self.names.update({var: str(var.name) for size in sizes for var in variables(size)})
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
            CompileError: it uses such a value.
        """
        for var in self._written.keys() & set(ir.tirx.analysis.undefined_vars(kernel)):
            changed = self._written[var] & self.tensors(var)
            if changed:
                raise CompileError(
                    f"{var.name} reads {sorted(str(b.name) for b in changed)[0]} before kernels that write it",
                    location_of(self._spans[var]),
                    hint="on CUDA each kernel reads what it needs: read it inside one, from what no earlier kernel writes",
                )

    def _root(self, buffer: Any) -> Any:
        while buffer in self._sources:
            buffer = self._sources[buffer]
        return buffer
