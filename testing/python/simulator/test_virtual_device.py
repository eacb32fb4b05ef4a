"""Programs written for torch's "cuda" device, without a GPU."""

import gc
import subprocess
import sys
import textwrap
import types
import weakref

import pytest
import torch
import torch.distributed as dist

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentValueError, InterpreterError, SimulatorArgumentError, SimulatorError
from tilelang.simulator import pytest as plugin
from tilelang.simulator import virtual_device
from tilelang.simulator.virtual.models import MODELS


@tilelang.jit(out_idx=[-1])
def double(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2

    return main


@pytest.fixture(params=["a100", "h100"])
def gpu(request):
    with virtual_device(request.param) as usage:
        yield usage


def test_torch_reports_the_properties_of_the_device(gpu):
    assert torch.cuda.is_available() and torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == gpu.model.capability
    assert torch.cuda.get_device_name(0) == gpu.model.name
    assert torch.cuda.get_device_properties("cuda").multi_processor_count == gpu.model.multiprocessors
    assert torch.cuda.mem_get_info()[1] == gpu.model.memory_bytes


def test_the_architecture_is_the_models(gpu):
    assert gpu.model.arch in double(256).artifact.target


def test_the_interpreter_takes_tensors_of_the_device(gpu):
    @T.prim_func
    def shifted(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            for i in T.Parallel(64):
                S[i] = A[i]
            for i in T.Parallel(64):
                S[i] = S[(i + 1) % 64]
            for i in T.Parallel(64):
                B[i] = S[i]

    x = torch.randn(256, device="cuda")
    with tilelang.interpret():
        y = double(256)(x)
        assert y.is_cuda and torch.equal(y, x * 2)
        with pytest.raises(ArgumentValueError, match="device"):
            tilelang.compile(shifted)(x[:64], torch.zeros(64))
        with pytest.raises(InterpreterError, match="race"):
            tilelang.compile(shifted)(x[:64], torch.zeros(64, device="cuda"))
        assert torch.equal(tilelang.compile(double.get_tir(256), out_idx=[-1])(x.cpu()), x.cpu() * 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4, device="cuda"),
        lambda: torch.ones(4, device=torch.device("cuda:0")),
        lambda: torch.ones(4).cuda(),
        lambda: torch.ones(4).to("cuda"),
        lambda: torch.ones(4).to("cuda", torch.float16),
        lambda: torch.ones(4).to(device="cuda", dtype=torch.float16, non_blocking=True),
        lambda: torch.ones(4).to(torch.zeros(1, device="cuda")),
        lambda: torch.ones(4, device="cuda")[1:].view(3, 1) + 1,
        lambda: torch.ones_like(torch.empty(2, device="cuda")),
        lambda: torch.stack([torch.ones(2, device="cuda")] * 2).unbind()[1],
        lambda: torch.randn(2, device="cuda", generator=torch.Generator(device="cuda")),
        lambda: torch.ones(4).pin_memory().cuda(non_blocking=True),
        lambda: torch.nn.Linear(4, 4).cuda().weight,
        lambda: torch.nn.Linear(4, 4, device="cuda")(torch.ones(1, 4, device="cuda")),
        lambda: torch.compile(lambda x: x + 1)(torch.ones(2, device="cuda")),
        lambda: double(128)(torch.ones(128, device="cuda")),
    ],
)
def test_tensors_on_the_device(gpu, make):
    found = make()
    assert found.is_cuda and not found.is_cpu
    assert found.device == torch.device("cuda", 0) and found.get_device() == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(4),
        lambda: torch.ones(4, device="cuda").cpu(),
        lambda: torch.ones(4, device="cuda").to("cpu"),
        lambda: torch.ones_like(torch.ones(4, device="cuda"), device="cpu"),
        lambda: torch.nn.Linear(4, 4).cuda().cpu().weight,
    ],
)
def test_tensors_of_the_host(gpu, make):
    found = make()
    assert not found.is_cuda and found.device.type == "cpu"


