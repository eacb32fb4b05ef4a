"""Copies by the tensor memory accelerator (sm_90): which copies it can do, the descriptors, and the instructions.

One thread starts the copy of a *box* of a tensor of up to five dimensions; elements outside the tensor read as zero and are
not written. What the hardware demands of the tensor must be certain at compile time (byte strides that are multiples of 16, a
compact innermost axis), else the copy is left to the threads; the base address, and such strides of a ``T.tma_copy`` as only a
call gives, are checked when the descriptor is encoded at launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from tilelang.artifact import TensorMapSpec
from tilelang.dtypes import canonical
from tilelang.errors import DivergenceError, OperandError, UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int, constant
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_global, is_shared, lies_in_shared
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.layout import TileLayout, row_major
from tilelang.layout.digits import largest_divisor
from tilelang.layout.panels import panel_bytes_of, panel_layout, panel_widths
from tilelang.records import Record
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.structure import elected, elected_in_each
from tilelang.target.cuda.intrinsics.tensor_maps import ALIGNMENT, MAX_BOX, MAX_RANK, coordinates_in
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.code import Block, BranchCode, Leaf, leaf
from tilelang.target.cuda.ir.instructions import BulkLoad, BulkStore, CommitBulk, ExpectBytes, WaitBulk
from tilelang.target.cuda.ir.values import Call, Name, Unary, Value, value_of
from tilelang.target.cuda.ops.copy_linear import LinearPlan, plan_linear
from tilelang.tensor_maps import TRANSPORTS

SHARED_ALIGNMENT = 128
"""Bytes: where an operation may start in shared memory (swizzled panels, which are aligned further, always do)."""

_PERIOD = 8
"""Rows over which the swizzle of a panel repeats."""

_REDUCTIONS: Mapping[str, frozenset[str]] = {
    "add": frozenset({"float16", "bfloat16", "float32", "int32", "uint32", "uint64"}),
    "max": frozenset({"float16", "bfloat16", "int32", "uint32", "int64", "uint64"}),
    "min": frozenset({"float16", "bfloat16", "int32", "uint32", "int64", "uint64"}),
}
"""Element types that the accelerator can reduce in global memory, by operation."""


class TmaPlan(Record):
    """How one copy is done.

    Attributes:
        global_region, shared_region: the two sides.
        layout: of the shared buffer.
        spec: the descriptor; the kernel that uses it gives it a name.
        boxes: of each operation, the offsets inside the global region (outermost axis first, one for every axis of the
            tensor) and inside the shared buffer (in elements).
        bytes: of all boxes together, what the barrier must expect.
        reduction: of a store, what combines the boxes with what is there: ``"add"``, ``"max"`` or ``"min"``.
    """

    global_region: Region
    shared_region: Region
    layout: TileLayout
    spec: TensorMapSpec
    boxes: tuple[tuple[tuple[int, ...], int], ...]
    bytes: int
    reduction: str | None = None

    def operations(self, emitter: Emitter) -> Iterator[tuple[Value, tuple[Value, ...]]]:
        """(pointer into the shared tile, coordinates innermost first) of each operation."""
        tile, base = emitter.array(self.shared_region.buffer), self.layout.linear(list(self.shared_region.mins))
        for start, offset in self.boxes:
            places = [as_int(constant(low) + step) for low, step in zip(self.global_region.mins, start)]
            at = coordinates_in(self.global_region.buffer.shape, places)
            yield tile.to(emitter.index(as_int(base + offset))), tuple(map(emitter.index, reversed(at)))

    def loads(self, emitter: Emitter, op: Any, barrier: Value) -> list[Any]:
        """The instructions of a load; one thread runs them."""
        name, operations = Name(self.spec.name), list(self.operations(emitter))
        policy = None if op.eviction_policy == "evict_normal" else op.eviction_policy
        alone = [BulkLoad(name, place, barrier, at, policy=policy) for place, at in operations]
        mask = op.cluster_mask
        if mask is None:
            return alone
        rank = Call("tl::cluster_rank")
        # The other blocks of the mask start nothing: their barriers expect the bytes that the first block's load brings them.
        leads, takes_part = rank.is_("==", (mask & -mask).bit_length() - 1), value_of(mask) >> rank & 1
        multicast = [BulkLoad(name, place, barrier, at, mask) for place, at in operations]
        return [BranchCode(leads, Block(multicast), Block([BranchCode(Unary("!", takes_part), Block(alone))]))]

    def stores(self, emitter: Emitter) -> list[Any]:
        """The instructions that start a store (or a reduction) and close its group; one thread runs them."""
        name = Name(self.spec.name)
        return [*(BulkStore(name, place, at, self.reduction) for place, at in self.operations(emitter)), CommitBulk()]


def is_candidate(source: Region, target: Region, facts: Facts) -> bool:
    """Whether a copy can use the accelerator if the shared buffer gets its natural layout."""
    sides = _sides(source, target)
    return sides is not None and _fit(*sides[:2], natural_layout(sides[1]), facts) is not None


def _fit(outer: Region, inner: Region, layout: Any, facts: Facts, is_asked: bool = False) -> tuple[list[int], list[int]] | None:
    """The axes of a tensor that those of a tile of some layout are, and the extents of one operation that fills a part of it;
    None where no operation does."""
    axes = _tile_axes(outer, inner) if outer.dtype == inner.dtype and _tensor_fits(outer, facts, is_asked) else None
    if axes is None:
        return None
    bits = canonical(outer.dtype).stored_bits
    width = panel_bytes_of(layout, bits)
    rows = row_major([int(extent) for extent in inner.buffer.shape])
    panel = None if width is None else width * 8 // bits
    if (panel is None and layout != rows) or not _region_fits(inner, panel, facts):
        return None
    if panel is not None:
        return axes, _panel_box(outer, axes, inner, panel)
    box = _row_major_box(outer, axes)
    # Where the region starts, and where each box after the first does, must be a place that the accelerator can write to.
    pieces = [rows.linear(list(inner.mins)) * bits // 8]
    pieces += [prod(box) * bits // 8] if prod(box) != prod(int(extent) for extent in inner.extents) else []
    fits = box[axes[-1]] * bits // 8 % ALIGNMENT == 0
    return (axes, box) if fits and all(facts.divisible(place, SHARED_ALIGNMENT) for place in pieces) else None


def bulk_layout(region: Region, facts: Facts) -> TileLayout:
    """The layout of the shared side of a copy by the accelerator: by rows where boxes fill the region in that only."""
    layout, bits = natural_layout(region), canonical(region.dtype).stored_bits
    width = panel_bytes_of(layout, bits)
    by_rows = width is not None and not _region_fits(region, width * 8 // bits, facts) and _region_fits(region, None, facts)
    return row_major(layout.shape) if by_rows else layout


def natural_layout(region: Region) -> TileLayout:
    """The layout of a shared tile that nothing else constrains: the widest swizzled panels that fit, else row-major."""
    shape = [int(extent) for extent in region.buffer.shape]
    bits = canonical(region.dtype).stored_bits
    widths = panel_widths(shape, bits)
    return panel_layout(shape, bits, widths[0]) if widths else row_major(shape)


def plan_copy(
    source: Region, target: Region, layout: Any, facts: Facts, reduction: str | None = None, is_asked: bool = False
) -> TmaPlan | None:
    """The plan of a copy between a global and a shared region, or of a reduction (:attr:`TmaPlan.reduction`); None where the
    accelerator cannot do it.

    Args:
        source, target: the regions of memory, one of them global and one shared.
        layout: of the shared one.
        facts: what is known of sizes and indices.
        reduction: what the elements are combined by.
        is_asked: whether the program asks for the accelerator: the host then checks strides that only a call gives.
    """
    sides = _sides(source, target)
    fit = None if sides is None else _fit(*sides[:2], layout, facts, is_asked)
    if sides is None or fit is None:
        return None
    (outer, inner, load), (axes, box) = sides, fit
    dtype = canonical(outer.dtype)
    if reduction is not None and (load or dtype not in _REDUCTIONS[reduction]):
        return None
    # A plain copy moves bits: types that descriptors do not have travel as integers of their size. A reduction computes, and
    # needs the type. Descriptors list dimensions from the innermost, whose stride is one element and is left out.
    spec = TensorMapSpec(
        name="",
        tensor=str(outer.buffer.name),
        dtype=str(dtype) if reduction is not None else TRANSPORTS[dtype],
        shape=tuple(to_dim(extent) for extent in reversed(list(outer.buffer.shape))),
        strides=tuple(to_dim(stride) for stride in _byte_strides(outer)[-2::-1]),
        box=tuple(reversed(box)),
        element_strides=(1,) * len(box),
        swizzle=panel_bytes_of(layout, dtype.stored_bits) or 0,
    )
    boxes = tuple(_boxes(outer, axes, inner, box, layout))
    return TmaPlan(outer, inner, layout, spec, boxes, dtype.bytes * prod(map(int, inner.shape)), reduction)


def _sides(source: Region, target: Region) -> tuple[Region, Region, bool] | None:
    """(global side, shared side, whether it is a load); None for any other copy."""
    if is_global(source) and is_shared(target):
        return source, target, True
    if is_shared(source) and is_global(target):
        return target, source, False
    return None


def _tensor_fits(outer: Region, facts: Facts, is_asked: bool) -> bool:
    dtype = canonical(outer.dtype)
    if dtype not in TRANSPORTS or not 1 <= len(outer.extents) <= MAX_RANK:
        return False
    strides = _byte_strides(outer)
    # A descriptor has no stride for the innermost axis: it is one element.
    if as_int(strides[-1]) != dtype.bytes:
        return False
    return all(facts.divisible(stride, ALIGNMENT) or (is_asked and not isinstance(stride, int)) for stride in strides[:-1])


def _byte_strides(outer: Region) -> list[Any]:
    """Byte stride of each axis."""
    bytes_each = canonical(outer.dtype).bytes
    given = list(outer.buffer.strides)
    if given:
        return [as_int(stride * bytes_each) for stride in given]
    strides, total = [], constant(bytes_each, "int64")
    for extent in reversed(list(outer.buffer.shape)):
        strides.append(as_int(total))
        # Dynamic extents are int32, and a stride in bytes can exceed that.
        total = total * ir.Cast("int64", constant(extent)) if not isinstance(as_int(extent), int) else total * as_int(extent)
    return list(reversed(strides))


def _tile_axes(outer: Region, inner: Region) -> list[int] | None:
    """For each axis of the shared region that is not of length one, the global axis that it is; None where extents differ."""
    if not all(isinstance(extent, int) for extent in (*outer.extents, *inner.extents)):
        return None
    global_axes = [axis for axis, extent in enumerate(outer.extents) if extent != 1]
    shared_axes = [axis for axis, extent in enumerate(inner.extents) if extent != 1]
    if [outer.extents[axis] for axis in global_axes] != [inner.extents[axis] for axis in shared_axes]:
        return None
    # The innermost global axis must be the tile's: a column of a matrix is not contiguous.
    return global_axes if global_axes and global_axes[-1] == len(outer.extents) - 1 else None


def _region_fits(inner: Region, panel: int | None, facts: Facts) -> bool:
    """Whether boxes fill the shared region: of a row-major tile consecutive elements, of panels (in elements) whole panels
    and any rows from a multiple of eight on, over which the swizzle repeats. Leading axes may be single indices."""
    axes = list(zip(inner.mins, inner.extents, inner.buffer.shape))
    while len(axes) > (1 if panel is None else 2) and as_int(axes[0][1]) == 1:
        axes = axes[1:]
    if panel is None:
        return all(as_int(low) == 0 and as_int(extent) == as_int(size) for low, extent, size in axes[1:])
    (row, rows, _), (column, columns, _) = axes[-2:]
    # More rows than a box has are cut, at multiples of eight, too.
    is_cut_well = as_int(rows) <= MAX_BOX or as_int(rows) % _PERIOD == 0
    return is_cut_well and facts.divisible(row, _PERIOD) and facts.divisible(column, panel) and as_int(columns) % panel == 0


def _panel_box(outer: Region, axes: list[int], inner: Region, panel: int) -> list[int]:
    """Extents of one operation, outermost axis first: rows of one panel of so many elements."""
    box = [1] * len(outer.extents)
    # The boxes of a copy share a descriptor, so that they are of one size: a divisor of the rows.
    if inner.extents[-2] != 1:
        rows = int(outer.extents[axes[-2]])
        box[axes[-2]] = rows if rows <= MAX_BOX else _PERIOD * largest_divisor(rows // _PERIOD, MAX_BOX // _PERIOD)
    box[axes[-1]] = panel
    return box


def _row_major_box(outer: Region, axes: list[int]) -> list[int]:
    """Extents of one operation: as many inner axes whole as it takes, and the largest part of the next one that divides it."""
    box = [1] * len(outer.extents)
    for axis in reversed(axes):
        box[axis] = largest_divisor(int(outer.extents[axis]), MAX_BOX)
        # A box is compact in a row-major tile: outside of an axis that is split it has one position.
        if box[axis] != outer.extents[axis]:
            break
    return box


def _boxes(
    outer: Region, axes: list[int], inner: Region, box: list[int], layout: TileLayout
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Where each operation starts, in the global region and in shared memory."""
    shared_axes = [axis for axis, extent in enumerate(inner.extents) if extent != 1]
    starts: list[tuple[int, ...]] = [()]
    for axis in axes:
        starts = [(*start, at) for start in starts for at in range(0, int(outer.extents[axis]), box[axis])]
    for start in starts:
        global_start = [0] * len(outer.extents)
        shared_index = [0] * len(inner.extents)
        for axis, shared_axis, at in zip(axes, shared_axes, start):
            global_start[axis] = at
            shared_index[shared_axis] = at
        yield tuple(global_start), int(layout.linear(shared_index))


