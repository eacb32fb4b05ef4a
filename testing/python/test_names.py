"""Names beside the language that programs use: sizes on the host, TVM's expressions."""

import subprocess
import sys
import types

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError


@pytest.mark.parametrize(("n", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_next_power_of_2(n, power):
    assert tilelang.next_power_of_2(n) == tilelang.math.next_power_of_2(n) == power


def test_cdiv_rounds_up():
    assert [tilelang.cdiv(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]


ORDERS = ("import tilelang; from tvm import tirx", "from tvm import tirx; import tilelang")


@pytest.mark.parametrize("imports", ORDERS)
def test_expressions_of_tvm_have_a_dtype_in_any_order_of_imports(imports):
    program = f"""{imports}
import tilelang.language as T
def helper(value: tirx.PrimExpr): return value.dtype
var, buffer = tirx.Var("v", "uint8"), tirx.decl_buffer((4,), "int8")
found = [helper(e) for e in (var, var + var, var.astype("float16"), buffer[0], tirx.const(1, "int64"), buffer)]
assert found == [T.uint8, T.uint8, T.float16, T.int8, T.int64, T.int8], found
assert not hasattr(buffer.data, "dtype")
from tilelang import DataType, tvm
assert DataType(T.float16).bits == 16 and tvm.tirx is tirx
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_modules_of_the_language_are_reached_without_an_import():
    program = "import tilelang.language as T; assert T.builtin.sync_threads is T.sync_threads and T.reduce_op.reduce_sum"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_dtype_is_made_of_any_name_of_it():
    assert [T.dtype(name) for name in ("uint", "half", "float16x8", torch.bfloat16)] == [
        T.uint,
        T.float16,
        T.float16x8,
        T.bfloat16,
    ]
    assert T.dtype("uint") == "uint32" and isinstance(T.dtype("int"), T.dtype)
    with pytest.raises(CompileError, match="unknown dtype 'flot16'"):
        T.dtype("flot16")


def test_the_package_does_not_load_tvm():
    program = "import sys, tilelang, tilelang.language; sys.exit('tvm' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_looking_for_tvm_before_it_is_imported_keeps_the_names():
    program = (
        "import tilelang, importlib.util; assert importlib.util.find_spec('tvm.tirx');"
        "from tvm import tirx; assert tirx.PrimExpr and str(tirx.const(1, 'int32').dtype) == 'int32'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_modules_that_programs_import():
    from tilelang.contrib.nvcc import get_target_compute_version, parse_compute_version
    from tilelang.cuda.intrinsics import make_mma_swizzle_layout
    from tilelang.language.dtypes import dtype, float16
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type
    from tilelang.transform import PassConfigKey

    assert parse_compute_version(get_target_compute_version({"kind": "cuda", "arch": "sm_90a"})) == (9, 0)
    assert isinstance(float16, dtype) and PassConfigKey is tilelang.PassConfigKey
    assert determine_fp8_type() == "float8_e4m3fn" and determine_torch_fp8_type("e5m2").itemsize == 1
    assert make_mma_swizzle_layout(types.SimpleNamespace(shape=(16, 64), dtype="float16")).shape == (16, 64)


def test_layouts_become_pictures(tmp_path):
    from tilelang.layout import Fragment, make_full_bank_swizzled_layout
    from tilelang.tools import plot_layout

    fragment = Fragment((8, 8), lambda i, j: (i * 4 + j // 2, j % 2))
    picture = plot_layout(fragment, str(tmp_path), "fragment").read_text()
    assert picture.count("<rect") == 64 and ">T31:1<" in picture
    swizzled = plot_layout(make_full_bank_swizzled_layout(8, 64, 16), str(tmp_path), "memory").read_text()
    assert f'y="{36 + 22}">72<' in swizzled  # row 1 begins with its second chunk of eight


def test_the_architecture_of_a_compute_capability():
    from tilelang.contrib.nvcc import get_target_arch

    assert [get_target_arch(version) for version in ("8.0", "8.9", (9, 0), "9.0")] == ["80", "89", "90a", "90a"]


def _assembled(names):
    from tilelang.language.eager.builder import Builder

    @T.macro
    def body(tensors, scale):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                tensors["B"][i] = tensors["A"][i] * scale

    builder = Builder()
    with builder.prim_func("scaled"):
        tensors = {name: builder.arg(name, T.Tensor((8,), "float32")) for name in names}
        body(tensors, builder.arg("scale", T.float32))
    return builder.get()


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_a_builder_makes_a_program_of_a_list_of_parameters(target):
    program = _assembled(["A", "B"])
    given, result = torch.arange(8.0), torch.zeros(8)
    tilelang.compile(program, target=target)(given, result, 3.0)
    assert program.attrs["global_symbol"] == "scaled" and torch.equal(result, given * 3)


def test_a_builder_out_of_order_is_an_error_at_its_line():
    from tilelang.language.eager.builder import Builder

    with pytest.raises(CompileError, match=r"Builder\.arg only works inside.*prim_func(.|\n)*test_names\.py"):
        Builder().arg("A", T.Tensor((8,), "float32"))
    with pytest.raises(CompileError, match=r"Builder\.get only works after"):
        Builder().get()


@pytest.mark.parametrize(
    "mistake, meant",
    [
        ("import tilelang; tilelang.JITKernal", "'JITKernel'"),
        ("import tilelang.language as T; T.gemn", "'gemm'"),
        ("from tilelang.env import env; env.TILELANG_CACHE_DRI", "'TILELANG_CACHE_DIR'"),
    ],
)
def test_a_mistaken_attribute_has_one_hint_on_the_terminal(mistake, meant):
    """Python would append its own hint to the error's."""
    shown = subprocess.run([sys.executable, "-c", mistake], capture_output=True, text=True).stderr.splitlines()[-1]
    assert shown.endswith(f"did you mean {meant}?") and shown.lower().count("did you mean") == 1
