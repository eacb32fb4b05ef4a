"""Uniformity: which values, and which statements, are the same for all threads of a block, or for groups of neighbouring ones.

The analysis is a fixpoint over the tree. Each variable has a *group*: the largest power of two such that aligned groups of so
many threads certainly agree on its value; ``BLOCK`` where all do. Thread numbers start it (on ``tx // 32`` a warp agrees), votes
and reductions of a warp give groups of 32, and a variable that is stored below a condition on which threads disagree is no more
uniform than that condition. A ``T.alloc_var`` that counts, sums what a reduction gave, or reads a tensor is
the same in every thread, so a statement over it is the block's and not each of its threads'.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array, is_declared_fragment, is_fragment, is_local, is_memory, is_variable
from tilelang.ir.visit import mentions, own_expressions, reads_its_place, statement_exprs, variables, walk_expr
from tilelang.ir.visit import operands as children_of
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.assumptions import assumed
from tilelang.target.cuda.analysis.groups import ThreadConditions
from tilelang.target.cuda.arch import in_one_warp
from tilelang.target.cuda.intrinsics.table import BLOCK, intrinsic, is_atomic, names_threads
from tilelang.target.cuda.tile.nest import Nest, evaluated
from tilelang.target.cuda.tile.program import thread_digits
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, ThreadGroup, TileTree, bindings, walk
from tilelang.tileop.carried import is_run_by_each_thread
from tilelang.transform.first_use import FirstUse, Memory


class _ActiveThreads(NamedTuple):
    """The threads that come to a node.

    Attributes:
        threads: neighbours, as far as conditions on their numbers say.
        are_named: whether there is such a condition, even one that all threads of the block meet.
        control: the group that agrees on whether, and how often, they come, as far as other conditions say.
    """

    threads: range
    are_named: bool
    control: int

    def below(self, agree: int) -> _ActiveThreads:
        """Those below a condition on which groups of so many threads agree."""
        return self._replace(control=min(self.control, agree))

    def use_beyond(self, other: _ActiveThreads) -> bool:
        """Whether threads that come here may find what others have left there, and others not."""
        here, there = self.threads, other.threads
        contained = there.start <= here.start and here.stop <= there.stop and (self.are_named or not other.are_named)
        return here.start < there.stop and there.start < here.stop and not contained


class Uniformity:
    """What the threads of a kernel agree on.

    Attributes:
        varying: variables, local arrays and scalars on which the threads of a block may disagree; fragments that a nest fills
            with values of threads.
        divergent: the nodes below a condition that the threads around it may disagree on, or in a loop that they leave at
            different times.
        by_thread: the nodes that each thread runs for itself, whatever they mention: those below a condition that names threads,
            even one that is the same in all of them (``tx < 32`` in a block of 32).
        definitions: the value of each name that the program binds.
    """

    def __init__(self, tree: TileTree, threads: Mapping[Any, int]):
        self.tree = tree
        self.divergent: set[Any] = set()
        self.by_thread: set[Any] = set()
        self.size = math.prod(threads.values())
        self.definitions = bindings(tree.root)
        # Of a thread variable: by how many threads its value grows by one.
        self._threads = {var: low for var, (low, _) in thread_digits(threads.items()).items()}
        self._conditions = ThreadConditions(threads.items(), self.definitions)
        self._groups = {var: _power_of_two(low) for var, low in self._threads.items()}
        self.varying: set[Any] = set(threads)
        self._scratch = scratch_of(tree, is_local)
        self._active: dict[Any, _ActiveThreads] = {}
        self._stored: dict[Any, set[_ActiveThreads]] = {}
        self._read: dict[Any, set[_ActiveThreads]] = {}
        nodes = list(walk(tree.root))
        self._users = Counter(local for node in nodes for local in self._named(node))
        self._scratch |= {local for node in nodes if isinstance(node, Parallel) for local in self._filled_first(node)}
        self._solve()

    def _filled_first(self, node: Parallel) -> Iterator[Any]:
        """Local memory that a nest alone uses, and stores to before it reads it: nothing in it is another iteration's."""
        first: dict[Any, str] = {}
        for access in node.nest.accesses:
            first.setdefault(self.tree.root_of(access.buffer), access.kind)
        filled = (buffer for buffer, kind in first.items() if kind == WRITE and _is_local(buffer))
        return (buffer for buffer in filled if self._users[buffer] == 1)

    def _solve(self) -> None:
        before: Any = None
        # Groups only become smaller (`_lower`), so a fixpoint is reached.
        while before != self._groups:
            before = dict(self._groups)
            self._visit(self.tree.root, self.block, BLOCK, False, _ActiveThreads(self.block, False, BLOCK))
            for var, stores in self._stored.items():
                for store in stores:
                    if any(read.use_beyond(store) for read in self._read.get(var, ())):
                        # Only the threads of the store have the new value; aligned groups that lie wholly inside or outside
                        # of it agree.
                        self._lower(var, _power_of_two(store.threads.start | store.threads.stop))
            self.varying.update(var for var, group in self._groups.items() if group < BLOCK)

    @property
    def block(self) -> range:
        """All threads."""
        return range(self.size)

    # Questions ---------------------------------------------------------------------------------------------------------

    def varies(self, exprs: Iterable[Any]) -> bool:
        """Whether expressions are each thread's own: their values may differ between threads, or they name threads."""
        return any(
            self.tree.root_of(part) in self.varying if isinstance(part, ir.Var) else names_threads(part)
            for expr in exprs
            for part in walk_expr(expr)
        )

    def nest_varies(self, nest: Nest) -> bool:
        """Whether what a nest computes, or where it finds it, is each thread's own; what its iterations carry may be."""
        named = nest.named - self._carried(nest)
        return nest.names_threads or any(self.tree.root_of(part) in self.varying for part in named)

    def carried_partially(self, nest: Nest) -> set[Any]:
        """The memory of which each thread holds, after a nest, the result of the iterations that it has run."""
        found = self._carried(nest)
        return set() if self._carries_in_each(nest) else found

    def _carries_in_each(self, nest: Nest) -> bool:
        """Whether every thread runs all iterations of a nest for what they carry."""
        return not nest.of_fragments and is_run_by_each_thread(nest.body, self._carried(nest))

    def _carried(self, nest: Nest) -> set[Any]:
        return set(nest.carried - self.tree.aliased()) if nest.carried else set()

    def active_threads(self, node: Any) -> range:
        """The neighbouring threads that come to a loop or branch, perhaps not all of them."""
        return self._active[node].threads

    def arrive_together(self, node: Any, threads: range) -> bool:
        """Whether neighbouring threads, of those that come to a loop or branch, certainly agree on whether they do."""
        return _agree(self._active[node].control, threads)

    def agrees(self, node: Any, threads: range) -> bool:
        """Whether neighbouring threads certainly agree on how often the body of a loop or branch runs."""
        return _agree(self.control(node), threads)

    def agree(self, exprs: Iterable[Any], threads: range) -> bool:
        """Whether neighbouring threads certainly agree on the values of expressions."""
        return _agree(self.group(exprs), threads)

    def group(self, exprs: Iterable[Any]) -> int:
        """How many neighbouring threads certainly agree on the values of expressions."""
        return min(map(self._group, exprs), default=BLOCK)

    def stores_to_memory_alone(self, nest: Nest) -> bool:
        """Whether threads that do not run a nest lack nothing afterwards: it stores to no local memory that other statements
        use, and no instruction in it needs all threads."""
        stored = {self.tree.root_of(access.buffer) for access in nest.accesses if access.kind != READ}
        if any(not is_memory(buffer) and not (_is_local(buffer) and self._users[buffer] == 1) for buffer in stored):
            return False
        calls = (intrinsic(part) for expr in evaluated(nest.body) for part in walk_expr(expr))
        return not any(call is not None and call.threads for call in calls)

    def moves(self, node: Parallel, access: Any) -> bool:
        """Whether the axes of a nest move an access of it."""
        return any(mentions(index, node.nest.moved) for index in access.site.indices)

    def private_nests(self) -> dict[Parallel, bool]:
        """The nests whose iterations every thread runs all, and whether their values differ between threads.

        An array of ``T.alloc_local`` is each thread's own: a nest that stores to one at an index that its axes move is run whole
        by every thread, unless the array is scratch of single iterations. Where the values differ between threads, as in
        ``T.copy(A[tx * 8 : tx * 8 + 8], local)``, the nest is the thread's own, its stores to memory included.
        """
        scratch = scratch_of(self.tree, is_array)
        found = {}
        for node in (node for node in walk(self.tree.root) if isinstance(node, Parallel)):
            varies = self.nest_varies(node.nest)
            carries = self._carries_in_each(node.nest)
            stored = (a for a in node.nest.accesses if a.kind != READ and is_array(a.buffer) and a.buffer not in scratch)
            if varies or carries or any(self.moves(node, access) for access in stored):
                found[node] = varies
        return found

    # Values ------------------------------------------------------------------------------------------------------------

    def _group(self, expr: Any) -> int:
        if isinstance(expr, ir.Var):
            return self._groups.get(self.tree.root_of(expr), BLOCK)
        if not isinstance(expr, ir.PrimExpr) or isinstance(expr, (ir.IntImm, ir.FloatImm)):
            return BLOCK
        if isinstance(expr, ir.TensorLoad):
            return min(self._groups.get(self.tree.root_of(expr.source), BLOCK), self.group(expr.indices))
        if isinstance(expr, ir.Call):
            return self._call_group(expr)
        # An operation gives threads the same result where its operands are the same; a quotient is the only one that makes more
        # threads agree than its operands do.
        return max(self._quotient_group(expr), min(map(self._group, children_of(expr)), default=BLOCK))

    def _call_group(self, call: Any) -> int:
        known = intrinsic(call)
        if known is None:
            return min(map(self._group, (arg for arg in call.args if isinstance(arg, ir.PrimExpr))), default=BLOCK)
        if known.threads or not known.pure:  # of an atomic access or a random number, each thread that asks gets another
            return known.agree
        return self.group(call.args)

    def _quotient_group(self, expr: Any) -> int:
        """Threads that agree on a quotient of a thread's number by a constant."""
        divisor = as_int(expr.b) if isinstance(expr, (ir.FloorDiv, ir.RShift)) else None
        if not isinstance(divisor, int) or divisor < 0:
            return 1
        number = expr.a
        while isinstance(number, ir.Var) and number in self.definitions:
            number = self.definitions[number]
        if number not in self._threads:
            return 1
        return _power_of_two(self._threads[number] * (1 << divisor if isinstance(expr, ir.RShift) else divisor))

    def _lower(self, var: Any, group: int) -> None:
        if group < self._groups.get(var, BLOCK):
            self._groups[var] = group

    # The walk ----------------------------------------------------------------------------------------------------------

    def _visit(self, node: Any, threads: range, control: int, by_thread: bool, active: _ActiveThreads) -> None:
        """Lowers the groups of what a node stores.

        Args:
            threads: run it, some of them perhaps where ``control`` says that they disagree.
            control: the group that agrees on whether, and how often, the node runs.
            by_thread: whether it is the statement of each of them, and not of all together.
            active: the same without conditions that are met by known neighbours.
        """
        together = len(threads) > 1 and _agree(control, threads) and is_store_of_all(node, threads)
        if by_thread and not (together and not self.varies(evaluated(node.stmt))):
            self.by_thread.add(node)
        if not _agree(control, threads):
            self.divergent.add(node)
        threads = node.runners(threads)
        inside = [active] * len(node.inside)
        if isinstance(node, ThreadGroup):
            by_thread = by_thread or node.by_thread
            inside = [_ActiveThreads(node.runners(active.threads), active.are_named or node.by_thread, active.control)]
        elif isinstance(node, (Branch, Loop, Repeat)):
            self._note_reads(statement_exprs(node.stmt), active)
            agree = self.control(node)
            inside = self._sides(node, active) if isinstance(node, Branch) else [active.below(agree)]
            self._active[node] = active
            control = min(control, agree)
            # A loop that threads leave at different times has a variable on which they disagree.
            if isinstance(node, Loop):
                self._lower(node.stmt.loop_var, agree)
        if isinstance(node, Parallel):
            self._visit_nest(node, active)
        elif isinstance(node, Scalar):
            self._visit_scalar(node, active)
        elif isinstance(node, Operator):
            for buffer in filter(_is_local, operands(node)):
                self._lower(buffer, 1)
        for child, those in zip(node.inside, inside):
            self._visit(child, threads, control, by_thread or control < BLOCK, those)

    def _sides(self, node: Branch, active: _ActiveThreads) -> list[_ActiveThreads]:
        """Those that come to each side of a branch."""
        members, rest = self._conditions.members(node.stmt.condition, active.threads)
        any_of_them = active.below(self.control(node))
        if members is None:
            return [any_of_them] * len(node.inside)
        then = _neighbours(active.threads, members)
        # Where another condition is in it, too, all may come to the other side.
        other = _neighbours(active.threads, [not takes for takes in members]) if rest is None else None
        found = [
            any_of_them if threads is None else _ActiveThreads(threads, True, min(active.control, self.group([rest])))
            for threads in (then, other)
        ]
        return found[: len(node.inside)]

    def control(self, node: Any) -> int:
        """The group that agrees on how often the body of a loop or branch runs; an iteration may also be left early."""
        found = [list(statement_exprs(node.stmt))]
        if isinstance(node, (Loop, Repeat)):
            # `for i in range(8): if tx > i: break` has a uniform extent, and threads leave it at different times.
            found += _jump_conditions(node.body, ())
        return min(self._kept_group(exprs, node) for exprs in found)

    def _visit_nest(self, node: Parallel, active: _ActiveThreads) -> None:
        varies = self.nest_varies(node.nest)
        carried, partial = self._carried(node.nest), self.carried_partially(node.nest)
        for buffer in node.nest.named:
            if _is_local(buffer):
                self._read.setdefault(self.tree.root_of(buffer), set()).add(active)
        for access in node.nest.accesses:
            buffer = self.tree.root_of(access.buffer)
            if access.kind == READ or buffer in self._scratch:
                continue
            if _is_local(access.buffer):
                self._stored.setdefault(buffer, set()).add(active)
                # What iterations leave in a variable goes to all threads (normalise/shared_results.py).
                alike = is_variable(buffer) or all(axis.extent == 1 for axis in node.nest.axes) or self.moves(node, access)
                alike = buffer not in partial if buffer in carried else alike
                self._lower(buffer, active.control if alike and not varies else 1)
            elif varies and is_fragment(access.buffer):
                self._lower(buffer, 1)

    def _visit_scalar(self, node: Scalar, active: _ActiveThreads) -> None:
        stmt, exprs = node.stmt, list(evaluated(node.stmt))
        self._note_reads(exprs, active)
        if isinstance(stmt, ir.Bind):
            self._lower(stmt.var, self._kept_group(exprs, node))
        elif isinstance(stmt, ir.BufferStore) and _is_local(stmt.buffer):
            buffer = self.tree.root_of(stmt.buffer)
            self._stored.setdefault(buffer, set()).add(active)
            self._lower(buffer, min(active.control, self._kept_group(exprs, node)))
        elif isinstance(stmt, ir.Evaluate) and _may_store(stmt):
            # Instructions and CUDA source may store to anything that they are given.
            group = min(active.control, self._stored_group(stmt.value))
            for buffer in set(map(self.tree.root_of, filter(_is_local, _given(stmt.value)))):
                self._stored.setdefault(buffer, set()).add(active)
                self._lower(buffer, group)

    def _stored_group(self, call: Any) -> int:
        """The group of what a call stores to local memory."""
        known = intrinsic(call)
        return 1 if known is None or known.threads else self.group(call.args)

    def _kept_group(self, exprs: list[Any], node: Any) -> int:
        """The group of what a statement computes and keeps."""
        return BLOCK if self.is_done_once(exprs, node) else self.group(exprs)

    def is_done_once(self, exprs: list[Any], node: Any) -> bool:
        """Whether one thread evaluates the expressions of a statement for all: an atomic access in them is the block's."""
        atomic = any(is_atomic(part) for expr in exprs for part in walk_expr(expr))
        return atomic and node not in self.by_thread and not self.varies(exprs)

    def _note_reads(self, exprs: Iterable[Any], active: _ActiveThreads) -> None:
        for expr in exprs:
            for var in self._locals(expr):
                self._read.setdefault(var, set()).add(active)

    def _named(self, node: Any) -> set[Any]:
        """The local memory that a node itself names."""
        if isinstance(node, Operator):
            return {self.tree.root_of(buffer) for buffer in operands(node) if _is_local(buffer)}
        if isinstance(node, Parallel):
            return {self.tree.root_of(access.buffer) for access in node.nest.accesses if _is_local(access.buffer)}
        if not hasattr(node, "stmt"):
            return set()
        stmt = node.stmt
        stored = [stmt.buffer] if isinstance(stmt, ir.BufferStore) else []
        return {local for expr in (*stored, *statement_exprs(stmt)) for local in self._locals(expr)}

    def _locals(self, expr: Any) -> Iterator[Any]:
        return (self.tree.root_of(var) for var in variables(expr) if _is_local(var))


