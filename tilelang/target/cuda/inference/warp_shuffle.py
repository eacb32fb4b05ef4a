"""Warp shuffles: a fragment brought to another layout by the lanes of each warp, through registers alone.

A thread that is to hold an element must know the lane that holds it now, and the register there. Both are functions of the
thread's own number and of the register that the element is to lie in: under the new layout these two are the digits of the
element's index, and the old layout makes sums of the same digits of them (:mod:`tilelang.layout.digits`). Where the sums are
exact and never leave the warp, one shuffle brings an element. Where the old register depends on the receiver's number, the lanes
want different registers of the senders: each of these is shuffled, and the receiver selects.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from tilelang.layout.digits import Digit, Form, NotMixedRadix, Term
from tilelang.layout.fragment import REGISTER, THREAD, FragmentLayout, Mode
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.inference.cost import SHUFFLE
from tilelang.target.cuda.inference.loop_layout import Dimension, LoopLayout
from tilelang.target.cuda.inference.verify import running_thread, same_values


class WarpShuffle(Record, eq=False):
    """How each thread gets the elements that it holds under the new layout, as sums of digits of its number and of the loops.

    Attributes:
        loop: the loops over the thread's elements under the new layout.
        thread: the number of the thread that runs them.
        lane: the lane of its warp that holds the element under the old layout.
        register: the element's register there.
    """

    loop: LoopLayout
    thread: Form
    lane: Form
    register: Form

    @property
    def moves(self) -> bool:
        """Whether a thread needs elements of others."""
        return not same_values(self.lane, self.thread.divmod(WARP)[1])

    @property
    def choices(self) -> list[Term]:
        """The parts of a thread's number that decide about the register."""
        return [term for term in self.register if term.digit.coord != REGISTER]

    def offsets(self) -> Iterator[int]:
        """What each combination of the choices adds to the register's number, the first choice moving fastest."""
        ranges = [range(0, term.weight * term.extent, term.weight) for term in reversed(self.choices)]
        return (sum(parts) for parts in itertools.product(*ranges))

    @property
    def digits(self) -> list[Digit]:
        """The digits of the loops and of the thread's number."""
        return [*(digit for axis in self.loop.digits for digit, _ in axis), *_replicas(self.thread)]

    @property
    def places(self) -> list[tuple[Digit, int]]:
        """The digits of the element's register under the new layout, with their strides."""
        axes = zip(self.loop.digits, self.loop.dims)
        pairs = (pair for digits, dim in axes for pair in zip(digits, dim.modes))
        return [(digit, mode.stride) for (digit, _), mode in pairs if mode.coord == REGISTER]

    @property
    def cost(self) -> float:
        """Cycles of a warp (:mod:`tilelang.target.cuda.inference.cost`)."""
        # Every lane makes every shuffle: for each of its elements, one for each register that some receiver may want.
        steps = math.prod(digit.extent for digit, _ in self.places)
        ways = math.prod(term.extent for term in self.choices)
        return steps * ways * (1 + SHUFFLE * self.moves)


def warp_shuffle(source: FragmentLayout, target: FragmentLayout) -> WarpShuffle | None:
    """The shuffles from one layout to another of the same tile; None where it would leave the warp, or is no sum of digits."""
    # Padding makes the last digit of an axis larger than its positions: the digits of the two layouts would not number the same
    # elements.
    if source.is_padded or target.is_padded or source.shape != target.shape:
        return None
    loop = LoopLayout(tuple(map(Dimension, range(len(target.shape)), target.modes, target.shape)), target.replicas)
    thread, lane, warp, register = running_thread(loop), Form(), Form(), Form()
    try:
        for mode, digit in _digits_under(source, loop, thread):
            if mode.coord == REGISTER:
                register = register + digit.scaled(mode.stride)
            elif mode.stride >= WARP:
                warp = warp + digit.scaled(mode.stride)
            else:
                # A mode of threads may reach over the end of a warp: its low digits number lanes, the others warps.
                above, below = digit.divmod(WARP // mode.stride)
                lane, warp = lane + below.scaled(mode.stride), warp + above.scaled(WARP)
        own = thread.divmod(WARP)
    except NotMixedRadix:
        return None
    # A shuffle reads lanes of its own warp only, so the element must be in the warp that wants it.
    return WarpShuffle(loop, thread, lane, register) if same_values(warp, own[0].scaled(WARP)) else None


def _digits_under(source: FragmentLayout, loop: LoopLayout, thread: Form) -> Iterator[tuple[Mode, Form]]:
    """The modes of a layout with the digits that an element has there; of several copies, that in the thread's own place."""
    for axis, modes in enumerate(source.modes):
        position, weight = loop.position(axis), 1
        for mode in modes:
            yield mode, position.between(weight, mode.extent)
            weight *= mode.extent
    for mode in source.replicas:
        yield mode, thread.between(mode.stride, mode.extent)


def brings_each_element(found: WarpShuffle, source: FragmentLayout, target: FragmentLayout) -> bool:
    """Whether each thread gets the elements that the new layout says, by evaluating the sums for every index.

    The sums add up what each axis contributes, so that one axis at a time is enough, and the replicas by themselves.
    """
    copies, replicas = set(source.owners([0] * len(source.shape))), _replicas(found.thread)
    numbers = itertools.product(*(range(digit.extent) for digit in replicas))
    if any(_sender(found, dict(zip(replicas, values))) not in copies for values in numbers):
        return False
    for axis, size in enumerate(target.shape):
        for position in range(size):
            index = [position if other == axis else 0 for other in range(len(target.shape))]
            thread, register = source.locate(index)
            values = _digits_of(found.loop, axis, position)
            if _value(found.register, values) != register or _sender(found, values) - thread not in copies:
                return False
    return True


def _digits_of(loop: LoopLayout, axis: int, position: int) -> dict[Digit, int]:
    """The digits of a position along an axis."""
    values = {}
    for digit, _ in loop.digits[axis]:
        position, values[digit] = divmod(position, digit.extent)
    return values


def _replicas(thread: Form) -> list[Digit]:
    return [term.digit for term in thread if term.digit.coord not in (THREAD, REGISTER)]


def _sender(found: WarpShuffle, values: dict[Digit, int]) -> int:
    return _value(found.thread, values) // WARP * WARP + _value(found.lane, values)


def _value(form: Form, values: dict[Digit, int]) -> int:
    """The value of a sum of digits; digits without a value are zero."""
    return form.offset + sum(values.get(t.digit, 0) // t.low % t.extent * t.weight for t in form)
