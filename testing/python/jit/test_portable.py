"""``pickle`` and ``copy`` of kernels, decorated functions and programs."""

import copy
import multiprocessing
import pickle
import subprocess
import sys

import pytest
import torch
import tvm_ffi

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


def test_an_interpreted_kernel_travels_as_its_program():
    kernel = tilelang.compile(negated, target="interpret", out_idx=-1)
    kernel.config = {"block": 64}
    other = pickle.loads(pickle.dumps(kernel))
    assert torch.equal(other(A), -A) and other.config == {"block": 64} and copy.deepcopy(kernel)(A).sum() == -A.sum()


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


def compiled(program):
    return tilelang.compile(program, target="cpu", out_idx=-1)(A)


def test_a_program_is_compiled_by_a_spawned_worker():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert torch.equal(pool.apply_async(compiled, (negated,)).get(timeout=120), -A)


def test_a_program_is_the_same_after_pickling():
    """The same program for the cache, with the places in the source that messages name."""
    other = pickle.loads(pickle.dumps(negated))
    assert tvm_ffi.structural_equal(other, negated) and str(other.body.span) == str(negated.body.span)
    assert tilelang.compile(other, target="cpu").cache_key == tilelang.compile(negated, target="cpu").cache_key
    body = pickle.loads(pickle.dumps(negated.body))
    assert tvm_ffi.structural_equal(body, negated.body, map_free_vars=True)


def test_a_long_program_is_pickled_without_recursion():
    def chain(value):
        for number in range(3000):
            value = value * 3 + number
        return value

    @T.prim_func
    def main(B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            B[0] = chain(bx)

    assert pickle.loads(pickle.dumps(main)).attrs["global_symbol"] == "main"


def test_a_copy_of_a_program_is_the_program():
    assert copy.deepcopy(negated) is negated and copy.copy(negated) is negated


def test_what_is_no_data_is_refused():
    with pytest.raises(TypeError, match="a Function in a program cannot be pickled"):
        pickle.dumps(negated.with_attr("callback", tvm_ffi.convert(abs)))
