"""A program as the interpreter runs it: its arguments, and one run of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilelang.dtypes import canonical
from tilelang.errors import ArgumentCountError, ArgumentValueError, PassFailedError, TileLangError
from tilelang.interpreter import asynchronous, atomics, control, matrices, scalars, statements, threads  # noqa: F401  (each registers what it knows)
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.findings import Finding, Findings
from tilelang.interpreter.memory import Storage, View, extent
from tilelang.interpreter.numbers import constant, element
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.span import location_of
from tilelang.ir.visit import children, statement_exprs, variables, walk
from tilelang.recursion import PASSES, recursion
from tilelang.sizes import solved

Watch = Callable[[Lanes, Any], None]


_THREADS, _NUMBERS = 1 << 16, 1 << 30
"""More threads than a block has; numbers for iterations, of 32 bits, before they are used again."""


class Run:
    """One run of a program.

    Attributes:
        name: the program's.
        checks: whether findings are looked for.
        findings: what was found.
        clock: the number of the interval of accesses that began last.
        progress: counts what others may wait for.
        strands: how many groups of threads branches have made.
        manual: whether the program orders its threads itself (``tl.disable_thread_storage_sync``).
        numbers: how many numbers iterations have taken, that are no thread's.
        watches: called at each statement; ``watching`` is set while they are.
        span: of the statement that began last.
    """

    def __init__(self, name: str, checks: bool, watches: Sequence[Watch], manual: bool = False):
        self.name = name
        self.checks = checks
        self.findings = Findings()
        self.clock = 0
        self.progress = 0
        self.strands = 0
        self.manual = manual
        self.numbers = 0
        self.watches = watches
        self.watching = False
        self.span: Any = None

    def take_numbers(self, count: int) -> int:
        """The first of ``count`` numbers of lanes that stand for no thread, and for no other loop's iterations of late."""
        if self.numbers + count > _NUMBERS:
            self.numbers = 0
        self.numbers += count
        return _THREADS + self.numbers - count

    def observe(self, x: Lanes, span: Any) -> None:
        """Shows a statement that begins to those who watch."""
        self.watching = True
        for watch in self.watches:
            watch(x, span)
        self.watching = False


