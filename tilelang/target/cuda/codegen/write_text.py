"""The last step: a kernel's CUDA text with the declarations and parameters that its code mentions, and its launch record.

Kernels that a program brings as CUDA source are launched as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tilelang.artifact import KernelLaunch
from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array, is_fragment, is_variable, lies_in_shared
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.analysis.disjointness import changing_tensors
from tilelang.target.cuda.codegen.async_calls import barrier_initialisation
from tilelang.target.cuda.codegen.emitter import TID, WARP_GROUP_NUMBER, Names
from tilelang.target.cuda.codegen.intrinsics import GRID_STATE, RNG_DECLARATION, RNG_FUNCTIONS, RNG_STATE
from tilelang.target.cuda.codegen.kernel import arrivals
from tilelang.target.cuda.codegen.origins import origins_of
from tilelang.target.cuda.codegen.stages import CudaContext, KernelCode, KernelText, PlannedCode
from tilelang.target.cuda.inference.sections import partly_written
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Array, Name
from tilelang.target.cuda.tile.nest import given_to_calls
from tilelang.target.cuda.tile.program import Kernel, dimension_variables
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, touched_by, walk
from tilelang.target.params import dynamic_names, kernel_params
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.in_place import alias_sensitive

BUILTINS = frozenset(
    {TID.text, WARP_GROUP_NUMBER.text, RNG_STATE.text, GRID_STATE.text, "blockDim.x", "blockDim.y", "blockDim.z"}
)
"""Names that every kernel has, or declares where it uses them."""


def write_text(stage: PlannedCode, context: CudaContext) -> KernelText:
    """The kernel's text and launch record."""
    entry = _source_entry(stage.kernel)
    if entry is not None:
        return stage.then(KernelText, text="", launch=_source_launch(stage.kernel, entry))
    return _Writer(stage).write()


def defined_names(stage: KernelCode) -> set[str]:
    """The names that a kernel defines around its code: parameters, indices, arrays, and what every kernel has."""
    known, kernel = stage.declarations, stage.kernel
    variables = [param for param in kernel.func.params if not ir.is_buffer_var(param)]
    variables += dimension_variables(kernel.func)
    variables += [var for var, _ in (*kernel.loops, *kernel.blocks, *kernel.cluster, *kernel.threads)]
    names = {known.name_of(var) for var in variables} | {spec.name for spec in known.tensor_maps}
    return names | {*known.arrays.values(), *(name.text for name in known.output.kept.values()), *BUILTINS}


