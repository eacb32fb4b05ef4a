"""The last step: a kernel's CUDA text with the declarations and parameters that its code mentions, and its launch record.

Kernels that a program brings as CUDA source are launched as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tilelang.artifact import KernelLaunch
from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array, is_fragment, is_variable, lies_in_shared
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.analysis.disjointness import changing_tensors
from tilelang.target.cuda.codegen.emitter import TID, WARP_GROUP_NUMBER, Names
from tilelang.target.cuda.codegen.kernel import arrivals
from tilelang.target.cuda.codegen.origins import origins_of
from tilelang.target.cuda.codegen.stages import CudaContext, KernelCode, KernelText, PlannedCode
from tilelang.target.cuda.intrinsics.table import intrinsic
from tilelang.target.cuda.intrinsics.values import GRID_STATE, RNG_DEFINITION, RNG_STATE
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, counted
from tilelang.target.cuda.ir.cpp_types import byte_count, is_packed
from tilelang.target.cuda.ir.instructions import (
    Declare,
    DeclareArray,
    DeclarePool,
    Define,
    DefinePointer,
    DefineSharedArray,
    Evaluate,
    Parameter,
    PointerParameter,
    Signature,
    TensorMapParameter,
    ValueParameter,
)
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Array, Call, Cast, Field, Name, Number, Pointer, Value, total
from tilelang.target.cuda.tile.program import Kernel, dimension_variables, thread_digits
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, walk
from tilelang.target.params import dynamic_names, kernel_params
from tilelang.transform.in_place import alias_sensitive

_POOL_ALIGNMENT = 1024
"""Bytes; the period of the widest swizzle."""

_PASSED_AS = {"int4": "int32", "uint4": "int32", "uint1": "bool"}
"""Scalar arguments of less than a byte, and the types of their values in registers, as which a launch passes them."""

_Row = tuple[Parameter, tuple[str, str], str]
"""A parameter, the launch argument that it is, and the type of that."""

BUILTINS = frozenset({"threadIdx", "blockIdx", "blockDim", GRID_STATE.text})
"""Names that every kernel has."""

_REGISTERS_MOVED = frozenset({"tl::set_max_nreg_inc", "tl::set_max_nreg_dec"})
"""Functions that change how many registers threads have: these can be reckoned for one block of a multiprocessor only."""

_DEFINED_WHERE_USED = frozenset({TID.text, WARP_GROUP_NUMBER.text, RNG_STATE.text})


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
    variables += [*dimension_variables(kernel.func), *(var for var, _ in kernel.variables)]
    names = {known.name_of(var) for var in variables} | {spec.name for spec in known.tensor_maps}
    return names | {*known.arrays.values(), *(name.text for name in known.output.kept.values()), *BUILTINS, *_DEFINED_WHERE_USED}


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
        kernel, printer = self.kernel, self.printer
        kept = (Define(name, "int32", Call("tl::kept", (value,))) for value, name in self.known.output.kept.items())
        declared = [*kept, *self._registers(), *self._views(), *self._shared_arrays()]
        lines = self._print(declared)
        body = self._print([*self._barriers(), self.stage.code])
        indices = self._index_definitions()
        lines = [*self._print(indices), *lines]
        maps = ((TensorMapParameter(spec.name), ("tensor_map", spec.name), "handle") for spec in self.known.tensor_maps)
        parameters = [*self._tensors_and_scalars(), *self._sizes(), *maps]
        blocks = 1 if _REGISTERS_MOVED & printer.functions else self.tree.hints.blocks_per_sm
        signature = Signature(kernel.name, tuple(row[0] for row in parameters), kernel.thread_count, blocks)
        text = [printer.head(signature), *lines, *body, "}", ""]
        return self.stage.then(
            KernelText,
            text="\n".join(text),
            launch=self._launch(parameters),
            signature=signature,
            declared=(*indices, *declared),
            mentioned=frozenset(printer.names | printer.functions | printer.types),
            origins=origins_of(self.stage, body, 1 + len(lines) + 1),
        )

    def _print(self, codes: Iterable[Any]) -> list[str]:
        return [line for code in codes for line in self.printer.lines(code)]

    def _launch(self, parameters: list[_Row]) -> KernelLaunch:
        kernel, functions = self.kernel, self.printer.functions
        return KernelLaunch(
            symbol=kernel.name,
            args=tuple(argument for _, argument, _ in parameters),
            arg_dtypes=tuple(dtype for *_, dtype in parameters),
            grid=_grid(kernel),
            block=tuple(as_int(extent) for _, extent in kernel.threads),
            cluster=kernel.cluster_dims,
            shared_bytes=self.stage.plan.size,
            tensor_maps=self.known.tensor_maps,
            cooperative="tl::grid_sync" in functions,
            dependent_launch="tl::pdl_wait" in functions,
            within=kernel.within,
        )

    # Declarations ------------------------------------------------------------------------------------------------------

    def _index_definitions(self) -> list[Define]:
        """The block's and the thread's indices that the kernel uses, and the state of its random numbers."""
        kernel, names = self.kernel, self.printer.names
        found = []
        order, panel = self.tree.hints.rasterisation or ("row", 0)
        block = Name("blockIdx")
        if panel > 0 and len(kernel.blocks) >= 2:
            block = Names(self.known.identifiers).take("block")
            found.append(Define(block, "dim3", Call(f"tl::rasterize_{order}", (), (panel,))))
        for axes, index in (
            (kernel.blocks, lambda axis: Field(block, axis)),
            (kernel.cluster, lambda axis: Call(f"tl::cluster_block_{axis}")),
            (kernel.threads, lambda axis: Field(Name("threadIdx"), axis)),
        ):
            named = ((Name(self.known.name_of(var)), index(axis)) for (var, _), axis in zip(axes, "xyz"))
            found += [Define(name, "int32", value) for name, value in named if name.text in names]
        if WARP_GROUP_NUMBER.text in names:
            found.append(Define(WARP_GROUP_NUMBER, "int32", Call("tl::warp_group")))
        if TID.text in names:
            found.append(Define(TID, "int32", _thread_number(kernel)))
        return [*found, RNG_DEFINITION] if RNG_STATE.text in names else found

    def _registers(self) -> Iterator[Declare | DeclareArray]:
        """Variables, arrays and fragments."""
        zeroed = self.known.output.padded | self.stage.layouts.partly_written
        for buffer in self.tree.allocations:
            dtype = str(buffer.dtype)
            if is_variable(buffer):
                yield Declare(Name(self.known.arrays[buffer]), dtype)
            elif is_array(buffer) or is_fragment(buffer):
                layout, count = self.stage.layouts.fragments.get(buffer), self.stage.layouts.held(buffer)
                # Elements of four bits are stored one by one, beside what is there. Of padding, the device's compiler may load
                # what no thread has stored: it moves loads of an array before the conditions that their uses have.
                is_padded = layout is not None and layout.is_padded
                zero = is_packed(dtype) or is_padded or buffer in zeroed
                yield DeclareArray(self._array(buffer), byte_count(count, dtype) if is_packed(dtype) else count, 16, zero)
            elif not lies_in_shared(buffer):
                raise UnsupportedError(f"{buffer.name} has scope {buffer.scope()}, which CUDA kernels do not have")

    def _views(self) -> Iterator[DefinePointer]:
        """Other names of registers and tensors."""
        written = self._written_buffers() if self.tree.aliases else set()
        for buffer, source in self.tree.aliases.items():
            root = self.tree.root_of(buffer)
            if not lies_in_shared(buffer) and root not in self.tree.pointers:
                constant = root in self.kernel.func.params and root not in written
                array, start = self._array(buffer), self._array(source)
                yield DefinePointer(array, Cast(start, array.dtype, constant=constant), constant)

    def _shared_arrays(self) -> Iterator[DeclarePool | DefineSharedArray]:
        plan, pool = self.stage.plan, Array("pool", "uint8")
        if plan.places:
            yield DeclarePool(pool, _POOL_ALIGNMENT)
        for buffer, (offset, _) in sorted(plan.places.items(), key=lambda item: (item[1], item[0].name)):
            yield DefineSharedArray(self._array(buffer), Pointer(pool, (Number(offset),)))
        for buffer, source in self.tree.aliases.items():
            if lies_in_shared(buffer) and self.tree.root_of(buffer) in plan.places:
                yield DefineSharedArray(self._array(buffer), self._array(source))

    def _barriers(self) -> list[Any]:
        found = [(self._array(buffer), counts) for buffer, counts in arrivals(self.tree).items()]
        maps = [Name(spec.name) for spec in self.known.tensor_maps]
        return _barrier_initialisation(found, self.kernel.cluster_dims != (1, 1, 1), maps) if found or maps else []

    def _array(self, buffer: Any) -> Array:
        return Array(self.known.arrays[buffer], str(buffer.dtype))

    # Parameters --------------------------------------------------------------------------------------------------------

    def _tensors_and_scalars(self) -> Iterator[_Row]:
        written, used = self._written_buffers(), self.printer.names
        changing = changing_tensors(self.tree) | alias_sensitive(self.kernel.body)
        aliased = self.tree.hints.may_overlap | {str(buffer.name) for buffer in changing}
        for param in self.kernel.func.params:
            if ir.is_buffer_var(param):
                name = self.known.arrays[param]
                pointer = PointerParameter(name, str(param.dtype), param not in written, param.name not in aliased)
                if name in used:
                    yield pointer, ("tensor", str(param.name)), "handle"
            elif self.known.name_of(param) in used:
                yield _scalar(param, self.known.name_of(param))

    def _sizes(self) -> Iterator[_Row]:
        func = self.kernel.func
        scalars = {param for param in func.params if not ir.is_buffer_var(param)}
        for var in (*dimension_variables(func), *(var for var, _ in self.kernel.loops)):
            name, dtype = self.known.name_of(var), str(var.ty)
            if var not in scalars and name in self.printer.names:
                yield ValueParameter(name, dtype), ("dim", str(var.name)), str(canonical(dtype))

    def _written_buffers(self) -> set[Any]:
        """Global buffers that the kernel may write, or whose address it hands on."""
        nodes = (node for node in walk(self.tree.root) if isinstance(node, (Parallel, Operator, Scalar)))
        found = {buffer for node in nodes for buffer in node.written}
        return found | {self.tree.root_of(buffer) for buffer in found}


def _barrier_initialisation(barriers: Iterable[tuple[Array, list[int]]], clusters: bool, maps: Iterable[Name]) -> list[Any]:
    """The code at the start of a kernel that makes its barriers, each array with the arrivals of each, usable by all threads.

    In ``clusters`` other blocks arrive, too; tensor ``maps`` are fetched early."""

    def initialised(barrier: Value, arrivals: int) -> Evaluate:
        return Evaluate(Call("tl::mbarrier_init", (barrier, Number(arrivals))))

    body: list[Any] = [Evaluate(Call("tl::tma_prefetch", (name,))) for name in maps]
    for array, counts in barriers:
        if len(set(counts)) == 1 and len(counts) > 1:
            at = Names({array.name}).take("i")
            body.append(counted(at, len(counts), [initialised(array.to(at), counts[0])]))
        else:
            body += [initialised(array.to(at), count) for at, count in enumerate(counts)]
    body.append(Evaluate(Call("tl::mbarrier_fence_init")))
    # A thread that arrives at a barrier must find it initialised: the threads of the block, or of all blocks of the cluster.
    together = Evaluate(Call("tl::cluster_sync")) if clusters else Barrier()
    return [BranchCode(Call("tl::thread_rank").is_("==", 0), Block(body)), together]


def _scalar(param: Any, name: str) -> _Row:
    argument = ("scalar", str(param.name))
    if isinstance(param.ty, ir.ir.PointerType):
        return PointerParameter(name, str(canonical(str(param.ty.element_type)))), argument, "handle"
    dtype = str(canonical(str(param.ty)))
    dtype = _PASSED_AS.get(dtype, dtype)
    return ValueParameter(name, dtype), argument, dtype


def _thread_number(kernel: Kernel) -> Value:
    digits = zip("xyz", thread_digits(kernel.threads).values())
    return total(Field(Name("threadIdx"), axis) * low for axis, (low, extent) in digits if extent > 1 or axis == "x")


def _grid(kernel: Kernel) -> tuple:
    return tuple(([to_dim(extent) for _, extent in kernel.blocks] + [1, 1, 1])[:3])


# Kernels as CUDA source ------------------------------------------------------------------------------------------------


def _source_entry(kernel: Kernel) -> str | None:
    """The symbol of a kernel of ``T.CUDASourceCodeKernel``; None of any other."""
    for stmt in walk_statements(kernel.body):
        known = intrinsic(stmt.value) if isinstance(stmt, ir.Evaluate) else None
        if known is not None and known.name == "source_kernel":
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
