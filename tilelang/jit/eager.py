"""Calls of eager programs: which arguments are tensors, which kernel their shapes select, and running it.

    @tilelang.jit
    def add(A, B, block: int = 128):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        ...
        return C

    add(a, b)          # compiles for this N, then runs
    add(a, b, block=256)
    add(a, b, N=1024)  # a T.const size by name, where no shape gives it

The arguments that are neither tensors nor declared scalars are compile-time constants. For each set of them the program is
probed once for its signature; the shapes of the tensors then give the ``T.const`` sizes, and those select the kernel.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

from tilelang.artifact import dim_names
from tilelang.cache.kernel_cache import default_cache
from tilelang.cache.keys.source_key import SourceKey, trace
from tilelang.dtypes import DType, all_names, canonical
from tilelang.errors import ArgumentError
from tilelang.frontend.signature import EagerSignature, SignatureParam
from tilelang.frontend.specs import TensorSpec
from tilelang.jit.kernel import JITKernel
from tilelang.jit.lookup import UNKEYED, Lookup, caching, compiled, from_source, say_off
from tilelang.language.tensors import declared_pointer
from tilelang.records import Record

_SIGNATURE = "eager_signature"


class _Specialised:
    """An eager program under one set of compile-time arguments: its signature, and a kernel for each set of sizes."""

    __slots__ = ("kernels", "signature")

    def __init__(self, signature: EagerSignature):
        self.signature = signature
        self.kernels: dict[tuple[int, ...], JITKernel] = {}


class Chosen(Record):
    """A kernel for some arguments.

    Attributes:
        kernel: the kernel.
        names: the arguments that it takes, in order.
        sizes: (argument, axis, size) of the axes that it is made for.
    """

    kernel: JITKernel
    names: tuple[str, ...]
    sizes: tuple[tuple[str, int, int], ...]


class EagerFunction:
    """An eager program as a function of tensors.

    Args:
        lookup: the program under its options.
    """

    def __init__(self, lookup: Lookup):
        self.lookup = lookup
        self.function = lookup.function
        self.name = lookup.function.__name__
        self.parameters = inspect.signature(lookup.function).parameters
        self.names = tuple(self.parameters)
        by_name = inspect.Parameter.KEYWORD_ONLY
        self.positional = tuple(name for name, parameter in self.parameters.items() if parameter.kind is not by_name)

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        """Annotations of parameters; text (``from __future__ import annotations``) as what it names, where it has a value now."""
        scope = {**self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}
        return {name: _value_of(parameter.annotation, scope) for name, parameter in self.parameters.items()}

    @functools.cached_property
    def declared(self) -> frozenset[str]:
        """Parameters that are declared tensors, addresses or numbers of the call."""
        return frozenset(name for name, annotation in self.annotations.items() if _declares_runtime(annotation))

    @functools.cached_property
    def scalars(self) -> frozenset[str]:
        """Parameters that are declared numbers of the call."""
        return frozenset(name for name, annotation in self.annotations.items() if isinstance(annotation, DType))

    # Calling ---------------------------------------------------------------------------------------------------------

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the kernel for these arguments."""
        specialised, runtime, fixed, named = self._matched(args, kwargs)
        names = [param.name for param in specialised.signature.params]
        missing = [name for name in names if name not in runtime]
        if missing:
            raise ArgumentError(f"{self.name}: argument {missing[0]} is missing; it is declared a tensor or scalar")
        kernel = self._select(specialised, fixed, self._sizes(specialised.signature, runtime, named))
        return kernel(*(runtime[name] for name in names))

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Chosen:
        """What :meth:`run` would call."""
        specialised, runtime, fixed, named = self._matched(args, kwargs)
        kernel = self._select(specialised, fixed, self._sizes(specialised.signature, runtime, named))
        params, consts = specialised.signature.params, {*specialised.signature.consts}
        sizes = [
            (param.name, axis, runtime[param.name].shape[axis])
            for param in params
            if param.kind == "tensor"
            for axis, dim in enumerate(param.shape)
            if consts & {*dim_names((dim,))}
        ]
        return Chosen(kernel, tuple(param.name for param in params), tuple(sizes))

    def compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        """The kernel for these compile-time arguments and sizes, given by example tensors or by name."""
        kwargs = dict(kwargs)
        named = {name: kwargs.pop(name) for name in list(kwargs) if name not in self.parameters}
        runtime, fixed = self._split(args, kwargs)
        specialised = self._specialise(fixed)
        return self._select(specialised, fixed, self._compile_sizes(specialised.signature, runtime, named))

    def program(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The traced program for these arguments; as :meth:`compile`."""
        kwargs = dict(kwargs)
        named = {name: kwargs.pop(name) for name in list(kwargs) if name not in self.parameters}
        runtime, fixed = self._split(args, kwargs)
        signature = self._specialise(fixed).signature
        return self._traced(fixed, self._compile_sizes(signature, runtime, named))

    # Arguments -------------------------------------------------------------------------------------------------------

    def _matched(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[_Specialised, dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The program under a call's compile-time arguments; its run-time and compile-time ones; the sizes that it names."""
        named = {name: value for name, value in kwargs.items() if name not in self.parameters}
        runtime, fixed = self._split(args, {name: value for name, value in kwargs.items() if name not in named})
        specialised = self._specialise(fixed)
        for name in named:
            if name not in specialised.signature.consts:
                import difflib

                near = difflib.get_close_matches(name, [*self.parameters, *specialised.signature.consts], n=1)
                hint = f"did you mean {near[0]!r}?" if near else None
                raise ArgumentError(f"{self.name}: argument {name} does not exist", hint=hint)
        return specialised, runtime, fixed, named

    def _split(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run-time arguments (tensors, declared scalars) and compile-time ones, by name, in order; defaults filled in."""
        if len(args) > len(self.positional):
            count, named = len(self.positional), len(self.parameters) - len(self.positional)
            by = " by position" if named else ""
            raise ArgumentError(f"{self.name} takes {count} argument{'s' * (count != 1)}{by}, got {len(args)}")
        given = dict(zip(self.positional, args))
        for name, value in kwargs.items():
            if name in given:
                raise ArgumentError(f"{self.name}: argument {name} is given twice")
            given[name] = value
        runtime: dict[str, Any] = {}
        fixed: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in given:
                is_runtime = name in self.declared or _is_array(given[name]) or isinstance(given[name], TensorSpec)
                (runtime if is_runtime else fixed)[name] = given[name]
            elif parameter.default is not inspect.Parameter.empty and name not in self.declared:
                fixed[name] = parameter.default
        return runtime, fixed

    def _sizes(
        self, signature: EagerSignature, runtime: Mapping[str, Any], named: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """The ``T.const`` sizes that example tensors and ``named`` values give."""
        shapes: dict[str, tuple[int, ...]] = {}
        strides: dict[str, tuple[int, ...]] = {}
        for param in signature.params:
            if param.kind != "tensor" or named is not None and param.name not in runtime:
                continue
            value = runtime[param.name]
            if not hasattr(value, "shape"):
                raise ArgumentError(f"{param.name}: expected a tensor, got {type(value).__name__}")
            shapes[param.name] = tuple(value.shape)
            if param.strides is not None:
                strides[param.name] = _strides(value)
        return signature.bind(shapes, strides, named)

    def _compile_sizes(self, signature: EagerSignature, runtime: Mapping[str, Any], named: Mapping[str, int]) -> dict[str, int]:
        unknown = [name for name in named if name not in signature.consts]
        if unknown:
            known = ", ".join(signature.consts) or "none"
            raise ArgumentError(f"{self.name}: {unknown[0]} is neither an argument nor a T.const size ({known})")
        return self._sizes(signature, runtime, named)

    # Selection -------------------------------------------------------------------------------------------------------

    def _specialise(self, fixed: dict[str, Any]) -> _Specialised:
        _, tracker = self.lookup.resolved()
        if not caching():
            return _Specialised(self._probed(fixed))
        # All arguments go by name here: the same call by position and by name has one key.
        found = tracker.recall((), fixed)
        if found is None:
            source = tracker.source_key((), fixed)
            signature = _stored_signature(source)
            if signature is None:
                signature, source = trace(source, functools.partial(self._probed, fixed))
            found = _Specialised(signature)
            tracker.remember((), fixed, found, source)
        return found

    def _probed(self, fixed: dict[str, Any]) -> EagerSignature:
        from tilelang.frontend.program import probe

        return probe(self.function, fixed)

    def _select(self, specialised: _Specialised, fixed: dict[str, Any], sizes: dict[str, int]) -> JITKernel:
        key = tuple(sizes[name] for name in specialised.signature.consts)
        if not caching():
            return self._compile(specialised.signature, fixed, sizes, UNKEYED)[0]
        kernel = specialised.kernels.get(key)
        if kernel is None:
            kernel, source = self._build(specialised.signature, fixed, sizes)
            # Without a key, no later call could tell that what the kernel was made of has changed.
            if source.here is not None:
                specialised.kernels[key] = kernel
        return kernel

    def _build(self, signature: EagerSignature, fixed: dict[str, Any], sizes: dict[str, int]) -> tuple[JITKernel, SourceKey]:
        """The kernel for these sizes, and the source key as far as it stands for it."""
        options, tracker = self.lookup.resolved()
        # Sizes are part of the key under a name that no parameter can have.
        arguments = {**fixed, "T.const": tuple(sorted(sizes.items()))}
        source = tracker.source_key((), arguments)

        def key_now() -> SourceKey:
            return self.lookup.resolved()[1].source_key((), arguments)

        kernel = from_source(source, options, key_now, functools.partial(self._traced, fixed, sizes))
        if kernel is not None:
            return kernel, source
        kernel, source = self._compile(signature, fixed, sizes, source)
        if source.reason:
            say_off(source)
        if source.digest is not None and kernel.cache_key:
            # A process that knows no sizes yet finds a kernel by this, and in it the program's signature.
            default_cache().link(tracker.source_key((), fixed), kernel.cache_key)
        return kernel, source

    def _compile(
        self, signature: EagerSignature, fixed: dict[str, Any], sizes: dict[str, int], source: SourceKey
    ) -> tuple[JITKernel, SourceKey]:
        options, _ = self.lookup.resolved()
        make = functools.partial(self._traced, fixed, sizes)
        return compiled(make, options, source, {_SIGNATURE: _plain_signature(signature)})

    def _traced(self, fixed: dict[str, Any], sizes: dict[str, int]) -> Any:
        from tilelang.frontend.program import trace

        return trace(self.function, fixed, sizes)


def _is_array(value: Any) -> bool:
    """Whether ``value`` is a tensor of torch or of another library that exchanges them, or describes one to :meth:`compile`."""
    if hasattr(value, "data_ptr") or hasattr(value, "__dlpack__"):
        return True
    return hasattr(value, "shape") and hasattr(value, "dtype") and callable(getattr(value, "stride", None))


def _strides(array: Any) -> tuple[int, ...]:
    """The distances between elements along each axis, in elements."""
    if hasattr(array, "stride"):
        return tuple(array.stride())
    return tuple(step // array.itemsize for step in array.strides)


def _value_of(annotation: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(annotation, str) or isinstance(annotation, DType):
        return annotation
    try:
        return eval(annotation, scope)  # noqa: S307 - the user's own annotation, in the user's own scope
    except Exception:
        # Else a name of the program's own, as in T.Tensor((n,), dtype); tensors are known by their values.
        return canonical(annotation) if annotation in all_names else annotation


def _declares_runtime(annotation: Any) -> bool:
    return isinstance(annotation, (TensorSpec, DType)) or declared_pointer(annotation) is not None


def _plain_signature(signature: EagerSignature) -> tuple[Any, ...]:
    return (tuple(dataclasses.astuple(param) for param in signature.params), signature.consts)


def _stored_signature(source: SourceKey) -> EagerSignature | None:
    """The signature that is kept with any kernel of this program; None where there is none on disk."""
    entry = default_cache().lookup_source(source)
    stored = entry.artifact.metadata.get(_SIGNATURE) if entry is not None else None
    return None if stored is None else _signature_from_plain(stored)


def _signature_from_plain(stored: Any) -> EagerSignature:
    params, consts = stored
    return EagerSignature(tuple(SignatureParam(*param) for param in params), tuple(consts))