class Program:
    """A ``PrimFunc`` of tile IR that can be run any number of times.

    Attributes:
        name: its name.
        params: its parameters, TVM's variables.
        buffers: each buffer of the program with the slot of its view.
        manual: whether it orders its threads itself, as with ``tl.disable_thread_storage_sync``.
    """

    @recursion(PASSES)
    def __init__(self, func: Any, manual: bool = False):
        self.manual = manual
        self.name = str(func.attrs["global_symbol"]) if func.attrs and "global_symbol" in func.attrs else "main"
        self._func = func
        self.params = list(func.params)
        self._compiler = c = Compiler(func)
        self._slots = [c.view(p) if ir.is_buffer_var(p) else c.slot(p) for p in self.params]
        self._sizes = [self._dimensions(p) if ir.is_buffer_var(p) else ([], []) for p in self.params]
        self._body = c.step(func.body)

    @property
    def buffers(self) -> Mapping[Any, int]:
        """Buffer -> where its view is."""
        return self._compiler._views

    @property
    def variables(self) -> Mapping[Any, int]:
        """Variable -> where its value is."""
        return self._compiler._slots

    def loop_variables(self, line: int) -> Mapping[Any, int]:
        """The variables of the loops around the statements of a line, and where their values are."""
        found: dict[Any, int] = {}

        def visit(stmt: Any, around: tuple[Any, ...]) -> None:
            if stmt.span is not None and int(stmt.span.line) == line and not isinstance(stmt, ir.AttrStmt):
                found.update((var, self.variables[var]) for var in around)
            inner = (*around, stmt.loop_var) if isinstance(stmt, ir.For) else around
            for child in children(stmt):
                visit(child, inner)

        visit(self._func.body, ())
        return found

    def lines_that_mention(self, name: str) -> set[int]:
        """The lines of the statements that read or write a buffer or variable."""
        found = set()
        for stmt in walk(self._func.body):
            own = [stmt.loop_var] if isinstance(stmt, ir.For) else [stmt.var] if isinstance(stmt, ir.Bind) else []
            names = {str(var.name) for expr in (*own, *statement_exprs(stmt)) for var in variables(expr)}
            if name in names and not isinstance(stmt, ir.AttrStmt) and stmt.span is not None:
                found.add(int(stmt.span.line))
        return found

    def _dimensions(self, buffer: Any) -> tuple[list[Any], list[Any]]:
        """The sizes and strides of a parameter: variables to bind, or functions."""
        c = self._compiler

        def part(expr: Any) -> Any:
            return (expr, c.slot(expr)) if isinstance(expr, ir.Var) else (None, compiled(c, expr))

        return [part(size) for size in buffer.shape], [part(stride) for stride in buffer.strides]

    @recursion(PASSES)
    def run(
        self, *arguments: Any, checks: bool = True, watches: Sequence[Watch] = (), fresh: Sequence[int] = ()
    ) -> list[Finding]:
        """Runs the program once.

        Args:
            arguments: one a parameter, in order: CPU tensors (written in place), numbers, addresses; None where nothing uses it.
            checks: look for findings.
            watches: called with the state and the span of each statement that begins.
            fresh: positions of the tensors that hold no values yet.

        Returns:
            What was found.

        Raises:
            ArgumentError: the arguments do not fit the parameters.
            KernelFailedError: a ``T.device_assert`` failed.
        """
        if len(arguments) != len(self.params):
            names = ", ".join(str(param.name) for param in self.params)
            raise ArgumentCountError(self.name, f"{len(arguments)} arguments instead of {len(self.params)}", names)
        run, c = Run(self.name, checks, watches, self.manual), self._compiler
        x = Lanes(run, None, 1, [None] * c.slots, [None] * c.views)
        with np.errstate(all="ignore"):
            self._bind(x, arguments, set(fresh))
            self._execute(x)
        return run.findings.all()

    def _execute(self, x: Lanes) -> None:
        try:
            self._body.run(x)
        except TileLangError as error:
            raise error.at(location_of(x.run.span)) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A watch of the user failed, not the interpreter.
            if x.run.watching:
                raise
            raise PassFailedError("interpret", error).at(location_of(x.run.span)) from error

    def _bind(self, x: Lanes, arguments: Sequence[Any], fresh: set[int]) -> None:
        for param, slot, argument in zip(self.params, self._slots, arguments):
            if not ir.is_buffer_var(param):
                x.values[slot] = _scalar(param, argument)
        for position, (param, argument) in enumerate(zip(self.params, arguments)):
            if ir.is_buffer_var(param) and argument is not None:
                self._bind_sizes(x, position, argument)
        # Before any view is made: the sizes of one tensor may be known from another.
        self._solve_sizes(x, arguments)
        for position, (param, argument) in enumerate(zip(self.params, arguments)):
            if ir.is_buffer_var(param) and argument is not None:
                x.views[self._slots[position]] = self._view(x, position, argument, position in fresh)

    def _bind_sizes(self, x: Lanes, position: int, tensor: Any) -> None:
        sizes, strides = self._sizes[position]
        if tensor.dim() != len(sizes):
            name = str(self.params[position].name)
            raise ArgumentValueError(self.name, name, position, "rank", str(len(sizes)), str(tensor.dim()))
        for (var, slot), given in zip([*sizes, *strides], self._given(position, tensor)):
            if var is not None and x.values[slot] is None:
                x.values[slot] = element(str(var.ty)).value.type(given)

    def _given(self, position: int, tensor: Any) -> list[int]:
        """The sizes and strides of an argument, in elements of its parameter."""
        if element(str(self.params[position].dtype)).bits != 4 or not tensor.dim():
            return [*tensor.shape, *tensor.stride()]
        return [*tensor.shape[:-1], tensor.shape[-1] * 2, *(step * 2 for step in tensor.stride()[:-1]), 1]

    def _solve_sizes(self, x: Lanes, arguments: Sequence[Any]) -> None:
        """Binds the sizes that stand only inside arithmetic."""
        buffers = [(position, param) for position, param in enumerate(self.params) if ir.is_buffer_var(param)]
        declared = {position: [*param.shape, *param.strides] for position, param in buffers if arguments[position] is not None}
        slots = {str(v.name): (v, self._compiler.slot(v)) for dims in declared.values() for dim in dims for v in variables(dim)}
        known = {name: int(x.values[slot]) for name, (_, slot) in slots.items() if x.values[slot] is not None}
        axes = [pair for position, dims in declared.items() for pair in zip(dims, self._given(position, arguments[position]))]
        # One size may need another that is solved later in the list, so rounds go on until no equation has exactly one unknown.
        while len(known) < len(slots):
            found = next((found for dim, size in axes if (found := solved(to_dim(dim), size, known))), None)
            if found is None:
                return
            var, slot = slots[found[0]]
            known[found[0]] = found[1]
            x.values[slot] = element(str(var.ty)).value.type(found[1])

    def _view(self, x: Lanes, position: int, tensor: Any, fresh: bool) -> View:
        param = self.params[position]
        sizes, strides = self._sizes[position]
        kind, name = element(str(param.dtype)), str(param.name)
        shape = [int(x.values[slot] if var is not None else slot(x)) for var, slot in sizes]
        steps = [int(x.values[slot] if var is not None else slot(x)) for var, slot in strides] or None
        memory = _memory(tensor)
        storage = Storage(memory, name, "", self._compiler.cells[param], fresh)
        wanted = -(-extent(shape, kind) * kind.bits // 8)
        if steps is None and memory.shape[1] < wanted:
            raise ArgumentValueError(self.name, name, position, "shape", str(tuple(shape)), str(tuple(tensor.shape)))
        return View(storage, kind, shape, steps, name)


def _scalar(param: Any, argument: Any) -> Any:
    if isinstance(param.ty, ir.ir.PointerType) or canonical(str(param.ty)).kind == "handle":
        address = argument.data_ptr() if hasattr(argument, "data_ptr") else getattr(argument, "value", argument)
        return np.int64(address or 0)
    value = argument.item() if hasattr(argument, "item") else argument
    return None if value is None else constant(value, element(str(param.ty)))


def _memory(tensor: Any) -> np.ndarray:
    """The bytes that a CPU tensor spans, as one row."""
    import torch

    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())) if tensor.numel() else 0
    raw = tensor.detach().view(torch.uint8) if tensor.dtype == torch.bool else tensor.detach()
    flat = raw.as_strided((span,), (1,), tensor.storage_offset())
    return flat.view(torch.uint8).numpy().reshape(1, -1) if span else np.zeros((1, 0), np.uint8)
