"""Conversions of fragments whose elements lanes of a warp give each other by shuffles; inference makes copies of all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tilelang.layout.digits import Digit
from tilelang.layout.fragment import REGISTER, FragmentLayout
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.codegen.nest_loops import part_of
from tilelang.target.cuda.inference.warp_shuffle import WarpShuffle, brings_each_element, warp_shuffle
from tilelang.target.cuda.ir.code import Code, leaf, scoped
from tilelang.target.cuda.ir.instructions import Assign, Define
from tilelang.target.cuda.ir.values import Array, Call, Name, Select, Value, total
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.tile.build import copy_nest
from tilelang.target.cuda.tile.convert_layout import ConvertLayout
from tilelang.target.cuda.tile.tree import Parallel
from tilelang.tileop.copy import Copy


@implements(ConvertLayout)
class ConvertLayoutRule(OperatorRule):
    """``convert_layout``: a copy, or where it stays in the tree shuffles inside of warps."""

    in_warps = True

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        copy = Copy(op.src, op.dst)
        return [Parallel(copy_nest(copy, span), copy)]

    def proofs(self, op: Any, fragments: Mapping[Any, FragmentLayout], threads: int) -> Iterator[tuple[bool, Any, str]]:
        source, target = (fragments[region.buffer] for region in (op.src, op.dst))
        found = warp_shuffle(source, target)
        proved = found is not None and threads % WARP == 0 and brings_each_element(found, source, target)
        yield proved, op.dst.buffer, "a conversion does not bring every element to its threads"

    def cost(self, op: Any, fragments: Mapping[Any, FragmentLayout]) -> float:
        found = warp_shuffle(*(fragments[region.buffer] for region in (op.src, op.dst)))
        return 0 if found is None else found.cost

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        found = warp_shuffle(*(e.layouts.fragments[region.buffer] for region in (op.src, op.dst)))
        assert found is not None
        with e.names.block():
            code = _ShuffleWriter(e, found).code(e.array(op.src.buffer), e.array(op.dst.buffer), op.dst.dtype)
        return [leaf(code)]


class _ShuffleWriter:
    """The code of the shuffles.

    Attributes:
        loops: over the registers under the new layout.
    """

    def __init__(self, emitter: Any, found: WarpShuffle):
        self.e, self.found = emitter, found
        self.loops: list[tuple[Name, int]] = []
        self.values = {digit: self._digit(digit) for digit in found.digits}

    def _digit(self, digit: Digit) -> Value:
        if digit.coord != REGISTER:
            return self.e.digit(digit)
        name = self.e.names.take("r")
        self.loops.append((name, digit.extent))
        return name

    def code(self, source: Array, target: Array, dtype: str) -> list[Code]:
        """The loops, and in them the shuffles for one element. All lanes make all of them."""
        found, e = self.found, self.e
        own = total(part_of(self.values[term.digit], term) * term.weight for term in found.register if term not in found.choices)
        lane = total(part_of(self.values[term.digit], term) * term.weight for term in found.lane)
        # A shuffle sends the register that the sender names, which cannot depend on the receiver: every register that some
        # receiver wants is sent, and each receiver chooses.
        definitions, parts = [], []
        for offset in found.offsets():
            value: Value = source.at(own + offset)
            if found.moves:
                value = Call("tl::shfl_idx", (value, lane))
            parts.append(e.names.take("part"))
            definitions.append(Define(parts[-1], dtype, value))
        place = target.at(total(self.values[digit] * stride for digit, stride in found.places))
        body = [*definitions, Assign(place, self._chosen(parts))]
        return scoped(self.loops, body)

    def _chosen(self, parts: list[Name]) -> Value:
        """The part that this thread's number tells."""
        number, weight = [], 1
        for term in self.found.choices:
            number.append(part_of(self.values[term.digit], term) * weight)
            weight *= term.extent
        # A register cannot be chosen by a number that the thread computes (registers have no addresses): all candidates are
        # shuffled, and the receiver selects one.
        chosen: Value = parts[-1]
        for place, part in reversed(list(enumerate(parts[:-1]))):
            chosen = Select(total(number).is_("==", place), part, chosen)
        return chosen
