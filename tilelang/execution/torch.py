"""Backend ``torch``: the kernel is a ``torch.library`` operator over the C entry point of ``kernel_lib.so``.

The operator has a schema that says which tensors are written and a meta function, so that ``torch.compile``, fake tensors
and CUDA graphs can handle it. Its name is made of the kernel's name and a digest of its code, the same in every process.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.artifact import DIM_OPERATORS, Dim, KernelArtifact, KernelParam
from tilelang.dtypes import canonical
from tilelang.errors import ArgumentError, ExecutionError
from tilelang.execution.arguments import prepare
from tilelang.execution.entry import FILE, entry_call, open_library
from tilelang.execution.native import is_device_artifact
from tilelang.execution.signature import CallSignature, may_be_negated, torch_dtypes
from tilelang.execution.wrapper import PLAIN, Surroundings, holding
from tilelang.sizes import AXIS
from tilelang.storage import storage_shape

if TYPE_CHECKING:
    from tilelang.execution.device import Place

NAMESPACE = "tilelang"


def on_cpu(artifact: KernelArtifact, directory: Path) -> Callable[..., Any]:
    """The call of a CPU kernel; registers its operator.

    Raises:
        ExecutionError: the library cannot be loaded.
    """
    signature = CallSignature.of(artifact, "cpu")
    run = entry_call(artifact, open_library(artifact, directory), signature)
    return operator_call(artifact, signature, run, directory)


def on_device(artifact: KernelArtifact, directory: Path, place: Place) -> Callable[..., Any]:
    """The call of a CUDA kernel; registers its operator.

    Args:
        artifact: the kernel.
        directory: where its files are.
        place: the device or the simulator.

    Raises:
        ExecutionError: the host cannot be loaded, or the device does not take the code.
    """
    from tilelang.execution.runtime import bound_library

    library, keep = bound_library(artifact, directory / FILE, place.device)
    run = entry_call(artifact, library, place.signature, place.stream, place.surroundings)
    return operator_call(artifact, place.signature, run, directory, keep, place.surroundings)


def operator_call(
    artifact: KernelArtifact,
    signature: CallSignature,
    run: Callable[..., Any],
    directory: Path,
    keep: tuple[Any, ...] = (),
    surroundings: Surroundings = PLAIN,
) -> Callable[..., Any]:
    """A call that goes through an operator that does ``run``.

    Args:
        artifact: the kernel.
        signature: how it is called.
        run: the implementation: inputs to outputs.
        directory: where the kernel's library is; a digest of it is a part of the operator's name.
        keep: objects that must live as long as the operator.
        surroundings: what else may be tried.

    Returns:
        The function that a user's call runs.
    """
    code = directory / FILE
    return _registered(artifact, signature, run, code.read_bytes() if code.is_file() else b"", keep, surroundings)


def traced_call(artifact: KernelArtifact, run: Callable[..., Any]) -> Callable[..., Any]:
    """A call that ``torch.compile`` can trace, of a kernel that another backend runs; registers an operator for it.

    Args:
        artifact: the kernel.
        run: its backend's call.
    """
    signature = CallSignature.of(artifact, "cuda" if is_device_artifact(artifact) else "cpu")
    content = b"".join(name.encode() + artifact.files[name] for name in sorted(artifact.files))
    return _registered(artifact, signature, run, content)


def _registered(
    artifact: KernelArtifact,
    signature: CallSignature,
    run: Callable[..., Any],
    code: bytes,
    keep: tuple[Any, ...] = (),
    surroundings: Surroundings = PLAIN,
) -> Callable[..., Any]:
    written = _written(signature, artifact)
    operator, registration = _register(_unique_name(artifact, code), signature, written, _implementation(run, signature, written))
    call = _caller(signature, operator if len(signature.returned) < 2 else _listed(operator), surroundings)
    return holding(call, (keep, registration))  # torch forgets an operator when its registration object dies


def _register(name: str, signature: CallSignature, written: list[int], implementation: Callable[..., Any]) -> tuple[Any, Any]:
    import torch

    library: Any = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(f"{name}{_schema(signature, written)}", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, implementation, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", _meta_function(signature), lib=library)  # pyright: ignore[reportUnknownMemberType]
    return getattr(getattr(torch.ops, NAMESPACE), name).default, library


# The operator's type ---------------------------------------------------------------------------------------------------


def _schema(signature: CallSignature, written: list[int]) -> str:
    arguments: list[str] = []
    for place, index in enumerate(signature.inputs):
        param = signature.params[index]
        kind = f"Tensor(a{place}!)" if index in written else _schema_type(param)
        arguments.append(f"{kind} v{index}")
    outputs = ["Tensor"] * len(signature.returned)
    result = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    return f"({', '.join(arguments)}) -> {result}"


def _schema_type(param: KernelParam) -> str:
    if param.kind == "tensor":
        return "Tensor"
    if param.kind == "pointer":
        return "SymInt"
    return {"float": "float", "bool": "bool"}.get(canonical(param.dtype).kind, "SymInt")


def _written(signature: CallSignature, artifact: KernelArtifact) -> list[int]:
    """Tensor inputs that the kernel may write: all of them where the artifact does not say."""
    tensors = [i for i in signature.inputs if signature.params[i].kind == "tensor"]
    names = artifact.metadata.get("written")
    return tensors if names is None else [i for i in tensors if signature.params[i].name in names]


_names_in_use: set[str] = set()


def _unique_name(artifact: KernelArtifact, code: bytes) -> str:
    # The same kernel has the same name in every process, as graphs that are kept on disk name their operators.
    digest = hashlib.sha256(repr((artifact.params, artifact.out_idx)).encode() + code)
    stem = f"{re.sub(r'[^A-Za-z0-9_]', '_', artifact.name)}_{digest.hexdigest()[:12]}"
    name = next(n for n in _numbered(stem) if n not in _names_in_use)
    _names_in_use.add(name)
    return name


def _numbered(stem: str) -> Iterator[str]:
    return itertools.chain([stem], (f"{stem}_{k}" for k in itertools.count(2)))


# What it does ----------------------------------------------------------------------------------------------------------


def _implementation(run: Callable[..., Any], signature: CallSignature, written: list[int]) -> Callable[..., Any]:
    """``run``, after which autograd knows that the written tensors have changed."""
    # Autograd refuses a backward pass over a tensor that was changed after it was saved; it knows of changes by the version
    # alone, which a kernel that writes through a pointer does not count.
    from torch.autograd.graph import increment_version

    places = [place for place, index in enumerate(signature.inputs) if index in written]
    unsigned = [place for place, index in enumerate(signature.inputs) if _is_wide(signature.params[index])]

    def implementation(*args: Any) -> Any:
        if unsigned:
            args = tuple(value % 2**64 if place in unsigned else value for place, value in enumerate(args))
        result = run(*args)
        if places:
            increment_version([args[place] for place in places])
        return result

    return implementation


def _is_wide(param: KernelParam) -> bool:
    """Whether values may not fit the operator's signed 64-bit integers: they travel as two's complement."""
    return param.kind == "pointer" or param.kind == "scalar" and param.dtype == "uint64"


def _meta_function(signature: CallSignature) -> Callable[..., Any]:
    """What torch runs on tensors without data: it makes outputs of the right shapes."""

    def meta(*args: Any) -> Any:
        import torch

        given = [(signature.params[index], value) for index, value in zip(signature.inputs, args)]
        devices = [value.device for param, value in given if param.kind == "tensor"]
        if len(set(devices)) > 1:
            prepare(signature, args, {})  # tensors with and without data: says which one has none
        sizes = _given_sizes(signature, given)
        made = [
            torch.empty(
                [_symbolic(dim, sizes) for dim in storage_shape(signature.params[i])],
                dtype=torch_dtypes(signature.params[i])[0], device=devices[0] if devices else signature.device,
            )
            for i in signature.returned
        ]  # fmt: skip
        return made[0] if len(made) == 1 else tuple(made) if made else None

    return meta


def _given_sizes(signature: CallSignature, given: Sequence[tuple[KernelParam, Any]]) -> dict[str, Any]:
    """The value of each dynamic size and scalar, from the arguments; torch's symbolic integers among them."""
    sizes = {param.name: value for param, value in given if param.kind == "scalar"}
    tensors = {param.name: value for param, value in given if param.kind == "tensor"}
    for param, value in given:
        if param.kind == "tensor" and value.dim() != len(param.shape):
            raise ArgumentError(f"{signature.kernel}: {param.name} has {value.dim()} axes, expected {len(param.shape)}")
    for binding in signature.bindings():
        tensor = tensors[binding.tensor]
        sizes[AXIS] = (*tensor.shape, *tensor.stride())[binding.axis]
        sizes[binding.name] = _symbolic(binding.value, sizes)
    return sizes