def _neighbours(threads: range, chosen: list[bool]) -> range | None:
    """The chosen threads, if they are neighbours."""
    numbers = [thread for thread, taken in zip(threads, chosen) if taken]
    return range(numbers[0], numbers[-1] + 1) if numbers and len(numbers) == numbers[-1] - numbers[0] + 1 else None


def is_store_of_all(node: Any, threads: range) -> bool:
    """Whether a node is a store to memory that threads make together, if they agree on its operands: as a ``T.Parallel`` over
    them, that of elements of fragments, which they hold together; and within a warp, one that changes an element of memory."""
    stmt: Any = node.stmt if isinstance(node, Scalar) else None
    if not isinstance(stmt, ir.BufferStore) or not is_memory(stmt.buffer):
        return False
    if in_one_warp(threads) and reads_its_place(stmt):
        return True
    parts = (part for expr in evaluated(stmt) for part in walk_expr(expr))
    return any(isinstance(part, ir.TensorLoad) and is_declared_fragment(part.source) for part in parts)


def is_return(node: Any) -> bool:
    """Whether a node ends the thread."""
    found = intrinsic(node.stmt.value) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate) else None
    return found is not None and found.exits


def _jump_conditions(node: Any, conditions: tuple[Any, ...], inner: bool = False) -> Iterator[list[Any]]:
    """Of each statement that leaves an iteration of the loop around, the conditions that it stands under; ``inner``: in a loop
    inside of it, which only ``return`` leaves with it."""
    jumps = isinstance(node, Scalar) and isinstance(node.stmt, (ir.Break, ir.Continue))
    if is_return(node) or (jumps and not inner):
        yield list(conditions)
    if isinstance(node, (Branch, Loop, Repeat)):
        conditions = (*conditions, *statement_exprs(node.stmt))
        inner = inner or not isinstance(node, Branch)
    for part in node.inside:
        yield from _jump_conditions(part, conditions, inner)


