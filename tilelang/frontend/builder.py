"""The builder: where language calls append their statements while a program is being traced.

It has a stack of open frames. A frame is a list of statements, and a function that makes one statement of them when the frame
closes. Each thread has at most one active builder; the language finds it by :func:`current`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilelang.errors import CompileError, DeclarationError, Location, MisplacedError
from tilelang.frontend.frames import Frame, Place, Stored
from tilelang.frontend.lanes import bind_lanes, lanes_of
from tilelang.frontend.operands import with_bound_operands
from tilelang.frontend.reads import changes_memory, note_read, read_in_order, with_reads_in_order
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of, span_of, user_location
from tilelang.ir.visit import any_statement
from tilelang.tileop.thread import is_jump

_DEEPEST = 600
"""How deep statements may be nested. TVM's own walks through more than 1600 have overflowed a stack of 8 MB."""

_active = threading.local()


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """The enclosing kernel's indices and extents, for ``T.get_thread_binding`` and similar functions."""

    blocks: tuple[Any, ...]
    block_extents: tuple[Any, ...]
    threads: tuple[Any, ...]
    thread_extents: tuple[Any, ...]
    cluster: tuple[int, int, int]
    cluster_blocks: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """A loop of the author's whose body is being traced.

    Attributes:
        kind: of a run-time loop, the name of its ``ForKind`` or ``"WHILE"``; None of a compile-time loop.
        depth: how many frames were open when it began.
    """

    kind: str | None
    depth: int


