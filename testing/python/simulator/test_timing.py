"""The model of time: what it must say of simple cases, its timeline, and tuning by it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest
import torch

import tilelang
import tilelang.language as T
import tilelang.simulator
from testing.trace_format import problems
from tilelang.autotuner import AutoTuner
from tilelang.autotuner.records import device_name
from tilelang.errors import SimulatorArgumentError, TuningError
from tilelang.execution import simulated
from tilelang.simulator.timing import estimate, modelled_seconds, timeline, write_trace
from tilelang.simulator.timing.figures import Figures
from tilelang.simulator.timing.operands import Role, operands_of
from tilelang.simulator.timing.replay import Replay, Slice
from tilelang.simulator.timing.trace import Step

from . import programs

FIGURES = Figures(arithmetic=4, shared=30, l2=200, tensor=33, barrier=8, l2_bytes=64.0)
FMA = 1024


def step(text: str, kind: str = "arithmetic", passes: int = 0, moved: int = 0, macs: int = 0, barrier: int = 0, phase: int = 0):
    return Step(operands_of(text), kind, "", passes, moved, macs, barrier, phase)


ADD = step("add.s32 %r1, 1, 1;")


def chain(length: int) -> list[Step]:
    """Additions, each of which needs the one before."""
    return [step(f"add.s32 %r{i + 1}, %r{i}, 1;") for i in range(length)]


def clocks(*warps: list[Step], blocks: int = 1) -> float:
    return Replay(warps, blocks, FIGURES, FMA).run()


def test_operands_are_read_from_the_text():
    load = operands_of("@%p1 ld.shared.v4.b32 \t{%r1, %r2, %r3, %r4}, [%r9+16];")
    assert (load.writes, load.reads) == (("%r1", "%r2", "%r3", "%r4"), ("%p1", "%r9"))
    store = operands_of("st.global.f32 [%rd4], %f1;")
    assert (store.writes, store.reads) == ((), ("%rd4", "%f1"))
    wait = operands_of("cp.async.wait_group 2;")
    assert (wait.role, wait.immediate) == (Role.AWAIT_COPIES, 2)
    assert operands_of("mov.u32 %r1, %tid.x;").reads == ()
    assert operands_of("bar.sync 3, 128;").immediate == 3


def test_a_result_is_awaited_by_those_that_need_it_only():
    assert clocks(chain(10)) == 10 * 4
    assert clocks([step(f"add.s32 %r{i}, 1, 1;") for i in range(10)]) == 9 + 4


def test_warps_of_one_scheduler_share_its_slots():
    work = [ADD] * 100
    assert clocks(work) == clocks(work, work, work, work) == 103
    assert clocks(work, blocks=8) == 203


def test_each_unit_serves_instructions_in_order():
    assert clocks([step("ld.shared.b32 %r1, [%r0];", "load", passes=32)] * 4) == 4 * 32 + 30
    assert clocks([step("ld.global.b32 %r1, [%rd0];", "load", moved=128)] * 4) == 4 * 2 + 200
    product = step("mma.sync {%f1}, {%r1}, {%r2}, {%f1};", "tensor core", macs=2048)
    assert clocks([product]) == 8 + 33
    assert clocks([product] * 3) == 3 * (8 + 33)  # each adds to what the one before made


def test_a_barrier_holds_all_warps_until_the_last():
    barrier = step("bar.sync 0;", "barrier")
    work = [step("ld.global.b32 %r1, [%rd0];", "load", moved=64), step("bar.sync 0, %r1;", "barrier"), ADD]
    alone = clocks(work)
    assert alone == 1 + 200 + 8 + 4
    assert clocks(work, [barrier, ADD]) == clocks([barrier, ADD], work) == alone


def test_asynchronous_groups_and_phases_are_awaited():
    copy = step("cp.async.cg.shared.global [%r1], [%rd1], 16;", "async copy", moved=512)
    commit, wait = step("cp.async.commit_group;"), step("cp.async.wait_group 0;")
    assert clocks([copy, commit, wait, ADD]) >= 8 + 200 + 4
    assert clocks([copy, commit, step("cp.async.wait_group 1;"), *[ADD] * 4]) == 8 + 200  # no instruction waits for the copy
    load = step("cp.async.bulk.tensor.2d [%r1], [%rd1], [%r2];", "async copy", moved=6400, barrier=2048, phase=1)
    try_wait = step("mbarrier.try_wait.parity.b64 %p1, [%r2], %r3;", barrier=2048, phase=1)
    assert clocks([try_wait, ADD], [load]) > clocks([load]) == 100 + 200
    assert clocks([try_wait._replace(phase=0)]) == 4


def traced(kernel, *tensors):
    with tilelang.simulator(checks="none", trace="only"):
        kernel(*tensors)
    return simulated.last_reports()[0]


def halves(size: int) -> list[torch.Tensor]:
    return [torch.zeros(size, size, dtype=torch.float16) for _ in range(2)]


@pytest.mark.parametrize(("arch", "device"), [("sm_80", "a100"), ("sm_90a", "h100")])
def test_the_time_of_a_product_lies_between_its_bounds(arch, device, tmp_path):
    report = traced(programs.gemm(arch), *halves(128))
    found = estimate(report, device)
    assert found.waves == 1 and 128**3 / 2048 < found.clocks < 20_000
    rows = {item.row for item in timeline(report, device)}
    assert {"asynchronous copies", "tensor cores 0", "block 0 warp 3"} <= rows
    report.trace(tmp_path / "trace.json", device)
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert problems(trace) == []
    assert {event["args"].get("name") for event in events if event["ph"] == "M"} >= {
        "asynchronous copies",
        "asynchronous copies (2)",
    }
    work = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in work} >= {"T.gemm(a, b, c)", "T.copy(A[0, k * 32], a)"}
    assert any(event["cat"] == "wait" for event in work) and all(event["dur"] > 0 for event in work)


def test_what_is_done_at_once_is_on_rows_of_its_own(tmp_path):
    slices = [Slice("unit", name, start, end) for name, start, end in (("a", 0, 3), ("c", 3, 6), ("b", 1, 4), ("d", 5, 9))]
    write_trace(slices, tmp_path / "trace.json", 1e9)
    trace = json.loads((tmp_path / "trace.json").read_text())
    rows = {event["name"]: event["tid"] for event in trace["traceEvents"] if event["ph"] == "X"}
    assert problems(trace) == [] and rows == {"a": 0, "b": 1, "c": 0, "d": 1}
    for event in trace["traceEvents"]:
        event["tid"] = 0
    assert "b at 0.001 ends after the slice around it" in problems(trace)


def test_a_launch_without_a_trace_says_so():
    with tilelang.simulator(checks="none"):
        programs.gemm("sm_80")(*halves(128))
    with pytest.raises(SimulatorArgumentError, match="trace='on'"):
        estimate(simulated.last_reports()[0])
    with pytest.raises(SimulatorArgumentError, match="off, on, only"), tilelang.simulator(trace="yes"):
        programs.gemm("sm_80")(*halves(128))


def test_a_trace_leaves_results_as_they_are():
    a, b = (torch.randn(128, 128).half() for _ in range(2))
    kernel = programs.gemm("sm_80")
    with tilelang.simulator(trace="on"):
        assert torch.equal(kernel(a, b), _plain(kernel, a, b))


def _plain(kernel, a, b):
    with tilelang.simulator():
        return kernel(a, b)


def product(block: int, stages: int, size: int = 512):
    @T.prim_func
    def tiled(A: T.Tensor((size, size), "float16"), B: T.Tensor((size, size), "float16"), C: T.Tensor((size, size), "float16")):
        with T.Kernel(size // block, size // block, threads=128) as (bx, by):
            a = T.alloc_shared((block, 32), "float16")
            b = T.alloc_shared((32, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(size // 32, num_stages=stages):
                T.copy(A[by * block, k * 32], a)
                T.copy(B[k * 32, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])

    return tilelang.compile(tiled, target={"kind": "cuda", "arch": "sm_80"}, out_idx=[2])


def test_a_pipeline_is_faster_than_none():
    def seconds(stages: int) -> float:
        kernel = product(128, stages)
        return modelled_seconds(lambda: kernel(*halves(512)), "a100")

    assert seconds(3) < seconds(1)


def test_tuning_by_the_model_needs_no_gpu_and_says_so():
    @tilelang.autotune(configs={"stages": [1, 3]}, backend="model")
    @tilelang.jit(target={"kind": "cuda", "arch": "sm_80"}, out_idx=[1])
    def copied(size, stages=1):
        @T.prim_func
        def main(A: T.Tensor((size, 128), "float32"), B: T.Tensor((size, 128), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_shared((32, 128), "float32")
                for k in T.Pipelined(size // 32, num_stages=stages):
                    T.copy(A[k * 32, 0], tile)
                    T.copy(tile, B[k * 32, 0])

        return main

    result = copied.tune(512)
    assert result.config == {"stages": 3}
    assert all("by the model of NVIDIA A100" in trial.detail for trial in result.trials)
    source = torch.zeros(512, 128)
    for trial in result.trials:  # times are those of `modelled_seconds`
        kernel = copied.jit_function(512, **trial.config)
        assert trial.milliseconds == pytest.approx(modelled_seconds(lambda kernel=kernel: kernel(source), "a100") * 1e3)


def test_tuning_on_a_virtual_device_is_by_the_model_of_that_device():
    @tilelang.autotune(configs={"threads": [32, 64]}, backend="model")
    @tilelang.jit(out_idx=[1])
    def doubled(size, threads=32):
        @T.prim_func
        def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
            with T.Kernel(1, threads=threads):
                for i in T.Parallel(size):
                    B[i] = A[i] * 2

        return main

    with tilelang.simulator.virtual_device("h200"):  # of the architecture of the H100
        result = doubled.tune(256)
    assert {trial.detail for trial in result.trials} == {"by the model of NVIDIA H200, not measured"}


def test_results_of_a_simulated_device_are_not_those_of_the_gpu_it_is_called_after():
    @tilelang.autotune(configs={"threads": [32, 64]})
    @tilelang.jit(target={"kind": "cuda", "arch": "sm_80"}, out_idx=[1])
    def doubled(size, threads=32):
        @T.prim_func
        def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
            with T.Kernel(1, threads=threads):
                for i in T.Parallel(size):
                    B[i] = A[i] * 2

        return main

    with tilelang.simulator.virtual_device("a100"):
        result = doubled.tune(256)
        assert device_name() == "NVIDIA A100-SXM4-80GB, simulated"
    assert {trial.detail for trial in result.trials} == {"on the simulator, not measured"}


def test_the_model_is_refused_for_other_targets():
    def factory(n, block=8):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=1):
                for i in T.Parallel(n):
                    A[i] = block

        return main

    tuner = AutoTuner(factory, {"block": [8, 16]}).set_kernel_parameters((64,), {}).set_compile_args(target="cpu")
    with pytest.raises(TuningError, match="ranks kernels for CUDA"):
        tuner.set_profile_args(backend="model").run()


def elapsed(work, times: int = 1) -> float:
    """Milliseconds between two events."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def on_device(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.float16, device="cuda")


