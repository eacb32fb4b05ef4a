"""A kernel as a function of JAX arrays, through JAX's foreign functions and tvm-ffi: it can stand inside of ``jax.jit``."""

from __future__ import annotations

import importlib
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilelang import temporary
from tilelang.artifact import KernelArtifact, KernelParam, evaluate_dim
from tilelang.errors import ArgumentCountError, ArgumentError, ExecutionError
from tilelang.execution.native import is_device_artifact
from tilelang.execution.signature import CallSignature
from tilelang.jit.library import export_library
from tilelang.storage import storage_dtypes, storage_shape

_numbers = itertools.count()


def jax_function(artifact: KernelArtifact) -> Callable[..., Any]:
    """The function of JAX arrays and Python numbers that runs a kernel.

    Args:
        artifact: a kernel that has outputs, with an entry of tvm-ffi.

    Returns:
        A function that takes the inputs in order and gives the output, or a tuple of them.

    Raises:
        ExecutionError: there are no outputs, or pointers; JAX or ``jax-tvm-ffi`` is missing.
    """
    on_device = is_device_artifact(artifact)
    signature = CallSignature.of(artifact, "cuda" if on_device else "cpu")
    if not signature.allocated or any(param.kind == "pointer" for param in signature.params):
        raise ExecutionError(
            f"{artifact.name}: JAX needs a kernel that returns what it writes, and takes no addresses",
            hint="name the outputs in out_idx; JAX's arrays are never written to",
        )
    if not on_device and artifact.backend != "tvm_ffi":
        raise ExecutionError(f"{artifact.name}: JAX calls the entry of the execution backend tvm_ffi, not {artifact.backend}")
    name = f"tilelang_{artifact.name}_{next(_numbers)}"
    _register(name, _entry(artifact), signature, "gpu" if on_device else "cpu")
    return _caller(name, signature)


def _entry(artifact: KernelArtifact) -> Any:
    """The packed function, of a library that stays loaded when its file is gone."""
    import tvm_ffi

    with tempfile.TemporaryDirectory(prefix="tilelang-jax-", dir=temporary.folder()) as folder:
        path = Path(folder) / "kernel.so"
        export_library(artifact, path)
        module: Any = tvm_ffi.load_module(str(path), keep_module_alive=True)  # pyright: ignore[reportUnknownMemberType]
        return module.get_function(artifact.name)


def _register(name: str, entry: Any, signature: CallSignature, platform: str) -> None:
    """Registers a function of all tensors that are passed, then the numbers by name, then the outputs."""
    try:
        jax_tvm_ffi: Any = importlib.import_module("jax_tvm_ffi")
    except ImportError as error:
        raise ExecutionError(f"JAX cannot call kernels: {error}", hint="pip install 'tilelang[jax]'") from None
    inputs = [signature.params[at] for at in signature.inputs]
    order = [param.name for param in inputs if param.kind == "tensor"]
    numbers = [param.name for param in inputs if param.kind == "scalar"]
    order += [*numbers, *(signature.params[at].name for at in signature.allocated)]
    layout = ["args", *(f"attrs.{number}" for number in numbers), "rets"]
    jax_tvm_ffi.register_ffi_target(name, _in_order(entry, signature, order), layout, platform)


def _in_order(entry: Any, signature: CallSignature, order: list[str]) -> Any:
    """The entry for arguments in another order; itself where that is the order of its parameters."""
    import tvm_ffi

    places = [order.index(param.name) for param in signature.params]
    if places == sorted(places):
        return entry

    def reordered(*given: Any) -> Any:
        return entry(*[given[place] for place in places])

    return tvm_ffi.convert(reordered)


def _caller(name: str, signature: CallSignature) -> Callable[..., Any]:
    import numpy as np

    jax: Any = importlib.import_module("jax")

    inputs = [signature.params[at] for at in signature.inputs]

    def call(*args: Any) -> Any:
        if len(args) != len(inputs):
            raise ArgumentCountError(signature.kernel, f"expected {len(inputs)} arguments, got {len(args)}", signature.text())
        arrays = {param.name: jax.numpy.asarray(value) for param, value in zip(inputs, args) if param.kind == "tensor"}
        numbers = {param.name: np.dtype(param.dtype).type(value) for param, value in zip(inputs, args) if param.kind == "scalar"}
        sizes = signature.sizes(_shapes(signature, arrays), {name: value.item() for name, value in numbers.items()})
        results = [_result(signature.params[at], sizes) for at in signature.allocated]
        made = jax.ffi.ffi_call(name, results, vmap_method="sequential")(*arrays.values(), **numbers)
        found = dict(zip(signature.allocated, made))
        returned = tuple(found[at] for at in signature.returned)
        return returned[0] if len(returned) == 1 else returned

    return call


def _shapes(signature: CallSignature, arrays: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays, which have as many axes as the kernel's tensors."""
    for param in signature.params:
        if param.name in arrays and arrays[param.name].ndim != len(param.shape):
            axes = arrays[param.name].ndim
            raise ArgumentError(f"{signature.kernel}: {param.name} has {axes} axes, expected {len(param.shape)}")
    return {name: array.shape for name, array in arrays.items()}


def _result(param: KernelParam, sizes: dict[str, Any]) -> Any:
    jax: Any = importlib.import_module("jax")
    shape = tuple(evaluate_dim(dim, sizes) for dim in storage_shape(param))
    return jax.ShapeDtypeStruct(shape, jax.numpy.dtype(storage_dtypes(param)[0]))