class _Writer:
    """Writes one kernel.

    Attributes:
        known: what the code takes for declared.
        printer: knows what has been mentioned so far.
    """

    def __init__(self, stage: PlannedCode):
        self.stage, self.kernel, self.tree, self.known = stage, stage.kernel, stage.tree, stage.declarations
        self.printer = Printer()

    def write(self) -> KernelText:
        kernel, plan, printer = self.kernel, self.stage.plan, self.printer
        declared = [*self._kept(), *self._local_declarations(), *self._shared_declarations()]
        body = [line for code in (*self._barriers(), self.stage.code) for line in printer.lines(code)]
        indices = self._index_definitions()
        if RNG_STATE.text in printer.names:
            indices.append(f"  {RNG_DECLARATION}")
            printer.functions.update(RNG_FUNCTIONS)
        params, args, dtypes = self._parameters()
        before = [
            f'extern "C" __global__ void {self._launch_bounds()} {kernel.name}({", ".join(params)}) {{',
            *indices,
            *declared,
        ]
        launch = KernelLaunch(
            symbol=kernel.name,
            args=tuple(args),
            arg_dtypes=tuple(dtypes),
            grid=_grid(kernel),
            block=tuple(as_int(extent) for _, extent in kernel.threads),
            cluster=kernel.cluster_dims,
            shared_bytes=plan.size,
            tensor_maps=self.known.tensor_maps,
            cooperative="tl::grid_sync" in printer.functions,
            dependent_launch="tl::pdl_wait" in printer.functions,
            within=kernel.within,
        )
        return self.stage.then(
            KernelText,
            text="\n".join([*before, *body, "}", ""]),
            launch=launch,
            mentioned=frozenset(printer.names | printer.functions | printer.types),
            origins=origins_of(self.stage, body, len(before) + 1),
        )

    def _launch_bounds(self) -> str:
        blocks = 1 if self.known.output.moves_registers else self.tree.hints.blocks_per_sm
        count = self.kernel.thread_count
        return f"__launch_bounds__({count})" if blocks is None else f"__launch_bounds__({count}, {blocks})"

    # Declarations ------------------------------------------------------------------------------------------------------

    def _kept(self) -> Iterator[str]:
        for value, name in self.known.output.kept.items():
            computed = self.printer.called("tl::kept", self.printer.value(value))
            yield f"  const int {self.printer.value(name)} = {computed};"

    def _index_definitions(self) -> list[str]:
        """Definitions of the block's and the thread's indices that the kernel uses."""
        kernel, printer = self.kernel, self.printer
        lines = []
        order, panel = self.tree.hints.rasterisation or ("row", 0)
        source = "blockIdx"
        if panel > 0 and len(kernel.blocks) >= 2:
            source = Names(self.known.identifiers).take("block").text
            printer.functions.add(f"tl::rasterize_{order}")
            lines.append(f"  const dim3 {source} = tl::rasterize_{order}<{panel}>();")
        for axes, text in (
            (kernel.blocks, lambda axis: f"{source}.{axis}"),
            (kernel.cluster, lambda axis: printer.called(f"tl::cluster_block_{axis}")),
            (kernel.threads, lambda axis: f"threadIdx.{axis}"),
        ):
            names = ((self.known.name_of(var), axis) for (var, _), axis in zip(axes, "xyz"))
            lines += [f"  const int {name} = {text(axis)};" for name, axis in names if name in printer.names]
        if WARP_GROUP_NUMBER.text in printer.names:
            lines.append(f"  const int {WARP_GROUP_NUMBER.text} = {printer.called('tl::warp_group')};")
        if TID.text in printer.names:
            lines.append(f"  const int tid = {_thread_number(kernel)};")
        return lines

    def _local_declarations(self) -> Iterator[str]:
        zeroed = self.known.output.padded | partly_written(self.tree, self.stage.layouts.conversions)
        for buffer in self.tree.allocations:
            dtype, name = str(buffer.dtype), self.known.arrays[buffer]
            if is_variable(buffer):
                yield f"  {self.printer.type(dtype)} {name};"
            elif is_array(buffer) or is_fragment(buffer):
                layout = self.stage.layouts.fragments.get(buffer)
                count = layout.registers if layout is not None else math.prod(map(as_int, buffer.shape))
                # Elements of four bits are stored one by one, beside what is there. Of padding, the device's compiler may load
                # what no thread has stored: it moves loads of an array before the conditions that their uses have.
                is_padded = layout is not None and layout.is_padded
                zero = " = {}" if is_packed(dtype) or is_padded or buffer in zeroed else ""
                count = (count + 1) // 2 if is_packed(dtype) else count
                yield f"  alignas(16) {self.printer.type(dtype)} {name}[{count}]{zero};"
            elif not lies_in_shared(buffer):
                raise CompileError(f"{buffer.name} has scope {buffer.scope()}, which CUDA kernels do not have")
        written = self._written_buffers() if self.tree.aliases else set()
        for buffer, source in self.tree.aliases.items():
            if not lies_in_shared(buffer):
                root = self.tree.root_of(buffer)
                const = "const " if root in self.kernel.func.params and root not in written else ""
                dtype = const + self.printer.type(str(buffer.dtype))
                pointer = self.printer.value(self._array(source))
                yield f"  {dtype}* {self.known.arrays[buffer]} = reinterpret_cast<{dtype}*>({pointer});"

    def _shared_declarations(self) -> Iterator[str]:
        plan, arrays = self.stage.plan, self.known.arrays
        if plan.size:
            yield "  extern __shared__ __align__(1024) uchar pool[];"
        for buffer, (offset, _) in sorted(plan.places.items(), key=lambda item: (item[1], item[0].name)):
            yield self._shared_pointer(buffer, f"pool + {offset}")
        for buffer, source in self.tree.aliases.items():
            if lies_in_shared(buffer) and self.tree.root_of(buffer) in plan.places:
                yield self._shared_pointer(buffer, arrays[source])

    def _shared_pointer(self, buffer: Any, place: str) -> str:
        dtype = self.printer.type(str(buffer.dtype))
        return f"  {dtype}* const {self.known.arrays[buffer]} = reinterpret_cast<{dtype}*>({place});"

    def _barriers(self) -> list[Any]:
        found = [(self._array(buffer), counts) for buffer, counts in arrivals(self.tree).items()]
        maps = [Name(spec.name) for spec in self.known.tensor_maps]
        return barrier_initialisation(found, self.kernel.cluster_dims != (1, 1, 1), maps) if found or maps else []

    def _array(self, buffer: Any) -> Array:
        return Array(self.known.arrays[buffer], str(buffer.dtype))

    # Parameters --------------------------------------------------------------------------------------------------------

    def _parameters(self) -> tuple[list[str], list[tuple[str, str]], list[str]]:
        """C++ parameters, launch arguments and their types: what the code mentions."""
        names = (spec.name for spec in self.known.tensor_maps)
        maps = ((f"const __grid_constant__ CUtensorMap {name}", ("tensor_map", name), "handle") for name in names)
        found = [*self._arguments(), *self._sizes(), *maps]
        return [text for text, _, _ in found], [argument for _, argument, _ in found], [dtype for _, _, dtype in found]

    def _arguments(self) -> Iterator[tuple[str, tuple[str, str], str]]:
        written, used = self._written_buffers(), self.printer.names
        changing = changing_tensors(self.tree, self.tree.root_of) | alias_sensitive(self.kernel.body)
        aliased = self.tree.hints.may_overlap | {str(buffer.name) for buffer in changing}
        for param in self.kernel.func.params:
            if ir.is_buffer_var(param):
                name = self.known.arrays[param]
                if name in used:
                    const, restrict = "" if param in written else "const ", "" if param.name in aliased else " __restrict__"
                    yield f"{const}{self.printer.type(str(param.dtype))}*{restrict} {name}", ("tensor", str(param.name)), "handle"
            elif self.known.name_of(param) in used:
                pointer = isinstance(param.ty, ir.ir.PointerType)
                dtype = canonical(str(param.ty.element_type if pointer else param.ty))
                text = f"{self.printer.type(dtype)}{'*' if pointer else ''} {self.known.name_of(param)}"
                yield text, ("scalar", str(param.name)), "handle" if pointer else str(dtype)

    def _sizes(self) -> Iterator[tuple[str, tuple[str, str], str]]:
        func = self.kernel.func
        scalars = {param for param in func.params if not ir.is_buffer_var(param)}
        for var in (*dimension_variables(func), *(var for var, _ in self.kernel.loops)):
            name = self.known.name_of(var)
            if var not in scalars and name in self.printer.names:
                yield f"{self.printer.type(str(var.ty))} {name}", ("dim", str(var.name)), str(canonical(str(var.ty)))

    def _written_buffers(self) -> set[Any]:
        """Global buffers that the kernel may write, or whose address it hands on."""
        found: set[Any] = set()
        for node in walk(self.tree.root):
            if isinstance(node, (Parallel, Operator, Scalar)):
                found |= {access.buffer for access in touched_by(node) if access.writes}
            if isinstance(node, Scalar):
                found |= given_to_calls(node.stmt)
        return found | {self.tree.root_of(buffer) for buffer in found}


