"""Operations whose operands must be on one device, as on a GPU: ``model(batch)`` where the batch was left on the host.

Torch's own checks see only tensors of the host here. The table has what programs compute with; functions that take tensors
of both devices by intention (copies, indexing, lengths of sequences) are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_NAMES = (
    "add sub rsub mul div truediv true_divide divide multiply subtract floor_divide floordiv remainder mod fmod pow"
    " maximum minimum fmax fmin atan2 arctan2 hypot copysign heaviside xlogy eq ne lt le gt ge greater less logical_and"
    " logical_or logical_xor bitwise_and bitwise_or bitwise_xor and or xor isclose allclose equal lerp addcmul addcdiv where"
    " matmul mm bmm mv dot inner outer einsum tensordot addmm addmv addbmm baddbmm kron cdist cross"
    " cat concat stack hstack vstack dstack gather scatter scatter_add index_select masked_fill masked_select take_along_dim"
    " linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d embedding embedding_bag"
    " layer_norm group_norm batch_norm instance_norm rms_norm prelu cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss"
    " huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits cosine_similarity grid_sample"
).split()


def _functions() -> Iterator[Callable[..., Any]]:
    """The functions and methods of these names, in place and as operators."""
    for name in _NAMES:
        for variant in (name, f"{name}_", f"__{name}__", f"__r{name}__", f"__i{name}__"):
            for owner in (torch, torch.Tensor, torch.nn.functional):
                function = getattr(owner, variant, None)
                if function is not None and function is not NotImplemented:
                    yield function


_OF_ONE_DEVICE = frozenset(_functions())


def check_one_device(function: Callable[..., Any], operands: Sequence[torch.Tensor], places: Sequence[int | None]) -> None:
    """Refuses an operation on tensors of several devices.

    Args:
        function: the operation.
        operands: the tensors that it was given.
        places: the index of each one's device, None for the host; a tensor there without axes counts as a number.

    Raises:
        RuntimeError: in torch's words.
    """
    if function not in _OF_ONE_DEVICE:
        return
    found = {place for tensor, place in zip(operands, places) if place is not None or tensor.dim()}
    if len(found) > 1:
        first, second, *_ = [f"cuda:{index}" for index in sorted(place for place in found if place is not None)] + ["cpu"]
        name = getattr(function, "__name__", str(function))
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}! (in {name})"
        )
