"""Declarations of a program: its arguments, from annotations, and the tensors that a call allocates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.errors import DeclarationError, MisplacedError
from tilelang.frontend.builder import Builder, current
from tilelang.frontend.names import UNBOUND
from tilelang.frontend.specs import TensorSpec
from tilelang.frontend.values import Unusable, as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.provided import provided

_PYTHON_SCALARS = {int: DType("int32"), float: DType("float32"), bool: DType("bool")}


class ProbeDone(Exception):
    """Ends the probing of an eager program: its arguments are declared."""


class Placeholder(Unusable):
    """An eager program's argument before its declaration; any use is an error."""

    __slots__ = ()

    def __init__(self, name: str):
        super().__init__(
            DeclarationError(
                f"argument {name} is used, but not declared above",
                hint=f'write {name}: T.Tensor((m, n), "float16") in the function',
            )
        )


def declare_buffer(name: str, spec: TensorSpec) -> Any:
    """A buffer variable for ``spec``; sizes in its shape are int32 unless a dynamic one says otherwise."""
    if spec.dtype.lanes > 1:
        raise DeclarationError(
            f"{name} is declared a tensor of {spec.dtype}", hint=f"declare it with {spec.dtype.base}, and T.view it as vectors"
        )
    shape = [_size(size, name) for size in spec.shape]
    strides = None if spec.strides is None else [_size(stride, name) for stride in spec.strides]
    return ir.decl_buffer(
        shape,
        str(spec.dtype),
        name,
        strides=strides,
        scope="" if is_global(spec) else spec.scope,
        data_alignment=spec.dtype.bytes,
        layout=None,
    )


def _size(size: Any, name: str) -> Any:
    expr = as_expr(size)
    if not str(expr.ty).startswith(("int", "uint")):
        raise DeclarationError(f"the shape of {name} has a size of type {expr.ty}", hint="sizes are integers")
    if isinstance(expr, ir.IntImm) and int(expr.value) < 0:
        raise DeclarationError(f"the shape of {name} has the negative size {expr.value}")
    return expr


def declare_argument(builder: Builder, name: str, present: Any, annotation: Any) -> Any:
    """The argument that ``name: annotation`` declares in an eager program.

    Args:
        builder: of the program.
        name: of the argument.
        present: the name's value so far, the argument's :class:`Placeholder`; ``UNBOUND`` where it holds nothing.
        annotation: ``T.Tensor(...)`` and the like, or a type of scalars. With the memory of another tensor it is a view.

    Raises:
        DeclarationError: a tensor is declared of a name that is no run-time argument.
    """
    # `B: T.Tensor(shape, dtype, A.data)`: evaluating the annotation has made the view already.
    if present is UNBOUND and ir.is_buffer_var(annotation):
        return annotation
    # A macro may say what memory it is given (`values: T.SharedBuffer((n,), dtype)`): that is for readers, as in its signature.
    if builder.macro_depths and ir.is_buffer_var(present):
        return present
    state: EagerState | None = builder.eager
    if state is None or not isinstance(present, Placeholder):
        if isinstance(annotation, TensorSpec) and present is UNBOUND:
            raise DeclarationError(f"{name} is declared a tensor, but it is no argument of an eager program")
        if isinstance(annotation, TensorSpec):
            raise DeclarationError(f"{name} is declared a tensor, and the call gives {_named(present)}"[:160])
        # Any other annotation is one for readers and type checkers, such as `block: int`.
        return present
    return state.declare(name, annotation)


def _named(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {value!r}"


def const_value(name: str, dtype: DType) -> Any:
    """The value of ``T.const(name)``: a variable while the signature is probed, then the integer."""
    builder = current("T.const")
    state: EagerState | None = builder.eager
    if state is None or (state.consts is not None and name not in state.consts):
        raise MisplacedError("T.const only works in an eager program", hint="use T.dynamic, or a Python argument")
    return state.const(name, dtype)


def empty_tensor(spec: TensorSpec) -> Any:
    """The buffer of ``T.empty`` or ``T.alloc_global``: a parameter that the call allocates."""
    builder = current("T.empty")
    state: EagerState | None = builder.eager
    if state is not None:
        state.allocates = True
    buffer = declare_buffer(builder.take_name("out"), spec)
    builder.allocated_params.append(buffer)
    return buffer


class EagerState:
    """The arguments of an eager program while it is traced.

    Args:
        consts: the value of each ``T.const``; None while probing.

    Attributes:
        allocates: whether a tensor has been allocated.
    """

    def __init__(self, consts: Mapping[str, int] | None):
        self.consts = consts
        self.allocates = False
        self.declared: dict[str, Any] = {}
        self.params: dict[str, Any] = {}
        self.const_vars: dict[str, Any] = {}

    def declare(self, name: str, annotation: Any) -> Any:
        """Declares argument ``name``; returns its buffer or variable."""
        self.declared[name] = annotation
        self.params[name] = declared_parameter(name, annotation)
        return self.params[name]

    def const(self, name: str, dtype: DType) -> Any:
        """The value of a ``T.const``."""
        if self.consts is None:
            return self.const_vars.setdefault(name, ir.Var(name, str(dtype)))
        return self.consts[name]


def declared_parameter(name: str, annotation: Any) -> Any:
    """The parameter that an annotation declares: a buffer, a scalar or a pointer variable.

    Raises:
        DeclarationError: the annotation is none of these.
    """
    if isinstance(annotation, TensorSpec):
        return declare_buffer(name, annotation)
    pointer = provided("declared_pointer")(annotation)
    if pointer is not None:
        return ir.Var(name, ir.pointer_type(str(pointer.dtype)))
    if annotation in _PYTHON_SCALARS:
        annotation = _PYTHON_SCALARS[annotation]
    if isinstance(annotation, (str, DType)) or type(annotation).__name__ == "dtype":
        return ir.Var(name, str(canonical(annotation)))
    if isinstance(annotation, ir.Var):
        return annotation
    raise DeclarationError(
        f"parameter {name} has no tensor or scalar annotation",
        hint=f'write {name}: T.Tensor((m, n), "float16"), or {name}: T.int32',
    )