# In a kernel -----------------------------------------------------------------------------------------------------------


def plan_bulk(emitter: Emitter, op: Any, reduction: str | None = None, is_asked: bool = False) -> TmaPlan | None:
    """The plan of a copy with the layout that its shared tile got, and the kernel's own tensor map.

    Args:
        emitter: of the kernel.
        op: the copy, or the atomic operation.
        reduction, is_asked: as for :func:`plan_copy`.
    """
    inner = op.dst if lies_in_shared(op.dst.buffer) else op.src
    # The offsets of a plan are those of a whole buffer: they do not have the slot of a ring in them.
    if not lies_in_shared(inner.buffer) or inner.buffer in emitter.slots:
        return None
    plan = plan_copy(op.src, op.dst, emitter.layouts.memory[inner.buffer], emitter.facts, reduction, is_asked)
    if plan is None:
        return None
    tensor = emitter.root(plan.global_region.buffer)  # a view has the address of the argument that it is a view of
    # The host encodes the descriptor from an argument; a tensor at an address that the kernel computes has none.
    if all(not tensor.same_as(param) for param in emitter.kernel.func.params):
        return None
    return replace(plan, spec=emitter.output.tensor_maps.take(replace(plan.spec, tensor=str(tensor.name))))


def emit_bulk_copy(generator: Any, node: Any) -> Leaf:
    """The code of ``T.tma_copy``: started, and completed by the program's own waits.

    Where one thread runs it already, the barrier expects the bytes. Of threads that name the same places one starts it; below a
    condition of the program's own one of those that come.

    Raises:
        CompileError: the accelerator cannot do this copy.
        DivergenceError: threads of a warp name different places.
    """
    emitter, op = generator.emitter, node.op
    plan = _plan_of(emitter, op)
    if plan is None:
        problem = "T.tma_copy: the tensor memory accelerator cannot do this copy"
        raise UnsupportedError(problem, location_of(node.span), _broken_rule(op))
    if is_global(op.dst):
        return _with_tensor(leaf(_started(generator, node, plan.stores(emitter))), emitter, op.dst.buffer, WRITE)
    if op.barrier is None:
        raise OperandError("T.tma_copy: a load needs a barrier to complete on", location_of(node.span), "pass barrier=")
    if op.src.buffer in emitter.tree.hints.safe_values:
        raise UnsupportedError(
            f"T.tma_copy: the accelerator puts zeros where {op.src.buffer.name} ends, not the value of T.annotate_safe_value",
            location_of(node.span), "T.copy puts that value",
        )  # fmt: skip
    barrier = emitter.places.address(op.barrier.buffer, list(op.barrier.mins))
    code = plan.loads(emitter, op, barrier)
    made = code if generator.single else _started(generator, node, [ExpectBytes(barrier, plan.bytes), *code])
    return _with_tensor(leaf(made), emitter, op.src.buffer, READ)