def test_events_of_a_virtual_device_have_the_time_of_the_model():
    with tilelang.simulator.virtual_device("a100", checks="none", repeat=1) as usage:
        kernel, a, b = programs.gemm("sm_80"), on_device(128, 128), on_device(128, 128)
        kernel(a, b)
        one, hundred = elapsed(lambda: kernel(a, b)), elapsed(lambda: kernel(a, b), 100)
        assert usage.clock.answered == {"model"}
        of_torch = elapsed(lambda: a @ b)
        assert usage.clock.answered == {"model", "host"} and of_torch > 0
        assert elapsed(lambda: (kernel(a, b), a @ b)) > one
        mean = kernel.get_profiler().do_bench()
    seconds = estimate(simulated.last_reports()[0], "a100").seconds
    assert one == pytest.approx(seconds * 1e3) and mean == pytest.approx(one)
    assert hundred == pytest.approx(100 * one) and usage.launches.left_out > 90


def test_the_clock_of_events_can_be_chosen():
    with tilelang.simulator.virtual_device("a100", times="host", checks="none") as usage:
        kernel, a, b = programs.gemm("sm_80"), on_device(128, 128), on_device(128, 128)
        assert elapsed(lambda: kernel(a, b)) > 0.1 and usage.clock.answered == {"host"}
    with tilelang.simulator.virtual_device("a100", times="model"):
        assert elapsed(lambda: a @ b) == 0
    with pytest.raises(SimulatorArgumentError, match="auto, model, host"), tilelang.simulator.virtual_device(times="none"):
        pass


def test_threads_of_a_program_have_its_settings():
    seen = []
    with tilelang.simulator.virtual_device("a100", collect=seen.append):
        kernel, a, b = programs.gemm("sm_80"), on_device(128, 128), on_device(128, 128)
        thread = threading.Thread(target=lambda: kernel(a, b))
        thread.start()
        thread.join()
    assert [report.kernel for report in seen] == ["product_kernel"]


def test_the_package_exports_its_parts():
    program = "import tilelang; print(tilelang.simulator.timing.estimate.__name__, tilelang.simulator.page.page.__name__)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["estimate", "page"]