def _symbolic(dim: Dim, sizes: dict[str, Any]) -> Any:
    """A size over torch's symbolic integers."""
    import torch

    if isinstance(dim, int):
        return dim
    if isinstance(dim, str):
        return sizes[dim]
    symbolic: dict[str, Any] = {"min": torch.sym_min, "max": torch.sym_max}  # pyright: ignore[reportUnknownMemberType]
    operator = symbolic.get(dim[0], DIM_OPERATORS[dim[0]][1])
    return operator(_symbolic(dim[1], sizes), _symbolic(dim[2], sizes))


# What the user calls ---------------------------------------------------------------------------------------------------


def _caller(signature: CallSignature, operator: Callable[..., Any], surroundings: Surroundings) -> Callable[..., Any]:
    """The operator with this package's argument errors; a tracer sees the operator alone."""
    from torch import SymFloat, SymInt
    from torch.compiler import is_compiling

    numbers = {int, float, bool, SymInt, SymFloat}
    scalars = [place for place, index in enumerate(signature.inputs) if signature.params[index].kind != "tensor"]
    negatable = [place for place, index in enumerate(signature.inputs) if may_be_negated(signature.params[index])]
    bools = [place for place in scalars if signature.params[signature.inputs[place]].dtype == "bool"]
    names = {signature.params[index].name: place for place, index in enumerate(signature.inputs)}
    wide = [place for place, index in enumerate(signature.inputs) if _is_wide(signature.params[index])]
    count = len(names)

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and len(args) + len(kwargs) == count and all(names.get(name, -1) >= len(args) for name in kwargs):
            args = (*args, *(kwargs[name] for name in list(names)[len(args) :]))
            kwargs = {}
        if is_compiling():
            return operator(*args, **kwargs)
        plain = not kwargs and len(args) == count and all(args[place].__class__ in numbers for place in scalars)
        if wide or not plain or any(args[place].__class__ is not bool for place in bools):
            # Converted here: the dispatcher would convert silently, and crashes on a tensor in an integer's place.
            return operator(*_signed(prepare(signature, args, kwargs), wide))
        try:
            if any(args[place].is_neg() for place in negatable):
                prepare(signature, args, {})  # refuses it; the dispatcher would pass a copy
            return operator(*args)
        except Exception as error:  # torch's dispatcher and the kernel raise classes of many kinds
            return explain(args, error)

    def explain(args: tuple[Any, ...], error: Exception) -> Any:
        if any(_is_fake(value) for value in args):
            raise error
        other = surroundings.elsewhere(args, {}) if surroundings.elsewhere is not None else None
        if other is not None:
            return other()
        if isinstance(error, ExecutionError):
            raise error
        prepared = prepare(signature, args, {})
        if all(a is b for a, b in zip(args, prepared)):
            raise error
        return operator(*_signed(prepared, wide))

    return call


def _listed(operator: Callable[..., Any]) -> Callable[..., Any]:
    """The operator with its outputs in a list, as those of other backends are; the dispatcher gives a tuple."""
    return lambda *args, **kwargs: list(operator(*args, **kwargs))


def _signed(values: list[Any], wide: list[int]) -> list[Any]:
    return [(value + 2**63) % 2**64 - 2**63 if place in wide else value for place, value in enumerate(values)]


def _is_fake(value: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)
