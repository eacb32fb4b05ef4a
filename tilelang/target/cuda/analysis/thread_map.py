"""Which thread touches which element, told from the indices of an access.

An index is a sum of digits of the thread's number, of counted loops, and of what is not known. ``tile[i, tx]`` is touched by
thread ``tx`` alone whatever ``i`` is, and so is ``tile[64 * k + tx]`` of 64 threads. Two statements that tell the thread from
an element in the same way need no barrier between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk_expr
from tilelang.layout.digits import Digit, Form, NotMixedRadix, Term
from tilelang.layout.fragment import REGISTER, THREAD
from tilelang.records import Record
from tilelang.target.cuda.intrinsics.table import digit_of, intrinsic
from tilelang.target.cuda.ir.access import Sum, ThreadMap
from tilelang.target.cuda.tile.nest import by_digits
from tilelang.target.cuda.tile.program import thread_digits
from tilelang.target.cuda.tile.tree import Loop, Scalar, TileTree, walk


class Index(Record):
    """``form`` plus any multiple of ``step``; plus nothing where ``step`` is 0."""

    form: Form
    step: int = 0

    def __add__(self, other: Index) -> Index:
        return Index(self.form + other.form, math.gcd(self.step, other.step))

    def __sub__(self, other: Index) -> Index:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> Index:
        """The index times a constant. Negative multiples of thread digits are unknown, of others the common divisor is kept."""
        if factor < 0 and any(term.digit.coord == THREAD for term in self.form):
            return UNKNOWN
        if factor < 0:
            # 5 - 2 * i is 5 plus some multiple of 2, which is all that a step says; the digits themselves would need negative
            # weights.
            weights = [term.weight for term in self.form]
            return Index(Form((), self.form.offset * factor), math.gcd(self.step, *weights) * -factor)
        return Index(self.form.scaled(factor), self.step * factor)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest number; None where that is not known."""
        offset = self.form.offset
        return None if self.step or not isinstance(offset, int) else (offset, offset + sum(term.largest for term in self.form))

    def divmod(self, divisor: int) -> tuple[Index, Index]:
        """Quotient and remainder by a constant that is not negative."""
        if not divisor or self.step % divisor:
            return UNKNOWN, UNKNOWN
        try:
            quotient, remainder = self.form.divmod(divisor)
        except NotMixedRadix:
            return UNKNOWN, UNKNOWN
        return Index(quotient, self.step // divisor), Index(remainder)


UNKNOWN = Index(Form(), 1)

_VALUES = 64
"""As many elements of an axis that a thread touches in the iterations of its loops are looked at one by one."""


class ThreadMaps:
    """The indices of a kernel's statements as digits of its thread numbers.

    Args:
        threads: the variables of the thread's index with their extents.
    """

    def __init__(self, tree: TileTree, threads: Mapping[Any, int]):
        self.size = math.prod(threads.values())
        self._thread = Digit("thread", self.size, THREAD, 1)
        self._threads = frozenset(threads)
        self._known = {var: self._digit(*digit) for var, digit in thread_digits(threads.items()).items()}
        self._defined = {}
        for node in walk(tree.root):
            if isinstance(node, Loop):
                self._defined[node.stmt.loop_var] = node.stmt
            elif isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind):
                self._defined[node.stmt.var] = node.stmt

    def single(self, thread: int) -> ThreadMap:
        """Accesses that one thread makes."""
        return ThreadMap(None, frozenset(), thread, 1)

    def of(
        self,
        buffer: Any,
        indices: Iterable[Any],
        threads: range,
        axes: Mapping[Any, Index] | None = None,
        is_placed: bool = False,
        elements: int = 1,
    ) -> ThreadMap:
        """The map from threads to the elements that they access in a buffer.

        Args:
            indices: of the access; numbers of threads in them count from 0 even where ``threads`` do not.
            threads: consecutive threads of the block that run the access.
            is_placed: whether the map tells different indices from equal ones, and what they are.
            elements: how many in a row each access touches.
        """
        digits: set[tuple[int, int, int, int, int]] = set()
        found = [self._index(index, axes or {}) for index in indices]
        if elements > 1:
            found[-1] += Index(Form.of_digit(Digit("element", elements, REGISTER)))
        for axis, index in enumerate(found):
            digits.update(_readable_digits(axis, index))
        place = (
            hash(tuple(map(tvm_ffi.structural_hash, indices)))
            if is_placed and elements == 1 and self._is_computed(indices)
            else None
        )
        count = len(threads) if is_aligned(threads) else threads.stop
        sums = tuple(map(_sum, found)) if is_placed else ()
        return ThreadMap(buffer, frozenset(digits), threads.start, count, place, tuple(index.bounds for index in found), sums)

    def _is_computed(self, exprs: Iterable[Any]) -> bool:
        """Whether values come from numbers of threads and loops alone."""
        for expr in exprs:
            for part in () if isinstance(expr, int) else walk_expr(expr):
                if isinstance(part, ir.TensorLoad) or (isinstance(part, ir.Call) and digit_of(part) is None):
                    return False
                if isinstance(part, ir.Var) and not self._is_number(part):
                    return False
        return True

    def _is_number(self, var: Any) -> bool:
        """Whether a variable numbers threads or iterations, or is computed from such."""
        stmt = self._defined.get(var)
        if stmt is None:
            return var in self._threads
        return self._is_computed([stmt.value if isinstance(stmt, ir.Bind) else stmt.min])

    def distributed(self, parts: Iterable[tuple[Digit, int]], offset: int) -> Index:
        """The variable of a nest: digits of threads and registers with their weights, plus an offset."""
        terms = [
            Term(self._thread, weight, digit.stride, digit.extent)
            if digit.coord == THREAD
            else Term(digit, weight, 1, digit.extent)
            for digit, weight in parts
        ]
        return Index(Form(tuple(terms), offset))

    # Indices -----------------------------------------------------------------------------------------------------------

    def _digit(self, low: int, extent: int) -> Index:
        return Index(Form((Term(self._thread, 1, low, extent),) if extent > 1 else ()))

    def _index(self, expr: Any, axes: Mapping[Any, Index]) -> Index:
        def part(expr: Any) -> Index | None:
            value = _constant(expr)
            if value is not None:
                return Index(Form((), value))
            if isinstance(expr, ir.Var):
                return axes[expr] if expr in axes else self._variable(expr)
            return None if intrinsic(expr) is None else self._intrinsic(expr)

        return by_digits(expr, part, lambda expr: UNKNOWN)

    def _variable(self, var: Any) -> Index:
        if var not in self._known:
            self._known[var] = UNKNOWN  # until its definition is read
            self._known[var] = self._definition(self._defined.get(var))
        return self._known[var]

    def _definition(self, stmt: Any) -> Index:
        if isinstance(stmt, ir.Bind):
            return self._index(stmt.value, {})
        if not isinstance(stmt, ir.For):
            return UNKNOWN
        step = 1 if stmt.step is None else _constant(stmt.step)
        if step is None or step <= 0:
            return UNKNOWN
        extent = _constant(stmt.extent)
        if extent is not None and extent > 0:
            # Named with a number of its own: two loops over variables of one name are two digits.
            counter = Digit(f"{stmt.loop_var.name} {len(self._known)}", -(-extent // step), REGISTER)
            return self._index(stmt.min, {}) + Index(Form.of_digit(counter, step))
        # A loop of unknown length: its variable is the start plus any multiple of the step.
        return self._index(stmt.min, {}) + Index(Form(), step)

    def _intrinsic(self, expr: Any) -> Index:
        low, extent = digit_of(expr) or (0, 0)
        if not low or self.size % (low * max(extent, 1)):
            return UNKNOWN
        return self._digit(low, extent or self.size // low)


def is_aligned(threads: range) -> bool:
    """Whether threads have the same low bits in the block as in their group: it starts at a multiple of its size, rounded up to a
    power of two."""
    return threads.start % (1 << (len(threads) - 1).bit_length()) == 0


def _sum(index: Index) -> Sum | None:
    """An index of few values in each thread as plain numbers; None where it has others, or they are not known."""
    of_loops = math.prod(term.extent for term in index.form if term.digit.coord != THREAD)
    if index.step or not isinstance(index.form.offset, int) or of_loops > _VALUES:
        return None
    parts = ((term.weight, term.low if term.digit.coord == THREAD else 0, term.extent) for term in index.form)
    return index.form.offset, tuple(parts)


def _constant(expr: Any) -> int | None:
    return expr if isinstance(expr, int) else int(expr.value) if isinstance(expr, ir.IntImm) else None


def _readable_digits(axis: int, index: Index) -> Iterable[tuple[int, int, int, int, int]]:
    """The digits of the thread's number that can be read off an index: no carry enters them, and all above is a multiple."""
    # Bit by bit, since two statements may cut a thread's number differently: t % 32 and (t % 8, t // 8 % 4) have the same bits.
    terms = [part for term in index.form for part in (_bits(term) if term.digit.coord == THREAD else [term])]
    for term in terms:
        span = term.weight * term.extent
        others = [other for other in terms if other is not term]
        below = sum(other.largest for other in others if other.weight < term.weight)
        above = [other.weight for other in others if other.weight >= term.weight] + [index.step]
        if term.digit.coord == THREAD and below < term.weight and not any(weight % span for weight in above):
            # The part of the offset below the digit is dropped where it causes no carry: 4 * t + 1 and 4 * t + 3 tell the same
            # thread from index // 4.
            rest = index.form.offset % term.weight
            offset = index.form.offset - (rest if below + rest < term.weight else 0)
            yield axis, term.weight, term.low, term.extent, offset % span


def _bits(term: Term) -> list[Term]:
    """The term as a sum of terms of two values each, as far as its extent is even."""
    found = []
    while term.extent > 2 and term.extent % 2 == 0:
        low, term = term.split(2)
        found.append(low)
    return [*found, term]
