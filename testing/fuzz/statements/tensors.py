"""Tensors seen in other ways: images as matrices of patches, another shape of the same memory, workspaces of the call."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.copies import fitting, some_shape
from testing.fuzz.statements.regions import a_shape, block, operand
from testing.fuzz.tree import Stmt


@statement("im2col", 0.7)
def im2col(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile of the im2col matrix of an image."""
    target, to = operand(draw, scope, a_shape(draw, 2), parts=0.15)
    if to.dtype in dtypes.PACKED or to.dtype == "bool":
        return None
    kernel, stride, dilation, pad = (draw.random.randint(low, high) for low, high in ((1, 3), (1, 2), (1, 2), (0, 1)))
    span = dilation * (kernel - 1) + 1
    height, width = (str(span + draw.random.randint(0, 4)) for _ in range(2))
    image = draw.input((draw.pick(["1", "2"]), height, width, draw.pick(["1", "3", "4", "8", "16"])), to.dtype)
    row = draw.pick([axis.name for axis in scope.axes] + ["0"])
    call = f"T.c2d_im2col({image.name}, {target}, {row}, {draw.random.randint(0, 1)}, {kernel}, {stride}, {dilation}, {pad})"
    return Stmt("im2col", (call,), writes=(to.name,))


@statement("tensor_view", 0.5)
def tensor_view(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile loaded from the memory of an input under another shape."""
    shape = a_shape(draw, 2)
    target, to = operand(draw, scope, shape, ("float32", "float16", "int32", "int8"))
    padded, draw.padded = draw.padded, False
    source, name = draw.input(("G", *shape), to.dtype), draw.name("V")
    draw.padded = padded
    if source.pad or source.turned:
        return None
    view = f'{name} = T.Tensor((G * ({shape[0]}), {shape[1]}), "{to.dtype}", {source.name}.data)'
    return Stmt("tensor_view", (view, f"T.copy({name}[bx * ({shape[0]}), 0], {target})"), writes=(to.name,))


@statement("workspace", 0.8)
def workspace(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile kept in memory that the call allocates, and loaded again."""
    shape = some_shape(draw, scope)
    source, of = operand(draw, scope, shape)
    if of.dtype in dtypes.PACKED:
        return None
    target, to = operand(draw, scope, shape, fitting(of.dtype) and (of.dtype,))
    if dtypes.is_unsigned(to.dtype) and to.dtype != of.dtype:
        return None
    place = block(draw.workspace(("G", *shape), of.dtype).name, "bx", shape, source, target)
    return Stmt("workspace", (f"T.copy({source}, {place})", f"T.copy({place}, {target})"), writes=(to.name,))
