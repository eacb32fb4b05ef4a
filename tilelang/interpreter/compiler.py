"""From a statement of the tile IR to functions that run it; the compiler's own state.

A statement becomes a :class:`Step`. ``run(x)`` performs it in the state ``x`` and gives True where no lane goes on to the next
statement. A step that may have to wait for others (``T.mbarrier_wait_parity``, ``T.sync_grid``, …) has a generator besides, which
yields while it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tilelang.dtypes import canonical
from tilelang.errors import CompileError, UnsupportedError
from tilelang.interpreter import fragments
from tilelang.interpreter.differing import differing, may_differ, may_leave
from tilelang.interpreter.numbers import element
from tilelang.interpreter.survey import element_stores, is_of_all, loaded, stored_by_threads, touched, updated_atomically
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment
from tilelang.ir.span import location_of
from tilelang.ir.visit import children, is_parallel, statement_exprs, walk
from tilelang.tileop.base import plain


@dataclass(slots=True)
class Step:
    """A compiled statement.

    Attributes:
        run: ``state -> whether no lane goes on``.
        wait: the same as a generator, where the statement may have to wait.
        sides: of a branch, ``state -> [(threads, step)]`` where it separates them, else None.
        alone: whether a part of the threads may run it without the others.
        fragments: of a side of a branch for different threads, the slots of the fragments that it uses.
    """

    run: Callable[[Any], bool]
    wait: Callable[[Any], Iterator[None]] | None = None
    sides: Callable[[Any], list[tuple[Any, Step]] | None] | None = None
    alone: bool = False
    fragments: tuple[int, ...] = ()


Result = TypeVar("Result")


def merging(step: Step, slots: Sequence[int]) -> Step:
    """A statement before which the copies that threads hold of fragments are merged."""

    def after(function: Callable[[Any], Result]) -> Callable[[Any], Result]:
        def merged(x: Any) -> Result:
            fragments.meet(x, slots)
            return function(x)

        return merged

    return replace(step, run=after(step.run), wait=step.wait and after(step.wait))


STATEMENTS: dict[type, Callable[[Compiler, Any], Step]] = {}
"""Statement of the IR -> what compiles it."""


def statement(*types: type) -> Callable[[Callable], Callable]:
    """Decorator: the function compiles these statements, of ``(compiler, statement)``."""

    def register(make: Callable) -> Callable:
        STATEMENTS.update(dict.fromkeys(types, make))
        return make

    return register


class Compiler:
    """The state of a program's compilation to Python functions.

    Attributes:
        cells: buffer -> bits of the smallest element of any view of its memory.
        stored: the memory that statements change element by element.
        in_nest: the variables of the ``T.Parallel`` that the statement stands in; none where there is none.
        in_turn: fragments whose elements iterations of that use one after another.
        updated: fragments of which several iterations of it may update one element in one statement.
        loops: how many serial loops stand around it, of those in the ``T.Parallel`` where there is one.
        span: of the statement that is compiled.
        reducers: buffers of ``T.alloc_reducer`` with how they combine values.
        aliased: buffers that share their memory with other buffers.
        differing: variables, and memory of threads, that may differ between threads.
        below: whether the statement is under divergent control flow, so that each thread executes it by itself.
        behind: whether the statement comes behind a branch in which threads wait for others or signal to them.
        undivided: fragments of which the sides of a branch have no copies: reducers of all threads, and those that single threads
            store elements of.
    """

    def __init__(self, func: Any):
        self._slots: dict[Any, int] = {}
        self._views: dict[Any, int] = {}
        self.roots: dict[Any, Any] = {}
        self.cells: dict[Any, int] = {}
        self.stored: set[Any] = set()
        self.reducers: dict[Any, str] = {}
        self.in_nest: tuple[Any, ...] = ()
        self.in_turn: set[Any] = set()
        self.updated: set[Any] = set()
        self.loops = 0
        self.span: Any = None
        self.aliased: set[Any] = set()
        self.differing: set[Any] = set()
        self.below = False
        self.behind = False
        self.undivided: set[Any] = set()
        self._survey(func)

    def _survey(self, func: Any) -> None:
        for buffer in (*func.params, *(stmt.buffer for stmt in walk(func.body) if isinstance(stmt, ir.AllocBuffer))):
            if ir.is_buffer_var(buffer):
                self.cells[buffer] = _bits(buffer)
        for stmt in walk(func.body):
            if isinstance(stmt, ir.AllocBuffer) and "tl.reducer_op" in stmt.annotations:
                self.reducers[stmt.buffer] = str(plain(stmt.annotations["tl.reducer_op"]))
        for stmt in walk(func.body):
            if isinstance(stmt, ir.DeclBuffer):
                source = source_of(stmt.data)
                if source is not None:
                    # Accesses are recorded in cells of the narrowest element that any view has, so that views of different
                    # types are compared.
                    root = self.roots[stmt.buffer] = self.root(source)
                    self.cells[root] = min(self.cells.get(root, 64), _bits(stmt.buffer))
        self.stored = {self.root(buffer) for buffer in element_stores(func.body)}
        self.aliased = {*self.roots, *self.roots.values()}
        self.differing = differing(func.body, self.root, self.aliased)
        single = stored_by_threads(func.body, self.differs) | updated_atomically(func.body)
        # What sides of branches add to a reducer of all threads that come to them is combined.
        shared = [reducer for reducer in self.reducers if is_of_all(reducer, func.body, self.differs)]
        self.undivided = {self.root(buffer) for buffer in (*single, *shared)}

    def root(self, buffer: Any) -> Any:
        """The buffer whose memory a view names."""
        return self.roots.get(buffer, buffer)

    def slot(self, var: Any) -> int:
        """Where the value of a variable is."""
        return self._slots.setdefault(var, len(self._slots))

    def view(self, buffer: Any) -> int:
        """Where the view of a buffer is."""
        return self._views.setdefault(buffer, len(self._views))

    @property
    def slots(self) -> int:
        """How many variables there are."""
        return len(self._slots)

    @property
    def views(self) -> int:
        """How many buffers there are."""
        return len(self._views)

    def differs(self, expr: Any) -> bool:
        """Whether an expression may differ between threads."""
        return may_differ(expr, self.differing, self.root)

    def differ_but_for(self, exprs: Iterable[Any], others: set[Any]) -> bool:
        """Whether one of these expressions may differ between threads even if the memory ``others`` does not."""
        found = self.differing - {self.root(buffer) for buffer in others}
        return any(may_differ(expr, found, self.root, ()) for expr in exprs)

    def is_own(self, *exprs: Any) -> bool:
        """Whether each thread executes a statement with these expressions by itself, and not the block once."""
        return not self.in_nest and (self.below or any(map(self.differs, exprs)))

    @contextmanager
    def threads_own(self, own: bool) -> Iterator[None]:
        """While this lasts, each thread executes statements by itself, where ``own`` says so."""
        outer, self.below = self.below, self.below or own
        yield
        self.below = outer

    @contextmanager
    def after(self, taking_part: bool) -> Iterator[None]:
        """While this lasts, statements come behind a branch in which threads wait for others or signal to them, or do not."""
        outer, self.behind = self.behind, taking_part
        yield
        self.behind = outer

    def fragments_in(self, body: Any) -> tuple[int, ...]:
        """The slots of the fragments that statements use and that sides of branches have copies of, under all of their names."""
        return self._fragment_slots(touched(body))

    def _fragment_slots(self, buffers: set[Any]) -> tuple[int, ...]:
        roots = {self.root(buffer) for buffer in buffers if is_fragment(buffer)} - self.undivided
        names = [*self.cells, *self.roots]
        return tuple(self.view(buffer) for buffer in names if self.root(buffer) in roots)

    def tracks(self, buffer: Any) -> bool:
        """Whether reads of a buffer may race with writes of other lanes."""
        return self.root(buffer) in self.stored and buffer not in self.in_turn

    def iteration(self, body: Any) -> Step:
        """The compiled body of a serial loop."""
        self.loops += 1
        with self.threads_own(may_leave(body, self.differs, (ir.Break,))):
            step = self.step(body)
        self.loops -= 1
        return step

    def step(self, stmt: Any) -> Step:
        """The compiled statement.

        Raises:
            UnsupportedError: something that the interpreter does not know, at its line.
        """
        make = STATEMENTS.get(type(stmt))
        outer, self.span = self.span, getattr(stmt, "span", None) or self.span
        try:
            if make is None:
                raise UnsupportedError(f"the interpreter does not know the statement {type(stmt).__name__}")
            return self._merging(make(self, stmt), stmt)
        except CompileError as error:
            error.at(location_of(self.span))
            raise
        finally:
            self.span = outer

    def _merging(self, step: Step, stmt: Any) -> Step:
        """A statement before which the copies of the fragments that it uses are merged, if all threads that hold them run it."""
        if self.in_nest:
            return step
        slots = (
            self.fragments_in(stmt)
            if is_parallel(stmt) or not children(stmt)
            else self._fragment_slots(loaded(statement_exprs(stmt)))
        )
        return merging(step, slots) if slots else step


def source_of(data: Any) -> Any:
    """The buffer whose memory a pointer expression names, or None."""
    if isinstance(data, ir.Call) and str(data.op.name).endswith("buffer_data"):
        return data.args[0]
    return None


def _bits(buffer: Any) -> int:
    return element(canonical(str(buffer.dtype)).base).bits