def _agree(group: int, threads: range) -> bool:
    # The first and the last thread lie in the same aligned group, so all between do.
    return group >= BLOCK or threads.start // group == (threads.stop - 1) // group


def _power_of_two(number: int) -> int:
    """The largest power of two that divides a number."""
    return number & -number


def computes_once(stmt: Any) -> bool:
    """Whether a nest's body uses what a call with an effect gives (the value before an atomic update, a random number): threads
    that run an iteration alike would each get another."""
    calls = (intrinsic(each.value) for each in walk_statements(stmt) if isinstance(each, ir.Bind))
    return any(call is not None and not call.pure and not call.threads for call in calls)


def replaces_what_it_reads(nest: Nest, root: Callable[[Any], Any]) -> bool:
    """Whether a nest reads memory that it writes: one thread stores, while others that run the iteration may still read."""
    memory = [access for access in nest.accesses if is_memory(access.buffer)]
    read = {root(access.buffer) for access in memory if access.kind == READ}
    return any(root(access.buffer) in read for access in memory if access.kind != READ)


def _may_store(stmt: Any) -> bool:
    """Whether the call of a statement may store to local memory that it is given. (Atomic accesses are of memory.)"""
    known = intrinsic(stmt.value)
    return assumed(stmt) is None and not (known is not None and (known.pure or known.keeps or known.is_atomic))


