"""What programs for torch's device "cuda" use beside kernels: mixed precision, streams, checkpoints, memory, data loaders."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from tilelang.simulator.virtual.session import virtual_device


@pytest.fixture(autouse=True)
def gpu():
    with virtual_device("h100") as usage:
        yield usage


@pytest.mark.parametrize(
    ("region", "dtype"),
    [
        (lambda: torch.autocast("cuda"), torch.float16),
        (lambda: torch.amp.autocast("cuda", dtype=torch.bfloat16), torch.bfloat16),
        (lambda: torch.autocast("cuda", enabled=False), torch.float32),
    ],
)
def test_autocast(region, dtype):
    layer = torch.nn.Linear(8, 8).cuda()
    with region():
        assert layer(torch.ones(2, 8, device="cuda")).dtype == dtype
    assert layer(torch.ones(2, 8, device="cuda")).dtype == torch.float32
    assert not torch.is_autocast_enabled("cuda")


def test_functions_of_autograd_with_mixed_precision():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(4, device="cuda", requires_grad=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    with torch.autocast("cuda"):
        y = Double.apply(x)
    assert y.dtype == torch.float16
    scaler.scale(y.float().sum()).backward()
    assert x.grad.is_cuda and x.grad.tolist() == [8.0] * 4


def test_the_current_stream_is_the_chosen_one():
    default, first, second = torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    assert default.cuda_stream == 0 and len({default, first, second}) == 3
    with torch.cuda.stream(first):
        assert torch.cuda.current_stream() == first
        with second:
            assert torch.cuda.current_stream() == second
        torch.ones(2, device="cuda").record_stream(second)
    assert torch.cuda.current_stream() == default == torch.cuda.default_stream()
    torch.cuda.set_stream(first)
    assert torch.cuda.current_stream() == first


def test_checkpoints_keep_the_device():
    saved = io.BytesIO()
    torch.save({"there": torch.arange(3, device="cuda"), "here": torch.arange(2)}, saved)
    for location, expected in ((None, "cuda"), ("cuda", "cuda"), (torch.device("cuda:0"), "cuda"), ("cpu", "cpu")):
        saved.seek(0)
        loaded = torch.load(saved, map_location=location)
        assert loaded["there"].device.type == expected and loaded["there"].tolist() == [0, 1, 2]
        assert loaded["here"].device.type == ("cpu" if location is None else expected)


def test_memory_is_what_tensors_hold():
    before = torch.cuda.memory_allocated()
    tensor = torch.empty(1 << 18, device="cuda")
    assert torch.cuda.memory_allocated() == before + (1 << 20)
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] == before + (1 << 20)
    assert torch.cuda.mem_get_info()[0] == torch.cuda.mem_get_info()[1] - before - (1 << 20)
    del tensor
    assert torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() == before + (1 << 20)
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before


@pytest.mark.parametrize("convert", [lambda x: x.numpy(), np.asarray])
def test_numpy_refuses_what_is_on_the_device(convert):
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
        convert(x)
    assert convert(x.cpu()).tolist() == [1.0, 1.0]


def test_text_and_type_name_the_device():
    x = torch.ones(2, device="cuda")
    assert repr(x) == "tensor([1., 1.], device='cuda:0')" and repr(x.cpu()) == "tensor([1., 1.])"
    assert x.type() == "torch.cuda.FloatTensor" and x.type(torch.float16).is_cuda
    assert torch.Generator(device="cuda").device.type == "cuda"


def test_accelerator_loaders_and_marks():
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator().type == "cuda"
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)), batch_size=2, pin_memory=True)
    for (batch,) in loader:
        assert batch.is_pinned() and batch.to("cuda", non_blocking=True).is_cuda
    with torch.cuda.nvtx.range("step"):
        pass
    assert torch.cuda.make_graphed_callables(torch.nn.ReLU(), (torch.ones(1, device="cuda"),))(torch.ones(1)).item() == 1


@pytest.mark.parametrize(("error", "code"), [("ValueError", 1), ("KeyboardInterrupt", 130)])
def test_an_error_of_the_program_shows_the_program_alone(tmp_path, error, code):
    path = tmp_path / "program.py"
    path.write_text(f"def fails():\n    raise {error}('mine')\n\nfails()\n")
    run = subprocess.run([sys.executable, "-m", "tilelang.simulator", str(path)], capture_output=True, text=True)
    assert run.returncode == code
    lines = [line for line in run.stderr.splitlines() if not line.lstrip().startswith("~")]  # as Python 3.13 marks calls
    assert lines == [
        "Traceback (most recent call last):", f'  File "{path}", line 4, in <module>', "    fails()",
        f'  File "{path}", line 2, in fails', f"    raise {error}('mine')", f"{error}: mine",
    ]  # fmt: skip


def test_a_program_that_is_no_python_shows_its_line_alone(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("x = 1\ndef f(:\n")
    run = subprocess.run([sys.executable, "-m", "tilelang.simulator", str(path)], capture_output=True, text=True)
    assert run.returncode == 1 and run.stderr.startswith(f'  File "{path}", line 2\n')


LATE = """
import atexit, os, sys, threading, time, torch, tilelang, tilelang.language as T