_RULES = (
    "it moves whole panels, or consecutive elements from a multiple of 128 bytes on, of a shared tile, for a tensor with "
    "strides of 16 bytes; at an address it is consecutive there, too, and certainly inside; see docs/hopper.md"
)


def _broken_rule(op: Any) -> str:
    """The rule of the accelerator that a copy breaks, or all of them where it may be the layout of the tile, or an index."""
    sides = _sides(op.src, op.dst)
    if sides is None:
        return "it copies between a tensor and a shared tile"
    outer, inner, _ = sides
    tensor, tile = outer.buffer.name, inner.buffer.name
    if outer.dtype != inner.dtype:
        return f"it does not convert, and {tensor} is {outer.dtype}, {tile} {inner.dtype}: T.copy converts"
    if len(outer.extents) > MAX_RANK:
        return f"it takes tensors of up to {MAX_RANK} axes, and {tensor} has {len(outer.extents)}"
    *strides, innermost = _byte_strides(outer)
    if as_int(innermost) != canonical(outer.dtype).bytes:
        return f"the last axis of {tensor} must be contiguous"
    odd = next((stride for stride in strides if isinstance(stride, int) and stride % ALIGNMENT), None)
    if odd is None:
        return _RULES
    return f"rows of {tensor} are {odd} bytes apart, and it needs a multiple of {ALIGNMENT}: pad them, or use T.copy"


