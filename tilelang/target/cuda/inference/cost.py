"""What layouts cost: cycles of a warp, roughly, that the statements of a kernel take under them.

Only differences between layouts matter, so arithmetic that every layout does alike is left out. Counted are the steps of nests
(work that several threads repeat makes more of them), memory requests by width, the 32-byte sectors and the passes over the banks
that a request takes, shuffles and exchanges of reductions, and barriers of conversions; all times the trips of the loops around.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_memory, lies_in_shared
from tilelang.layout.digits import Form, NotMixedRadix, Term
from tilelang.layout.fragment import REGISTER, THREAD, FragmentLayout
from tilelang.layout.memory import TileLayout
from tilelang.layout.swizzle import conflicts
from tilelang.target.cuda.arch import WARP, arch_of
from tilelang.target.cuda.inference.layouts import Layouts, register_bits
from tilelang.target.cuda.inference.loop_layout import LoopLayout, register_form
from tilelang.target.cuda.inference.problem import Memo, Problem
from tilelang.target.cuda.inference.vectors import Vectors, element_strides
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import Nest, form_of
from tilelang.target.cuda.tile.tree import Loop, Operator, Repeat, TileTree

_UNKNOWN_TRIPS = 8
"""Iterations of a loop whose number is known at run time only."""

BARRIER, SHUFFLE, REQUEST, _SECTOR, _PASS, _LOCAL = 20, 4, 2, 2, 2, 8
"""Cycles of a barrier, of a shuffle, of a request to memory, of each sector of global memory and of each pass over the banks that
the request takes, and of an access to local memory (four sectors)."""

_GATHER = 32
"""Sectors of a request to addresses that the data choose."""

_REGISTERS = 128
"""Registers of a thread that one fragment may fill."""


def cost(problem: Problem, tree: TileTree, layouts: Layouts, conversions: Iterable[Any] = ()) -> float:
    """Cycles of a kernel whose conversions are carried out in ``tree``; ``conversions`` are nodes that other threads wait for."""
    weights, total = trips(tree), 0.0
    for node, loop in layouts.loops.items():
        places = tuple(layouts.place_of(access.buffer) for access in node.nest.accesses)
        total += weights[node] * problem.known(nest_cost, node.nest, loop, places, problem=problem)
    operators = (node for node in weights if isinstance(node, Operator))
    total += sum(weights[node] * rule_of(node.op).cost(node.op, layouts.fragments) for node in operators)
    total += sum(_spilled(buffer, layout) for buffer, layout in layouts.fragments.items() if buffer not in tree.aliases)
    return total + sum(weights[node] * BARRIER for node in conversions if node in weights)


def _spilled(buffer: Any, layout: FragmentLayout) -> float:
    """Cycles to store and load again the words of a fragment that a thread has no registers for."""
    # A thread has 255 registers at the most (CUDA programming guide, "Compute Capabilities"). What does not fit lies in local
    # memory, and each use stores and loads it.
    return 2 * _LOCAL * max(0, register_bits(buffer, layout) / 32 - _REGISTERS)


def trips(tree: TileTree) -> Mapping[Any, float]:
    """How often each node runs."""
    found: dict[Any, float] = {}
    for node, around in tree.around.items():
        found[node] = found[around[-1]] * _iterations(around[-1]) if around else 1
    return found


def _iterations(node: Any) -> int:
    if isinstance(node, Loop):
        extent = as_int(node.stmt.extent)
        return extent if isinstance(extent, int) else _UNKNOWN_TRIPS
    return _UNKNOWN_TRIPS if isinstance(node, Repeat) else 1


def nest_cost(nest: Nest, loop: LoopLayout, places: Sequence[Any], *, problem: Problem) -> float:
    """Cycles of one run of a nest; ``places`` are the layouts of the buffers of its accesses."""
    memory = {access.buffer: place for access, place in zip(nest.accesses, places)}
    # The width that code generation will use, and not the widest possible one: layouts decide which vectors stay in one thread.
    vectors = Vectors(memory.get, problem.facts, problem.tree.root_of, arch_of(problem.target))
    width, loop = vectors.split(nest, loop)
    along = (dim.var for dim in loop.dims if dim.modes and (dim.modes[0].coord, dim.modes[0].extent) == (REGISTER, width))
    axis = next(along, None) if width > 1 else None
    steps, requests = loop.steps, 0.0
    for access, place in zip(nest.accesses, places):
        if is_memory(access.buffer):
            is_wide = axis is not None and vectors.moves_along(access.buffer, access.site.indices, axis, width)
            wide = width if is_wide else 1
            requests += steps / wide * (REQUEST + problem.known(_transfer, access, loop, wide, place))
        elif isinstance(place, FragmentLayout) and _is_addressed(problem.known, access, place, loop):
            requests += steps * _LOCAL
    return steps + requests


def _is_addressed(known: Memo, access: Access, layout: FragmentLayout, loop: LoopLayout) -> bool:
    """Whether the number of a register is known at run time only: the fragment then lies in local memory."""
    # One register needs no number. Of several, one cannot be chosen at run time (registers have no addresses), so that ptxas
    # moves the array to local memory.
    if layout.registers == 1:
        return False
    form = known(register_form, access.site.indices, layout, loop, False)
    return form is None or not isinstance(form.offset, int)


# Requests of a warp ----------------------------------------------------------------------------------------------------


def _transfer(access: Access, loop: LoopLayout, width: int, layout: Any) -> float:
    """Cycles that a request of the first warp takes in memory, for vectors of so many elements."""
    size = canonical(str(access.buffer.dtype)).stored_bits / 8
    try:
        indices = list(zip(*(_lane_values(form_of(index, loop.forms)) for index in access.site.indices)))
    except NotMixedRadix:
        return _GATHER * _SECTOR
    if lies_in_shared(access.buffer):
        if not isinstance(layout, TileLayout):
            return _PASS
        addresses = [int(layout.offset(index) * size) for index in indices]
        return _PASS * (1 + conflicts(addresses, int(max(size * width, 4))))
    # A stride of unknown size counts as a large one: lanes in different rows share no sector then.
    strides = [stride if isinstance(stride, int) else 1 << 20 for stride in element_strides(access.buffer)]
    starts = [sum(value * stride for value, stride in zip(index, strides)) * size for index in indices]
    sectors = {place for start in starts for place in range(int(start // 32), int((start + size * width - 1) // 32) + 1)}
    return _SECTOR * len(sectors)


def _lane_values(form: Form) -> list[int]:
    """An index in each lane of the first warp, in the first step of the loops; what is unknown counts as zero."""
    # Digits in registers and symbolic offsets are the same in all lanes: they move all addresses together, which changes neither
    # how many sectors nor (but for alignment) which banks a request takes.
    base = form.offset if isinstance(form.offset, int) else 0
    terms = [term for term in form if term.digit.coord == THREAD]
    return [base + sum(_digit(term, lane) * term.weight for term in terms) for lane in range(WARP)]


def _digit(term: Term, thread: int) -> int:
    return thread // term.digit.stride % term.digit.extent // term.low % term.extent
