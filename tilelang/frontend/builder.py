"""The builder: where language calls append their statements while a program is being traced.

A stack of open frames, each a list of statements and what to make of them when the frame closes. One builder is active a
thread; :func:`current` is how the language finds it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import CompileError, Location
from tilelang.frontend.operands import settled
from tilelang.ir import nodes as ir
from tilelang.ir.span import span_of, user_location
from tilelang.ir.visit import any_statement
from tilelang.tileop.thread import is_jump

_active = threading.local()


@dataclass(slots=True, eq=False)
class Frame:
    """An open scope.

    Attributes:
        kind: ``"function"``, ``"kernel"``, ``"loop"``, ``"branch"`` or ``"scope"``.
        wrap: makes the finished statement from the body.
        always: whether the body runs whenever the statement is reached.
        assigned: names that user code bound inside, as (scope, name), with the value that each had before.
        allocations: statements to put at the start: memory, and what fills it once.
    """

    kind: str
    wrap: Callable[[Any], Any]
    always: bool = False
    stmts: list[Any] = field(default_factory=list)
    allocations: list[Any] = field(default_factory=list)
    assigned: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """The enclosing kernel's indices and extents, for ``T.get_thread_binding`` and similar functions."""

    blocks: tuple[Any, ...]
    block_extents: tuple[Any, ...]
    threads: tuple[Any, ...]
    thread_extents: tuple[Any, ...]
    cluster: tuple[int, int, int]
    cluster_blocks: tuple[Any, ...] = ()


