"""One kernel from its tree to CUDA text and a launch record."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilelang.artifact import KernelLaunch, TensorMapSpec
from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.analysis.disjointness import changing_tensors
from tilelang.target.cuda.codegen.async_calls import barrier_initialisation
from tilelang.target.cuda.codegen.dump import dumped
from tilelang.target.cuda.codegen.emitter import TID, WARP_GROUP_NUMBER, Analyses, Emitter, KernelOptions
from tilelang.target.cuda.codegen.generate import Generator
from tilelang.target.cuda.codegen.intrinsics import GRID_STATE, RNG_DECLARATION, RNG_FUNCTIONS, RNG_STATE
from tilelang.target.cuda.codegen.origins import Origins, origins_of
from tilelang.target.cuda.codegen.source_kernel import source_entry, source_launch
from tilelang.target.cuda.inference.layouts import ThreadScope, check_fragments
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.search import infer
from tilelang.target.cuda.inference.sections import partly_written
from tilelang.target.cuda.ir.code import Block
from tilelang.target.cuda.ir.cpp_types import byte_count, is_packed
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.schedule.barriers import insert_barriers
from tilelang.target.cuda.schedule.shared_plan import SharedPlan, plan_shared
from tilelang.target.cuda.schedule.verify import verify_order
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, TileTree, touched_by, walk
from tilelang.transform.in_place import late_tensors

_SHARED_ALIGNMENT = 128
_VECTOR_BYTES = 16
_BARRIER_SCOPES = ("shared.barrier", "shared.cluster_barrier")


@dataclass(eq=False)
class KernelState:
    """A kernel between the steps of the pipeline; each step fills in one field more.

    Attributes:
        kernel: the statements.
        facts: bounds of its variables.
        tree, emitter, code, plan: after the tree is read, inference, generation, planning.
        text, launch, origins: the result; see :mod:`~tilelang.target.cuda.codegen.origins` for the last.
    """

    kernel: Kernel
    facts: Facts
    options: KernelOptions
    target: Any
    tree: TileTree | None = None
    emitter: Emitter | None = None
    generator: Generator | None = None
    code: Block | None = None
    plan: SharedPlan | None = None
    text: str = ""
    mentioned: frozenset[str] = frozenset()
    launch: KernelLaunch | None = None
    origins: Origins | None = None

    def script(self) -> str:
        """What a dump of the pipeline shows."""
        return dumped(self)


def new_state(kernel: Kernel, target: Any, options: KernelOptions) -> KernelState:
    """A kernel with the bounds of its block and thread indices."""
    facts = Facts()
    for var, extent in (*kernel.blocks, *kernel.cluster, *kernel.threads):
        facts.bind_range(var, extent)
    for var, extent in kernel.loops:
        facts.bind_range(var, extent)
    for var, value in kernel.bindings:
        facts.bind_value(var, value)
    return KernelState(kernel, facts, options, target)


def infer_layouts(state: KernelState) -> None:
    """Fills in the emitter with the layouts."""
    kernel, tree, options = state.kernel, state.tree, state.options
    thread_vars = dict(kernel.threads)
    may_use_wgmma = options.wgmma and options.swizzle
    problem = Problem(tree, kernel.thread_count, state.target, state.facts, options.swizzle, may_use_wgmma, thread_vars)
    state.tree, layouts = infer(problem)
    tree = state.tree
    check_fragments(tree.root, layouts)
    analyses = Analyses.of(tree, thread_vars, state.facts)
    block = ThreadScope(0, kernel.thread_count)
    state.emitter = Emitter(kernel, state.target, tree, layouts, state.facts, options, analyses, block)
    _declare_names(state)


def _declare_names(state: KernelState) -> None:
    """Gives every parameter, index and buffer its C++ name."""
    e, kernel = state.emitter, state.kernel
    for param in kernel.func.params:
        if ir.is_buffer_var(param):
            e.names.arrays[param] = e.names.take(param.name).text
        else:
            e.named(param)
    for var in dimension_variables(kernel.func):
        if var not in e.names.values:
            e.named(var)
    for var, _ in (*kernel.loops, *kernel.blocks, *kernel.cluster, *kernel.threads):
        e.named(var)
    for var, value in kernel.bindings:
        e.names.values[var] = e.value(value)
    for buffer in [*state.tree.allocations, *state.tree.aliases, *state.tree.pointers]:
        e.names.arrays[buffer] = e.names.take(buffer.name).text


def dimension_variables(func: Any) -> list[Any]:
    """The variables of the parameters' shapes and strides, in order of first occurrence."""
    from tilelang.ir.visit import variables

    found: dict[Any, None] = {}
    for param in func.params:
        if ir.is_buffer_var(param):
            for size in (*param.shape, *param.strides):
                for var in variables(size):
                    found[var] = None
    return list(found)


