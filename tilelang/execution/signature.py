"""How a kernel is called: its inputs, its outputs, and which sizes the inputs give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tilelang.artifact import KernelArtifact, KernelParam, dim_names, evaluate_dim
from tilelang.assumptions import Assumption, assumptions_of
from tilelang.errors import ExecutionError
from tilelang.records import Record
from tilelang.sizes import AXIS, Binding, bindings
from tilelang.storage import storage_dtypes


class CallSignature(Record):
    """The calling convention of one kernel, as a backend needs it.

    Attributes:
        kernel: its name.
        params: every parameter in order.
        inputs: positions that the caller passes.
        allocated: positions that the call allocates.
        returned: positions that it returns, in order.
        dynamic: names of the dynamic variables, in the order of the C entry point.
        alignment: of some tensor and pointer parameters, the multiple of bytes that the address must be.
        device: the torch device type that tensors live on.
        unused: names of tensors and of dynamic variables that the kernel's body never mentions: a call may pass None for them.
        only_read: names of tensors that the kernel certainly does not write.
        assumptions: what the program takes for granted of a call.
    """

    kernel: str
    params: tuple[KernelParam, ...]
    inputs: tuple[int, ...]
    allocated: tuple[int, ...]
    returned: tuple[int, ...]
    dynamic: tuple[str, ...]
    alignment: dict[str, int]
    device: str
    unused: tuple[str, ...] = ()
    only_read: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @staticmethod
    def of(artifact: KernelArtifact, device: str) -> CallSignature:
        """The signature of ``artifact`` for tensors on ``device``.

        Raises:
            ExecutionError: a dynamic size that no input gives.
        """
        allocated = tuple(artifact.out_idx)
        inputs = tuple(i for i in range(len(artifact.params)) if i not in allocated)
        signature = CallSignature(
            artifact.name, artifact.params, inputs, allocated,
            tuple(artifact.metadata.get("returned", allocated)),
            tuple(artifact.metadata.get("dynamic", ())),
            dict(artifact.metadata.get("alignment", {})),
            device,
            tuple(artifact.metadata.get("unused", ())),
            _only_read(artifact),
            assumptions_of(artifact),
        )  # fmt: skip
        bound = {*signature.scalars(), *(binding.name for binding in signature.bindings())}
        for param in artifact.params:
            for name in dim_names((*param.shape, *(param.strides or ()))):
                if name not in bound:
                    raise ExecutionError(
                        f"{artifact.name}: no argument gives the size {name} of {param.name}",
                        hint=f"pass a tensor with an axis of size {name}, or take {param.name} out of out_idx",
                    )
        return signature

    def text(self) -> str:
        """The inputs as a call's arguments: ``A, B, scale``."""
        return ", ".join(self.params[i].name for i in self.inputs)

    def scalars(self) -> set[str]:
        """Names of the scalars that the caller passes."""
        return {self.params[i].name for i in self.inputs if self.params[i].kind == "scalar"}

    def sizes(self, shapes: Mapping[str, Sequence[int]], numbers: Mapping[str, Any]) -> dict[str, Any]:
        """The value of each dynamic size and scalar of a call, from the shapes of its tensors and its scalars, by name."""
        found = dict(numbers)
        for binding in self.bindings():
            found[AXIS] = shapes[binding.tensor][binding.axis]
            found[binding.name] = evaluate_dim(binding.value, found)
        return found

    def bindings(self, absent: Collection[str] = ()) -> tuple[Binding, ...]:
        """Where the inputs, without the tensors ``absent``, give the dynamic sizes."""
        given = [self.params[i] for i in self.inputs if self.params[i].name not in absent]
        return bindings(given, self.scalars())


def _only_read(artifact: KernelArtifact) -> tuple[str, ...]:
    written = artifact.metadata.get("written")
    return () if written is None else tuple(p.name for p in artifact.params if p.kind == "tensor" and p.name not in written)


def may_be_negated(param: KernelParam) -> bool:
    """Whether a tensor of the declared layout may be a view that torch negates lazily: it has strides, or, in some call, a single
    element."""
    single = all(dim == 1 for dim in param.shape if isinstance(dim, int))
    return param.kind == "tensor" and (param.strides is not None or single)


def torch_dtypes(param: KernelParam) -> tuple[Any, ...]:
    """The torch dtypes that a tensor parameter accepts, the one for outputs first.

    Raises:
        ExecutionError: torch has none.
    """
    import torch

    found = (getattr(torch, name, None) for name in storage_dtypes(param))
    dtypes = tuple(dtype for dtype in found if isinstance(dtype, torch.dtype))
    if not dtypes:
        raise ExecutionError(f"torch has no dtype for {param.name}: {param.dtype}")
    return dtypes
