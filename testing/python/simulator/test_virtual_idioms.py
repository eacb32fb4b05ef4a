"""Features of torch that bypass function modes, as programs for the device "cuda" use them."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from tilelang.simulator.virtual.session import virtual_device


@pytest.fixture(autouse=True)
def gpu():
    with virtual_device("h100") as usage:
        yield usage


def there(*shape: int, **settings) -> torch.Tensor:
    return torch.ones(*shape, device="cuda", **settings)


def test_memory_of_the_host_stays_there():
    host, x = torch.zeros(2), there(2)
    assert not host.copy_(x).is_cuda and not host.is_cuda
    assert not host.view_as(x).is_cuda and not host.expand_as(x).is_cuda
    assert host.type_as(x).is_cuda and not x.type_as(host).is_cuda
    leaf = torch.ones(2, requires_grad=True)
    moved = leaf.cuda()
    moved.retain_grad()
    (moved * moved).sum().backward()
    assert moved.grad.is_cuda and not leaf.grad.is_cuda


def test_only_pinned_memory_is_pinned():
    pinned = torch.empty(4, pin_memory=True)
    assert pinned.is_pinned() and pinned.view(2, 2).is_pinned() and torch.ones(2).pin_memory().is_pinned()
    assert pinned.pin_memory() is pinned and not torch.ones(2).is_pinned() and not there(2).is_pinned()
    with pytest.raises(RuntimeError, match="cannot pin 'torch.cuda.FloatTensor'"):
        there(2).pin_memory()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_and_jagged_tensors():
    coo = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]], device="cuda"), there(2), (2, 2))
    csr = there(3, 3).to_sparse_csr()
    jagged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged, device="cuda")
    for x in (coo, csr, jagged):
        assert x.is_cuda and x.device == torch.device("cuda:0")
    assert csr.crow_indices().is_cuda and (jagged * 2).values().is_cuda and not coo.cpu().is_cuda


def test_a_checkpoint_may_be_moved_storage_by_storage():
    saved = io.BytesIO()
    torch.save(torch.ones(2), saved)
    saved.seek(0)
    assert torch.load(saved, map_location=lambda storage, _: storage.cuda(0)).is_cuda


def test_capturing_a_graph_leaves_memory_as_it_is():
    x, graph = torch.zeros(2, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
        x *= 2
    assert x.tolist() == [0, 0]
    graph.replay()
    graph.replay()
    assert x.tolist() == [6, 6]


def test_gradients_are_clipped_in_a_graph():
    weight, graph = torch.nn.Parameter(there(4)), torch.cuda.CUDAGraph()
    weight.grad = there(4) * 3
    with torch.cuda.graph(graph):
        norm = torch.nn.utils.clip_grad_norm_([weight], 1.0)
    graph.replay()
    assert norm.item() == 6 and weight.grad.norm().item() == pytest.approx(1)


def test_generic_streams_and_events():
    stream, event = torch.Stream(device="cuda"), torch.Event("cuda", enable_timing=True)
    with stream:
        event.record()
    assert isinstance(torch.cuda.Stream(), torch.Stream) and isinstance(torch.cuda.Event(True), torch.Event)
    assert stream.stream_id == stream.cuda_stream == torch.cuda.ExternalStream(stream.cuda_stream).cuda_stream


def test_each_thread_has_its_own_stream():
    ready = threading.Barrier(3)

    def work(_: int) -> bool:
        mine = torch.cuda.Stream()
        with torch.cuda.stream(mine):
            ready.wait(60)
            return torch.cuda.current_stream() == mine

    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(work, range(3)))


def test_a_thread_that_overrides_run_sees_the_device():
    class Worker(threading.Thread):
        def run(self) -> None:
            self.seen = there(1).is_cuda

    worker = Worker()
    worker.start()
    worker.join()
    assert worker.seen


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_of_activations(use_reentrant):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.ReLU()).cuda()
    x = there(2, 4, requires_grad=True)
    checkpoint(module, x, use_reentrant=use_reentrant).sum().backward()
    assert x.grad.is_cuda


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.is_cuda
        host = gradient.cpu() * 2
        assert host.is_cpu and not torch.ones(1).is_cuda
        return host.to(gradient.device)


def test_gradients_can_be_checked_numerically():
    assert torch.autograd.gradcheck(Twice.apply, there(3, dtype=torch.float64, requires_grad=True))


def test_saved_tensors_in_pinned_memory():
    x = there(3, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_operators_for_cuda():
    @torch.library.custom_op("tilelang_idioms::twice", mutates_args=(), device_types="cuda")
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda and torch.zeros(1, device="cuda").is_cuda and x.cpu().is_cpu and torch.zeros(1).is_cpu
        return x * 2

    @torch.library.custom_op("tilelang_idioms::plus", mutates_args=(), device_types="cpu")
    def plus(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    plus.register_kernel("cuda")(lambda x: x + 2)
    twice.register_autograd(lambda ctx, gradient: twice(gradient))
    x = there(3, requires_grad=True)
    torch.ops.tilelang_idioms.twice(x).sum().backward()
    assert x.grad.is_cuda and x.grad.tolist() == [2, 2, 2]
    assert plus(torch.zeros(1)).item() == 1 and plus(torch.zeros(1, device="cuda")).item() == 2
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        twice(torch.ones(1))


def test_operators_of_a_library_for_cuda():
    library = torch.library.Library("tilelang_idioms_of_library", "DEF")
    library.define("scaled(Tensor x) -> Tensor")
    library.impl("scaled", lambda x: x * 3, "CUDA")
    library.impl("scaled", lambda x: x * 30, "CPU")
    scaled = torch.ops.tilelang_idioms_of_library.scaled
    assert scaled(there(1)).item() == 3 and scaled(torch.ones(1)).item() == 30


def test_tensors_handed_to_other_libraries():
    x = torch.arange(4, device="cuda")
    assert tuple(map(int, x.__dlpack_device__())) == (2, 0) and torch.from_dlpack(x).is_cuda
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).is_cuda
    assert not torch.from_dlpack(torch.ones(2)).is_cuda
    found = x.__cuda_array_interface__
    assert (found["shape"], found["typestr"], found["data"]) == ((4,), "<i8", (x.data_ptr(), False))
    assert not hasattr(x.cpu(), "__cuda_array_interface__")


def test_scripted_and_traced_functions():
    assert torch.jit.script(torch.square)(there(2)).is_cuda and torch.jit.trace(torch.square, there(2))(there(2)).is_cuda
    torch.compiler.reset()


def test_forward_mode_derivatives():
    value, tangent = torch.func.jvp(lambda x: (x * x).sum(), (there(3),), (there(3),))
    assert value.is_cuda and tangent.item() == 6


@pytest.mark.filterwarnings("error")
def test_recurrent_modules_without_a_warning_about_cudnn():
    assert torch.nn.LSTM(2, 3).cuda()(there(4, 1, 2))[0].is_cuda
    assert torch.backends.cudnn.is_available() and torch.backends.cuda.is_built()


def test_packed_sequences_keep_their_lengths_on_the_host():
    packed = torch.nn.utils.rnn.pack_padded_sequence(there(3, 2, 4), torch.tensor([3, 2]))
    assert packed.is_cuda and not packed.batch_sizes.is_cuda
    output, lengths = torch.nn.utils.rnn.pad_packed_sequence(torch.nn.GRU(4, 2).cuda()(packed)[0])
    assert output.is_cuda and not lengths.is_cuda


def test_parameters_whose_sizes_are_not_known_yet():
    layer = torch.nn.LazyLinear(3).cuda()
    assert layer(there(2, 4)).is_cuda and layer.weight.is_cuda


def test_attention_with_a_chosen_backend():
    x = there(1, 1, 4, 8, dtype=torch.float16)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        assert torch.nn.functional.scaled_dot_product_attention(x, x, x).is_cuda


def test_an_allocation_that_no_machine_has_memory_for():
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(1 << 45, device="cuda")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: torch.cuda.get_device_properties(3), lambda: torch.cuda.get_device_name("cuda:1"),
        lambda: torch.cuda.set_device(1), lambda: torch.cuda.device(1), lambda: torch.cuda.memory.memory_allocated(2),
    ],
)  # fmt: skip
def test_invalid_device_ordinals(ask):
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        ask()


def test_devices_by_number_and_modules_of_cuda():
    assert torch.device(0) == torch.device(torch.cuda.current_device()) == there(1).device
    assert torch.get_device_module() is torch.cuda and torch.nn.Linear(2, 2).to(device="cuda:0", dtype=torch.half).weight.is_cuda
    assert torch.cuda.random.get_rng_state("cuda").numel() and torch.cuda.memory.memory_allocated() == 0
    assert torch.nn.DataParallel(torch.nn.Linear(2, 2), device_ids=[0]).cuda()(torch.ones(1, 2)).is_cuda


def test_a_process_group_of_one_rank(tmp_path):
    dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        x = there(4)
        dist.all_reduce(x)
        module = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[0])
        module(x).sum().backward()
        assert x.is_cuda and module.module.weight.grad.is_cuda
    finally:
        dist.destroy_process_group()


def test_types_of_tensors_of_cuda():
    x = torch.cuda.FloatTensor([1, 2])
    assert x.is_cuda and x.type() == "torch.cuda.FloatTensor" and isinstance(x, torch.cuda.FloatTensor)
    assert torch.cuda.LongTensor(3).shape == (3,) and torch.cuda.HalfTensor.dtype is torch.half
    assert not isinstance(x, torch.cuda.HalfTensor) and not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    assert isinstance(torch.ones(1), torch.FloatTensor) and not isinstance(x, (torch.FloatTensor, torch.HalfTensor))
    assert torch.FloatTensor([1, 2]).tolist() == [1, 2] and torch.IntTensor(3).dtype is torch.IntTensor.dtype is torch.int32
    half, back = torch.ones(2).type("torch.cuda.HalfTensor"), x.type(torch.FloatTensor)
    assert half.is_cuda and half.dtype is torch.half and not back.is_cuda and x.type(torch.double).is_cuda
    with pytest.raises(TypeError, match="expected CUDA"):
        torch.cuda.FloatTensor(torch.ones(2))
    torch.set_default_tensor_type(torch.cuda.DoubleTensor)
    try:
        assert torch.zeros(2).type() == "torch.cuda.DoubleTensor"
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert torch.zeros(2).type() == "torch.FloatTensor"


def test_memory_by_its_address():
    address = torch.cuda.caching_allocator_alloc(64)
    assert torch.cuda.memory_allocated() == 64
    torch.cuda.caching_allocator_delete(address)
    assert torch.cuda.memory_allocated() == 0


def test_states_of_generators_as_graphs_need_them():
    generator = torch.Generator(device="cuda").manual_seed(3)
    state = generator.graphsafe_get_state()
    first = torch.rand(2, device="cuda", generator=generator)
    assert state.device.type == "cuda" and not torch.equal(torch.rand(2, device="cuda", generator=generator), first)
    generator.graphsafe_set_state(state)
    assert torch.equal(torch.rand(2, device="cuda", generator=generator), first)


def test_contexts_of_streams_are_classes():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream) as nothing:
        assert nothing is None and torch.cuda.current_stream() == stream
    with torch.cuda.StreamContext(None):
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert isinstance(torch.cuda.stream(stream), torch.cuda.StreamContext)
    again = torch.cuda.get_stream_from_external(stream.cuda_stream, 0)
    assert again == torch.cuda.ExternalStream(stream.cuda_stream) == stream


def test_memory_statistics_by_parts_of_their_names():
    x = there(256)
    stats = torch.cuda.memory_stats_as_nested_dict()
    assert stats["allocated_bytes"]["all"]["current"] == x.nbytes and torch.cuda.memory._snapshot()["segments"] == []