def _thread_number(kernel: Kernel) -> str:
    text, stride = "threadIdx.x", as_int(kernel.threads[0][1])
    for axis, (_, extent) in zip("yz", kernel.threads[1:]):
        if as_int(extent) > 1:
            text += f" + threadIdx.{axis} * {stride}"
        stride *= as_int(extent)
    return text


def _grid(kernel: Kernel) -> tuple:
    return tuple(([to_dim(extent) for _, extent in kernel.blocks] + [1, 1, 1])[:3])


# Kernels as CUDA source ------------------------------------------------------------------------------------------------


def _source_entry(kernel: Kernel) -> str | None:
    """The symbol of a kernel of ``T.CUDASourceCodeKernel``; None of any other."""
    for stmt in walk_statements(kernel.body):
        if isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "source_kernel":
            return str(stmt.value.args[0].value)
    return None


def _source_launch(kernel: Kernel, symbol: str) -> KernelLaunch:
    """Its launch: all arguments of the program in order, then the dynamic sizes."""
    params = kernel_params(kernel.func)
    args = [("tensor" if param.kind == "tensor" else "scalar", param.name) for param in params]
    dtypes = [str(canonical(param.dtype)) if param.kind == "scalar" else "handle" for param in params]
    sizes = {str(var.name): var for var in dimension_variables(kernel.func)}
    for name in dynamic_names(params):
        args.append(("dim", name))
        dtypes.append(str(canonical(str(sizes[name].ty))))
    block = tuple(as_int(extent) for _, extent in kernel.threads)
    return KernelLaunch(symbol, tuple(args), tuple(dtypes), _grid(kernel), block, kernel.cluster_dims, within=kernel.within)
