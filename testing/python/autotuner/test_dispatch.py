"""Schedules by dynamic size, searched on the CPU and picked at call time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.autotuner import DispatchedKernel
from tilelang.cache.command.catalog import Catalog, Filter
from tilelang.cache.kernel_cache import default_cache
from tilelang.errors import TuningError


@tilelang.jit(out_idx=[1], target="cpu")
def negate(block, dtype="float32"):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 64), dtype), C: T.Tensor((m, 64), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=64) as bx:
            for i, j in T.Parallel(block, 64):
                C[bx * block + i, j] = -A[bx * block + i, j]

    return main


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> Path:
    """A cache of the test's own, and nothing in memory."""
    from tilelang.cache.keys import key, source_key
    from tilelang.cache.keys.fingerprint import Fingerprint

    for module in (key, source_key):
        monkeypatch.setattr(module, "compiler_fingerprint", lambda memo_file: Fingerprint((), True))
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    default_cache().forget()
    negate.clear_memory()
    return tmp_path / "cache"


def dispatched() -> DispatchedKernel:
    return DispatchedKernel(negate, {"block": [8, 32]}, ("m",), profile={"warmup": 1, "rep": 2})


def inputs(m: int) -> tuple:
    return (torch.randn(m, 64),)


def test_the_best_schedule_by_size(own_cache):
    kernel = dispatched()
    with pytest.raises(TuningError, match="is empty"):
        kernel.kernel((16,))
    for m in (16, 512):
        found = kernel.tune((m,), inputs)
        assert kernel.table.rows[(m,)].config == found.config
    for m in (1, 16, 100, 513):
        (a,) = inputs(m)
        assert torch.equal(kernel(a), -a)
        nearest = 16 if m < 90 else 512
        assert kernel.kernel((m,)).cache_key == kernel.table.rows[(nearest,)].kernel_key
    again = dispatched()
    assert again.table.rows == kernel.table.rows and torch.equal(again(torch.ones(3, 64)), -torch.ones(3, 64))
    winners = {row.kernel_key for row in kernel.table.rows.values()}
    listed = Catalog(default_cache().disk.index).kernels(Filter(space=2))
    assert {row["key"] for row in listed} == winners


def test_a_search_writes_a_summary_and_its_programs(own_cache):
    dispatched().tune((64,), inputs)
    (summary,) = (own_cache / "scripts").glob("*/*/summary.txt")
    lines = summary.read_text().splitlines()
    assert lines[0] == "# negate: 2 candidates" and [line.split()[2] for line in lines[2:]] == ["measured"] * 2
    for line in lines[2:]:
        number = line.split()[0]
        assert (summary.parent / "programs" / number / "program.txt").is_file()
    (table,) = (own_cache / "scripts").glob("*/*/dispatch_table.txt")
    assert table.read_text().splitlines()[1] == "m seconds kernel config"


def test_a_variable_that_no_input_has(own_cache):
    kernel = DispatchedKernel(negate, {"block": [8]}, ("k",), profile={"warmup": 1, "rep": 1})
    kernel.tune((16,), inputs)
    with pytest.raises(TuningError, match="no dynamic size 'k'"):
        kernel(torch.ones(2, 64))


SEARCH = """
import os, sys, torch
import tilelang, tilelang.language as T
from tilelang.autotuner import AutoTuner
from tilelang.cache.keys import key, source_key
from tilelang.cache.keys.fingerprint import Fingerprint
for module in (key, source_key):
    module.compiler_fingerprint = lambda memo_file: Fingerprint((), True)
sys.path.insert(0, sys.argv[1])
from autotuner import test_dispatch
from tilelang.autotuner import tuner as tuner_module
real, limit, done = tuner_module._Search.measure, int(sys.argv[2]), []

def measure(self, config):
    if len(done) == limit:
        os.kill(os.getpid(), 9)
    done.append(config)
    return real(self, config)

tuner_module._Search.measure = measure
tuner = AutoTuner(test_dispatch.negate, {"block": [4, 8, 16, 32]})
tuner.set_profile_args(warmup=1, rep=1, supply_prog=supply)
tuner.run(num_workers=1)
print(len(done))
"""


def test_a_killed_search_resumes(own_cache, tmp_path):
    import subprocess

    root = Path(__file__).resolve().parents[3]
    supply = tmp_path / "supply_of_this_test.py"
    supply.write_text("import torch\n\ndef supply(params):\n    return [torch.ones(16, 64)]\n")
    code = "from supply_of_this_test import supply\n" + SEARCH
    path = os.pathsep.join((str(root), str(tmp_path)))
    command = [sys.executable, "-c", code, str(root / "testing" / "python")]
    environment = {**os.environ, "PYTHONPATH": path}
    killed = subprocess.run([*command, "2"], env=environment, cwd="/", capture_output=True, text=True, timeout=120)
    assert killed.returncode == -9, killed.stderr
    resumed = subprocess.run([*command, "99"], env=environment, cwd="/", capture_output=True, text=True, timeout=120)
    assert resumed.stdout.strip() == "2", resumed.stderr


ONE_OF_MANY = """
print("ready", flush=True)
sys.stdin.readline()
"""


def test_processes_that_want_one_search_measure_each_candidate_once(own_cache, tmp_path):
    import subprocess

    root = Path(__file__).resolve().parents[3]
    supply = tmp_path / "supply_of_this_test.py"
    supply.write_text("import torch\n\ndef supply(params):\n    return [torch.ones(16, 64)]\n")
    head, tail = SEARCH.split("tuner = AutoTuner", 1)
    code = "from supply_of_this_test import supply\n" + head + ONE_OF_MANY + "tuner = AutoTuner" + tail
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), str(tmp_path)))}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(root / "testing" / "python"), "99"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env=environment,
        )
        for _ in range(3)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    assert sum(int(worker.communicate(timeout=120)[0]) for worker in workers) == 4
