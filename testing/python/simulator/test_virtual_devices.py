"""Several virtual devices: which one a tensor, a stream, an event and a kernel belong to."""

from __future__ import annotations

import io
import threading

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentValueError, SimulatorArgumentError
from tilelang.simulator.virtual.session import virtual_device


@pytest.fixture(autouse=True)
def three():
    with virtual_device("a100", devices=3):
        yield


def on(index: int, size: int = 4) -> torch.Tensor:
    return torch.ones(size, device=f"cuda:{index}")


def test_torch_counts_them():
    assert torch.cuda.device_count() == torch.accelerator.device_count() == 3
    assert len({torch.cuda.get_device_properties(index).uuid for index in range(3)}) == 3
    assert torch.cuda.can_device_access_peer(0, 1) and not torch.cuda.can_device_access_peer(1, 1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        on(3)
    with pytest.raises(SimulatorArgumentError, match="0 devices"), virtual_device(devices=0):
        pass


@pytest.mark.parametrize(
    ("make", "index"),
    [
        (lambda: on(1), 1), (lambda: on(1) * 2 + 1, 1), (lambda: torch.zeros_like(on(2)), 2), (lambda: on(1).new_ones(2), 1),
        (lambda: on(1).to("cuda:2"), 2), (lambda: on(2).cuda(), 0), (lambda: torch.ones(2).cuda(1), 1),
        (lambda: on(0).to(on(2)), 2), (lambda: torch.cat([on(1), on(1)]), 1), (lambda: on(1)[torch.tensor([0])], 1),
        (lambda: on(0).copy_(on(1)), 0),
        (lambda: torch.nn.Linear(2, 2).to(2).weight, 2), (lambda: torch.empty_like(on(1), device="cuda:0"), 0),
    ],
)  # fmt: skip
def test_where_a_tensor_is(make, index):
    made = make()
    assert made.get_device() == index and made.device == torch.device("cuda", index) and f"cuda:{index}" in repr(made)


def test_a_copy_to_a_peer_is_other_memory():
    x = on(1)
    y, same = x.to("cuda:2"), x.to("cuda:1")
    x.fill_(5)
    assert y.tolist() == [1] * 4 and same is x
    assert [torch.cuda.memory_allocated(index) for index in range(3)] == [0, 16, 16]


def test_operations_refuse_tensors_of_two_devices():
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cuda:1! "):
        on(1) + on(0)
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cpu! "):
        on(1) + torch.ones(4)
    assert (on(1) + torch.tensor(1.0)).get_device() == 1


def test_the_current_device_belongs_to_a_thread():
    seen = []
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == torch.ones(1, device="cuda").get_device() == 1
        torch.cuda.set_device("cuda:2")
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
        assert torch.cuda.current_device() == 2 and seen == [0]
    assert torch.cuda.current_device() == 0


def test_streams_and_events_belong_to_a_device():
    stream, event = torch.cuda.Stream("cuda:1"), torch.cuda.Event()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1 and torch.cuda.current_stream() == stream
        event.record()
    assert torch.cuda.current_device() == 0 and torch.cuda.current_stream(1) != stream
    assert torch.cuda.default_stream(0) != torch.cuda.default_stream(1) == torch.cuda.current_stream("cuda:1")
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        event.record(torch.cuda.current_stream())


@tilelang.jit(out_idx=[-1])
def added(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] + B[i]

    return main


def test_kernels_run_on_the_device_of_their_tensors():
    result = added(32)(on(2, 32), on(2, 32))
    assert result.get_device() == 2 and result.sum() == 64
    with pytest.raises(ArgumentValueError, match=r"B \(position 1\): expected cuda:2, got cuda:1"):
        added(32)(on(2, 32), on(1, 32))


def test_modules_in_parts_and_on_all_devices():
    first, second = torch.nn.Linear(4, 4).to("cuda:0"), torch.nn.Linear(4, 4).to("cuda:1")
    second(first(on(0)).to("cuda:1")).sum().backward()
    assert first.weight.grad.get_device() == 0 and second.weight.grad.get_device() == 1
    x, grad = torch.arange(24.0, device="cuda").view(6, 4), first.weight.grad.clone()
    first.zero_grad()
    result = torch.nn.DataParallel(first)(x)
    result.sum().backward()
    assert result.get_device() == 0 and torch.allclose(result, first(x)) and not torch.equal(first.weight.grad, grad)


def test_optimisers_work_on_the_parameters_of_each_device():
    weights = [torch.nn.Parameter(torch.ones(2, device=f"cuda:{index}")) for index in (0, 1, 0)]
    for weight in weights:
        weight.grad = torch.full_like(weight, 2)
    assert torch.nn.utils.clip_grad_norm_(weights, 1.0).item() == pytest.approx(24**0.5)
    torch.optim.Adam(weights, 0.5, foreach=True).step()
    assert [weight.get_device() for weight in weights] == [0, 1, 0]
    assert all(weight.grad.get_device() == weight.get_device() and weight[0].item() == pytest.approx(0.5) for weight in weights)


def test_checkpoints_name_the_device():
    file = io.BytesIO()
    torch.save(on(1), file)
    for location, index in ((None, 1), ("cuda:2", 2), ({"cuda:1": "cuda:0"}, 0)):
        file.seek(0)
        assert torch.load(file, map_location=location).get_device() == index
