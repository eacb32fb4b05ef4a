"""Factories, eager functions, ``compile`` and its like, on the CPU."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import tvm

import tilelang
import tilelang.language as T
from testing.python.jit import programs
from tilelang.errors import ArgumentError, CompileError, OptionError, UnknownTargetError, UnsupportedBackendError
from tilelang.target import info


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b * programs.SCALE + programs.offset()


def test_a_factory_gives_a_kernel_and_the_same_one_again():
    kernel = programs.scaled_add(100)
    a, b = torch.randn(100), torch.randn(100)
    torch.testing.assert_close(kernel(a, b), reference(a, b))
    assert programs.scaled_add(100) is kernel
    assert programs.scaled_add(n=100, block=64) is not None
    assert programs.scaled_add(101) is not kernel


def test_a_changed_global_or_helper_recompiles(monkeypatch: pytest.MonkeyPatch):
    a, b = torch.randn(64), torch.randn(64)
    before = programs.scaled_add(64)
    monkeypatch.setattr(programs, "SCALE", 5.0)
    after = programs.scaled_add(64)
    assert after is not before
    torch.testing.assert_close(after(a, b), reference(a, b))
    monkeypatch.setattr(programs, "offset", lambda: 100.0)
    torch.testing.assert_close(programs.scaled_add(64)(a, b), a + b * 5.0 + 100.0)


def test_the_source_of_a_kernel_by_its_arguments():
    assert programs.scaled_add.get_kernel_source(n=64) == programs.scaled_add(64).get_kernel_source()
    a = torch.randn(5, 7)
    assert programs.eager_add.get_kernel_source(a, a) == programs.eager_add.compile(a, a).get_kernel_source()


def test_a_description_of_a_tensor_compiles_as_the_tensor():
    class Described:
        """What a warm-up gives in place of a tensor: no storage."""

        dtype, shape = torch.float32, (5, 9)

        def stride(self) -> tuple[int, ...]:
            return (9, 1)

    a = torch.randn(5, 9)
    assert programs.eager_add.compile(Described(), Described()).cache_key == programs.eager_add.compile(a, a).cache_key


def test_a_kernel_shows_and_writes_its_sources(tmp_path: Path, capsys: pytest.CaptureFixture):
    kernel = programs.scaled_add(64)
    kernel.show_source("both")
    assert capsys.readouterr().out == f"{kernel.get_kernel_source()}\n{kernel.get_host_source()}\n"
    kernel.export_sources(tmp_path / "sources" / "kernel.txt", tmp_path / "host.txt")
    assert (tmp_path / "sources" / "kernel.txt").read_text() == kernel.get_kernel_source()
    assert (tmp_path / "host.txt").read_text() == kernel.get_host_source()


def test_one_kernel_serves_all_dynamic_sizes():
    kernel = programs.dynamic_copy()
    for size in (1, 63, 64, 65, 1000):
        a = torch.randn(size)
        assert torch.equal(kernel(a), a)


def test_an_eager_function_compiles_for_each_size_and_runs():
    for shape in ((5, 7), (64, 16)):
        a, b = torch.randn(shape), torch.randn(shape)
        assert torch.equal(programs.eager_add(a, b), a + b)
        assert torch.equal(programs.eager_add(A=a, B=b, block=16), a + b)
    a = torch.randn(3, 4).half()
    assert torch.equal(programs.eager_add(a, a, dtype="float16"), a + a)


def test_an_eager_function_returns_in_its_own_order_and_hides_workspaces():
    a = torch.randn(50)
    scaled, double = programs.eager_two(a, 3.0)
    assert torch.equal(scaled, a * 3) and torch.equal(double, a * 2)


def test_an_eager_function_compiles_without_tensors():
    kernel = programs.eager_add.compile(M=8, N=4)
    a = torch.randn(8, 4)
    assert torch.equal(kernel(a, a), a + a)
    with pytest.raises(ArgumentError, match="no argument gives the size N"):
        programs.eager_add.compile(M=8)
    with pytest.raises(ArgumentError, match="K is neither"):
        programs.eager_add.compile(M=8, N=4, K=1)


@tilelang.jit(target="cpu")
def unpack(B, block: int = 16):
    N = T.const("N")
    B: T.Tensor((N // 2,), "uint8")
    C = T.empty((N,), "uint8")
    with T.Kernel(T.ceildiv(N // 2, block), threads=32) as bx:
        for i in T.Parallel(block):
            C[2 * (bx * block + i)] = B[bx * block + i] & 15
            C[2 * (bx * block + i) + 1] = B[bx * block + i] >> 4
    return C


@tilelang.jit(target="cpu")
def padded(A):
    N = T.const("N")
    A: T.Tensor((N * 4 + 1,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[4 * i + 1]
    return B


@tilelang.jit(target="cpu")
def scaled(A):
    N, blocks, factor = T.const("N, blocks, factor")
    A: T.Tensor((N,), "float32")
    B = T.empty((blocks * 16,), "float32")
    with T.Kernel(blocks, threads=32) as bx:
        for i in T.Parallel(16):
            B[bx * 16 + i] = A[bx * 16 + i] * factor
    return B


def test_a_size_that_no_argument_has_is_given_by_name():
    a = torch.arange(64.0)
    assert torch.equal(scaled(a, blocks=4, factor=3), 3 * a)
    assert torch.equal(scaled(a, blocks=2, factor=2.5), 2.5 * a[:32])
    assert torch.equal(scaled.compile(a, blocks=1, factor=2)(a), 2 * a[:16])
    with pytest.raises(ArgumentError, match="no argument gives the size factor"):
        scaled(a, blocks=4)
    with pytest.raises(ArgumentError, match=r"argument block does not exist\n.*did you mean 'blocks'"):
        scaled(a, block=4, factor=3)
    with pytest.raises(ArgumentError, match="axis 0 is 64, but N is 32"):
        scaled(a, N=32, blocks=4, factor=3)


def test_a_size_inside_arithmetic_is_given_by_name_or_solved():
    packed = torch.randint(0, 256, (64,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    unpacked = torch.stack([packed & 15, packed >> 4], 1).flatten()
    assert torch.equal(unpack.compile(N=128)(packed), unpacked) and torch.equal(unpack(packed, N=128), unpacked)
    with pytest.raises(ArgumentError, match="no argument gives the size N"):
        unpack(packed)
    with pytest.raises(ArgumentError, match="no argument gives the size N"):
        unpack.compile()
    values = torch.arange(33, dtype=torch.float32)
    assert torch.equal(padded(values), values[1::4])
    with pytest.raises(ArgumentError, match="no argument gives the size N"):
        padded(torch.zeros(35))


def test_eager_arguments_that_disagree_name_the_size():
    with pytest.raises(ArgumentError, match=r"B: axis 1 is 5, but N is 4 in A"):
        programs.eager_add(torch.randn(3, 4), torch.randn(3, 5))
    with pytest.raises(ArgumentError, match="argument B is missing"):
        programs.eager_add(torch.randn(3, 4))
    with pytest.raises(ArgumentError, match="argument C does not exist"):
        programs.eager_add(torch.randn(3, 4), torch.randn(3, 4), C=1)


def test_the_part_of_a_name_of_a_pass_configuration_that_is_meant():
    with pytest.raises(OptionError, match="did you mean 'tl.disable_tma_lower'"):
        tilelang.compile(program(), target="cpu", pass_configs={"tl.disable_tma": True})


@tilelang.jit
def filled(A, *, value=1):
    A: T.Tensor[[4], T.float32]
    with T.Kernel(1, threads=32):
        T.fill(A, value)


def test_an_argument_that_has_to_be_named():
    a = torch.zeros(4)
    filled(a, value=2)
    assert a.tolist() == [2, 2, 2, 2]
    with pytest.raises(ArgumentError, match="filled takes 1 argument by position, got 2"):
        filled(a, 3)


def program(n: int = 32):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    return main


@pytest.mark.parametrize("out_idx", [1, -1, [1], [-1], (-1,)])
def test_compile_takes_out_idx_in_every_spelling(out_idx):
    kernel = tilelang.compile(program(), out_idx=out_idx, target="cpu")
    a = torch.randn(32)
    assert torch.equal(kernel(a), a)
    assert kernel.out_idx == (1,)


@pytest.mark.parametrize("workspace", [False, True])
@pytest.mark.parametrize("target", ["cpu", "c", "interpret"])
def test_outputs_come_in_the_order_of_out_idx(target, workspace):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32"), C: T.Tensor((32,), "int32")):
        if workspace:
            T.alloc_global((32,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i] + 1
                C[i] = i

    b, c = torch.zeros(32) + 1, torch.arange(32, dtype=torch.int32)
    for out_idx, wanted in (([1, 2], (b, c)), ([2, 1], (c, b)), ((-1, 1), (c, b))):
        found = tilelang.compile(main, out_idx=out_idx, target=target)(torch.zeros(32))
        assert all(map(torch.equal, found, wanted)) and len(found) == 2


def test_a_kernel_shows_what_it_is():
    kernel = tilelang.compile(program(), out_idx=-1, target="c")
    assert [param.name for param in kernel.params] == ["A", "B"]
    assert "main" in kernel.get_kernel_source() and kernel.get_host_source() is not None
    assert len(kernel.cache_key) == 64 and kernel.artifact.backend == kernel.execution_backend == "tvm_ffi"
    assert "main" in repr(kernel)


def test_lower_gives_an_artifact_without_loading_it():
    artifact = tilelang.lower(program(), target="cpu")
    assert artifact.name == "main" and artifact.files and artifact.kernel_source


def test_par_compile_shows_its_progress_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    for file, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", file)
        tilelang.par_compile([program(8), program(16)], out_idx=-1, target="cpu", num_workers=2)
        assert ("compiling" in file.getvalue() and "2/2" in file.getvalue()) == shown


def test_par_compile_keeps_order_and_reports_errors():
    kernels = tilelang.par_compile([program(8), program(16)], out_idx=-1, target="cpu", num_workers=2)
    assert [kernel(torch.ones(n)).shape[0] for kernel, n in zip(kernels, (8, 16))] == [8, 16]
    with pytest.raises(CompileError):
        tilelang.par_compile([program(8), "no program"], target="cpu")
    with pytest.raises(CompileError, match="takes a list of programs, got one"):
        tilelang.par_compile(program(8), target="cpu")
    assert tilelang.par_compile([program(8), "no program"], out_idx=-1, target="cpu", ignore_error=True)[1] is None
    both = programs.scaled_add.par_compile([{"n": 8}, (16,)])
    assert all(both)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "cude"}, UnknownTargetError, "did you mean 'cuda'"),
        ({"target": ""}, UnknownTargetError, "unknown target ''"),
        ({"target": {"kind": "cuda", "arch": "sm90"}}, UnknownTargetError, "unknown CUDA architecture 'sm90'"),
        ({"target": "cuda sm_90"}, UnknownTargetError, "unknown field of a target 'sm_90'"),
        ({"target": "cpu", "execution_backend": "nvrtc"}, UnsupportedBackendError, "tvm_ffi"),
        ({"target": "cpu", "execution_backend": "cythn"}, UnknownTargetError, "did you mean 'cython'"),
        ({"target": "cpu", "pass_configs": ["tl.disable_tma_lower"]}, CompileError, "pass_configs is a dict of names and values"),
        ({"target": "cpu", "out_idx": 5}, CompileError, "out of range for 2 parameters"),
        ({"target": "cpu", "out_idx": [1, -1]}, CompileError, "names a parameter twice"),
        ({"target": "cpu", "pass_configs": {"tl.disable_tma_lowr": True}}, CompileError, "did you mean 'tl.disable_tma_lower'"),
    ],
)
def test_wrong_options_are_refused_by_name(options, error, message):
    with pytest.raises(error, match=message):
        tilelang.compile(program(), **options)


def test_a_factory_that_returns_no_program_is_an_error():
    @tilelang.jit(target="cpu", mode="lazy")
    def nothing():
        return 3

    with pytest.raises(CompileError, match="returned int, not a program"):
        nothing()


def test_a_mode_that_does_not_exist_is_refused():
    with pytest.raises(CompileError, match="mode='egaer' is none of auto, lazy, eager"):
        tilelang.jit(mode="egaer")(program)


def test_errors_reach_the_user_without_the_compilers_frames():
    @tilelang.jit(target="cpu")
    def wrong():
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = undefined_name  # noqa: F821

        return main

    with pytest.raises(CompileError) as caught:
        wrong()
    assert "undefined_name" in str(caught.value) and "test_jit.py" in str(caught.value)
    assert len(caught.traceback) <= 3


def test_the_disabled_cache_compiles_afresh():
    tilelang.disable_cache()
    try:
        assert not tilelang.is_cache_enabled()
        first, second = programs.scaled_add(20), programs.scaled_add(20)
        assert first is not second
    finally:
        tilelang.enable_cache()
    assert programs.scaled_add(20) is programs.scaled_add(20)


def test_the_cache_is_disabled_while_a_function_runs():
    uncached = tilelang.disable_cache(programs.scaled_add)
    assert uncached(20) is not uncached(20)
    assert tilelang.is_cache_enabled() and programs.scaled_add(20) is programs.scaled_add(20)

    @tilelang.disable_cache
    def fails():
        assert not tilelang.is_cache_enabled()
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert tilelang.is_cache_enabled()


def test_a_program_carries_its_own_options():
    from tilelang.jit.options import annotated_options, resolve_options

    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        T.annotate_pass_configs({tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True, "tl.disable_tma_lower": True})
        T.annotate_compile_flags(["--one", "--two 2"])
        T.annotate_compile_flags("--three")
        with T.Kernel(1, threads=4):
            T.clear(A)

    given = resolve_options(target="cuda", pass_configs={"tl.disable_tma_lower": False}, compile_flags=["--zero"])
    options = annotated_options(main, given)
    assert options.pass_configs == {"tl.enable_fast_math": True, "tl.disable_tma_lower": False}
    assert options.compile_flags == ("--zero", "--one", "--two", "2", "--three")


def _one_store():
    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                A[i] = i

    return program


def test_the_enclosing_target_of_tvm_is_in_force():
    with tvm.target.Target("c"):
        assert json.loads(tilelang.compile(_one_store()).artifact.target)["kind"] == "c"
        assert json.loads(tilelang.lower(_one_store()).target)["kind"] == "c"
        assert json.loads(tilelang.compile(_one_store(), target="cpu").artifact.target)["kind"] == "cpu"


@tilelang.jit(out_idx=[-1])
def _one_store_for(value):
    @T.prim_func
    def program(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                A[i] = value

    return program


@tilelang.jit
def _eager_store(value: int = 0):
    A = T.empty((4,), "int32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            A[i] = value
    return A


def _kind(kernel):
    return json.loads(kernel.artifact.target)["kind"]


@pytest.mark.parametrize("function", [_one_store_for, _eager_store])
def test_a_call_of_a_jit_function_honours_the_enclosing_target(function):
    usual = function.compile(7)
    for _ in range(2):  # with nothing remembered, then with everything
        with tvm.target.Target("c"):
            inside = function.compile(7)
            assert _kind(inside) == "c" and function.compile(7) is inside
            with tvm.target.Target("llvm"):
                assert _kind(function.compile(7)) == "cpu"
            assert function.compile(7) is inside
        assert function.compile(7) is usual and _kind(usual) == "cpu"
    with tvm.target.Target("c"):
        assert _one_store_for(7)().tolist() == _eager_store(value=7).tolist() == [7] * 4


def test_a_decorators_target_has_precedence_over_the_enclosing_one():
    named = tilelang.jit(_one_store_for.function, out_idx=[-1], target="cpu")
    left_open = tilelang.jit(_one_store_for.function, out_idx=[-1], target="auto")
    with tvm.target.Target("c"):
        assert _kind(named(7)) == "cpu" and _kind(left_open(7)) == "c"


def test_kernels_compiled_by_threads_are_for_the_target_that_encloses_the_call():
    with tvm.target.Target("c"):
        assert [_kind(kernel) for kernel in _one_store_for.par_compile([(8,), {"value": 9}])] == ["c", "c"]


def test_a_target_entered_by_another_thread_is_not_in_force():
    import threading

    found = []
    with tvm.target.Target("c"):
        thread = threading.Thread(target=lambda: found.append(_kind(_one_store_for(7))))
        thread.start()
        thread.join()
    assert found == ["cpu"]


def test_tvm_is_not_loaded_to_look_for_an_enclosing_target():
    code = """