@tilelang.jit
def doubled(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                A[i] *= 2
    return main

def at_exit():
    x = torch.ones(32, device="cuda")
    doubled(32)(x)  # compiled when the interpreter starts no more threads
    print(x.device, x[0].item(), flush=True)

atexit.register(at_exit)
if os.fork() == 0:
    atexit.unregister(at_exit)
    sys.exit(0)  # nothing is said of a forked process
os.wait()

def late():
    time.sleep(0.2)
    print(torch.cuda.get_device_capability(), flush=True)

threading.Thread(target=late).start()
sys.exit(0)
"""


def test_what_runs_after_the_program_sees_the_device_and_is_reported(tmp_path):
    path, page = tmp_path / "program.py", tmp_path / "new" / "page.html"
    path.write_text(LATE)
    command = [sys.executable, "-m", "tilelang.simulator", "--report", str(page), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)})
    assert run.returncode == 0 and run.stdout.split("\n")[:2] == ["(9, 0)", "cuda:0 2.0"], run.stderr
    assert run.stderr.splitlines() == [f"{page}: 1 launch of 1 process", "NVIDIA H100 80GB HBM3 (simulated): 1 kernel call"]
    assert '"grid":[1,1,1]' in page.read_text()


@pytest.mark.parametrize(("page", "why"), [(".", "it is a directory"), ("program.py/page.html", "File exists")])
def test_a_page_that_cannot_be_written_is_refused_before_the_program_runs(tmp_path, page, why):
    path = tmp_path / "program.py"
    path.write_text("print('ran')\n")
    command = [sys.executable, "-m", "tilelang.simulator", "--report", str(tmp_path / page), str(path)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"tilelang simulate: cannot write {tmp_path / page}: {why}\n"


def test_modules_move_by_index_and_optimisers_step():
    module = torch.nn.Linear(4, 4).to(0)
    assert module.weight.is_cuda and torch.ones(2).to(device=0).is_cuda
    assert "device='cuda:0'" in repr(module.weight)
    torch.optim.AdamW(module.parameters()).step()
    for call in (lambda: torch.ones(2, device="cuda:1"), lambda: torch.cuda.set_device(1), lambda: module.to(1)):
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            call()


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, host: x + host, lambda x, host: host @ x, lambda x, host: x.mul_(host), lambda x, host: torch.cat([x, host]),
        lambda x, host: torch.nn.Linear(2, 2)(x), lambda x, host: torch.nn.functional.cross_entropy(x, torch.tensor([0, 1])),
        lambda x, host: torch.where(x > 0, x, host), lambda x, host: torch.equal(x, host),
    ],
)  # fmt: skip
def test_operations_refuse_tensors_that_were_left_on_the_host(mix):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        mix(torch.ones(2, 2, device="cuda"), torch.ones(2, 2))


def test_tensors_of_the_host_that_operations_of_the_device_take():
    x = torch.ones(2, 2, device="cuda")
    for y in (
        x * torch.tensor(2.0),
        x[torch.tensor([0])],
        x.clone().copy_(torch.ones(2, 2)),
        torch.where(x > 0, x, torch.tensor(0.0)),
    ):
        assert y.is_cuda
    x[torch.tensor([1])] = 0
    assert not torch.ones(2, 2).copy_(x).is_cuda


def test_functions_of_functions_keep_the_device():
    x = torch.ones(3, device="cuda")
    assert torch.vmap(torch.square)(x).is_cuda and torch.func.grad(lambda y: (y * y).sum())(x).is_cuda


def test_a_graph_can_be_captured_step_by_step():
    x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    graph.capture_begin()
    assert torch.cuda.current_stream().is_capturing()
    y = x + 1
    graph.capture_end()
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="not capturing"):
        graph.capture_end()


def test_what_has_no_meaning_on_a_simulator_can_be_asked_for():
    torch.cuda.profiler.start()
    assert torch.cuda.cudart().cudaProfilerStop() == 0 and torch.cuda.clock_rate() == 1980
    assert torch.accelerator.memory_allocated() == 0 and torch.accelerator.get_memory_info()[1] == 80 * 2**30
    assert repr(torch.cuda.get_device_properties(0)).startswith("_CudaDeviceProperties(name='NVIDIA H100")
    with torch.autograd.profiler.emit_nvtx():
        assert torch.cuda.cudart().cudaMemGetInfo(0) == torch.cuda.mem_get_info()
    torch.backends.cuda.preferred_linalg_library("cusolver")
    torch.cuda.caching_allocator_enable(False)
    torch.accelerator.empty_host_cache()
    untimed = torch.cuda.Event()
    untimed.record()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        untimed.elapsed_time(untimed)


def test_results_are_freed_with_their_last_name(gpu):
    x = torch.ones(2, device="cuda")
    gpu.launches.call(torch.ones_like, (x,), {})
    assert torch.cuda.memory_allocated() == 8


def test_kernels_take_tensors_of_inference_mode(gpu):
    with torch.inference_mode():
        x = torch.ones(2, device="cuda")
        given = [gpu.launches.call(lambda tensor: tensor + 1, (x,), {}) for _ in range(2)]
    assert all(result.is_cuda and result.tolist() == [2, 2] for result in given) and gpu.launches.made == 2