class Builder:
    """Collects one program.

    Args:
        consts: values of ``T.const`` names (eager programs); None while the signature is being probed.
    """

    def __init__(self, consts: Mapping[str, int] | None = None):
        self.frames: list[Frame] = [Frame("function", lambda body: body, always=True)]
        self.consts = consts
        self.kernel: KernelInfo | None = None
        self.launched: Any = None
        self.attrs: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.allocated_params: list[Any] = []
        self.eager: Any = None
        self.pending_name: str | None = None
        self.closed: Frame | None = None
        self.names: dict[str, int] = {}
        self.dynamic_sizes: dict[str, Any] = {}
        self.reducers: dict[Any, str] = {}
        self.reducer_seeds: dict[Any, Any] = {}
        self.thread_reducers: list[Any] = []
        self.aliases: dict[Any, Any] = {}
        self.branches: list[Any] = []
        self.tables: dict[Any, Any] = {}
        self.described: dict[Any, Any] = {}
        self.ranges: dict[Any, tuple[int | None, int | None]] = {}
        self.loop_ends: list[int | str] = []
        self.parallel = 0
        self.macro_depths: list[int] = []

    # Statements ------------------------------------------------------------------------------------------------------

    def span(self) -> Any:
        """The span of the statement that the user is executing."""
        return span_of(user_location())

    def emit(self, stmt: Any) -> None:
        """Appends a statement to the innermost open scope."""
        self.frames[-1].stmts.append(stmt)

    def evaluate(self, expr: Any) -> None:
        """Appends a call for its side effect."""
        span = self.span()
        self.emit(ir.Evaluate(expr, span))

    def perform(self, operator: Any) -> None:
        """Appends a tile operator (:class:`~tilelang.tileop.base.TileOp`).

        Raises:
            CompileError: its operands do not fit each other, or it stands in a ``T.Parallel`` and is no single thread's.
        """
        if self.parallel and not operator.by_iteration:
            name = operator.op_name.removeprefix("tl.")
            raise CompileError(
                f"T.{name} inside T.Parallel: its iterations are shared out among the threads already",
                hint="use T.serial, or move it out of the loop",
            )
        operator.check()
        operator = settled(operator, self.root_of, lambda value: self.bind("place", value))
        self.emit(operator.to_stmt(self.span()))

    def open(self, kind: str, wrap: Callable[[Any], Any], always: bool = False) -> Frame:
        """Opens a scope.

        Args:
            kind: as in :class:`Frame`.
            wrap: makes the statement from its body when it closes.
            always: whether the body runs whenever the statement is reached.
        """
        frame = Frame(kind, wrap, always)
        self.frames.append(frame)
        return frame

    def close(self, frame: Frame) -> Any:
        """Closes ``frame``, which must be the innermost, and appends the statement that it makes."""
        if self.frames[-1] is not frame:
            raise CompileError("scopes are closed in the wrong order", user_location())
        self.frames.pop()
        stmt = frame.wrap(sequence(frame.allocations + frame.stmts))
        self.emit(stmt)
        self.closed = frame
        self.note_assigned(frame.assigned)
        return stmt

    def detached(self, compute: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The result of ``compute``, and the statements that it would have appended."""
        frame = Frame("detached", sequence)
        self.frames.append(frame)
        value = compute()
        self.frames.pop()
        self.note_assigned(frame.assigned)
        return value, frame.stmts

    def in_branch(self) -> bool:
        """Whether a run-time condition decides if the code that is being traced runs."""
        return any(frame.kind == "branch" for frame in self.frames)

    def in_every_call(self) -> bool:
        """Whether each call comes to what is traced now: below no condition, in no loop that may be skipped, after no jump."""
        before = (stmt for frame in self.frames for stmt in frame.stmts)
        return all(frame.always for frame in self.frames) and not any(any_statement(stmt, is_jump) for stmt in before)

    def note_assigned(self, assigned: Mapping[Any, Any]) -> None:
        """Tells the innermost open scope which names a scope inside it has bound."""
        outer = self.frames[-1].assigned
        for key, before in assigned.items():
            outer.setdefault(key, before)

    def set_outputs(self, value: Any) -> None:
        """Records what the program returns: one tensor or several.

        Raises:
            CompileError: something else.
        """
        self.outputs = list(value) if isinstance(value, (tuple, list)) else [] if value is None else [value]
        for each in self.outputs:
            if not (isinstance(each, ir.Var) and ir.is_buffer_var(each)):
                raise CompileError(f"a program returns tensors of T.empty, not {described(each)}")

    @contextmanager
    def scope(self, kind: str, wrap: Callable[[Any], Any], always: bool = False) -> Iterator[Frame]:
        """:meth:`open` and :meth:`close` around a ``with`` body; left open where the body raises, as the trace is over.

        Args:
            kind: as in :class:`Frame`.
            wrap: makes the statement from the body.
            always: whether the body runs whenever the statement is reached.
        """
        frame = self.open(kind, wrap, always)
        yield frame
        self.close(frame)

    @contextmanager
    def inlining(self) -> Iterator[None]:
        """While a macro's body is traced: ``return``, ``break`` and ``continue`` are the macro's own."""
        self.pending_name = None
        loops, self.loop_ends = self.loop_ends, []
        self.macro_depths.append(len(self.frames))
        try:
            yield
        finally:
            self.loop_ends = loops
            self.macro_depths.pop()

    def leave_loop(self) -> None:
        """Emits a ``break`` of the innermost run-time loop.

        Raises:
            CompileError: it is a ``T.Parallel``.
        """
        if [end for end in self.loop_ends if isinstance(end, str)][-1:] == ["PARALLEL"]:
            raise CompileError("break in T.Parallel, whose iterations have no order", hint="use T.serial, or a condition")
        self.emit(ir.Break(self.span()))

    # Names and buffers -----------------------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """``name``, or ``name_1`` … where it is taken."""
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        return name if count == 0 else f"{name}_{count}"

    def take_name(self, default: str) -> str:
        """The name of the variable that the running assignment is about to bind."""
        name, self.pending_name = self.pending_name or default, None
        return self.unique(name)

    def allocate(self, buffer: Any, annotations: Mapping[str, Any] | None = None) -> None:
        """Places the allocation of ``buffer`` at the start of the enclosing kernel (or of the program outside of one)."""
        self.at_start(ir.AllocBuffer(buffer, dict(annotations or {}), self.span()))

    def at_start(self, stmt: Any) -> None:
        """Places ``stmt`` before the statements of the enclosing kernel (or of the program outside of one)."""
        home = next(f for f in reversed(self.frames) if f.kind in ("kernel", "function"))
        home.allocations.append(stmt)

    def root_of(self, buffer: Any) -> Any:
        """The buffer whose memory ``buffer`` is a view of; itself where it is none."""
        while buffer in self.aliases:
            buffer = self.aliases[buffer]
        return buffer

    def dynamic_size(self, name: str, var: Any) -> Any:
        """The program's variable of a dynamic size; a new name is bound to ``var``.

        Raises:
            CompileError: the name was used with another type.
        """
        known = self.dynamic_sizes.setdefault(name, var)
        if str(known.ty) != str(var.ty):
            raise CompileError(f"the dynamic size {name!r} is {known.ty} in one place and {var.ty} in another")
        return known

    def bind(self, name: str, value: Any) -> Any:
        """An immutable variable that holds ``value`` from here on."""
        var = ir.Var(self.unique(name), value.ty)
        self.emit(ir.Bind(var, value, self.span()))
        return var

    def finish(self, definition: Location) -> Any:
        """The body of the whole program; one without statements is placed at its definition."""
        if self.launched is not None:
            self.launched.close()
        (root,) = self.frames
        stmts = root.allocations + root.stmts
        return sequence(stmts) if stmts else ir.Evaluate(ir.IntImm("int32", 0), span_of(definition))


def described(value: Any) -> str:
    return f"a value of type {value.ty}" if isinstance(value, ir.PrimExpr) else f"{type(value).__name__} {value!r}"[:80]


def sequence(stmts: list[Any]) -> Any:
    """One statement that performs ``stmts`` in order."""
    if not stmts:
        return ir.Evaluate(ir.IntImm("int32", 0))
    return stmts[0] if len(stmts) == 1 else ir.SeqStmt(stmts)


def current(what: str = "this operation") -> Builder:
    """The builder of the program that is being traced.

    Raises:
        CompileError: no program is being traced.
    """
    builder = getattr(_active, "builder", None)
    if builder is None:
        raise _outside(what)
    return builder


def _outside(what: str) -> CompileError:
    """The error of an operation that no program performs."""
    hint = "call it from a function decorated with @T.prim_func, @T.macro or @tilelang.jit"
    return CompileError(f"{what} only works inside a kernel", user_location(), hint)


def active_builder() -> Builder | None:
    """The builder of the program that is being traced in this thread, if any."""
    return getattr(_active, "builder", None)


def is_tracing() -> bool:
    """Whether a program is being traced in this thread."""
    return active_builder() is not None


@contextmanager
def activate(builder: Builder) -> Iterator[Builder]:
    """Makes ``builder`` the active one of this thread."""
    previous = getattr(_active, "builder", None)
    _active.builder = builder
    try:
        yield builder
    finally:
        _active.builder = previous


def require_kernel(what: str) -> Builder:
    """The active builder, which must be inside ``with T.Kernel(...)``.

    Raises:
        CompileError: no kernel is open.
    """
    builder = active_builder()
    if builder is None:
        raise _outside(what)
    if builder.kernel is None:
        raise _outside_of_kernel(what)
    return builder


def kernel_info(what: str) -> KernelInfo:
    """The indices and extents of the open kernel.

    Raises:
        CompileError: no kernel is open.
    """
    builder = active_builder()
    if builder is None:
        raise _outside(what)
    if builder.kernel is None:
        raise _outside_of_kernel(what)
    return builder.kernel


def _outside_of_kernel(what: str) -> CompileError:
    return CompileError(f"{what} only works inside `with T.Kernel(...)`", user_location())


def here(error: CompileError, location: Location | None = None) -> CompileError:
    """``error`` with the user's current position attached."""
    error.at(location or user_location())
    return error
