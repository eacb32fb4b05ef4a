"""The steps from a kernel's layouts to its finished device code, each from one record of ``stages.py`` to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import Location, SharedMemoryError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_barrier, is_declared_fragment, is_shared, lies_in_shared
from tilelang.ir.span import location_of
from tilelang.target.cuda.arch import arch_of
from tilelang.target.cuda.codegen.emitter import Emitter, Names
from tilelang.target.cuda.codegen.generate import Generator
from tilelang.target.cuda.codegen.spilled import roll_spilled
from tilelang.target.cuda.codegen.stages import CudaContext, Declarations, KernelCode, KernelLayouts, PlannedCode
from tilelang.target.cuda.codegen.structure import NamedBarriers
from tilelang.target.cuda.ir.cpp_types import byte_count
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.schedule.barriers import with_barriers
from tilelang.target.cuda.schedule.conflicts import Conflicts
from tilelang.target.cuda.schedule.shared_plan import plan_shared
from tilelang.target.cuda.schedule.verify import verify_order
from tilelang.target.cuda.tile.program import dimension_variables
from tilelang.target.cuda.tile.tree import Operator, TileTree, walk

_SHARED_ALIGNMENT = 128
_VECTOR_BYTES = 16


def generate(stage: KernelLayouts, context: CudaContext) -> KernelCode:
    """The device code of a kernel, and the declarations that it relies on."""
    known = (stage.kernel, context.target, stage.tree, stage.layouts, stage.facts(), context.options, stage.uniformity)
    e = Emitter(*known, threads=stage.uniformity.block)
    _name_all(e)
    generator = Generator(e)
    code = generator.block(stage.tree.root)
    roll_spilled(code, e)
    declarations = Declarations(
        identifiers=frozenset(e.names.used),
        values=dict(e.names.values),
        arrays=e.names.arrays,
        shared=_shared_sizes(e),
        barriers=generator.barriers.numbers,
        output=e.output,
    )
    return stage.then(KernelCode, code=code, declarations=declarations)


def _name_all(e: Emitter) -> None:
    """Gives every parameter, index and buffer its C++ name."""
    kernel, tree = e.kernel, e.tree
    for param in kernel.func.params:
        if ir.is_buffer_var(param):
            e.names.arrays[param] = e.names.take(param.name).text
        else:
            e.named(param)
    for var in dimension_variables(kernel.func):
        if var not in e.names.values:
            e.named(var)
    for var, _ in kernel.variables:
        e.named(var)
    for var, value in kernel.bindings:
        e.names.values[var] = e.value(value)
    for buffer in [*tree.allocations, *tree.aliases, *tree.pointers]:
        e.names.arrays[buffer] = e.names.take(buffer.name).text


def _shared_sizes(e: Emitter) -> dict[Any, tuple[int, int]]:
    """Bytes and alignment of each buffer in shared memory.

    Sizes are whole vectors, as device compilers make one load of sixteen bytes of three neighbours. A swizzle repeats over
    at most 1024 bytes, and a tile that holds fewer holds one period of a narrower one.
    """
    sizes, alignment = {}, arch_of(e.target).tile_alignment
    for buffer in e.tree.allocations:
        if is_shared(buffer) and buffer not in e.tree.aliases:
            slots, layout = e.output.slot_counts.get(buffer), e.layouts.memory.get(buffer)
            elements = as_int(buffer.shape[0]) if layout is None else layout.size
            elements = elements if slots is None else slots * e.places.slot_elements(buffer)
            size = _whole_vectors(elements, buffer)
            period = max(_SHARED_ALIGNMENT, 1 << max(0, size.bit_length() - 1))
            sizes[buffer] = (size, min(alignment, period))
    return {**sizes, **{buffer: (_whole_vectors(as_int(buffer.shape[0]), buffer), _VECTOR_BYTES) for buffer in e.output.scratch}}


def _whole_vectors(elements: int, buffer: Any) -> int:
    """Bytes of so many elements of a buffer, rounded up."""
    return -(-byte_count(elements, str(buffer.dtype)) // _VECTOR_BYTES) * _VECTOR_BYTES


def plan_memory(stage: KernelCode, context: CudaContext) -> PlannedCode:
    """The places of buffers and barriers in shared memory."""
    barriers = {buffer: 8 * len(counts) for buffer, counts in arrivals(stage.tree).items()}
    shared, kernel, options = stage.declarations.shared, stage.kernel, context.options
    try:
        plan = plan_shared(stage.code, shared, kernel.name, context.target, kernel.thread_count, barriers, options.barriers)
    except SharedMemoryError as error:
        raise error.at(_place_of_largest(stage)) from None
    return stage.then(PlannedCode, plan=plan)


def _place_of_largest(stage: KernelCode) -> Location | None:
    """Where the program allocates the largest of its shared tiles; those that the compiler made have no place."""
    sizes = {buffer: size for buffer, (size, _) in stage.declarations.shared.items()}
    spans = {buffer: span for buffer, span in stage.kernel.allocations.items() if span}
    largest = max(spans, key=lambda buffer: sizes.get(buffer, 0), default=None)
    return None if largest is None else location_of(spans[largest])


def arrivals(tree: TileTree) -> dict[Any, list[int]]:
    """Each array of barriers with the arrivals that complete a phase of each of them."""
    allocations = tree.allocations.items()
    return {b: [as_int(count) for count in notes["tl.arrive_counts"]] for b, notes in allocations if is_barrier(b)}


def place_barriers(stage: PlannedCode, context: CudaContext) -> PlannedCode:
    """The code with barriers and waits, and the proof that they are enough.

    Where a program orders its statements itself, operators still get what they need inside, and so do its fragments and
    variables, wherever they are kept, and the tiles of its products.
    """
    declarations, ordered = stage.declarations, _ordered_tiles(stage.tree)

    def is_ordered(buffer: Any) -> bool:
        is_made = lies_in_shared(buffer) and not stage.kernel.allocations.get(buffer)
        return context.options.barriers or is_made or is_declared_fragment(buffer) or buffer in ordered

    conflicts = Conflicts(stage.plan.overlap, is_ordered)
    names, barriers = Names(declarations.identifiers), NamedBarriers(stage.tree.root, declarations.barriers)
    code = with_barriers(stage.code, conflicts, barriers.of, names.declare)
    verify_order(code, conflicts)
    declarations = replace(declarations, identifiers=frozenset(names.used), barriers=barriers.numbers)
    return replace(stage, code=code, declarations=declarations)


def _ordered_tiles(tree: TileTree) -> set[Any]:
    """The buffers whose accesses the compiler orders in any case."""
    ops = (node.op for node in walk(tree.root) if isinstance(node, Operator) and rule_of(node.op).is_ordered)
    return {tree.root_of(region.buffer) for op in ops for region, _ in op.regions()}