def _with_tensor(code: Leaf, emitter: Emitter, tensor: Any, kind: str) -> Leaf:
    """A copy with its access of the tensor, if threads access that, too."""
    storage = emitter.storage(tensor)
    if storage is not None:
        code.accesses = (*code.accesses, Access(storage, kind, Agent.BULK_OF_TENSOR))
    return code


def _plan_of(emitter: Emitter, op: Any) -> TmaPlan | LinearPlan | None:
    """How the accelerator does a copy: by a descriptor where it certainly can, unless consecutive bytes take fewer operations,
    and where it can for the strides of some calls: the driver refuses the others."""
    sides = _sides(op.src, op.dst)
    linear = plan_linear(emitter, *sides[:2]) if sides is not None and op.cluster_mask is None else None
    if linear is not None and _exceeds_a_box(op):
        return linear
    return plan_bulk(emitter, op) or linear or plan_bulk(emitter, op, is_asked=True)


def _exceeds_a_box(op: Any) -> bool:
    """Whether boxes of a descriptor would take several operations, and nothing asks for a descriptor."""
    return op.eviction_policy in (None, "evict_normal") and max(map(int, op.dst.extents)) > MAX_BOX


def _started(generator: Any, node: Any, code: list[Any]) -> list[Any]:
    """A copy that is started once by the threads that name the same places."""
    emitter = generator.emitter
    places = _places(node.op)
    if generator.divergent:
        own = [emitter.index(place) for place in places if not emitter.uniformity.agree([place], emitter.threads)]
        comes_alone = generator.single or len(emitter.threads) == 1
        return code if comes_alone else [BranchCode(Call("tl::leads_alike", tuple(own)), Block(code))]
    if emitter.uniformity.agree(places, emitter.threads):
        return elected(emitter.threads, code)
    alike = emitter.uniformity.group(places)
    if alike < WARP or len(emitter.threads) % WARP:
        raise DivergenceError(
            "T.tma_copy: the threads of a warp name different places", location_of(node.span),
            "let one thread run it, below a condition on its number: each copy is started by one thread",
        )  # fmt: skip
    return elected_in_each(emitter.threads, alike, code)


