"""The public names of the reference package: each is here, or is refused with a reason when it is used."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python import compatibility
from testing.python.parameters import PARAMETERS, unlike
from tilelang.engine.param import KernelParam
from tilelang.errors import CompileError, ExecutionError
from tilelang.refusals import REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_the_page_agrees_with_the_package():
    assert PAGE.read_text() == compatibility.page(), "run python -m testing.python.compatibility > docs/compatibility.md"


def _listed():
    """(module, name of a function, class or member, whether the page says that it is the same)."""
    for module, names in PARAMETERS.items():
        for name in names:
            whole = name.partition(".")[0].removesuffix("()")
            if compatibility.state(module, whole)[0] == "same":
                yield module, name, name not in compatibility.MEMBERS


def test_what_is_the_same_takes_the_same_arguments():
    found = {f"{module}.{name}": unlike(module, name) for module, name, same in _listed() if same}
    assert {name: why for name, why in found.items() if why} == {}


def test_members_that_are_listed_as_different_are():
    found = {name: unlike(module, name) for module, name, same in _listed() if not same}
    assert found.keys() == compatibility.MEMBERS.keys()
    assert [name for name, why in found.items() if not why] == []


def test_every_refused_name_is_a_public_name_and_has_one_reason():
    for module, reasons in REFUSED.items():
        names = [name for listed in reasons.values() for name in listed.split()]
        assert len(set(names)) == len(names), module
        assert set(names) <= set(compatibility.NAMES[module]), (module, set(names) - set(compatibility.NAMES[module]))


def test_a_refused_name_is_an_error_where_it_is_used():
    from tilelang.layout import make_ascend_nz_layout

    with pytest.raises(CompileError, match="T.tcgen05_gemm_blockscaled is not available: it is of sm_100 and later"):
        T.tcgen05_gemm_blockscaled(1, 2)
    with pytest.raises(CompileError, match="tilelang.layout.make_ascend_nz_layout is not available: it is for devices"):
        make_ascend_nz_layout(None)
    with pytest.raises(AttributeError, match="did you mean 'gemm"):
        _ = T.gem


@pytest.mark.parametrize("name", [name for listed in REFUSED["tilelang.language"].values() for name in listed.split()])
def test_a_refused_name_of_the_language_can_be_had_and_is_refused_at_its_call(name):
    refused = getattr(T, name)

    def program():
        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                refused(A, 1)

    with pytest.raises(CompileError, match=f"T.{name} is not available: ") as caught:
        program()
    assert "refused(A, 1)" in str(caught.value)


def test_a_refused_dtype_is_refused_where_it_is_used():
    with pytest.raises(CompileError, match="T.float4_e2m1_unpacked is not available: it is of sm_100"):
        T.Tensor((8,), T.float4_e2m1_unpacked)


def test_programs_import_from_everywhere():
    from tilelang.backend.target import determine_target

    from tilelang.autotuner.param import AutotuneResult, KernelParam  # noqa: F401
    from tilelang.engine import lower  # noqa: F401
    from tilelang.engine.lower import lower as function
    from tilelang.engine.param import KernelParam as Param  # noqa: F401
    from tilelang.env import env
    from tilelang.jit import JITImpl, JITKernel
    from tilelang.layout.swizzle import make_full_bank_swizzled_layout  # noqa: F401
    from tilelang.profiler.bench import suppress_stdout_stderr  # noqa: F401
    from tilelang.transform import simplify_prim_func  # noqa: F401
    from tilelang.utils.device import get_available_cpu_count, get_current_device  # noqa: F401

    assert tilelang.engine.lower is sys.modules["tilelang.engine.lower"] and function is tilelang.lower
    assert T.GemmWarpPolicy.from_warp_partition(4, 1) is T.GemmWarpPolicy.FullRow
    assert tilelang.env.TILELANG_VERBOSE is env.TILELANG_VERBOSE and tilelang.env.CUDA_HOME is env.CUDA_HOME
    assert get_available_cpu_count() >= 1 and JITKernel[int, str] is JITKernel and JITImpl[int] is JITImpl
    assert determine_target({"kind": "cuda", "arch": "sm_80"}) == {"kind": "cuda", "arch": "sm_80"}
    assert determine_target("cpu", return_object=True).kind.name == "llvm"
    assert env.TILELANG_DISABLE_CACHE in (True, False)
    with pytest.raises(AttributeError, match="did you mean 'TILELANG_CACHE_DIR'"):
        _ = env.TILELANG_CACHE_DRI


def test_variables_and_expressions_have_types():
    variable = T.Var("x")
    assert isinstance(variable, T.Var) and isinstance(variable, T.PrimExpr) and not isinstance(3, T.PrimExpr)
    assert isinstance(T.dynamic("n"), T.Var) and isinstance(variable + 1, T.PrimExpr) and not isinstance(variable + 1, T.Var)


def test_names_of_tvm_that_moved():
    from tilelang import tvm

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(n):
                A[i] = T.exp(A[i])

    found = []
    tvm.tirx.stmt_functor.post_order_visit(main.body, found.append)
    assert [node.op.name for node in found if isinstance(node, tvm.tirx.Call)] == ["tirx.exp"]
    x = tvm.tirx.SizeVar("x", "int32")
    doubled = tvm.tirx.stmt_functor.substitute(x + 1, {x: x * 2})
    assert tvm.ir.structural_equal(tvm.arith.Analyzer().simplify(doubled - 1), x * 2)
    assert isinstance(doubled, tvm.ir.PrimExpr)
    halved = tvm.tirx.stmt_functor.ir_transform(main.body, None, lambda part: part.args[0] / 2, ["tirx.Call"])
    tvm.tirx.stmt_functor.post_order_visit(halved, found.append)
    assert isinstance(found[-1], type(main.body)) and sum(isinstance(node, tvm.tirx.Call) for node in found) == 1
    with pytest.raises(CompileError, match="preorder is None"):
        tvm.tirx.stmt_functor.ir_transform(main.body, lambda part: None, None)
    with pytest.raises(tvm.TVMError):
        T.copy(1, 2)
    with pytest.raises(pytest.skip.Exception, match="no_such_package"):
        tvm.testing.requires_package("no_such_package")(lambda: None)()


def test_the_settings_object_sets_the_environment(monkeypatch):
    from tilelang.env import env

    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "0")
    env.disable_cache()
    assert not env.is_cache_enabled() and tilelang.env.get("TILELANG_DISABLE_CACHE")
    env.enable_cache()
    assert env.is_cache_enabled()


def test_nothing_is_loaded_before_a_name_is_used():
    program = "import sys, tilelang, tilelang.language; assert not {'torch', 'tvm', 'tilelang.refusals'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", program], check=True)


@tilelang.jit(target="cpu", out_idx=-1)
def doubled(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            with T.sblock("root"):
                T.reads(A[0])
                for i in T.serial(n):
                    with T.If(A[i] > 2):
                        with T.Then():
                            B[i] = A[i] * 2
                        with T.Else():
                            B[i] = -1

    assert list(main.buffer_map) == list(main.params)
    return main


def test_programs_that_transform_programs_construct_them():
    from tvm import tirx

    made = doubled.func(8)
    again = tirx.PrimFunc(list(made.params), made.body, ret_type=made.ret_type, buffer_map=made.buffer_map, attrs=made.attrs)
    assert tilelang.compile(again, target="cpu", out_idx=-1)(torch.arange(8.0)).tolist() == [-1, -1, -1, 6, 8, 10, 12, 14]
    source, result = made.params
    handle = tirx.Var("handle", "handle")
    assert list(tirx.PrimFunc([source, handle], made.body, buffer_map={handle: result}).params) == [source, result]


def test_executed_kernels_have_the_attributes_of_compiled_ones(tmp_path, capsys):
    kernel = doubled(8)
    assert kernel(torch.arange(8.0)).tolist() == [-1, -1, -1, 6, 8, 10, 12, 14]
    assert doubled.func(8).attrs["global_symbol"] == "main" and kernel.run_once().shape == (8,)
    assert list(doubled.signature.parameters) == list(inspect.signature(doubled.func).parameters)
    assert kernel.adapter.get_kernel_source() == kernel.kernel_source == kernel.artifact.device_mod
    kernel.print_source_code()
    kernel.print_source_code(file=tmp_path / "kernel.txt")
    assert capsys.readouterr().out.strip() == (tmp_path / "kernel.txt").read_text().strip()


def test_ptx_is_shown_and_written(tmp_path, capsys):
    program = doubled.func(8)
    kernel = tilelang.compile(program, out_idx=-1, target={"kind": "cuda", "arch": "sm_80"})
    kernel.show_ptx()
    kernel.export_ptx(tmp_path / "ptx" / "kernel.ptx")
    assert (tmp_path / "ptx" / "kernel.ptx").read_text().strip() == capsys.readouterr().out.strip() == kernel.artifact.ptx.strip()
    assert ".target sm_80" in kernel.artifact.ptx
    with pytest.raises(ExecutionError, match="main has no PTX: its target is"):
        doubled(8).show_ptx()


def test_parameters_tell_their_types():
    param, scale = doubled(8).params[0], KernelParam("s", "scalar", "uint8")
    assert param.torch_dtype() is torch.float32 and not param.is_scalar() and not param.is_unsigned()
    assert scale.is_scalar() and scale.is_unsigned() and scale.torch_dtype() is torch.uint8
    kinds = [KernelParam("x", "tensor", kind, (8,)) for kind in ("float8_e4m3fn", "float4_e2m1fn", "bool")]
    assert [(k.is_float8(), k.is_float4(), k.is_boolean()) for k in kinds] == [
        (True, False, False), (False, True, False), (False, False, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "dtype, options, message",
    [("float8_e4m3fn", {"round": "rs", "rbits": 1}, "stochastic rounding is of sm_100"),
     ("float4_e2m1fn", {"round": "rz"}, "float32 to float4_e2m1fn"), ("float4_e2m1fn", {"sat": False}, "keeps to its range")],
)  # fmt: skip
def test_casts_that_are_refused(dtype, options, message):
    with pytest.raises(CompileError, match=message):
        T.cast(1.5, dtype, **options)


def test_a_kernel_is_made_of_a_program():
    kernel = tilelang.JITKernel(doubled.func(8), [-1], target="cpu", execution_backend="ctypes")
    assert kernel(torch.arange(8.0)).tolist() == [-1, -1, -1, 6, 8, 10, 12, 14] and kernel.execution_backend == "ctypes"


def test_swizzled_places():
    from tilelang.cuda.intrinsics import get_ldmatrix_offset, get_swizzle_layout, mma_store_index_map

    assert get_swizzle_layout(1, 0, 64, "float16") == (0, 1, 8) and get_swizzle_layout(7, 33, 32, "float16") == (1, 7, 25)
    assert [get_ldmatrix_offset("A", lane, 0, 64) for lane in (1, 8, 16, 24)] == [(1, 0), (8, 0), (0, 8), (8, 8)]
    assert [get_ldmatrix_offset("B", lane, 0, 64, "int8", True) for lane in (8, 16)] == [(0, 16), (8, 0)]
    places = {mma_store_index_map(lane, local) for lane in range(32) for local in range(8)}
    assert places == {(row, column) for row in range(16) for column in range(16)}


def test_suppressed_output_is_not_seen(capfd):
    from tilelang.profiler.bench import suppress_stdout_stderr

    with suppress_stdout_stderr():
        subprocess.run([sys.executable, "-c", "print('inner')"], check=True)
        print("inner")
    print("outer")
    assert capfd.readouterr().out == "outer\n"


def test_functions_made_from_tables_take_names():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Buffer(shape=(8,), dtype="float32")):
        with T.Kernel(1, threads=32):
            for i in T.parallel(2, 8):
                B[i] = T.max(a=T.exp2(x=A[i]), b=T.if_then_else(cond=i > 4, t=T.float32(20), f=T.pow(x=A[i], y=2)))
            for i in T.serial(2):
                B[i] = T.ldexp(x1=A[i], x2=T.shift_left(x=1, y=2)) + T.ieee_add(x=A[i], y=1.0, rounding_mode="rz")
            C[:] = T.abs(x=A[:])

    a, b, c = torch.arange(8.0), torch.zeros(8), torch.zeros(8)
    tilelang.compile(main, target="cpu")(a, b, c)
    assert b.tolist() == [1, 18, 4, 9, 16, 32, 64, 128] and torch.equal(a, c)
    with pytest.raises(CompileError, match=r"T.exp2\(x\): missing a required argument: 'x'"):
        T.exp2(y=1.0)


def test_a_name_that_is_also_a_module_is_the_function():
    from tilelang.utils.deprecated import deprecated

    assert tilelang.utils.deprecated is deprecated and callable(T.allocate)
    with pytest.raises(AttributeError, match="no TL_DISABLE_TMA_LOWERR; did you mean 'TL_DISABLE_TMA_LOWER'"):
        _ = tilelang.PassConfigKey.TL_DISABLE_TMA_LOWERR


def test_machine_code_is_shown_and_written(tmp_path, capsys):
    kernel = tilelang.compile(doubled.func(8), out_idx=-1, target={"kind": "cuda", "arch": "sm_80"})
    kernel.show_sass()
    kernel.export_sass(tmp_path / "sass" / "kernel.sass")
    assert (tmp_path / "sass" / "kernel.sass").read_text().strip() == capsys.readouterr().out.strip()
    assert "EXIT" in (tmp_path / "sass" / "kernel.sass").read_text()
    usage = next(iter(kernel.resource_usage().values()))
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (usage["registers"], 0, 32)
    assert kernel.update_tuner_result(1.5, {"n": 8}, None).get_tuner_result()["latency"] == 1.5
    on_cpu = doubled(8)
    assert (on_cpu.n_regs, on_cpu.n_spills, on_cpu.n_max_threads) == (None, None, None)
    with pytest.raises(ExecutionError, match="main has no machine code of a GPU"):
        on_cpu.show_sass()
    with pytest.raises(AttributeError, match="JITKernel has no 'get_kernel_sorce'; did you mean 'get_kernel_source'"):
        on_cpu.get_kernel_sorce()


def test_layouts_answer_as_expressions():
    rows = T.Layout((4, 8), lambda i, j: [j, i])
    tile = T.Fragment((8, 8), forward_fn=lambda i, j: ((i * 8 + j) % 32, (i * 8 + j) // 32))
    assert rows.input_size == [4, 8] and rows.map_forward_index([1, 2]) == [2, 1]
    assert [str(each) for each in rows.index] == [str(each) for each in rows.get_forward_vars()[::-1]]
    assert tile.map_forward_index([4, 2]) == [1] and tile.map_forward_thread([4, 2]) == [2] and tile.input_size == [8, 8]
    from tilelang import tvm

    i, j = tile.get_forward_vars()
    place = {i: tvm.tirx.IntImm("int32", 5), j: tvm.tirx.IntImm("int32", 3)}
    known = (*tile.map_forward_thread([i, j]), *tile.map_forward_index([i, j]))
    values = [tvm.arith.Analyzer().simplify(tvm.tirx.stmt_functor.substitute(each, place)) for each in known]
    assert [int(each.value) for each in values] == [11, 1]
    assert str(tile.thread) == str(known[0]) and str(tile.get_linearized_forward_index()) == str(known[1])