import sys, tilelang
from tilelang.target import enclosing
assert enclosing.current() is None and not any(name.split(".")[0] == "tvm" for name in sys.modules)
import tvm
assert not enclosing.entered
with tvm.target.Target("c") as target:
    assert enclosing.entered and enclosing.current().same_as(target)
    import tilelang.language
assert enclosing.current() is None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_cached_remembers_does_not_depend_on_the_enclosing_target():
    program = _one_store()
    with tvm.target.Target("c"):
        inside = tilelang.cached(program, target=None)
    assert tilelang.cached(program, target=None) is inside
    assert json.loads(inside.artifact.target)["kind"] == json.loads(tilelang.compile(program).artifact.target)["kind"]


@pytest.mark.parametrize("given, arch", [("cuda", "sm_80"), ({"kind": "cuda", "arch": "sm_90a"}, "sm_90a")])
def test_a_target_of_tvm_without_an_architecture_is_cuda_without_one(monkeypatch, given, arch):
    monkeypatch.delenv("TILELANG_CUDA_ARCH", raising=False)
    monkeypatch.setattr(info, "_device_arch", lambda: None)
    assert info.parse_target(tvm.target.Target(given)).arch == arch


def test_texts_of_several_lines_are_part_of_a_programs_key():
    from tilelang.ir.text import program_text

    def program(source, message):
        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            T.import_source(source)
            with T.Kernel(1, threads=32):
                T.print(message)

        return main

    texts = {program_text(program(source, f"{said}\nline")) for source in ("int f();\n", "int g();\n") for said in "ab"}
    assert len(texts) == 4
