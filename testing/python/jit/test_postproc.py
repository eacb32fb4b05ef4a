"""Functions of the user over generated code, and what the cache makes of them."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.engine.callback import register_c_postproc, register_cuda_postproc, register_cuda_postproc_callback
from tilelang.errors import CacheWarning, CompileError, OptionError

SM80 = {"kind": "cuda", "arch": "sm_80"}


@pytest.fixture(autouse=True)
def none_left():
    yield
    register_cuda_postproc(None)
    register_c_postproc(None)


def factory(target):
    @tilelang.jit(out_idx=[-1], target=target)
    def made(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] + 12345

        return main

    return made


def result(function, n=32):
    with tilelang.simulator():
        return int(function(n)(torch.zeros(n, dtype=torch.int32))[0])


@pytest.mark.parametrize(("target", "register"), [(SM80, register_cuda_postproc), ("c", register_c_postproc)], ids=["cuda", "c"])
def test_the_code_that_is_compiled_is_the_one_that_it_gives(target, register):
    function = factory(target)
    assert result(function) == 12345 and result(function) == 12345
    register(lambda code, _: code.replace("12345", "54321"))
    assert result(function) == 54321  # kernels from before are not taken for it
    assert "54321" in function(32).get_kernel_source()
    assert result(factory(target)) == 54321
    register(lambda code, _: code.replace("12345", "11111"))
    assert result(function) == 11111
    register(None)
    assert result(function) == 12345 and result(factory(target)) == 12345


def test_one_that_calls_the_one_before():
    import tvm_ffi

    register_cuda_postproc(lambda code, _: code.replace("12345", "54321"))
    before = tvm_ffi.get_global_func("tilelang_callback_cuda_postproc", allow_missing=True)
    register_cuda_postproc(lambda code, target: before(code, target).replace("54321", "11111"))
    assert result(factory(SM80)) == 11111
    register_cuda_postproc(None)
    assert tvm_ffi.get_global_func("tilelang_callback_cuda_postproc", allow_missing=True) is None


def test_a_process_that_registers_before_it_compiles():
    program = (
        "from tilelang.engine.callback import register_cuda_postproc\n"
        "register_cuda_postproc(lambda code, target: code)\n"
        "import tvm_ffi\n"
        "assert tvm_ffi.get_global_func('tilelang_callback_cuda_postproc', allow_missing=True) is not None\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_decorator():
    seen = []

    @register_cuda_postproc_callback
    def first(code, target):
        seen.append(target.arch)
        return code

    assert result(factory(SM80), 64) == 12345 and seen == ["sm_80"]
    with pytest.raises(CompileError, match="there is a function over generated cuda code already"):
        register_cuda_postproc_callback(override=False)(first)
    register_cuda_postproc(lambda code, _: None)
    with pytest.raises(CompileError, match="the function over generated cuda code returned NoneType, not text"):
        result(factory(SM80), 64)


def test_what_is_no_function_is_refused():
    with pytest.raises(OptionError, match=r"a function of \(code, target\) is expected, got 3"):
        register_cuda_postproc(3)


def test_other_targets_keep_their_code():
    register_cuda_postproc(lambda code, _: code.replace("12345", "54321"))
    assert result(factory("cpu")) == 12345


def test_what_the_function_reads_counts():
    values = ["54321"]
    register_c_postproc(lambda code, _: code.replace("12345", values[0]))
    function = factory("c")
    assert result(function) == 54321
    values[0] = "11111"
    assert result(function) == 11111 and result(factory("c")) == 11111
    values[:] = ["54321"]
    assert function(32) is function(32)


def test_a_function_without_a_fingerprint_has_its_kernels_compiled_at_every_call(tmp_path):
    file = tmp_path / "value"

    def rewrite(code, _):
        return code.replace("12345", file.read_text())

    register_c_postproc(rewrite)
    function = factory("c")
    file.write_text("54321")
    with pytest.warns(CacheWarning, match="main is compiled at every call: the function over generated c code"):
        assert result(function) == 54321
    file.write_text("11111")
    assert result(function) == 11111
    assert "read_text" in function(32).source_reason


def test_cached_kernels_are_those_of_the_function_in_force():
    program = factory("c").get_tir(32)
    before = tilelang.cached(program, [-1], target="c")
    register_c_postproc(lambda code, _: code.replace("12345", "54321"))
    assert "54321" in tilelang.cached(program, [-1], target="c").get_kernel_source()
    register_c_postproc(None)
    assert "12345" in before.get_kernel_source() and "12345" in tilelang.cached(program, [-1], target="c").get_kernel_source()
