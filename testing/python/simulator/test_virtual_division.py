"""Quotients of tensors on the virtual device and numbers have the bits of torch's kernels for CUDA."""

from __future__ import annotations

import pytest
import torch

from tilelang.simulator import virtual_device

QUOTIENTS = {
    "operator": lambda tensor, number: tensor / number,
    "function": torch.div,
    "true": torch.true_divide,
    "method": lambda tensor, number: tensor.div(number),
    "in place": lambda tensor, number: tensor.clone().div_(number),
}


@pytest.mark.parametrize("quotient", QUOTIENTS.values(), ids=QUOTIENTS)
@pytest.mark.parametrize("number", [448.0, 3, -0.7])
def test_a_quotient_by_a_number_is_a_product(number, quotient):
    x = torch.randn(1000)
    reciprocal = torch.ones(()).div(torch.tensor(number)).item()
    assert not torch.equal(x / number, x * reciprocal)
    with virtual_device():
        assert torch.equal(quotient(x.cuda(), number).cpu(), x * reciprocal)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.float64])
def test_types_of_quotients(dtype):
    x = torch.arange(1, 100).to(dtype)
    expected = x / 3
    with virtual_device():
        found = (x.cuda() / 3).cpu()
        whole = x.cuda().div(3, rounding_mode="floor").cpu()
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected)
    assert torch.equal(whole, x.div(3, rounding_mode="floor"))


def test_integers_where_float64_is_the_default():
    torch.set_default_dtype(torch.float64)
    try:
        with virtual_device():
            found = (torch.arange(1, 100).cuda() / 3).cpu()
        assert torch.equal(found, torch.arange(1, 100) * (1 / 3))
    finally:
        torch.set_default_dtype(torch.float32)


def test_other_quotients_are_those_of_the_cpu():
    x = torch.randn(1000)
    with virtual_device():
        assert torch.equal((x.cuda() / x.flip(0).cuda()).cpu(), x / x.flip(0))
        assert torch.equal((3.0 / x.cuda()).cpu(), 3.0 / x)
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.arange(3).cuda().div_(2)