class Builder:
    """Collects one program.

    Attributes:
        frames: the open scopes, innermost last.
        kernel: the open kernel, if any.
        barriers: the barriers of ``T.create_list_of_mbarrier`` of the open kernel, if any.
        has_generator: whether ``T.rng_init`` came before in the open kernel.
        launched: the kernel that ``T.launch_thread`` or ``T.env_thread`` has opened, if any.
        axis: what the last ``T.launch_thread`` or ``T.thread_binding`` returned, which one ``with`` or ``for`` may take.
        attrs: attributes of the finished function.
        outputs: the tensors that the program returns.
        allocated_params: the tensors that a call allocates; they follow the arguments in the parameters.
        early: memory that programs allocate above the kernel that uses it; the next kernel that opens takes it.
        eager: the :class:`~tilelang.frontend.declare.EagerState` of the program's arguments.
        pending_name: the Python name that the running assignment is about to bind, for the variable that is made.
        closed: the run-time scope that has just been closed, which may have made names stale; None after a compile-time one.
        names: how many variables have asked for a name, by name.
        dynamic_sizes: the variable of each dynamic size, by name.
        reducers: the operation of each reducer, by its buffer.
        thread_reducers: reducers of ``T.attr(..., "reduce_scope", ...)`` around the present statement, innermost last.
        aliases: view -> the buffer that it is a view of.
        branches: open ``T.If`` statements, innermost last.
        entered: the loops that ``with`` has opened in plain Python functions, innermost last: frame, and what ends the body.
        tables: the arrays of large constant tables, by element type and entries.
        described: descriptor of ``T.alloc_wgmma_desc`` -> the shared tile that it is of.
        ranges: least and largest value of variables, as far as they are known; None for an open end.
        loops: the author's loops around the present statement, innermost last; those outside of a macro are not among them.
        parallel: how many ``T.Parallel`` are around the present statement, also outside of a macro.
        advanced: the iterators of Python that the program has taken items from, and the modules that it drew random numbers from.
        stored: changes of Python objects by statements of the program.
        scopes: the names of the functions that are being traced, innermost last.
        asked: attributes that these have looked for and not found: the object and the name.
        reads: element load, or choice that guards some -> where the program made it, see :mod:`tilelang.frontend.reads`.
        kept: those of which a variable holds the value -> that variable.
        macro_depths: for each macro that is being traced, how many frames were open when it was called.
    """

    def __init__(self):
        self.frames: list[Frame] = [Frame("function", lambda body: body, always=True)]
        self.kernel: KernelInfo | None = None
        self.barriers: Any = None
        self.has_generator = False
        self.launched: Any = None
        self.axis: Any = None
        self.attrs: dict[str, Any] = {}
        self.outputs: list[Any] = []
        self.allocated_params: list[Any] = []
        self.early: list[Any] = []
        self.eager: Any = None
        self.pending_name: str | None = None
        self.closed: Frame | None = None
        self.names: dict[str, int] = {}
        self.dynamic_sizes: dict[str, Any] = {}
        self.reducers: dict[Any, str] = {}
        self.thread_reducers: list[Any] = []
        self.aliases: dict[Any, Any] = {}
        self.branches: list[Any] = []
        self.entered: list[tuple[Frame, Any]] = []
        self.tables: dict[Any, Any] = {}
        self.described: dict[Any, Any] = {}
        self.ranges: dict[Any, tuple[int | None, int | None]] = {}
        self.loops: list[OpenLoop] = []
        self.parallel = 0
        self.advanced: list[Any] = []
        self.stored: list[Stored] = []
        self.asked: list[tuple[Any, str]] = []
        self.scopes: list[Any] = []
        self.reads: dict[Any, Place] = {}
        self.kept: dict[Any, Any] = {}
        self.macro_depths: list[int] = []

    # Statements ------------------------------------------------------------------------------------------------------

    def span(self) -> Any:
        """The span of the statement that the user is executing."""
        return span_of(user_location())

    def emit(self, stmt: Any) -> None:
        """Appends a statement to the innermost open scope."""
        self.frames[-1].stmts.append(with_reads_in_order(self, stmt))

    @contextmanager
    def at(self, place: Place) -> Iterator[None]:
        """What is appended in the ``with`` comes at a place of an open scope, before what that has from there on."""
        frame, start = place.frame, Place(place.frame, place.position)
        frames, self.frames = self.frames, self.frames[: self.frames.index(frame) + 1]
        later, behind = frame.stmts[start.position :], [each for each in frame.places if each.position >= start.position]
        del frame.stmts[start.position :]
        frame.places.append(start)
        yield
        self.frames = frames
        frame.places.remove(start)
        # What was put before `start` meanwhile has moved it, and those behind it.
        count = len(frame.stmts) - start.position
        for each in behind:
            each.position += count
        frame.stmts += later

    def evaluate(self, expr: Any) -> None:
        """Appends a call for its side effect."""
        span = self.span()
        self.emit(ir.Evaluate(expr, span))

    def perform(self, operator: Any) -> None:
        """Appends a tile operator (:class:`~tilelang.tileop.base.TileOp`).

        Raises:
            MisplacedError: its operands do not fit each other, or it is inside of a ``T.Parallel`` and needs all threads.
        """
        if self.parallel and not operator.by_iteration:
            raise MisplacedError(
                f"{operator.called} inside T.Parallel: its iterations are shared out among the threads already",
                hint="use T.serial, or move it out of the loop",
            )
        operator.check()
        operator = with_bound_operands(operator, self.root_of, lambda value: self.bind("place", value))
        self.emit(operator.to_stmt(self.span()))

    def open(self, kind: str, wrap: Callable[[Any], Any], always: bool = False, repeats: bool = False) -> Frame:
        """Opens a scope.

        Args:
            kind: as in :class:`Frame`.
            wrap: makes the statement from its body when it closes.
            always, repeats: as in :class:`Frame`.

        Raises:
            MisplacedError: it is so deep in others that the stack would not suffice for the compiler's walks.
        """
        if len(self.frames) >= _DEEPEST:
            raise MisplacedError(
                f"statements are nested more than {_DEEPEST} deep",
                hint="each elif is nested in the one before; `if` statements that follow each other are not",
            )
        frame = Frame(kind, wrap, always, repeats)
        self.frames.append(frame)
        if kind == "kernel":
            frame.allocations, self.early = self.early, []
        return frame

    def close(self, frame: Frame) -> Any:
        """Closes ``frame``, which must be the innermost, and appends the statement that it makes."""
        if self.frames[-1] is not frame:
            raise MisplacedError("scopes are closed in the wrong order", user_location())
        self.frames.pop()
        stmt = frame.wrap(sequence(frame.allocations + frame.stmts))
        self.emit(stmt)
        self.leave(frame)
        self.closed = frame
        self.note_assigned(frame.assigned)
        return stmt

    def leave(self, frame: Frame) -> None:
        """After the statement of a scope that has ended: places in it are now behind that statement."""
        outer = self.frames[-1]
        for place in frame.places:
            place.is_past = place.is_past or any(map(changes_memory, frame.stmts[place.position :]))
            place.frame, place.position = outer, len(outer.stmts)
        outer.places += frame.places

    def repeated(self, compute: Callable[[], Any]) -> tuple[Any, Frame]:
        """An expression that each pass of a loop computes, and a scope with the statements that this appends.

        Args:
            compute: gives the expression, or a value of Python.
        """
        frame = Frame("detached", sequence, repeats=True)
        self.frames.append(frame)
        value = read_in_order(self, compute())
        self.frames.pop()
        self.note_assigned(frame.assigned)
        return value, frame

    def in_branch(self) -> bool:
        """Whether a run-time condition decides if the code that is being traced runs."""
        return any(frame.kind == "branch" for frame in self.frames)

    def in_every_call(self) -> bool:
        """Whether every call reaches the present statement: no condition, no loop that may be empty, no jump before it."""
        # A jump that stands before in any open scope may leave this statement out, although no scope around it does.
        before = (stmt for frame in self.frames for stmt in frame.stmts)
        return all(frame.always for frame in self.frames) and not any(any_statement(stmt, is_jump) for stmt in before)

    def note_assigned(self, assigned: Mapping[Any, Any]) -> None:
        """Tells the innermost open scope which names a scope inside it has bound."""
        outer = self.frames[-1].assigned
        for key, before in assigned.items():
            # The value from before the outermost scope counts: that is what a name would have if no scope inside had run.
            outer.setdefault(key, before)

    def set_outputs(self, value: Any) -> None:
        """Records what the program returns: one tensor or several.

        Raises:
            DeclarationError: something else.
        """
        self.outputs = list(value) if isinstance(value, (tuple, list)) else [] if value is None else [value]
        for each in self.outputs:
            if not (isinstance(each, ir.Var) and ir.is_buffer_var(each)):
                raise DeclarationError(f"a program returns tensors of T.empty, not {described(each)}")
        if self.outputs and not self.allocated_params:
            raise DeclarationError(
                "the program returns a tensor that is not from T.empty",
                hint="a call returns what it allocates: B = T.empty(shape, dtype), or name the parameter in out_idx",
            )

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
        loops, self.loops = self.loops, []
        depth = len(self.scopes)
        self.macro_depths.append(len(self.frames))
        try:
            yield
        finally:
            self.loops = loops
            del self.scopes[depth:]
            self.macro_depths.pop()

    @contextmanager
    def in_loop(self, kind: str | None) -> Iterator[None]:
        """While the body of a loop is traced: ``break`` and ``continue`` are of this loop.

        Args:
            kind: as in :class:`OpenLoop`.
        """
        self.loops.append(OpenLoop(kind, len(self.frames)))
        self.parallel += kind == "PARALLEL"
        try:
            yield
        finally:
            self.parallel -= kind == "PARALLEL"
            self.loops.pop()

    def leave_loop(self) -> None:
        """Emits a ``break`` of the innermost run-time loop.

        Raises:
            MisplacedError: that loop is a ``T.Parallel``.
        """
        run_time = [loop.kind for loop in self.loops if loop.kind is not None]
        if run_time[-1:] == ["PARALLEL"]:
            raise MisplacedError("break in T.Parallel, whose iterations have no order", hint="use T.serial, or a condition")
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
        """Places the allocation of ``buffer`` at the start of the enclosing kernel, or of the next one outside of kernels."""
        stmt = ir.AllocBuffer(buffer, dict(annotations or {}), self.span())
        if self.kernel is None:
            self.early.append(stmt)
        else:
            self.at_start(stmt)

    def at_start(self, stmt: Any) -> None:
        """Places ``stmt`` before the statements of the enclosing kernel (or of the program outside of one)."""
        # Memory is allocated once, whatever loop or branch the allocation is written in: registers and shared memory have no
        # other lifetime.
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
            DeclarationError: the name was used with another type.
        """
        known = self.dynamic_sizes.setdefault(name, var)
        if str(known.ty) != str(var.ty):
            raise DeclarationError(f"the dynamic size {name!r} is {known.ty} in one place and {var.ty} in another")
        return known

    def bind(self, name: str, value: Any) -> Any:
        """An immutable variable that holds ``value`` from here on; a vector of such variables where it is one."""
        if lanes_of(value) > 1:
            return bind_lanes(self, name, value)
        var = ir.Var(self.unique(name), value.ty)
        self.emit(ir.Bind(var, value, self.span()))
        return var

    def bound(self, var: Any) -> Any:
        """The value that a variable was bound to at a place which is still in scope; None where it was not."""
        stmts = (stmt for frame in self.frames for stmt in frame.stmts if isinstance(stmt, ir.Bind))
        return next((stmt.value for stmt in stmts if stmt.var.same_as(var)), None)

    @contextmanager
    def axis_scope(self) -> Iterator[Any]:
        """``with T.launch_thread(...)``, ``for tx in T.thread_binding(...)``: the kernel that it opened ends with the block."""
        index, self.axis = self.axis, None
        yield index
        if self.launched is not None and self.launched.opener is index:
            self.launched.close()

    def finish(self, definition: Location) -> Any:
        """The body of the whole program; an empty one is located at the program's definition."""
        if self.launched is not None:
            self.launched.close()
        if self.early:
            stmt = self.early[0]
            raise MisplacedError(f"no kernel follows that could use {stmt.buffer.name}", location_of(stmt.span))
        (root,) = self.frames
        stmts = root.allocations + root.stmts
        return sequence(stmts) if stmts else ir.Evaluate(ir.IntImm("int32", 0), span_of(definition))


