"""Programs: tracing ``@T.prim_func`` functions, ``@T.macro`` functions and eager ``@tilelang.jit`` functions."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from typing import Any, overload

from tilelang.dtypes import DType, all_names, canonical
from tilelang.errors import CompileError, DeclarationError, Location, TileLangError, TraceError, concise
from tilelang.frontend import reflected, truth  # noqa: F401  (operators with slices)
from tilelang.frontend.builder import Builder, activate
from tilelang.frontend.declare import EagerState, Placeholder, ProbeDone, declared_parameter
from tilelang.frontend.hooks import HOOKS
from tilelang.frontend.own_arrays import with_own_arrays
from tilelang.frontend.pointers import with_sizes_of_pointers
from tilelang.frontend.program_object import set_factory
from tilelang.frontend.reducers import verify_reducers
from tilelang.frontend.rewrite import declared_arguments, rewrite
from tilelang.frontend.safe_values import with_views_of_safe_values
from tilelang.frontend.shared_parts import with_shared_parts_bound
from tilelang.frontend.signature import EagerSignature, SignatureParam
from tilelang.frontend.specs import TensorSpec
from tilelang.frontend.unwritten import with_first_values
from tilelang.frontend.verify import verify_scopes
from tilelang.frontend.views import without_unused_views
from tilelang.frontend.warp_loops import with_iterations_of_threads
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.span import traceback_location
from tilelang.ir.visit import walk_expr
from tilelang.keywords import keyword_hint, name_hint
from tilelang.provided import provided
from tilelang.recursion import PASSES, TRACING, recursion


def _run(function: Callable[..., Any], arguments: Mapping[str, Any], builder: Builder) -> Any:
    """Runs a rewritten function; an exception becomes an error located at the user's line."""
    try:
        with activate(builder), truth.HASHES.checked(), recursion(TRACING):
            return rewrite(function, HOOKS)(**arguments)
    except ProbeDone:
        raise
    except TileLangError as error:
        raise error.at(traceback_location(error)) from error.__cause__
    except Exception as error:  # the user's own code runs here and may raise anything
        found = TraceError(error)
        found.hint = found.hint or keyword_hint(error, provided("public_function")) or name_hint(error)
        raise found.at(traceback_location(error)) from error


def _finish(function: Callable[..., Any], params: list[Any], builder: Builder) -> Any:
    """The PrimFunc of a traced function."""
    func = finished_program(function.__name__, _definition_location(function), params, builder)
    enclosing = function.__qualname__.rpartition(".<locals>.")[0]
    if enclosing:
        set_factory(func, f"{function.__module__}.{enclosing}")
    return func


@recursion(PASSES)
def finished_program(name: str, definition: Location, params: list[Any], builder: Builder) -> Any:
    """The PrimFunc of everything that was traced.

    Args:
        name: the program's name.
        definition: where it is defined.
        params: its declared parameters.
        builder: what has collected its statements.

    Raises:
        DeclarationError: it returns what it has not allocated.
    """
    allocated = builder.allocated_params
    params, body = with_sizes_of_pointers(params, builder.finish(definition), builder.dynamic_sizes.values())
    body = with_shared_parts_bound(body, builder.unique)
    body = with_views_of_safe_values(with_iterations_of_threads(body), builder.unique)
    body = provided("split_live_ranges")(provided("with_own_of_branches")(with_own_arrays(body)))
    body = with_first_values(without_unused_views(body) if builder.aliases else body)
    func = ir.PrimFunc([*params, *allocated], body)
    attrs: dict[str, Any] = {"global_symbol": name, **builder.attrs}
    if allocated:
        positions = {buffer: len(params) + i for i, buffer in enumerate(allocated)}
        everything = {buffer: i for i, buffer in enumerate([*params, *allocated])}
        attrs["tl.out_idx"] = sorted(positions.values())
        attrs["tl.returned"] = [_returned(everything, value) for value in builder.outputs]
    for key, value in attrs.items():
        func = func.with_attr(key, value)
    verify_scopes(func, builder.dynamic_sizes.values())
    verify_reducers(func, builder.reducers)
    return func


def _returned(positions: Mapping[Any, int], value: Any) -> int:
    """The position of a returned tensor among the parameters."""
    for buffer, index in positions.items():
        if value is buffer or (isinstance(value, ir.Var) and value.same_as(buffer)):
            return index
    raise DeclarationError("the program returns something that is not a tensor", hint="return what T.empty gave")


