"""The reference check of call arguments, with the message for each possible mistake.

Backends check arguments in whatever way is fastest. When their check refuses a call, :func:`prepare` checks again, slowly, and
either raises the error that names the parameter, what was expected and what was given, or returns the arguments in the form that
every fast check accepts (keywords in place, other array types as tensors).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from tilelang.artifact import Dim, KernelParam, dim_names, evaluate_dim
from tilelang.dtypes import canonical
from tilelang.errors import ON_THE_SIMULATOR, ArgumentCountError, ArgumentError, ArgumentValueError, first_line
from tilelang.execution.signature import CallSignature, torch_dtypes
from tilelang.sizes import Binding, solution, stored_dims
from tilelang.storage import storage_shape, storage_strides


def prepare(signature: CallSignature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The inputs in order, each as the backends take it.

    Args:
        signature: the kernel's calling convention.
        args: positional arguments of the call.
        kwargs: its keyword arguments.

    Raises:
        ArgumentError: something about the call is wrong; the message names the parameter.
    """
    values = _in_order(signature, args, kwargs)
    prepared: list[Any] = [
        _PREPARE[signature.params[index].kind](_Place(signature, signature.params[index], position), value)
        for position, (index, value) in enumerate(zip(signature.inputs, values))
    ]
    known = known_sizes(signature, prepared)
    for assumption in signature.assumptions:
        assumption.check(signature.kernel, known)
    device = next((value.device for value in prepared if hasattr(value, "device")), signature.device)
    return [
        _stand_in(signature, signature.params[index], known, device) if value is None else value
        for index, value in zip(signature.inputs, prepared)
    ]


