"""How a nest's iterations are distributed: which thread runs each, and in which of its unrolled steps.

A loop layout is made of *dimensions*. Most are axes of the nest cut into modes, as a fragment's axes are. A dimension may also
walk a fragment's axis that the nest uses only in part: then the axis' variable is the position less a shift, or (hidden) the
position must equal a given index, and a guard drops all other positions.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilelang.ir.expr import as_int
from tilelang.layout.digits import Digit, Form, NotMixedRadix, Term, largest_divisor
from tilelang.layout.fragment import (
    REGISTER,
    THREAD,
    FragmentLayout,
    Mode,
    merge_modes,
    on_register,
    on_thread,
    split_modes,
    thread_offsets,
)
from tilelang.records import Record
from tilelang.target.cuda.tile.nest import Axis, form_of


class Dimension(Record, eq=False):
    """One index that the distributed loop walks.

    Attributes:
        var: the nest's variable, equal to the position minus ``shift``; None for a hidden dimension.
        modes: minor first.
        extent: the nest's extent of ``var``; of a hidden dimension, its size.
        shift: see ``var``.
        equals: of a hidden dimension, the position at which the body runs.
    """

    var: Any
    modes: tuple[Mode, ...]
    extent: int
    shift: Any = 0
    equals: Any = None

    @property
    def size(self) -> int:
        """Positions that the modes cover."""
        return math.prod(mode.extent for mode in self.modes)

    @property
    def is_shifted(self) -> bool:
        """Whether the variable is another number than the position."""
        return not (isinstance(self.shift, int) and self.shift == 0)


class LoopLayout(Record, eq=False):
    """A distributed nest.

    Attributes:
        dims: outermost first.
        replicas: thread modes along which iterations are repeated.
    """

    dims: tuple[Dimension, ...]
    replicas: tuple[Mode, ...] = ()

    def to_text(self) -> str:
        """The modes of each dimension, as a fragment's layout writes those of its axes."""
        return json.dumps([[[mode.extent, mode.stride, mode.coord[0]] for mode in dim.modes] for dim in self.dims])

    @property
    def threads(self) -> int:
        """Threads that take part; they are numbered from 0 without gaps."""
        modes = (mode for modes in (*(dim.modes for dim in self.dims), self.replicas) for mode in modes)
        return math.prod(mode.extent for mode in modes if mode.coord == THREAD)

    @property
    def steps(self) -> int:
        """Iterations that a thread runs one after the other."""
        return math.prod(mode.extent for dim in self.dims for mode in dim.modes if mode.coord == REGISTER)

    @functools.cached_property
    def digits(self) -> list[list[tuple[Digit, int]]]:
        """Of each dimension, its digits with their weights, minor first."""
        found = []
        for place, dim in enumerate(self.dims):
            weight, digits = 1, []
            for number, mode in enumerate(dim.modes):
                thread_stride = mode.stride if mode.coord == THREAD else 0
                digits.append((Digit(f"d{place}_{number}", mode.extent, mode.coord, thread_stride), weight))
                weight *= mode.extent
            found.append(digits)
        return found

    @functools.cached_property
    def forms(self) -> dict[Any, Form]:
        """The nest's variables as sums of digits."""
        places = ((dim, self.position(place)) for place, dim in enumerate(self.dims) if dim.var is not None)
        return {dim.var: form.shifted(-dim.shift) if dim.is_shifted else form for dim, form in places}

    def position(self, place: int) -> Form:
        """The position along a dimension as a sum of digits."""
        return sum((Form.of_digit(digit, weight) for digit, weight in self.digits[place]), Form())

    def position_of(self, index: Any, modes: Sequence[Mode]) -> Form:
        """An index along an axis with these modes as a sum of digits; a fixed one is the position of the hidden dimension that
        stands for it."""
        form = form_of(index, self.forms)
        for place, dim in enumerate(() if form.terms else self.dims):
            if dim.var is None and dim.modes == modes and same_index(dim.equals, form.offset):
                return self.position(place)
        return form


# From a fragment to the loop that walks it ---------------------------------------------------------------------------