def _places(op: Any) -> list[Any]:
    """Where a copy's regions start, and its barrier is."""
    regions = [region for region in (op.src, op.dst, getattr(op, "barrier", None)) if region is not None]
    return [constant(low) for region in regions for low in region.mins]


def bulk_store(generator: Any, node: Any, reduction: str | None = None) -> Leaf | None:
    """The code of a copy from shared to global memory by the accelerator, or of a reduction (:attr:`TmaPlan.reduction`); None
    where threads must do it."""
    emitter, op = generator.emitter, node.op
    if not emitter.options.tma or not is_global(op.dst) or not lies_in_shared(op.src.buffer):
        return None
    # What the kernel reads must be visible to all threads, not only complete at its end.
    if op.dst.buffer in generator.read_tensors or emitter.root(op.dst.buffer) in emitter.communicating:
        return None
    plan = plan_bulk(emitter, op, reduction)
    # Where threads name different places each has a copy of its own to make.
    if plan is None or not emitter.uniformity.agree(_places(op), emitter.threads):
        return None
    code = plan.stores(emitter)
    if reduction is None and emitter.iterations.repeats(node, plan.global_region):
        code.insert(0, WaitBulk(complete=True))  # stores in flight are not ordered among each other
    # Until the tile has been read: statements after this one may overwrite it.
    return leaf(elected(emitter.threads, [*code, WaitBulk()]))