def _annotations(function: Callable[..., Any], names: Mapping[str, Any]) -> dict[str, Any]:
    """Annotations as values; text (``from __future__ import annotations``) is evaluated where the function was defined."""
    scope = {**function.__globals__, **names}
    found = {}
    for name, annotation in function.__annotations__.items():
        if isinstance(annotation, str) and not isinstance(annotation, DType):
            try:
                annotation = _evaluated(name, annotation, scope)
            except CompileError as error:
                error.location = _place_of(function, name)  # the text has no place of its own
                raise
        found[name] = annotation
    return found


def _place_of(function: Callable[..., Any], name: str) -> Location:
    """The line where a parameter is annotated; the function's first where it is not."""
    file, first = function.__code__.co_filename, function.__code__.co_firstlineno
    last = max((line for *_, line in function.__code__.co_lines() if line), default=first)
    lines = range(first, last + 1)
    annotated = re.compile(rf"\b{name}\s*:")
    return Location(file, next((line for line in lines if annotated.search(linecache.getline(file, line))), first))


def _evaluated(name: str, annotation: str, scope: Mapping[str, Any]) -> Any:
    """The value of an annotation's text, which may also be the name of a dtype."""
    try:
        return eval(annotation, dict(scope))  # noqa: S307 - the user's own annotation, in the user's own scope
    except NameError as error:
        if annotation in all_names:
            return canonical(annotation)
        raise DeclarationError(f"annotation of {name}: {error}") from None


def _enclosing_names(function: Callable[..., Any], depth: int) -> dict[str, Any]:
    """What an annotation may name beside globals: local names ``depth`` frames up, and the function's closure."""
    frame = sys._getframe(depth)
    names = dict(frame.f_locals)
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    names.update({name: cell.cell_contents for name, cell in cells if _is_filled(cell)})
    return names


def _is_filled(cell: Any) -> bool:
    """Whether a closure's cell has a value; a name that is assigned later has none yet."""
    with suppress(ValueError):
        return cell.cell_contents is cell.cell_contents
    return False


@overload
def prim_func(func: Callable[..., Any], *, eager_jit: bool = False, **options: Any) -> ir.PrimFunc: ...
@overload
def prim_func(func: None = None, *, eager_jit: bool = False, **options: Any) -> Callable[[Callable[..., Any]], ir.PrimFunc]: ...
def prim_func(func: Callable[..., Any] | None = None, *, eager_jit: bool = False, **options: Any) -> Any:
    """Decorator: traces a function whose parameters are annotated with tensors and scalars; gives its ``PrimFunc``.

    Args:
        func: the function, where the decorator stands without parentheses.
        eager_jit, options: have no effect; a value warns.

    Returns:
        The program, or the decorator.

    Raises:
        CompileError: anything wrong with the program, at the user's line.
    """
    ignored("T.prim_func", eager_jit=eager_jit, **options)
    if func is None:
        return prim_func
    names = _enclosing_names(func, 2)
    try:
        return _traced(func, names)
    except TileLangError as error:
        raise concise(error) from None


