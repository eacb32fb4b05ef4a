"""What holds of a program after each step of the pipeline, as checks that tests run on every kernel.

A check that fails is a defect of the step before it. The proofs that layouts fit and that barriers suffice run in every
compilation (``inference/verify.py``, ``schedule/verify.py``); what is here would show in the end as a missing name or a wrong
launch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment, is_shared
from tilelang.ir.visit import own_expressions
from tilelang.ir.visit import walk as walk_statements
from tilelang.layout.fragment import THREAD
from tilelang.target.cuda.codegen.stages import KernelCode, KernelLayouts, KernelStatements, KernelText, KernelTree, PlannedCode
from tilelang.target.cuda.codegen.write_text import BUILTINS, defined_names
from tilelang.target.cuda.inference import verify as layouts
from tilelang.target.cuda.ir.code import Block, BranchCode, GroupCode, Leaf, LoopCode, contents, leaf, leaves, owner
from tilelang.target.cuda.ir.instructions import (
    Declare,
    DeclareArray,
    DeclarePool,
    Define,
    DefinePointer,
    DefineSharedArray,
    Instruction,
)
from tilelang.target.cuda.ir.values import Array, Element, Name, Pointer, Value, walk_value
from tilelang.target.cuda.operators import is_implemented
from tilelang.target.cuda.tile.program import dimension_variables
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, walk
from tilelang.tileop import is_tile_op

_VECTOR_BYTES = 16


def program(func: Any) -> None:
    """Statements use no variable and no buffer that nothing defines."""
    _check_names(func.body, {*func.params, *dimension_variables(func)})


def statements(stage: KernelStatements) -> None:
    """A kernel's statements are the same kind of program, without launch axes."""
    kernel = stage.kernel
    own = (var for var, _ in (*kernel.variables, *kernel.bindings))
    _check_names(kernel.body, {*kernel.func.params, *dimension_variables(kernel.func), *own})
    assert not any(isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent" for stmt in walk_statements(kernel.body))


def _check_names(body: Any, known: set[Any]) -> None:
    defined = known | {var for stmt in walk_statements(body) for var in _defined_by(stmt)}
    for stmt in walk_statements(body):
        for var in (part for part in own_expressions(stmt) if isinstance(part, ir.Var)):
            assert var in defined, f"{var.name} is not defined: {stmt}"


def _defined_by(stmt: Any) -> Iterator[Any]:
    if isinstance(stmt, ir.For):
        yield stmt.loop_var
    elif isinstance(stmt, ir.Bind):
        yield stmt.var
    elif isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
        yield stmt.buffer
    elif isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
        yield stmt.node.var
    yield from (part.var for part in own_expressions(stmt) if isinstance(part, ir.Let))


def tree(stage: KernelTree) -> None:
    """No tile operator is left as a call; nests have extents, and each operator a rule."""
    for node in walk(stage.tree.root):
        if isinstance(node, Parallel):
            assert all(isinstance(axis.extent, int) and axis.extent > 0 for axis in node.nest.axes), node.nest
        elif isinstance(node, Operator):
            assert is_implemented(node.op), node.op
        elif isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate):
            assert not is_tile_op(node.stmt.value), node.stmt


def inferred(stage: KernelLayouts) -> None:
    """Every fragment and shared tile has a layout, every nest a distribution over its threads, and they fit each other."""
    found = stage.layouts
    for buffer in stage.tree.allocations:
        assert not is_fragment(buffer) or buffer in found.fragments, buffer.name
        assert not is_shared(buffer) or buffer in found.memory, buffer.name
    for node in walk(stage.tree.root):
        if isinstance(node, Parallel):
            modes = (mode for dim in found.loops[node].dims for mode in dim.modes)
            shares = math.prod(mode.extent for mode in modes if mode.coord == THREAD)
            assert shares <= len(found.threads_of[node]), node.nest  # threads with copies may be more than those that run it
    layouts.verify(stage.tree, found)


def code(stage: KernelCode) -> None:
    """Code uses no name that neither it nor the kernel around it defines."""
    names_are_defined(stage.code, defined_names(stage))


def planned(stage: PlannedCode) -> None:
    """Every shared tile that code touches has aligned bytes inside the pool."""
    places = stage.plan.places
    for offset, size in places.values():
        assert 0 <= offset and offset + size <= stage.plan.size
    for storage in {owner(storage) for code in leaves(stage.code) for storage in code.storages()}:
        if is_shared(storage):
            assert places[storage][0] % _VECTOR_BYTES == 0, storage.name


def written(stage: KernelText) -> None:
    """A launch passes one argument of a known type for each parameter, and the kernel defines every name that it uses."""
    launch, signature = stage.launch, stage.signature
    assert len(launch.args) == len(launch.arg_dtypes)
    if signature is not None:
        assert len(launch.args) == len(signature.parameters) and launch.shared_bytes == stage.plan.size
        known = {parameter.name for parameter in signature.parameters} | BUILTINS
        names_are_defined(Block([leaf(list(stage.declared)), stage.code]), known)


# Names in device code --------------------------------------------------------------------------------------------------

_DEFINING = {
    Define: "name", Declare: "name", DefinePointer: "array",
    DeclareArray: "array", DefineSharedArray: "array", DeclarePool: "pool",
}  # fmt: skip


def names_are_defined(code: Any, known: set[str]) -> None:
    """Checks that code uses no name that neither the kernel (``known``) nor the code before, in the same braces or around them,
    defines."""
    _check_code(code, set(known))


def _check_code(code: Any, known: set[str]) -> None:
    if isinstance(code, Instruction):
        defined = _DEFINING.get(type(code))
        own = None if defined is None else getattr(code, defined)
        _uses(code, [value for value, *_ in code.operands() if value is not own], known)
        known |= set() if own is None else {_name(own)}
        return
    # Braces end the scope of what is defined in them; a leaf, or a block without braces, is printed into the scope around it.
    inner = known if isinstance(code, Leaf) or (isinstance(code, Block) and not code.braces) else set(known)
    if isinstance(code, LoopCode):
        _uses(code, [first for _, first in code.counters], known)
        inner |= {name.text for name, _ in code.counters}
        _uses(code, [code.condition, *(value for _, value in code.advance)], inner)
    elif isinstance(code, (BranchCode, GroupCode)) and code.condition is not None:
        _uses(code, [code.condition], known)
    for child in contents(code):
        _check_code(child, set(inner) if isinstance(code, BranchCode) else inner)


def _uses(code: Any, values: list[Value], known: set[str]) -> None:
    for value in values:
        for name in _names(value):
            assert name in known, f"{name} is not defined: {value}"


def _names(value: Value) -> Iterator[str]:
    for part in walk_value(value):
        if isinstance(part, (Name, Array)):
            yield _name(part)
        elif isinstance(part, (Element, Pointer)):
            yield part.array.name


def _name(value: Any) -> str:
    return value.text if isinstance(value, Name) else value.name