def _given(expr: Any) -> Iterator[Any]:
    """What a call is given, by value or as an element, without the variables that only say where the element is."""
    if isinstance(expr, ir.Var):
        yield expr
    elif isinstance(expr, ir.TensorLoad):
        yield expr.source
    elif isinstance(expr, ir.PrimExpr):
        for part in children_of(expr):
            yield from _given(part)


def _is_local(var: Any) -> bool:
    return ir.is_buffer_var(var) and is_local(var)


# Scratch ---------------------------------------------------------------------------------------------------------------


def scratch_of(tree: TileTree, is_kind: Callable[[Any], bool]) -> set[Any]:
    """Local memory of a kind that nests read only after the same iteration has stored to it, and that nothing else reads."""
    found = {buffer for buffer in tree.allocations if is_kind(buffer)}
    if not found:
        return found
    found -= {tree.root_of(view) for view in tree.aliases}
    for node in walk(tree.root):
        if isinstance(node, Parallel):
            named = found.intersection(access.buffer for access in node.nest.accesses)
            found -= {buffer for buffer in named if FirstUse(Memory(buffer), node.nest.body).read}
        elif isinstance(node, (Scalar, Operator, Branch, Loop, Repeat)):
            found -= _read_by(node)
    return found


def _read_by(node: Any) -> set[Any]:
    """Buffers that a node outside of nests may read."""
    if isinstance(node, Operator):
        return operands(node)
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore):
        return {access.buffer for access in node.accesses if access.kind == READ}
    return {part for part in own_expressions(node.stmt) if isinstance(part, ir.Var)}


def operands(node: Operator) -> set[Any]:
    """The buffers that an operator works on."""
    return {region.buffer for region, _ in node.op.regions()}