def _traced(function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """The ``PrimFunc`` of a function whose arguments are annotated, or declared in its body."""
    annotations = _annotations(function, names)
    parameters = _parameters(function)
    builder, state = _eager_builder({})
    declared = declared_arguments(function)
    values = {}
    for name in parameters:
        builder.unique(name)
        if name not in annotations and name in declared:
            values[name] = Placeholder(name)
            continue
        if name not in annotations:
            raise DeclarationError(
                f"parameter {name} of {function.__name__} has no annotation",
                _definition_location(function),
                hint=f'write {name}: T.Tensor((m, n), "float16"), or {name}: T.int32',
            )
        try:
            with activate(builder):
                values[name] = state.params[name] = declared_parameter(name, annotations[name])
        except TileLangError as error:
            raise error.at(_place_of(function, name)) from error.__cause__
    _refuse_sizes_named_like_arguments(function, state.params)
    _warn_of_defaults(function, parameters)
    _run(function, values, builder)
    return _finish(function, [state.params[name] for name in parameters], builder)


def _refuse_sizes_named_like_arguments(function: Callable[..., Any], params: Mapping[str, Any]) -> None:
    """A scalar argument and a dynamic size of one name would be two values: a call tells them apart by their names."""
    scalars = {name: param for name, param in params.items() if not ir.is_buffer_var(param)}
    for tensor in filter(ir.is_buffer_var, params.values()):
        for part in (part for size in tensor.shape for part in walk_expr(size)):
            name = part.name if isinstance(part, ir.Var) else ""
            if name in scalars and not part.same_as(scalars[name]):
                raise DeclarationError(
                    f"{name} is a scalar argument, and also a dynamic size of {tensor.name}",
                    _place_of(function, name),
                    hint="leave the argument out, as a size comes from its tensor, or give it another name",
                )


def _warn_of_defaults(function: Callable[..., Any], names: Container[str]) -> None:
    """Warns of the defaults of arguments of a call, which a kernel does not know: it is called with all of them."""
    parameters = inspect.signature(function).parameters.values()
    given = {each.name: each.default for each in parameters if each.name in names and each.default is not each.empty}
    ignored(f"the default of an argument of {function.__name__}", **given)


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a program by name.

    Raises:
        DeclarationError: one stands for any number of arguments.
    """
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise DeclarationError(
                f"{function.__name__} takes any number of arguments as {name}, and a program declares each",
                _place_of(function, name),
                hint="T.ptr as the dtype of a tensor is a table of addresses",
            )
    return parameters


def _definition_location(function: Callable[..., Any]) -> Any:
    return Location(function.__code__.co_filename, function.__code__.co_firstlineno)


# Eager programs ------------------------------------------------------------------------------------------------------


def _eager_builder(consts: Mapping[str, int] | None) -> tuple[Builder, EagerState]:
    builder = Builder()
    builder.eager = state = EagerState(consts)
    return builder, state


def _eager_arguments(function: Callable[..., Any], fixed: Mapping[str, Any], state: EagerState) -> dict[str, Any]:
    """Values of the parameters: compile-time ones as given, annotated ones declared, the rest placeholders."""
    annotations = _annotations(function, inspect.getclosurevars(function).nonlocals)
    values: dict[str, Any] = {}
    for name, parameter in _parameters(function).items():
        annotation = annotations.get(name)
        if name in fixed:
            values[name] = fixed[name]
        elif isinstance(annotation, (TensorSpec, DType)) or provided("declared_pointer")(annotation) is not None:
            values[name] = state.declare(name, annotation)
        elif parameter.default is not inspect.Parameter.empty:
            values[name] = parameter.default
        else:
            values[name] = Placeholder(name)
    return values


def _declared(function: Callable[..., Any], fixed: Mapping[str, Any], state: EagerState, builder: Builder) -> dict[str, Any]:
    """:func:`_eager_arguments` with the program's own dynamic sizes."""
    with activate(builder):
        return _eager_arguments(function, fixed, state)


def probe(function: Callable[..., Any], fixed: Mapping[str, Any]) -> EagerSignature:
    """The signature of an eager program: which arguments are tensors, of what shape.

    Args:
        function: the undecorated function.
        fixed: the compile-time arguments by name; whatever it does not name is a run-time argument.
    """
    builder, state = _eager_builder(None)
    try:
        _run(function, _declared(function, fixed, state, builder), builder)
    except ProbeDone:
        pass
    except TileLangError:
        # After the first T.empty a program may compute with sizes that are not known yet; declarations rarely follow there.
        if not state.allocates:
            raise
    _warn_of_defaults(function, state.declared)
    params = tuple(
        _signature_param(name, state.params[name], state.declared[name])
        for name in inspect.signature(function).parameters
        if name in state.declared
    )
    return EagerSignature(params, tuple(state.const_vars))


def _signature_param(name: str, param: Any, annotation: Any) -> SignatureParam:
    if isinstance(annotation, TensorSpec):
        shape = tuple(to_dim(size) for size in param.shape)
        strides = None if annotation.strides is None else tuple(to_dim(s) for s in param.strides)
        return SignatureParam(name, "tensor", str(annotation.dtype), shape, strides)
    pointer = provided("declared_pointer")(annotation)
    if pointer is not None:
        return SignatureParam(name, "pointer", str(pointer.dtype))
    return SignatureParam(name, "scalar", str(param.ty))


def trace(function: Callable[..., Any], fixed: Mapping[str, Any], consts: Mapping[str, int]) -> Any:
    """The ``PrimFunc`` of an eager program.

    Args:
        function: the undecorated function.
        fixed: the compile-time arguments by name.
        consts: the value of each ``T.const``, see :meth:`EagerSignature.bind`.

    Returns:
        A PrimFunc with the run-time arguments in the function's order, then the tensors of ``T.empty``; attribute
        ``tl.out_idx`` lists the latter, ``tl.returned`` the positions that the call returns, in order.
    """
    builder, state = _eager_builder(consts)
    for name in inspect.signature(function).parameters:
        builder.unique(name)
    _run(function, _declared(function, fixed, state, builder), builder)
    order = [name for name in inspect.signature(function).parameters if name in state.params]
    return _finish(function, [state.params[name] for name in order], builder)