def described(value: Any) -> str:
    """What a value is, for the message of an error."""
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
    builder = active_builder()
    if builder is None:
        raise _outside(what)
    return builder


# An uncaught error prints some lines for each frame, and people read the last ones. So the functions below raise it themselves
# instead of calling each other.


def _outside(what: str) -> CompileError:
    """The error of a call outside of programs."""
    hint = "call it from a function decorated with @T.prim_func, @T.macro or @tilelang.jit"
    return MisplacedError(f"{what} only works inside a kernel", user_location(), hint)


def _outside_of_kernel(what: str) -> CompileError:
    """The error of a call in a program, but outside of a kernel."""
    return MisplacedError(f"{what} only works inside `with T.Kernel(...)`", user_location())


def active_builder() -> Builder | None:
    """The builder of the program that is being traced in this thread, if any."""
    return getattr(_active, "builder", None)


def noted(expr: Any) -> Any:
    """An element load, or a choice that guards some; the program that is being traced, if any, remembers where it made it."""
    builder = active_builder()
    if builder is not None:
        note_read(builder, expr)
    return expr


def read_now(expr: Any) -> Any:
    """An expression that is about to be simplified: what it reads of memory that has changed since is a variable.

    Two loads of one element look the same, also where a statement between them has changed it.
    """
    builder = active_builder()
    return expr if builder is None else read_in_order(builder, expr)


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


def here(error: CompileError, location: Location | None = None) -> CompileError:
    """``error`` with the user's current position attached."""
    error.at(location or user_location())
    return error