def loop_from_fragment(axes: Sequence[Axis], indices: Sequence[Any], layout: FragmentLayout) -> LoopLayout | None:
    """The distribution of a nest in which each thread runs the iterations whose fragment element it holds.

    Axes that the indices do not use are distributed over the replicas of the fragment.

    Args:
        axes: of the nest, outermost first.
        indices: of the access to the fragment, one for each of its axes.

    Returns:
        None if an index is not a sum of axis variables with mixed-radix weights and a constant, or if the fragment lies in
        several threads along an axis that must be within one.
    """
    extents = {axis.var: axis.extent for axis in axes}
    digits = {axis.var: Digit(str(number), axis.extent, REGISTER) for number, axis in enumerate(axes)}
    forms = {var: Form.of_digit(digit) for var, digit in digits.items()}
    variables = {digit: var for var, digit in digits.items()}
    found: dict[Any, Dimension] = {}
    hidden: list[Dimension] = []
    for index, modes, size in zip(indices, layout.modes, layout.shape):
        try:
            form = form_of(index, forms)
        except NotMixedRadix:
            return None
        if not _take_index(form, modes, size, variables, extents, found, hidden):
            return None
    # tile[i, i]: one variable cannot walk two axes.
    if len({id(dim.var) for dim in found.values()}) != len(found):
        return None
    dims, replicas = [], layout.replicas
    missing = [axis for axis in axes if axis.var not in found]
    # c[i] += x[i, j] with copies of c in several threads: j has no place in c, and the threads with copies share its iterations.
    # The last axis first, since it is contiguous in most tensors, so that neighbouring threads get neighbouring elements.
    for axis in reversed(missing):
        found[axis.var], left = _over_replicas(axis, () if axis.within_thread else replicas)
        replicas = replicas if axis.within_thread else left
    dims = [found[axis.var] for axis in axes]
    if any(axis.within_thread and mode.coord == THREAD for axis, dim in zip(axes, dims) for mode in dim.modes):
        return None
    return LoopLayout((*hidden, *dims), replicas)


def whole_loop(axes: Sequence[Axis], indices: Sequence[Any], layout: FragmentLayout) -> LoopLayout:
    """As :func:`loop_from_fragment` for a nest over the whole fragment, indexed by its axes: such a distribution always
    exists."""
    loop = loop_from_fragment(axes, indices, layout)
    assert loop is not None
    return loop


def _take_index(form, modes, size, variables, extents, found, hidden) -> bool:
    """Turns one index of the access into dimensions; False where it is too complicated."""
    if not form.terms:
        # A fixed index, as in c[i, 3]: only the threads that hold column 3 may run the iteration. The hidden dimension walks all
        # columns, and the guard drops those other than 3, which are other threads. Modes in registers need none: a register is
        # named by its number.
        if any(mode.coord == THREAD for mode in modes):
            hidden.append(Dimension(None, modes, size, equals=form.offset))
        return True
    # An index is a sum of variables in mixed radix, such as i * 16 + j with j < 16: then each variable owns a range of digits of
    # the index, and takes the modes that these digits have in the fragment.
    if len(form.terms) == 1:
        return _take_variable(form, modes, variables, extents, found)
    ordered = sorted(form.terms, key=lambda term: term.weight)
    weight = 1
    for term in ordered:
        var = variables.get(term.digit)
        if var is None or term.low != 1 or term.extent != extents[var] or term.weight != weight or var in found:
            return False
        weight *= term.extent
    if weight != size or form.offset != 0:
        return False
    # The fastest-moving variable takes the lowest digits.
    rest = list(modes)
    for term in ordered:
        var = variables[term.digit]
        taken, rest = split_modes(rest, term.extent)
        if taken is None:
            return False
        found[var] = Dimension(var, tuple(taken), term.extent)
    return True


