"""How a kernel is called: its inputs, its outputs, and which sizes the inputs give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilelang.artifact import KernelArtifact, KernelParam, dim_names
from tilelang.errors import ExecutionError
from tilelang.storage import storage_dtypes


@dataclass(frozen=True)
class CallSignature:
    """The calling convention of one kernel, as a backend needs it.

    Attributes:
        kernel: its name.
        params: every parameter in order.
        inputs: positions that the caller passes.
        allocated: positions that the call allocates.
        returned: positions that it returns, in order.
        dynamic: names of the dynamic variables, in the order of the C entry point.
        alignment: of some tensor parameters, the multiple of bytes that the address must be.
        device: the torch device type that tensors live on.
        unused: names of tensors and of dynamic variables that the kernel's body never mentions: a call may pass None for them.
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
        )  # fmt: skip
        bound = signature.bound_names()
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

    def bound_names(self) -> set[str]:
        """The dynamic variables and integer scalars whose value the inputs give."""
        names = {name for _, _, name in self.binding_axes()}
        return names | {self.params[i].name for i in self.inputs if self.params[i].kind == "scalar"}

    def binding_axes(self) -> Iterator[tuple[KernelParam, int, str]]:
        """Where a bare variable stands in an input: the parameter, the axis (strides count on after the shape), the name."""
        for index in self.inputs:
            param = self.params[index]
            for axis, dim in enumerate((*param.shape, *(param.strides or ()))):
                if isinstance(dim, str):
                    yield param, axis, dim


def torch_dtypes(param: KernelParam) -> tuple:
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
