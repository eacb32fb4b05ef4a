"""The function that a user's call runs: generated for one kernel, so that it does nothing that this kernel does not need.

The generated text checks arguments with the fewest operations, allocates outputs and calls the native entry. Whatever it
refuses goes to :func:`tilelang.execution.arguments.prepare`, which explains the mistake or returns the arguments in plainer
form for a second attempt. Names in the text are numbered, never taken from the program, and sizes pass through
``dim_source``, so that an artifact from disk cannot smuggle code in.

Two calling conventions: :func:`packed_call` hands tensors over as they are (the native entry checks them),
:func:`pointer_call` hands over addresses, scalars and sizes (the generated text checks everything).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

from tilelang.artifact import Dim, KernelParam, dim_source
from tilelang.dtypes import canonical
from tilelang.errors import ExecutionError, KernelFailedError
from tilelang.execution.arguments import as_float, as_integer, compact_without_elements, integer_range, prepare
from tilelang.execution.signature import CallSignature, may_be_negated, torch_dtypes
from tilelang.records import Record
from tilelang.sizes import AXIS, Binding
from tilelang.storage import storage_shape, storage_strides


class Refused(Exception):
    """The generated check does not accept the call."""


class Surroundings(Record):
    """What a call may need besides the kernel.

    Attributes:
        allocate: makes outputs, as ``torch.empty`` does.
        elsewhere: tried first with ``(args, kwargs)`` of a refused call; gives a function of no arguments that does the call in
            another way, or None.
    """

    allocate: Callable[..., Any] | None = None
    elsewhere: Callable[[tuple[Any, ...], dict[Any, Any]], Callable[[], Any] | None] | None = None


PLAIN = Surroundings()


def holding(call: Callable[..., Any], *things: Any) -> Callable[..., Any]:
    """The call, which keeps ``things`` (a library, a module) alive as long as it lives itself."""
    setattr(call, "held", things)  # noqa: B010 - functions take attributes that no type declares
    return call


def packed_call(signature: CallSignature, native: Callable[..., Any], surroundings: Surroundings = PLAIN) -> Callable[..., Any]:
    """A call of ``native(*tensors and scalars in parameter order)``, which raises where a tensor does not fit.

    Args:
        signature: how the kernel is called.
        native: the entry, which checks its tensors.
        surroundings: how outputs are made, and what else may be tried.
    """
    return _build(signature, _Text(signature).packed(), {"native": native}, surroundings)


def pointer_call(
    signature: CallSignature,
    native: Callable[..., int],
    failure: Callable[[int], str],
    stream: Callable[[int], int] | None = None,
    surroundings: Surroundings = PLAIN,
) -> Callable[..., Any]:
    """A call of ``native(addresses and scalars in parameter order, dynamic sizes, stream)``, which returns 0 on success.

    Args:
        signature: how the kernel is called.
        native: the entry.
        failure: the message for an entry's non-zero result.
        stream: device index -> address of the stream to launch on; None for kernels without one (0 is passed).
        surroundings: how outputs are made, and what else may be tried.
    """
    text = _Text(signature).pointers(with_stream=stream is not None)
    return _build(signature, text, {"native": native, "failure": failure, "stream_of": stream}, surroundings)


def _build(signature: CallSignature, text: str, names: dict[str, Any], surroundings: Surroundings) -> Callable[..., Any]:
    import torch

    scope = {
        "Refused": Refused,
        "Failed": KernelFailedError,
        "kernel": signature.kernel,
        "as_integer": as_integer,
        "as_float": as_float,
        "Tensor": torch.Tensor,
        "byte": torch.uint8,
        "compact": compact_without_elements,
        "c_void_p": ctypes.c_void_p,
        "empty": surroundings.allocate or torch.empty,
        "default_device": torch.device(signature.device),
        **{f"dtypes{i}": torch_dtypes(param) for i, param in _tensors(signature)},
        **{f"dtype{i}": torch_dtypes(param)[0] for i, param in _tensors(signature)},
        **names,
    }
    code = compile(text, f"<call of {signature.kernel}>", "exec")
    # The same text twice: a refused call is tried again with its arguments in plain form, and that attempt only reports.
    second = _define(code, {**scope, "slow": give_up(signature)})
    return _define(code, {**scope, "slow": slow_path(signature, second, elsewhere=surroundings.elsewhere)})


def _define(code: Any, scope: dict[str, Any]) -> Callable[..., Any]:
    exec(code, scope)  # noqa: S102 - the text is made here, from numbers and the operators of DIM_OPERATORS
    return scope["call"]


def slow_path(
    signature: CallSignature,
    again: Callable[..., Any],
    refusals: type[Exception] = Refused,
    elsewhere: Callable[[tuple[Any, ...], dict[Any, Any]], Callable[[], Any] | None] | None = None,
) -> Callable[..., Any]:
    """The slow path of a call: for arguments that the fast path refuses, and for errors of the kernel.

    Args:
        signature: how the kernel is called.
        again: the call that gets the arguments in plain form, where nothing is wrong with them.
        refusals: what the fast path raises where it refuses.
        elsewhere: see :class:`Surroundings`.

    Returns:
        A function of ``(args, kwargs, error)``: it raises what is wrong with the arguments or the kernel's own failure, or
        gives the result of the second attempt.
    """

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
        other = elsewhere(args, kwargs) if elsewhere is not None else None
        if other is not None:
            return other()
        prepared = prepare(signature, args, kwargs)
        if not isinstance(error, refusals) and not kwargs and all(a is b for a, b in zip(args, prepared)):
            raise _failed(signature, error)  # nothing is wrong with the arguments: the kernel itself failed
        return again(*prepared)

    return slow


def give_up(signature: CallSignature) -> Callable[..., Any]:
    """The slow path of the second attempt, whose errors are those of the kernel."""

    def slow(_args: tuple[Any, ...], _kwargs: dict[str, Any], error: Exception) -> Any:
        raise _failed(signature, error)

    return slow


def _failed(signature: CallSignature, error: Exception) -> ExecutionError:
    if isinstance(error, ExecutionError):
        return error.with_traceback(None)
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    failure = KernelFailedError(signature.kernel, reason)
    failure.__suppress_context__ = True
    return failure


def _tensors(signature: CallSignature) -> Iterator[tuple[int, KernelParam]]:
    return ((i, param) for i, param in enumerate(signature.params) if param.kind == "tensor")


class _Text:
    """Lines of one generated call."""

    def __init__(self, signature: CallSignature):
        self.signature = signature
        self.lines: list[str] = []
        self.sizes: dict[str, str] = {}
        """Dynamic variable -> the local that holds it."""

    # -- the two conventions

    def packed(self) -> str:
        """Text that leaves tensor checks to the native entry."""
        self._unpack()
        for index in self._inputs("scalar"):
            self._check_scalar(index)
        for index in self._inputs("pointer"):
            self._address(index)
            self._check_alignment(index)
        for index in self._inputs("tensor"):
            # tvm-ffi takes arrays of other libraries, too, some of which must not be written although they do not say so.
            if self.signature.params[index].name not in self.signature.only_read:
                self._refuse_unless(f"isinstance(v{index}, Tensor)")
            if self._alignment(index) > 1:
                self._refuse_unless(f"not v{index}.data_ptr() % {self._alignment(index)}")
            if self._in_bytes(index):
                self._refuse_unless(f"v{index}.dtype in dtypes{index}")
        self._refuse_negated_unread()
        if self.signature.allocated:
            self._bind_sizes(check=False)
            self._allocate()
        self._emit(f"native({', '.join(map(self._packed_value, range(len(self.signature.params))))})")
        return self._finish()

    def pointers(self, with_stream: bool) -> str:
        """Text that checks everything and passes addresses."""
        self._unpack()
        for index in self._inputs("scalar"):
            self._check_scalar(index)
        for index in self._inputs("tensor"):
            self._check_tensor(index)
        self._bind_sizes(check=True)
        for index in self._inputs("tensor"):
            self._refuse_negated(index)
        self._allocate()
        for index in (*self._inputs("pointer"), *self._inputs("tensor"), *self.signature.allocated):
            self._address(index)
        for index in self.signature.allocated:  # torch.empty gives a tensor without data where it is called in a FakeTensorMode
            self._emit(f"if not p{index} and v{index}.numel(): raise Failed(kernel, 'torch allocated an output without memory')")
        for index in self._inputs("tensor"):
            self._refuse_unless(f"p{index} or not v{index}.numel()")  # a tensor whose storage has been freed
        for index in (*self._inputs("pointer"), *self._inputs("tensor")):
            self._check_alignment(index)
        values = [f"v{i}" if p.kind == "scalar" else f"p{i}" for i, p in enumerate(self.signature.params)]
        values += [self.sizes[name] for name in self.signature.dynamic]
        values.append(f"stream_of({self._device_index()})" if with_stream else "0")
        self._emit(f"code = native({', '.join(values)})")
        self._emit("if code: raise Failed(kernel, failure(code))")
        return self._finish()

    # -- pieces

    def _emit(self, line: str) -> None:
        self.lines.append(line)

    def _refuse_unless(self, condition: str) -> None:
        self._emit(f"if not ({condition}): raise Refused")

    def _inputs(self, kind: str) -> list[int]:
        return [i for i in self.signature.inputs if self.signature.params[i].kind == kind]

    def _packed_value(self, index: int) -> str:
        if self.signature.params[index].kind == "pointer":
            return f"c_void_p(p{index})"
        if self.signature.params[index].dtype == "uint64" and self.signature.params[index].kind == "scalar":
            return f"v{index} if v{index} < {2**63} else v{index} - {2**64}"  # tvm-ffi's integers have a sign
        value = f"v{index}.view(byte)" if self._in_bytes(index) else f"v{index}"
        return f"compact({value})" if self._is_perhaps_empty_output(index) else value

    def _is_perhaps_empty_output(self, index: int) -> bool:
        """Whether it may come without compact strides: an axis after the first may have no elements."""
        sizes = storage_shape(self.signature.params[index])[1:] if index in self.signature.allocated else ()
        return any(not isinstance(size, int) or not size for size in sizes)

    def _in_bytes(self, index: int) -> bool:
        """Whether a tensor's elements are less than a byte: it is handed over as bytes, whichever torch dtype holds them."""
        param = self.signature.params[index]
        return param.kind == "tensor" and canonical(param.dtype).bits < 8

    def _alignment(self, index: int) -> int:
        param = self.signature.params[index]
        want = self.signature.alignment.get(param.name, 1)
        # A tensor of torch lies at a multiple of its elements; what a pointer is called with may be anywhere.
        return want if param.kind == "pointer" or want > canonical(param.dtype).bytes else 1

    def _check_alignment(self, index: int) -> None:
        if self._alignment(index) > 1:
            self._refuse_unless(f"not p{index} % {self._alignment(index)}")

    def _refuse_negated(self, index: int) -> None:
        param = self.signature.params[index]
        if not may_be_negated(param):
            return
        # To compare sizes that are known costs less than to ask torch.
        sizes = enumerate(storage_shape(param)) if param.strides is None else ()
        single = [f"s{index}_{axis} == 1" for axis, dim in sizes if dim != 1]
        self._refuse_unless(f"not ({' and '.join([*single, f'v{index}.is_neg()'])})")

    def _refuse_negated_unread(self) -> None:
        """The same where the entry is what compares sizes: tensors of one declared shape have a single element all at once."""
        alike: dict[Any, list[int]] = {}
        for index in self._inputs("tensor"):
            param = self.signature.params[index]
            if may_be_negated(param):
                varies = param.strides is None and any(not isinstance(dim, int) for dim in param.shape)
                alike.setdefault(param.shape if varies else index, []).append(index)
        for shape, indices in alike.items():
            single = f"v{indices[0]}.numel() == 1 and " if isinstance(shape, tuple) else ""
            self._refuse_unless(f"not ({single}({' or '.join(f'v{index}.is_neg()' for index in indices)}))")

    def _unpack(self) -> None:
        # Unpacking counts the arguments, too: another number raises ValueError, which goes the slow way.
        targets = "".join(f"v{i}, " for i in self.signature.inputs)
        self._emit("if kwargs: raise Refused")
        self._emit(f"({targets}) = args" if targets else "if args: raise Refused")

    def _check_scalar(self, index: int) -> None:
        dtype = self.signature.params[index].dtype
        if canonical(dtype).is_float:
            self._emit(f"if v{index}.__class__ is not float: v{index} = as_float(v{index})")
            return
        low, high = integer_range(dtype)
        self._emit(f"if v{index}.__class__ is not int: v{index} = as_integer(v{index})")
        self._refuse_unless(f"{low} <= v{index} <= {high}")

    def _check_tensor(self, index: int) -> None:
        param = self.signature.params[index]
        dtype = f"v{index}.dtype is dtype{index}" if len(torch_dtypes(param)) == 1 else f"v{index}.dtype in dtypes{index}"
        layout = [f"v{index}.is_contiguous()"] if param.strides is None else []
        kind = f"v{index}.__class__ is Tensor and {dtype} and v{index}.is_{self.signature.device}"
        self._refuse_unless(" and ".join([kind, *layout]))
        first = self._inputs("tensor")[0]
        if self.signature.device == "cuda" and index != first:
            self._refuse_unless(f"v{index}.get_device() == v{first}.get_device()")

    def _bind_sizes(self, check: bool) -> None:
        """Reads shapes and strides; binds each variable where it first stands alone, and checks every other size."""
        for index in self._inputs("scalar"):
            self.sizes[self.signature.params[index].name] = f"v{index}"
        bindings = self.signature.bindings()
        places = {(binding.tensor, binding.axis): binding for binding in bindings}
        checks: list[tuple[str, Dim]] = []
        for index in self._inputs("tensor"):
            param = self.signature.params[index]
            at = 0
            for attribute, dims in (("shape", storage_shape(param)), ("stride()", storage_strides(param) or ())):
                locals_ = [f"s{index}_{at + axis}" for axis in range(len(dims))]
                of = [places.get((param.name, at + axis)) for axis in range(len(dims))]
                at += len(dims)
                # Reading a shape costs more than comparing it: without checks only the tensors that give a size are read. One
                # without axes is read to see that it has none.
                if (locals_ or attribute == "shape") and (check or any(of)):
                    self._emit(f"({''.join(name + ', ' for name in locals_)}) = v{index}.{attribute}")
                checks += [(name, dim) for name, dim, binding in zip(locals_, dims, of) if binding is None or binding.solved]
        for number, binding in enumerate(bindings):
            self._bind(number, binding)
        if check and checks:
            self._refuse_unless(" and ".join(f"{name} == {self._size(dim)}" for name, dim in checks))

    def _bind(self, number: int, binding: Binding) -> None:
        """The local that holds a size: that of its axis, or a new one."""
        index = next(i for i in self._inputs("tensor") if self.signature.params[i].name == binding.tensor)
        # A variable that stands alone as the size of an axis is that size; one inside of arithmetic, as n of (n * 4,), is solved
        # for.
        self.sizes[AXIS] = self.sizes[binding.name] = f"s{index}_{binding.axis}"
        if binding.solved:
            self._emit(f"n{number} = {self._size(binding.value)}")
            self._refuse_unless(f"n{number} >= 0")
            self.sizes[binding.name] = f"n{number}"

    def _size(self, dim: Dim) -> str:
        return dim_source(self._renamed(dim))

    def _renamed(self, dim: Dim) -> Dim:
        if isinstance(dim, tuple) and len(dim) == 3:
            return (dim[0], self._renamed(dim[1]), self._renamed(dim[2]))
        return self.sizes[dim] if isinstance(dim, str) else dim

    def _allocate(self) -> None:
        tensors = self._inputs("tensor")
        device = f"v{tensors[0]}.device" if tensors and self.signature.device != "cpu" else "default_device"
        for index in self.signature.allocated:
            sizes = "".join(self._size(dim) + ", " for dim in storage_shape(self.signature.params[index]))
            self._emit(f"v{index} = empty(({sizes}), dtype=dtype{index}, device={device})")

    def _address(self, index: int) -> None:
        if self.signature.params[index].kind == "tensor":
            self._emit(f"p{index} = v{index}.data_ptr()")
            return
        self._refuse_unless(f"v{index}.__class__ is int and 0 <= v{index} < {2**64}")
        self._emit(f"p{index} = v{index}")

    def _device_index(self) -> str:
        tensors = [*self._inputs("tensor"), *self.signature.allocated]
        return f"v{tensors[0]}.get_device()" if tensors else "-1"

    def _finish(self) -> str:
        returned = [f"v{i}" for i in self.signature.returned]
        if returned:
            self._emit("return " + (returned[0] if len(returned) == 1 else f"[{', '.join(returned)}]"))
        body = "\n".join("        " + line for line in self.lines)
        return (
            "def call(*args, **kwargs):\n    try:\n" + body + "\n    except Exception as error:\n"
            "        return slow(args, kwargs, error)\n"
        )