def _take_variable(form, modes, variables, extents, found) -> bool:
    """Turns an index of one variable into a dimension, if it is the whole variable."""
    (term,) = form.terms
    var, step, start = variables.get(term.digit), term.weight, form.offset
    if var is None or term.low != 1 or term.extent != extents[var] or var in found:
        return False
    between, rest = split_modes(list(modes), step)
    part = None
    # Of every second element those between are other registers of the same threads.
    if isinstance(start, int) and between is not None and all(mode.coord == REGISTER for mode in between):
        part = _part_of(rest, start // step, term.extent)
    if part is None and step > 1:
        return False
    found[var] = Dimension(var, tuple(modes), term.extent, start) if part is None else Dimension(var, part, term.extent)
    return True


def _part_of(modes: Sequence[Mode], start: Any, size: int) -> tuple[Mode, ...] | None:
    """The modes of ``size`` positions from ``start`` on, if these are whole digits and some values of a digit in registers.

    Positions 128 to 191 of an axis of 8 elements a thread, 8 threads and 3 registers of such are all of the first two digits.
    """
    if not isinstance(start, int) or start < 0:
        return None
    part: list[Mode] = []
    for mode in modes:
        if start % mode.extent == 0 and size % mode.extent == 0:
            part.append(mode)
        # A part of the threads is a matter of guards: a thread runs no fewer steps for it.
        elif mode.coord == THREAD or start % mode.extent + size > mode.extent:
            return None
        elif size > 1:
            part.append(on_register(size, mode.stride))
        start, size = start // mode.extent, max(size // mode.extent, 1)
    return tuple(part) if size == 1 and start == 0 else None


def _over_replicas(axis: Any, replicas: tuple[Mode, ...]) -> tuple[Dimension, tuple[Mode, ...]]:
    """An axis distributed over replica threads, the rest of it over registers."""
    left, modes, remaining = axis.extent, [], []
    for mode in replicas:
        common = math.gcd(left, mode.extent)
        if common > 1:
            modes.append(on_thread(common, mode.stride))
            left //= common
        if mode.extent // common > 1:
            remaining.append(on_thread(mode.extent // common, mode.stride * common))
    if left > 1:
        modes.append(on_register(left, 1))
    return Dimension(axis.var, tuple(modes), axis.extent), merge_modes(remaining)


# A loop that no fragment determines ----------------------------------------------------------------------------------


def free_loop(axes: Sequence[Axis], threads: int, vector: int, order: Sequence[int] | None = None) -> LoopLayout:
    """A distribution for coalesced access: neighbouring threads take neighbouring vectors.

    Args:
        vector: elements of the first axis of ``order`` that one thread takes together.
        order: axes by contiguity in memory, the contiguous one first; the last axis by default.
    """
    order = list(order) if order is not None else list(range(len(axes)))[::-1]
    extents = [axes[place].extent or 1 for place in order]  # one without elements is laid out as one with one
    # From here on the first axis is counted in vectors, which are not divided between threads.
    extents[0] = extents[0] // vector
    shares = _thread_shares([1 if axes[place].within_thread else extent for place, extent in zip(order, extents)], threads)
    dims: dict[int, Dimension] = {}
    stride = 1
    for rank, (place, share, extent) in enumerate(zip(order, shares, extents)):
        modes = [on_register(vector, 1)] if rank == 0 and vector > 1 else []
        if share > 1:
            modes.append(on_thread(share, stride))
            stride *= share
        # Rounded up: the threads that run past the end of the axis are guarded.
        steps = -(-extent // share)
        if steps > 1:
            modes.append(on_register(steps, 1))
        dims[place] = Dimension(axes[place].var, tuple(modes), axes[place].extent)
    # Spare threads repeat iterations, so that they hold the results as well; where they cannot be divided evenly they idle.
    left = threads // stride if threads % stride == 0 else 1
    replicas = (on_thread(left, stride),) if left > 1 else ()
    return LoopLayout(tuple(dims[place] for place in range(len(axes))), replicas)


def private_loop(axes: Sequence[Axis], threads: int) -> LoopLayout:
    """Every thread runs every iteration."""
    dims = tuple(Dimension(axis.var, (on_register(axis.extent, 1),) if axis.extent > 1 else (), axis.extent) for axis in axes)
    return LoopLayout(dims, (on_thread(threads, 1),) if threads > 1 else ())


def _thread_shares(extents: Sequence[int], threads: int) -> list[int]:
    """How many threads lie along each extent, contiguous first: the choice with the fewest steps; of those
    one that divides the block, so that shuffles serve reductions, then the most even."""

    def score(shares: list[int]) -> tuple[int, bool, int]:
        each = [-(-extent // share) for extent, share in zip(extents, shares)]
        waste = sum(count * share - extent for count, share, extent in zip(each, shares, extents))
        # 96 iterations over 64 threads: shares 64 and 48 both take two steps. 32 takes three, so 64, which divides the block, is
        # chosen.
        return math.prod(each), threads % math.prod(shares) != 0, waste

    return min(_choices(list(extents), threads), key=score)


def _choices(extents: list[int], threads: int) -> list[list[int]]:
    if not extents:
        return [[]]
    extent = extents[0]
    # The shares worth comparing: one that divides both numbers, so that nothing idles; the largest that divides the axis; as many
    # threads as fit, with a guard at the edge.
    options = {math.gcd(extent, threads), largest_divisor(extent, threads), min(extent, threads)}
    found = []
    for share in sorted(options, reverse=True):
        found += [[share, *rest] for rest in _choices(extents[1:], threads // share)]
    return found


# From a loop to the fragments that it touches ------------------------------------------------------------------------


def fragment_from_loop(shape: Sequence[int], indices: Sequence[Any], loop: LoopLayout) -> FragmentLayout | None:
    """The layout that places the fragment element of every iteration in the thread that runs the iteration.

    Returns:
        None if there is no such layout.
    """
    forms = loop.forms
    used: list[Term] = []
    axes = []
    for index, extent in zip(indices, shape):
        try:
            form, step = _steps(form_of(index, forms))
            # The element's index must tell which iteration runs, so its digits have to make up the whole index, each once.
            terms = form.radix()
        except NotMixedRadix:
            return None
        size = math.prod(term.extent for term in terms)
        # Where the nest reaches a part of this axis only, the other parts of that size lie in the same threads: with no variable
        # in the index each element by itself. If the axis does not consist of such parts, elements would have no place.
        count = max(1, extent // (step * size))
        is_whole = step == 1 and size >= extent and isinstance(form.offset, int) and form.offset == 0
        if not is_whole and (count * step * size != extent or (terms and not _divides(size, form.offset))):
            return None
        modes = [on_register(step, 1)] if step > 1 else []
        for term in terms:
            if any(term.overlaps(other) for other in used):  # tile[j, j % 2]: no element stands for each place in the registers
                return None
            used.append(term)
            # Registers are numbered afterwards, without gaps, by `compact`; a thread's number is what the loop says.
            thread_stride = term.digit.stride * term.low if term.digit.coord == THREAD else 1
            modes.append(Mode(term.extent, thread_stride, term.digit.coord))
        axes.append((*modes, *([on_register(count, 1)] if count > 1 else [])))
    parts = [(term.digit, term.low, term.extent) for index in indices for term in form_of(index, forms)]
    # Threads of the loop that no index moves run other iterations over the same element (a reduction, or a row that every column
    # reads), so each of them holds a copy.
    replicas = [*loop.replicas, *_left_out(loop, parts)]
    return FragmentLayout(tuple(shape), tuple(axes), merge_modes(replicas)).compact()


def _steps(form: Form) -> tuple[Form, int]:
    """An index of every second, third, … position as the number of these steps, and their length.

    Raises:
        NotMixedRadix: the positions between are no digit.
    """
    step = min((term.weight for term in form), default=1)
    return (form.divmod(step)[0], step) if step > 1 else (form, 1)


def _divides(size: int, offset: Any) -> bool:
    return isinstance(offset, int) and offset % size == 0


def _left_out(loop: LoopLayout, parts: Iterable[tuple[Digit, int, int]]) -> list[Mode]:
    """The thread modes of a loop that parts (low, extent) of its digits leave out."""
    used: dict[Digit, list[tuple[int, int]]] = {}
    for digit, low, extent in parts:
        used.setdefault(digit, []).append((low, extent))
    digits = (digit for axis in loop.digits for digit, _ in axis if digit.coord == THREAD)
    return [gap for digit in digits for gap in _gaps(digit, sorted(used.get(digit, [])))]


def _gaps(digit: Digit, parts: list[tuple[int, int]]) -> list[Mode]:
    """The parts of a thread digit that ``parts`` (low, extent) leave out."""
    found, low = [], 1
    for start, extent in parts:
        if start > low:
            found.append(on_thread(start // low, digit.stride * low))
        # `low` is how much of the digit is accounted for: a digit of 32 with parts (1, 4) and (16, 2) leaves (4, 4) out.
        low = start * extent
    if low < digit.extent:
        found.append(on_thread(digit.extent // low, digit.stride * low))
    return found


# The register of an element in a loop --------------------------------------------------------------------------------


def register_form(
    access_indices: Sequence[Any], layout: FragmentLayout, loop: LoopLayout, every_copy: bool = False
) -> Form | None:
    """The number of the register that holds an iteration's element, as a sum of the loop's register digits.

    Args:
        every_copy: whether every thread with a copy of the element must run the iteration.

    Returns:
        None if a thread runs an iteration whose element it does not hold, or if ``every_copy`` does not hold.
    """
    position = Form()
    threads: dict[tuple[Digit, int, int], int] = {}
    for index, modes in zip(access_indices, layout.modes):
        try:
            form = loop.position_of(index, modes)
            if not form.terms and not isinstance(form.offset, int):
                if any(mode.coord == THREAD for mode in modes):
                    return None
                position = position.shifted(register_of(form.offset, modes))
                continue
            for mode, part in _placed(form, modes):
                if mode.coord == REGISTER:
                    position = position + part.scaled(mode.stride)
                    continue
                # A constant part of the thread would be another thread's element.
                if not (isinstance(part.offset, int) and part.offset == 0):
                    return None
                places = {(term.digit, term.low, term.extent): term.weight * mode.stride for term in part}
                if places.keys() & threads.keys():
                    return None  # tile[i, i] needs i as two digits of the thread's number, and the loop has it as one
                threads |= places
        except NotMixedRadix:
            return None
    # A register whose number depends on the thread would need an array in local memory.
    if any(term.digit.coord == THREAD for term in position):
        return None
    return position if _threads_agree(threads, layout, loop, every_copy) else None


def _placed(form: Form, modes: Sequence[Mode]) -> Iterator[tuple[Mode, Form]]:
    """The modes of an axis, each with the digits of an index that it places."""
    weight = 1
    for mode in modes[:-1]:
        yield mode, form.between(weight, mode.extent)
        weight *= mode.extent
    # The last mode takes all that is left, since the padding of an axis is never indexed.
    yield from ((mode, form.divmod(weight)[0]) for mode in modes[-1:])


def register_of(index: Any, modes: Sequence[Mode]) -> Any:
    """What an index adds to the register's number along an axis that lies in registers."""
    total: Any = 0
    for number, mode in enumerate(modes):
        total = total + (index if number == len(modes) - 1 else index % mode.extent) * mode.stride
        index = index // mode.extent
    return total


def same_index(a: Any, b: Any) -> bool:
    """Whether two indices are the same number or the same expression."""
    a, b = as_int(a), as_int(b)
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a is b or a.same_as(b)


def _threads_agree(
    threads: Mapping[tuple[Digit, int, int], int], layout: FragmentLayout, loop: LoopLayout, every_copy: bool
) -> bool:
    """Whether the fragment's thread modes are the loop's own thread digits, and its replicas cover all other threads."""
    if any(digit.coord != THREAD or stride != digit.stride * low for (digit, low, _), stride in threads.items()):
        return False
    axes = [mode for modes in layout.modes for mode in modes if mode.coord == THREAD]
    # Each thread digit of the index has its place in the fragment by now. Equal sizes say that no thread mode of the fragment is
    # left without one, where the iteration's element would be in a thread that this one is not.
    if math.prod(extent for _, _, extent in threads) != math.prod(mode.extent for mode in axes):
        return False
    chosen = _left_out(loop, threads)  # the threads along them run other iterations, or none
    # A store has to reach every copy, and no thread without one: repetitions and replicas must be the same threads.
    if every_copy:
        return not chosen and thread_offsets(loop.replicas) == thread_offsets(layout.replicas)
    return thread_offsets([*loop.replicas, *chosen]) <= thread_offsets(layout.replicas)