def test_moving_copies_and_staying_does_not(gpu):
    host = torch.ones(4)
    there = host.cuda()
    assert there.data_ptr() != host.data_ptr() and there.cuda() is there
    there += 1
    assert host.sum() == 4 and there.cpu().sum() == 8


def test_default_devices(gpu):
    with torch.device("cuda"):
        assert torch.ones(2).is_cuda
    torch.set_default_device("cuda")
    assert torch.ones(2).is_cuda
    torch.set_default_device(None)
    assert not torch.ones(2).is_cuda


def test_functions_of_autograd_run_kernels_both_ways(gpu):
    kernel = double(128)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return kernel(x)

        @staticmethod
        def backward(ctx, gradient):
            assert gradient.is_cuda and torch.zeros(1, device="cuda").is_cuda
            return kernel(gradient.contiguous())

    x = torch.ones(128, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.is_cuda and (x.grad == 2).all()
    (grad,) = torch.autograd.grad(Double.apply(x).sum(), x)
    assert grad.is_cuda and (grad == 2).all()


def test_a_graph_repeats_kernels_and_torch_on_the_same_memory(gpu):
    kernel, x = double(128), torch.ones(128, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = kernel(x) + 1
    assert (y == 3).all()
    x.fill_(5)
    graph.replay()
    assert (y == 11).all()


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: torch.cuda.synchronize(),
    ],
)
def test_a_capture_refuses_what_the_host_waits_for(gpu, wait):
    x = torch.ones(2, device="cuda")
    with (
        pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        wait(x)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        x.to("cpu", non_blocking=True)


def test_a_measured_graph_of_repeated_calls_runs_a_few_of_them(gpu):
    kernel, x = double(128), torch.ones(128, device="cuda")
    graph, start, end = torch.cuda.CUDAGraph(), *(torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.graph(graph):
        first, *_, last = (kernel(x) for _ in range(50))
    assert first.data_ptr() != last.data_ptr() and gpu.launches.made == 1
    x.fill_(3)
    times = []
    for _ in range(2):
        start.record()
        graph.replay()
        end.record()
        times.append(start.elapsed_time(end))
        assert (first == 6).all() and (last == 6).all()
    assert gpu.launches.made == 4 and times[0] == pytest.approx(times[1]), "the model's time alone"


def test_a_measured_call_runs_a_few_times(gpu):
    kernel, x = double(128), torch.ones(128, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(100):
        y = kernel(x)
    end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) > 0 and (y == 2).all()
    assert (gpu.launches.made, gpu.launches.left_out) == (3, 97) and gpu.clock.answered
    for _ in range(5):
        kernel(x)
    assert gpu.launches.made == 8


@T.prim_func
def rows_of_a_table(table: T.Tensor((2,), T.ptr), out: T.Tensor((2, 64), "float32")):
    with T.Kernel(2, threads=64) as row:
        source = T.make_tensor(table[row], (64,), "float32")
        for i in T.Parallel(64):
            out[row, i] = source[i]


def test_tensors_that_a_table_of_addresses_names(gpu):
    rows = torch.randn(4, 64, device="cuda")
    other = torch.randn(64, device="cuda")
    out = torch.zeros(2, 64, device="cuda")
    kernel = tilelang.compile(rows_of_a_table)
    kernel(torch.tensor([rows[2].data_ptr(), other.data_ptr()], device="cuda"), out)
    assert torch.equal(out, torch.stack([rows[2], other]))
    with pytest.raises(SimulatorError, match="out-of-bounds"):
        kernel(torch.tensor([rows.data_ptr(), rows[3].data_ptr() + 4], device="cuda"), out)


def test_torch_s_profiler_observes_the_host(gpu):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        double(256)(torch.ones(256, device="cuda"))
    assert isinstance(profile.key_averages().table(), str)


def test_torch_s_older_profiler_observes_the_host(gpu, capfd):
    with torch.autograd.profiler.profile(use_device="cuda") as profile:
        torch.ones(2, device="cuda").add_(1)
    assert isinstance(profile.key_averages().table(), str)
    assert "Failed to record CUDA event" not in capfd.readouterr().err


def test_the_profiler_takes_the_device(gpu):
    profiler = double(256).get_profiler()
    assert torch.equal(profiler.func(torch.ones(256, device="cuda")), torch.full((256,), 2.0, device="cuda"))
    profiler.assert_allclose(lambda a: a * 2)
    assert all(tensor.is_cuda for tensor in profiler.inputs())


def test_torch_is_restored_afterwards():
    before = {name: getattr(torch.cuda, name) for name in dir(torch.cuda)}
    others = torch.Generator, torch.compile, torch.version.cuda
    with virtual_device():
        pass
    assert all(getattr(torch.cuda, name) is value for name, value in before.items())
    assert (torch.Generator, torch.compile, torch.version.cuda) == others
    assert torch.ones(1).device.type == "cpu"


def test_an_unknown_model_offers_the_nearest():
    with pytest.raises(SimulatorArgumentError, match="no device model 'h300'.*\n.*did you mean 'h200'"):
        with virtual_device("h300"):
            pass


def test_models_are_consistent():
    for model in MODELS.values():
        assert model.shared_bytes_per_block < model.shared_bytes and model.capability >= (8, 0)


PROGRAM = """
    import sys, torch, tilelang, tilelang.language as T

    @T.prim_func
    def main(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + i

    a = torch.zeros(64, dtype=torch.int32, device="cuda")
    tilelang.compile(main, target="cuda")(a)
    print(sys.argv[1:], torch.cuda.get_device_name(), int(a.sum()))
    sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("command", [["-m", "tilelang.simulator"], ["-m", "tilelang", "simulate"]])
def test_the_command_runs_a_program_unchanged(tmp_path, command):
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    run = subprocess.run(
        [sys.executable, *command, "--device", "rtx4090", str(path), "3", "--flag"], capture_output=True, text=True
    )
    assert run.returncode == 3, run.stderr
    assert run.stdout == "['3', '--flag'] NVIDIA GeForce RTX 4090 2016\n"


@pytest.mark.parametrize("arguments", [["missing.py"], ["--device", "h300", __file__], ["--quit", __file__]])
def test_mistakes_at_the_command_line_are_one_or_two_lines(arguments):
    run = subprocess.run([sys.executable, "-m", "tilelang.simulator", *arguments], capture_output=True, text=True)
    assert run.returncode == 2 and run.stderr.startswith("tilelang simulate: there is no ")
    assert len(run.stderr.splitlines()) <= 2


def test_an_option_of_the_pytest_plugin_that_is_wrong_is_said_in_two_lines():
    options = types.SimpleNamespace(simulated_device="a10", simulated_devices=1, simulated_checks="all")
    config = types.SimpleNamespace(known_args_namespace=options)
    with pytest.raises(pytest.UsageError, match="there is no device model 'a10'\n.*did you mean 'a100'"):
        plugin.pytest_load_initial_conftests(config)


def test_the_pytest_plugin(tmp_path):
    (tmp_path / "conftest.py").write_text("import torch\nassert torch.ones(1, device='cuda').is_cuda\n")
    path = tmp_path / "test_there.py"
    path.write_text(
        "import pytest, torch\n"
        "@pytest.mark.skipif(not torch.cuda.is_available(), reason='no GPU')\n"
        "def test_it():\n    assert torch.ones(2, device='cuda').is_cuda\n"
    )
    options = ["-p", "tilelang.simulator.pytest", "-p", "no:cacheprovider", "--simulated-device=a100"]
    run = subprocess.run([sys.executable, "-m", "pytest", *options, str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0 and "1 passed" in run.stdout and "NVIDIA A100" in run.stdout, run.stdout


def test_groups_of_processes_are_there_as_long_as_the_device(tmp_path):
    """A module that were the last to hold one would end Gloo's threads, with the lock that these need for the device's mode."""
    with virtual_device("h100"):
        dist.init_process_group("nccl", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
        groups = [weakref.ref(dist.group.WORLD), weakref.ref(dist.new_group([0]))]
        dist.destroy_process_group()
        gc.collect()
        assert all(group() is not None for group in groups)
    gc.collect()
    assert all(group() is None for group in groups)
