"""Searches on the CPU: which candidates are measured, skipped, stored and resumed."""

from __future__ import annotations

import dataclasses
import os
import threading
import time

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner, set_autotune_inputs
from tilelang.autotuner.configs import configured, expand
from tilelang.autotuner.tuner import AutoTuneImpl
from tilelang.autotuner.workers import can_fork, compile_all
from tilelang.errors import CompileError, TuningError
from tilelang.simulator import virtual_device

MEASURED: list[int] = []


def twice(a: torch.Tensor) -> torch.Tensor:
    return a * 2


def factory(n: int, block: int = 32, factor: float = 2.0):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * factor

    return main


def tuner(configs, **profile) -> AutoTuner:
    made = AutoTuner(factory, configs).set_compile_args(out_idx=[-1], target="cpu").set_kernel_parameters((256,), {})
    return made.set_profile_args(**{"warmup": 1, "rep": 2, "ref_prog": twice, **profile})


def test_configurations_are_a_list_a_product_or_a_function():
    assert expand([{"a": 1}, {"a": 1}, {"a": 2}]) == [{"a": 1}, {"a": 2}]
    assert expand({"a": [1, 2], "b": [3]}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert expand(lambda n: [{"a": n}], (7,)) == [{"a": 7}]
    assert len(expand([{"a": 1}, {"a": 1.0}, {"a": True}])) == 3
    with pytest.raises(TuningError, match="no configuration"):
        expand([])
    with pytest.raises(TuningError, match="must be a dict"):
        expand([3])
    with pytest.raises(TuningError, match="the values of block are 32"):
        expand({"block": 32})


@pytest.mark.parametrize(
    ("configs", "profile", "said"),
    [
        ({"block": [32]}, {"backend": "evnt"}, "backend='evnt' is none of event, cupti, cudagraph, wall, model"),
        ({"block": [32]}, {"backend": "model"}, "backend='model' ranks kernels for CUDA, and these are for target='cpu'"),
        ({"block": [32]}, {"rep": -1}, "rep=-1 are milliseconds"),
        ({"block": [32]}, {"timeout": 0}, "timeout=0 leaves no candidate any time"),
        ({"block": [32]}, {"supply_type": "Normal"}, "supply_type='Normal' is no TensorSupplyType"),
        ([{"block": 32}, {"blok": 32}], {}, "'blok'; did you mean 'block'"),
        ({"n": [32]}, {}, "multiple values for argument 'n'"),
    ],
)
def test_what_would_fail_for_every_candidate_is_refused_before_the_search(configs, profile, said):
    with pytest.raises(TuningError, match=said):
        tuner(configs, **profile).run()


def test_a_configuration_has_pass_configs():
    own = [{"pass_configs": {tilelang.PassConfigKey.TL_SIMPLIFY: value}} for value in (True, False)]
    made = tuner([*own, {"block": 64}, {"pass_configs": {"tl.no_such_key": True}}])
    made.set_compile_args(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
    trials = {str(trial.config): trial for trial in made.run().trials}
    assert [trials[str(config)].state for config in (*own, {"block": 64})] == ["measured"] * 3
    refused = trials[str({"pass_configs": {"tl.no_such_key": True}})]
    assert refused.state == "failed" and "unknown pass configuration 'tl.no_such_key'" in refused.detail


def test_an_eager_function_runs_under_the_chosen_pass_configs():
    configs = [{"block": 16, "pass_configs": {tilelang.PassConfigKey.TL_SIMPLIFY: True}}]

    @tilelang.autotune(configs=configs, warmup=1, rep=2)
    @tilelang.jit(target="cpu")
    def doubled(A, block: int = 32):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2
        return B

    a = torch.randn(40)
    assert torch.equal(doubled(a), a * 2)
    kernel = doubled(a, __return_kernel=True)
    assert kernel.config == configs[0] and torch.equal(kernel(a), a * 2)


def test_a_program_may_change_how_a_function_is_searched():
    """By a class of its own, made of the fields of the one that the decorator gives."""

    @dataclasses.dataclass
    class Quick(AutoTuneImpl):
        name: str = ""

        def get_tunner(self) -> AutoTuner:
            return super().get_tunner().set_profile_args(warmup=1, rep=1)

    found = tilelang.autotune(configs=[{"block": 16}], skip_check=True)(tilelang.jit(factory, out_idx=[-1], target="cpu"))
    quick = Quick(**{each.name: getattr(found, each.name) for each in dataclasses.fields(AutoTuneImpl)}, name="quick")
    assert quick(40).config == {"block": 16} and quick.__name__ == "factory"


def test_a_factory_may_take_pass_configs_itself():
    @tilelang.jit(out_idx=[-1], target="cpu")
    def made(n, pass_configs):
        return factory(n, factor=pass_configs["factor"])

    kernel = configured(made, (8,), {}, {"pass_configs": {"factor": 3.0}})
    assert kernel(torch.ones(8)).tolist() == [3.0] * 8


def test_a_configuration_that_cannot_be_identified_is_refused():
    """Two different values with one ``repr`` must not share a result."""
    with pytest.raises(TuningError, match="cannot be identified"):
        expand([{"lock": threading.Lock()}])


def test_the_fastest_right_candidate_wins_and_the_others_are_reported():
    result = tuner([{"block": 32}, {"block": 64}, {"block": 64, "factor": 3.0}, {"block": -1}]).run()
    states = {str(trial.config): trial.state for trial in result.trials}
    assert states == {
        "{'block': 32}": "measured",
        "{'block': 64}": "measured",
        "{'block': 64, 'factor': 3.0}": "wrong",
        "{'block': -1}": "failed",
    }
    assert result.config in ({"block": 32}, {"block": 64}) and result.latency > 0 and result.ref_latency > 0
    a = torch.randn(256)
    assert torch.equal(result.kernel(a), a * 2)
    assert result.kernel.config == result.config


def test_a_search_without_a_right_candidate_lists_why():
    with pytest.raises(TuningError, match="wrong"):
        tuner([{"factor": 3.0}]).run()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The configurations that are measured."""
    from tilelang.autotuner import tuner as module

    found: list[dict] = []
    original = module._Search.measure
    monkeypatch.setattr(module._Search, "measure", lambda self, config: found.append(dict(config)) or original(self, config))
    return found


def test_results_are_kept_and_a_changed_space_measures_only_what_is_new(measured: list[dict]):
    tuner([{"block": 16}, {"block": 32}], rtol=0.02).run()
    assert len(measured) == 2
    tuner([{"block": 16}, {"block": 32}], rtol=0.02).run()
    assert len(measured) == 2
    tuner([{"block": 16}, {"block": 128}], rtol=0.02).run()
    assert measured[2:] == [{"block": 128}]


def added(n: int, block: int = 32, factor: float = 2.0):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] += A[bx * block + i] * factor

    return main


def with_twice(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return b + a * 2


def add_twice(a: torch.Tensor, b: torch.Tensor) -> None:
    b += a * 2


@pytest.mark.parametrize("reference", [with_twice, add_twice])
def test_a_kernel_that_changes_its_arguments_is_checked_by_them(reference):
    configs = [{"block": 32}, {"block": 64}, {"block": 64, "factor": 3.0}]
    made = AutoTuner(added, configs).set_compile_args(target="cpu").set_kernel_parameters((256,), {})
    made.set_profile_args(warmup=1, rep=2, ref_prog=reference)
    a, b = torch.ones(256), torch.zeros(256)
    with set_autotune_inputs(a, b):
        assert [trial.state for trial in made.run().trials] == ["measured", "measured", "wrong"]
    assert not b.any()


@tilelang.autotune(configs={"block": [32, 64]}, warmup=1, rep=2)
@tilelang.jit(target="cpu")
def incremented(A, block: int = 32):
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    with T.Kernel(T.ceildiv(n, block), threads=32) as bx:
        for i in T.Parallel(block):
            A[bx * block + i] += 1.0


def test_a_search_leaves_the_tensors_of_the_call_as_they_are_and_is_kept(measured: list[dict]):
    for size, searched in ((96, 2), (96, 2), (192, 4)):
        a = torch.zeros(size)
        incremented(a)
        assert (a == 1).all() and len(measured) == searched


def test_candidates_get_tensors_with_the_strides_of_the_given_ones():
    def padded(block: int):
        @T.prim_func
        def main(A: T.StridedTensor((16, 4), (8, 1), "float32"), B: T.Tensor((16, 4), "float32")):
            with T.Kernel(1, threads=block):
                for i, j in T.Parallel(16, 4):
                    B[i, j] = A[i, j] * 2.0

        return main

    made = AutoTuner(padded, {"block": [32, 64]}).set_compile_args(target="cpu")
    made.set_profile_args(warmup=1, rep=2, ref_prog=lambda a, b: a * 2)
    with set_autotune_inputs(torch.randn(16, 8)[:, :4], torch.zeros(16, 4)):
        assert [trial.state for trial in made.run().trials] == ["measured", "measured"]


def test_a_kernel_that_returns_less_than_the_reference_is_wrong():
    made = tuner([{"block": 32}]).set_profile_args(ref_prog=lambda a: (a * 2, a))
    with pytest.raises(TuningError, match="the kernel gives 1 tensors, the reference 2"):
        made.run()


def test_the_decorator_searches_only_what_the_caller_leaves_open():
    @tilelang.autotune(configs={"block": [32, 64]}, warmup=1, rep=1, ref_prog=twice)
    @tilelang.jit(out_idx=[-1], target="cpu")
    def tuned(n: int, block: int = 32):
        return factory(n, block)

    kernel = tuned(128)
    assert kernel.config["block"] in (32, 64) and kernel.latency > 0
    a = torch.randn(96)
    assert torch.equal(tuned(96, block=16)(a), a * 2)
    with set_autotune_inputs(torch.ones(128)):
        assert tuned.tune(128).trials


@pytest.mark.parametrize("order", ["above", "below"])
def test_the_decorator_stands_above_or_below_jit(order):
    jit = tilelang.jit(out_idx=[-1], target="cpu")
    search = tilelang.autotune(configs=[{"block": 32}, {"block": 64}], warmup=1, rep=2)
    tuned = search(jit(factory)) if order == "above" else jit(search(factory))
    kernel = tuned(256)
    assert kernel.config in ({"block": 32}, {"block": 64}) and kernel.latency > 0
    assert kernel(torch.ones(256)).tolist() == [2.0] * 256


def test_jit_above_and_below_a_search_is_refused():
    with pytest.raises(CompileError, match="factory is decorated with @tilelang.jit twice"):
        tilelang.jit(target="cpu")(tilelang.autotune(configs=[{"block": 32}])(tilelang.jit(target="cpu")(factory)))


def test_a_search_without_early_stop_measures_what_an_earlier_one_gave_up():
    configs = [{"block": 32}, {"block": 64}]
    early = tuner(configs, rtol=0.03).run(early_stop=True, early_stop_factor=1e-6)
    assert [trial.state for trial in early.trials] == ["measured", "stopped"]
    assert [trial.state for trial in tuner(configs, rtol=0.03).run().trials] == ["measured", "measured"]


def test_options_of_a_search_leave_the_mode_of_a_function():
    @tilelang.jit(mode="lazy", out_idx=[-1])
    def made_elsewhere(n: int, block: int):
        torch.empty(1)  # by this name a function without the decorator's mode is taken to be eager
        return factory(n, block)

    search = AutoTuner(made_elsewhere, {"block": [32, 64]}).set_compile_args(target="cpu").set_kernel_parameters((256,), {})
    assert search.set_profile_args(warmup=1, rep=2).run().latency > 0


def test_candidates_run_on_the_device_of_the_caller():
    places: list[int] = []

    def noted(a: torch.Tensor) -> torch.Tensor:
        places.append(torch.cuda.current_device())
        return a * 2

    with virtual_device(devices=2):
        function = tilelang.jit(factory, out_idx=[-1])
        searched = tilelang.autotune(function, configs=[{"block": 32}], warmup=0, rep=0, ref_prog=noted)
        with torch.cuda.device(1):
            assert searched(256)(torch.ones(256, device="cuda")).device == torch.device("cuda", 1)
        with set_autotune_inputs(torch.ones(512, device="cuda:1")):
            searched(512)
    assert places and set(places) == {1}


def test_a_candidate_that_compiles_too_long_is_stopped_and_the_rest_goes_on():
    assert can_fork()
    jobs = [lambda: time.sleep(60), lambda: None, lambda: 1 // 0, lambda: os._exit(7)]
    failures = {position: (state, detail) for position, state, detail in compile_all(jobs, workers=2, timeout=1.0)}
    assert failures[0] == ("timeout", "compilation took more than 1 s")
    assert 1 not in failures
    assert failures[2][0] == "failed" and "ZeroDivisionError" in failures[2][1]
    assert failures[3] == ("failed", "the compiler process ended with code 7")