def _in_order(signature: CallSignature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    names = [signature.params[index].name for index in signature.inputs]
    kernel, text = signature.kernel, signature.text()
    if len(args) > len(names):
        problem = f"takes {len(names)} argument{'s' * (len(names) != 1)}, got {len(args)}"
        if signature.allocated:
            outputs = ", ".join(signature.params[i].name for i in signature.allocated)
            problem += f"; the call itself allocates {outputs}"
        raise ArgumentCountError(kernel, problem, text)
    unknown = [name for name in kwargs if name not in names]
    if unknown:
        raise ArgumentCountError(kernel, f"has no argument {unknown[0]}", text)
    twice = [name for name in names[: len(args)] if name in kwargs]
    if twice:
        raise ArgumentCountError(kernel, f"argument {twice[0]} is given twice", text)
    missing = [name for name in names[len(args) :] if name not in kwargs]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        problem = f"argument{plural} {', '.join(missing)} missing (got {len(args)} of {len(names)})"
        raise ArgumentCountError(kernel, problem, text, _as_outputs(signature, missing))
    return [*args, *(kwargs[name] for name in names[len(args) :])]


def _as_outputs(signature: CallSignature, missing: Sequence[str]) -> str:
    """What else to do where just the tensors that the kernel writes are missing."""
    written = [p.name for p in signature.params if p.kind == "tensor" and p.name not in signature.only_read]
    if signature.allocated or len(missing) == len(signature.inputs) or not set(missing) <= set(written):
        return ""
    places = [index for index, param in enumerate(signature.params) if param.name in missing]
    return f", or compile with out_idx={places}, by which a call makes and returns {', '.join(missing)}"


class _Place:
    """Which argument is being checked."""

    def __init__(self, signature: CallSignature, param: KernelParam, position: int):
        self.signature, self.param, self.position = signature, param, position

    def error(self, aspect: str, expected: str, got: str, hint: str | None = None) -> ArgumentValueError:
        """The error for this argument."""
        return ArgumentValueError(self.signature.kernel, self.param.name, self.position, aspect, expected, got, hint)


# Tensors -------------------------------------------------------------------------------------------------------------


def _tensor(place: _Place, value: Any) -> Any:
    import torch

    if value is None and place.param.name in place.signature.unused:
        return None
    if not isinstance(value, torch.Tensor):
        value = _imported(place, value)
    _check_memory(place, value)
    dtypes = torch_dtypes(place.param)
    if value.dtype not in dtypes:
        raise place.error("dtype", " or ".join(_short(dtype) for dtype in dtypes), _short(value.dtype))
    _check_shape(place, value)
    _check_strides(place, value)
    _check_alignment(place, value)
    if not value.numel() and place.param.strides is None:
        return compact_without_elements(value)
    return value if type(value) is torch.Tensor else value.as_subclass(torch.Tensor)


def compact_without_elements(tensor: Any) -> Any:
    """The tensor if it has elements, else one of its shape with the strides that generated hosts want.

    Without elements it may have any strides: torch's own are 1 before an axis of size 0, compact ones 0.
    """
    return tensor if tensor.numel() else tensor.new_empty_strided(tensor.shape, _compact_strides(tensor.shape))


def _stand_in(signature: CallSignature, param: KernelParam, known: Mapping[str, int], device: Any) -> Any:
    """A tensor of the declared rank for an argument that is None, which the kernel does not access.

    Sizes that no other argument gives are 0, unless several arguments could have given one that the kernel uses.
    """
    import torch

    outputs = {name for index in signature.allocated for name in dim_names(signature.params[index].shape)}
    needed = {*outputs, *signature.dynamic}.difference(known)
    for name in sorted(needed):
        givers = [index for index in signature.inputs if name in dim_names(_dims(signature.params[index]))]
        if name in outputs or (name not in signature.unused and len(givers) > 1):
            raise ArgumentError(
                f"{signature.kernel}: no argument gives the size {name}: every tensor that has it is None",
                hint=f"the kernel uses {name}: pass at least one of these tensors",
            )
    sizes = {**dict.fromkeys(needed, 0), **known}
    shape = [evaluate_dim(dim, sizes) for dim in storage_shape(param)]
    declared = storage_strides(param)
    strides = [evaluate_dim(dim, sizes) for dim in declared] if declared else _compact_strides(shape)
    return torch.empty_strided(shape, strides, dtype=torch_dtypes(param)[0], device=device)


def _dims(param: KernelParam) -> tuple[Any, ...]:
    return (*param.shape, *(param.strides or ()))


def _imported(place: _Place, value: Any) -> Any:
    """A foreign array as a tensor over the same memory."""
    import torch

    if not hasattr(value, "__dlpack__"):
        hint = "a scalar was passed where a tensor is wanted" if isinstance(value, (int, float)) else None
        raise place.error("type", "a torch tensor", _type_name(value), hint)
    if _is_read_only(value) and place.param.name not in place.signature.only_read:
        raise place.error("layout", "memory that the kernel can write", f"a read-only {_type_name(value)}", "pass a copy of it")
    if goes_backwards(value):
        raise place.error("strides", "strides that are not negative", f"{tuple(value.strides)} bytes", "pass a copy of it")
    try:
        return torch.from_dlpack(value)
    except Exception as error:  # raised by the exporting library, whatever its classes are
        raise place.error("type", "a torch tensor", f"{_type_name(value)} ({first_line(error)})") from None


def has_memory(tensor: Any) -> bool:
    """Whether a dense torch tensor has its elements somewhere: not where its storage is freed, nor in views of ``torch.func``."""
    try:
        return not tensor.numel() or bool(tensor.data_ptr())
    except RuntimeError:
        return False


def goes_backwards(value: Any) -> bool:
    """Whether a foreign array has a negative stride, where ``torch.from_dlpack`` ends the process."""
    strides = getattr(value, "strides", None)
    steps = cast("tuple[Any, ...]", strides) if isinstance(strides, tuple) else ()
    return any(isinstance(step, int) and step < 0 for step in steps)


def _is_read_only(value: Any) -> bool:
    """Whether a foreign array says that its memory must not be written; JAX's never may be."""
    flags = getattr(value, "flags", None)
    return getattr(flags, "writeable", True) is False or type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def _check_memory(place: _Place, value: Any) -> None:
    """The values of a torch tensor lie in memory of the kernel's device."""
    import torch

    if type(value) is not torch.Tensor and not isinstance(value, torch.nn.Parameter):
        _refuse_traced(place, value)
    if value.layout is not torch.strided or value.is_nested:
        raise place.error("layout", "a dense tensor", "a nested tensor" if value.is_nested else str(value.layout))
    _check_device(place, value)
    if not has_memory(value):
        raise place.error("type", "a tensor with data", f"a {_type_name(value)} without memory")
    if value.is_neg():
        raise place.error("layout", "a tensor with its values in memory", "a lazily negated view", "call .resolve_neg() first")


def _refuse_traced(place: _Place, value: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(value, FakeTensor):
        raise place.error("type", "a tensor with data", "a fake tensor", 'execution_backend="torch" can be traced')


def _check_device(place: _Place, value: Any) -> None:
    want = place.signature.device
    if value.device.type != want:
        hint = None
        if want == "cuda" and value.device.type == "cpu":
            hint = ON_THE_SIMULATOR
        raise place.error("device", want, str(value.device), hint)


def _check_shape(place: _Place, value: Any) -> None:
    shape = storage_shape(place.param)
    got = _shape_text(value.shape)
    if value.dim() != len(shape):
        raise place.error("shape", f"{len(shape)} axes {_dims_text(shape)}", f"{value.dim()} axes {got}")
    for axis, dim in enumerate(shape):
        if isinstance(dim, int) and value.shape[axis] != dim:
            raise place.error("shape", _dims_text(shape), f"{got} (axis {axis} is {value.shape[axis]}, not {dim})")


def _check_strides(place: _Place, value: Any) -> None:
    strides = storage_strides(place.param)
    if strides is None:
        if not value.is_contiguous():
            name = place.param.name
            copied = f"a contiguous tensor, from which {name} is copied after the call"
            passed = f"{name}.contiguous()" if name in place.signature.only_read else copied
            raise place.error(
                "strides", f"a contiguous tensor, strides {_compact_strides(value.shape)}", str(tuple(value.stride())),
                f"pass {passed}, or declare it T.StridedTensor",
            )  # fmt: skip
        return
    for axis, dim in enumerate(strides):
        if isinstance(dim, int) and value.stride(axis) != dim:
            raise place.error("strides", _dims_text(strides), str(tuple(value.stride())))


def _check_alignment(place: _Place, value: Any) -> None:
    _check_address(place, value.data_ptr(), max(place.signature.alignment.get(place.param.name, 1), value.element_size()))


def _check_address(place: _Place, address: int, want: int) -> None:
    if address % want:
        raise place.error(
            "alignment", f"an address that is a multiple of {want} bytes", f"one that is {address % want} bytes past it",
            f"pass {place.param.name}.clone(); a view that starts inside of another tensor is often not aligned",
        )  # fmt: skip


# Scalars and pointers ------------------------------------------------------------------------------------------------


def as_integer(value: Any) -> int:
    """``value`` as an int if it is a whole number by type: an int, a bool, numpy's, an integer tensor of one element.

    Raises:
        TypeError: it is something else; floats and text are not converted.
    """
    if value.__class__ is int:
        return value
    # numpy's bools refuse to be an index, torch's do not.
    return operator.index(value.item() if getattr(getattr(value, "dtype", None), "kind", None) == "b" else value)


def as_float(value: Any) -> float:
    """``value`` as a float: a real number, or a tensor of one element.

    Raises:
        TypeError: it is something else; text is not converted.
    """
    if isinstance(value, (str, bytes, bytearray)) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError("not a number")
    return float(value)


def integer_range(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer dtype or bool."""
    kind = canonical(dtype)
    if kind.kind == "bool":
        return 0, 1
    bits = kind.bits
    return (0, 2**bits - 1) if kind.kind == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _scalar(place: _Place, value: Any) -> int | float:
    dtype = place.param.dtype
    convert: Callable[[Any], Any] = as_float if canonical(dtype).is_float else as_integer
    try:
        number = convert(value)
    except OverflowError:
        raise place.error("value", f"a number for {dtype}", "an integer beyond every float") from None
    except (TypeError, ValueError, RuntimeError):
        raise place.error("type", f"a number for {dtype}", _type_name(value)) from None
    if convert is as_integer:
        low, high = integer_range(dtype)
        if not low <= number <= high:
            raise place.error("value", f"{dtype}, from {low} to {high}", str(number))
    return number


def _pointer(place: _Place, value: Any) -> int:
    import torch

    if isinstance(value, torch.Tensor):
        _check_memory(place, value)
        value = value.data_ptr()
    try:
        address = as_integer(value)
    except TypeError:
        raise place.error("type", "an address (an integer) or a tensor", _type_name(value)) from None
    if not 0 <= address < 2**64:
        raise place.error("value", "an address", str(address))
    _check_address(place, address, place.signature.alignment.get(place.param.name, 1))
    return address


_PREPARE = {"tensor": _tensor, "scalar": _scalar, "pointer": _pointer}


# Sizes that several arguments share ----------------------------------------------------------------------------------


def known_sizes(signature: CallSignature, values: Sequence[Any]) -> dict[str, int]:
    """Dynamic sizes agree, and sizes that are arithmetic of them too; all tensors are on one device. Gives the sizes by name."""
    tensors = [
        (signature.params[index], position, value)
        for position, (index, value) in enumerate(zip(signature.inputs, values))
        if signature.params[index].kind == "tensor" and value is not None
    ]
    given = {signature.params[index].name: value for index, value in zip(signature.inputs, values)}
    known = {name: given[name] for name in signature.scalars()}
    origin = {name: f"the argument {name}" for name in known}
    for binding in signature.bindings(absent=[name for name, value in given.items() if value is None]):
        known[binding.name], origin[binding.name] = _given_size(signature, binding, given, known), binding.tensor
    for param, position, value in tensors:
        place = _Place(signature, param, position)
        _compare(place, "shape", storage_shape(param), value.shape, known, origin)
        _compare(place, "strides", storage_strides(param) or (), value.stride(), known, origin)
        if value.device != tensors[0][2].device:
            raise place.error("device", f"{tensors[0][2].device}, as {tensors[0][0].name}", str(value.device))
    return known


def _given_size(signature: CallSignature, binding: Binding, given: Mapping[str, Any], known: Mapping[str, int]) -> int:
    """The size that a tensor gives; one that stands inside arithmetic must give the axis its size again."""
    tensor = given[binding.tensor]
    size = (*tensor.shape, *tensor.stride())[binding.axis]
    if not binding.solved:
        return size
    position = list(given).index(binding.tensor)
    place = _Place(signature, signature.params[signature.inputs[position]], position)
    declared = stored_dims(place.param)[binding.axis]
    found = solution(binding, declared, size, known)
    if found is None:
        raise place.error(
            "shape", _dims_text(storage_shape(place.param)),
            f"{_shape_text(tensor.shape)} (no {binding.name} makes {dim_text(declared)} = {size})",
        )  # fmt: skip
    return found


def _compare(
    place: _Place, aspect: str, dims: Sequence[Any], sizes: Sequence[int], known: Mapping[str, int], origin: Mapping[str, str]
) -> None:
    for axis, (dim, size) in enumerate(zip(dims, sizes)):
        if isinstance(dim, int):
            continue
        try:
            want = evaluate_dim(dim, known)
        except KeyError as error:
            raise ArgumentError(f"{place.signature.kernel}: no argument gives the size {error.args[0]}") from None
        if want != size:
            given = ", ".join(f"{name} is {known[name]} by {origin.get(name)}" for name in sorted(set(dim_names((dim,)))))
            got = f"{_shape_text(sizes)} (axis {axis} is {size}, not {want}; {given})"
            raise place.error(aspect, _dims_text(dims), got)


# Text ----------------------------------------------------------------------------------------------------------------


def _dims_text(dims: Sequence[Any]) -> str:
    return _shape_text([dim_text(dim) for dim in dims])


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}


def dim_text(dim: Dim) -> str:
    """A size as a user would write it: ``m``, ``(m + 127) // 128``."""
    if not isinstance(dim, tuple):
        return str(dim)
    if dim[0] not in _SYMBOLS:
        return f"{dim[0]}({dim_text(dim[1])}, {dim_text(dim[2])})"
    return f" {_SYMBOLS[dim[0]]} ".join(
        f"({dim_text(part)})" if isinstance(part, tuple) and part[0] in _SYMBOLS else dim_text(part) for part in dim[1:]
    )


def _shape_text(sizes: Sequence[Any]) -> str:
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"


def _compact_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _type_name(value: Any) -> str:
    if value is None:
        return "None"
    kind: type = value.__class__
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
