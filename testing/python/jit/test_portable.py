"""``pickle`` and ``copy`` of kernels, decorated functions and programs."""

import copy
import multiprocessing
import pickle
import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.jit import programs


@T.prim_func
def negated(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            B[i] = -A[i]


A = torch.arange(64, dtype=torch.float32)


def called(kernel):
    return kernel(A)


def test_a_kernel_is_called_by_a_spawned_worker():
    kernel = tilelang.compile(negated, target="cpu", out_idx=-1)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert torch.equal(pool.apply_async(called, (kernel,)).get(timeout=120), -A)


def test_a_kernel_needs_no_cache_where_it_arrives(tmp_path):
    kernel = copy.copy(tilelang.compile(negated, target="cpu", out_idx=-1))
    kernel.latency, kernel.config = 1.5, {"block": 64}
    (tmp_path / "kernel.pkl").write_bytes(pickle.dumps(kernel))
    program = (
        "import pickle, sys, torch; kernel = pickle.load(open(sys.argv[1], 'rb')); assert 'tvm' not in sys.modules;"
        "assert kernel(torch.ones(64)).sum() == -64 and kernel.config == {'block': 64} and kernel.latency == 1.5"
    )
    environment = {"TILELANG_CACHE_DIR": str(tmp_path / "empty"), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "kernel.pkl")], env=environment, check=True)


def test_copies_of_a_kernel_have_results_of_their_own():
    kernel = tilelang.compile(negated, target="cpu", out_idx=-1)
    other = copy.deepcopy(kernel)
    other.latency = 3.0
    assert kernel.latency is None and torch.equal(other(A), kernel(A)) and other.cache_key == kernel.cache_key


def test_a_decorated_function_travels_by_name():
    assert pickle.loads(pickle.dumps(programs.eager_add)) is programs.eager_add
    assert copy.deepcopy(programs.eager_add) is programs.eager_add

    @tilelang.jit
    def local(n):
        return n

    with pytest.raises(pickle.PicklingError, match="local is no global"):
        pickle.dumps(local)


def test_a_program_is_copied_and_not_pickled():
    assert copy.deepcopy(negated) is negated and copy.copy(negated) is negated
    with pytest.raises(TypeError, match="a traced PrimFunc cannot leave its process"):
        pickle.dumps(negated)
    with pytest.raises(TypeError, match="cannot leave its process"):
        pickle.dumps(negated.body)