def plan_memory(state: KernelState) -> None:
    """Fills in the places of shared buffers."""
    e = state.emitter
    sizes = {}
    for buffer in [*state.tree.allocations, *e.output.tiles]:
        if buffer.scope() in ("shared", "shared.dyn") and buffer not in state.tree.aliases:
            # Whole vectors, as device compilers make one load of sixteen bytes of three neighbours.
            size = -(-_shared_bytes(e, buffer) // _VECTOR_BYTES) * _VECTOR_BYTES
            sizes[buffer] = (size, _shared_alignment(size, state.options.shared_alignment))
    sizes.update(e.output.scratch)
    barriers = {b: 8 * len(counts) for b, counts in _arrivals(state).items()}
    state.plan = plan_shared(state.code, sizes, state.kernel.name, state.target, barriers, state.options.barriers)


def _shared_alignment(size: int, most: int) -> int:
    """A swizzle repeats over at most 1024 bytes, and a tile that holds fewer holds one period of a narrower one."""
    return min(most, max(_SHARED_ALIGNMENT, 1 << max(0, size.bit_length() - 1)))


def _shared_bytes(e: Emitter, buffer: Any) -> int:
    dtype = str(buffer.dtype)
    slots = e.output.slot_counts.get(buffer)
    if slots is not None:
        return byte_count(slots * e.places.slot_elements(buffer), dtype)
    layout = e.layouts.memory.get(buffer)
    return byte_count(layout.size if layout is not None else as_int(buffer.shape[0]), dtype)


def place_barriers(state: KernelState) -> None:
    """Adds barriers and waits, and proves that they are enough.

    Where a program orders its statements itself, operators still get what they need inside.
    """
    allocated = {stmt.buffer for stmt in walk_statements(state.kernel.body) if isinstance(stmt, ir.AllocBuffer)}

    def is_ordered(buffer: Any) -> bool:
        return state.options.barriers or (state.emitter.is_shared(buffer) and buffer not in allocated)

    insert_barriers(state.code, state.plan.overlap, is_ordered, state.generator.barriers.of, state.emitter.names.declare)
    verify_order(state.code, state.plan.overlap, is_ordered)


def write_text(state: KernelState) -> None:
    """Fills in the kernel's text and launch record."""
    kernel = state.kernel
    entry = source_entry(kernel)
    if entry is not None:
        state.text, state.launch = "", source_launch(kernel, entry, _grid(kernel))
        return
    printer = Printer()
    kept = [
        f"  const int {printer.value(name)} = {printer.called('tl::kept', printer.value(value))};"
        for value, name in state.emitter.output.kept.items()
    ]
    declared = [*kept, *_local_declarations(state, printer), *_shared_declarations(state, printer)]
    body = [line for code in (*_barriers(state), state.code) for line in printer.lines(code)]
    indices = _index_definitions(state, printer)
    if RNG_STATE.text in printer.names:
        indices.append(f"  {RNG_DECLARATION}")
        printer.functions.update(RNG_FUNCTIONS)
    maps = list(state.emitter.output.tensor_maps.specs) if state.emitter.output.tensor_maps is not None else []
    params, args, dtypes = _parameters(state, printer, maps)
    head = f'extern "C" __global__ void {_launch_bounds(state)} {kernel.name}({", ".join(params)}) {{'
    before = [head, *indices, *declared]
    state.text = "\n".join([*before, *body, "}", ""])
    state.origins = origins_of(state, body, len(before) + 1)
    state.mentioned = frozenset(printer.names | printer.functions | printer.types)
    state.launch = KernelLaunch(
        symbol=kernel.name,
        args=tuple(args),
        arg_dtypes=tuple(dtypes),
        grid=_grid(kernel),
        block=tuple(as_int(extent) for _, extent in kernel.threads),
        cluster=kernel.cluster_dims,
        shared_bytes=state.plan.size,
        tensor_maps=tuple(maps),
        cooperative="tl::grid_sync" in printer.functions,
        dependent_launch="tl::pdl_wait" in printer.functions,
        within=kernel.within,
    )


def defined_names(state: KernelState) -> set[str]:
    """The names that a kernel defines around its code: parameters, indices, arrays, and what every kernel has."""
    e = state.emitter
    maps = [] if e.output.tensor_maps is None else [spec.name for spec in e.output.tensor_maps.specs]
    kept = [name.text for name in e.output.kept.values()]
    variables = [e.names.values[var].text for var in _kernel_variables(state.kernel)]
    return {*variables, *e.names.arrays.values(), *maps, *kept, *BUILTINS}


BUILTINS = frozenset(
    {TID.text, WARP_GROUP_NUMBER.text, RNG_STATE.text, GRID_STATE.text, "blockDim.x", "blockDim.y", "blockDim.z"}
)
"""Names that every kernel has, or declares where it uses them."""


def _kernel_variables(kernel: Kernel) -> Iterator[Any]:
    yield from (param for param in kernel.func.params if not ir.is_buffer_var(param))
    yield from dimension_variables(kernel.func)
    yield from (var for var, _ in (*kernel.loops, *kernel.blocks, *kernel.cluster, *kernel.threads))


def _grid(kernel: Kernel) -> tuple:
    return tuple(([to_dim(extent) for _, extent in kernel.blocks] + [1, 1, 1])[:3])


def _launch_bounds(state: KernelState) -> str:
    blocks = 1 if state.generator.max_registers else state.tree.hints.blocks_per_sm
    count = state.kernel.thread_count
    return f"__launch_bounds__({count})" if blocks is None else f"__launch_bounds__({count}, {blocks})"


def _index_definitions(state: KernelState, printer: Printer) -> list[str]:
    """Definitions of the block's and the thread's indices that the kernel uses."""
    e, kernel, used = state.emitter, state.kernel, printer.names
    lines = []
    order, panel = state.tree.hints.rasterisation or ("row", 0)
    source = "blockIdx"
    if panel > 0 and len(kernel.blocks) >= 2:
        source = e.names.take("block").text
        printer.functions.add(f"tl::rasterize_{order}")
        lines.append(f"  const dim3 {source} = tl::rasterize_{order}<{panel}>();")
    for (var, _), axis in zip(kernel.blocks, "xyz"):
        if e.names.values[var].text in used:
            lines.append(f"  const int {e.names.values[var].text} = {source}.{axis};")
    for (var, _), axis in zip(kernel.cluster, "xyz"):
        if e.names.values[var].text in used:
            lines.append(f"  const int {e.names.values[var].text} = {printer.called(f'tl::cluster_block_{axis}')};")
    for (var, _), axis in zip(kernel.threads, "xyz"):
        if e.names.values[var].text in used:
            lines.append(f"  const int {e.names.values[var].text} = threadIdx.{axis};")
    if WARP_GROUP_NUMBER.text in used:
        lines.append(f"  const int {WARP_GROUP_NUMBER.text} = {printer.called('tl::warp_group')};")
    if TID.text in used:
        lines.append(f"  const int tid = {_thread_number(kernel)};")
    return lines


def _thread_number(kernel: Kernel) -> str:
    text, stride = "threadIdx.x", as_int(kernel.threads[0][1])
    for axis, (_, extent) in zip("yz", kernel.threads[1:]):
        if as_int(extent) > 1:
            text += f" + threadIdx.{axis} * {stride}"
        stride *= as_int(extent)
    return text


def _local_declarations(state: KernelState, printer: Printer) -> list[str]:
    e = state.emitter
    lines, zeroed = [], e.output.padded | partly_written(state.tree, e.layouts.conversions)
    for buffer in state.tree.allocations:
        scope, dtype = buffer.scope(), str(buffer.dtype)
        name = e.names.arrays[buffer]
        if scope == "local.var":
            lines.append(f"  {printer.type(dtype)} {name};")
        elif scope in ("local.fragment", "local"):
            layout = e.layouts.fragments.get(buffer)
            count = layout.registers if layout is not None else math.prod(map(as_int, buffer.shape))
            # Elements of four bits are stored one by one, beside what is there.
            zero = " = {}" if is_packed(dtype) or buffer in zeroed else ""
            count = (count + 1) // 2 if is_packed(dtype) else count
            lines.append(f"  alignas(16) {printer.type(dtype)} {name}[{count}]{zero};")
        elif not scope.startswith("shared"):
            raise CompileError(f"{buffer.name} has scope {scope}, which CUDA kernels do not have")
    written = _written_buffers(state) if state.tree.aliases else set()
    for buffer, source in state.tree.aliases.items():
        if not buffer.scope().startswith("shared"):
            const = "const " if e.root(buffer) in state.kernel.func.params and e.root(buffer) not in written else ""
            dtype = const + printer.type(str(buffer.dtype))
            pointer = printer.value(e.array(source))
            lines.append(f"  {dtype}* {e.names.arrays[buffer]} = reinterpret_cast<{dtype}*>({pointer});")
    return lines


def _shared_declarations(state: KernelState, printer: Printer) -> list[str]:
    e, plan = state.emitter, state.plan
    lines = []
    if plan.size:
        lines.append("  extern __shared__ __align__(1024) uchar pool[];")
    for buffer, (offset, _) in sorted(plan.places.items(), key=lambda item: (item[1], item[0].name)):
        dtype = printer.type(str(buffer.dtype))
        lines.append(f"  {dtype}* const {e.names.arrays[buffer]} = reinterpret_cast<{dtype}*>(pool + {offset});")
    for buffer, source in state.tree.aliases.items():
        if buffer.scope().startswith("shared") and e.root(buffer) in plan.places:
            dtype = printer.type(str(buffer.dtype))
            lines.append(f"  {dtype}* const {e.names.arrays[buffer]} = reinterpret_cast<{dtype}*>({e.names.arrays[source]});")
    return lines


def _arrivals(state: KernelState) -> dict[Any, list[int]]:
    """Each array of barriers with the arrivals that complete a phase of each of them."""
    allocations = state.tree.allocations.items()
    return {b: [as_int(count) for count in notes["tl.arrive_counts"]] for b, notes in allocations if b.scope() in _BARRIER_SCOPES}


def _barriers(state: KernelState) -> list[Any]:
    e = state.emitter
    found = [(e.array(buffer), counts) for buffer, counts in _arrivals(state).items()]
    maps = [Name(spec.name) for spec in e.output.tensor_maps.specs] if e.output.tensor_maps is not None else []
    if not found and not maps:
        return []
    clusters = state.kernel.cluster_dims != (1, 1, 1)
    return barrier_initialisation(found, clusters, maps)


def _parameters(
    state: KernelState, printer: Printer, maps: list[TensorMapSpec]
) -> tuple[list[str], list[tuple[str, str]], list[str]]:
    """C++ parameters, launch arguments and their types: what the code mentions."""
    e, func, used = state.emitter, state.kernel.func, printer.names
    written = _written_buffers(state)
    changing = changing_tensors(state.tree, e.root) | late_tensors(state.kernel.body)
    aliased = state.tree.hints.may_overlap | {str(buffer.name) for buffer in changing}
    params, args, dtypes = [], [], []
    for param in func.params:
        if ir.is_buffer_var(param):
            name = e.names.arrays[param]
            if name in used:
                const = "" if param in written else "const "
                restrict = "" if param.name in aliased else " __restrict__"
                params.append(f"{const}{printer.type(str(param.dtype))}*{restrict} {name}")
                args.append(("tensor", str(param.name)))
                dtypes.append("handle")
        elif e.names.values[param].text in used:
            pointer = isinstance(param.ty, ir.ir.PointerType)
            dtype = canonical(str(param.ty.element_type if pointer else param.ty))
            params.append(f"{printer.type(dtype)}{'*' if pointer else ''} {e.names.values[param].text}")
            args.append(("scalar", str(param.name)))
            dtypes.append("handle" if pointer else str(dtype))
    scalars = {param for param in func.params if not ir.is_buffer_var(param)}
    for var in (*dimension_variables(func), *(var for var, _ in state.kernel.loops)):
        if var not in scalars and e.names.values[var].text in used:
            params.append(f"{printer.type(str(var.ty))} {e.names.values[var].text}")
            args.append(("dim", str(var.name)))
            dtypes.append(str(canonical(str(var.ty))))
    for spec in maps:
        params.append(f"const __grid_constant__ CUtensorMap {spec.name}")
        args.append(("tensor_map", spec.name))
        dtypes.append("handle")
    return params, args, dtypes


def _written_buffers(state: KernelState) -> set[Any]:
    """Global buffers that the kernel may write, or whose address it hands on."""
    found: set[Any] = set()
    for node in walk(state.tree.root):
        if isinstance(node, (Parallel, Operator, Scalar)):
            found |= {access.buffer for access in touched_by(node) if access.writes}
        if isinstance(node, Scalar):
            found |= _handed_on(node.stmt)
    return found | {state.emitter.root(buffer) for buffer in found}


def _handed_on(stmt: Any) -> set[Any]:
    """Buffers whose pointer a call gets."""
    from tilelang.ir.visit import statement_exprs, walk_expr

    return {
        node
        for part in statement_exprs(stmt)
        for call in walk_expr(part)
        if isinstance(call, ir.Call)
        for arg in call.args
        for node in ([arg] if isinstance(arg, ir.Var) else [arg.source] if isinstance(arg, ir.TensorLoad) else [])
        if ir.is_buffer_var(node)
    }
