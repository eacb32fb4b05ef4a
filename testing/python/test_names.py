"""Names beside the language that programs use: sizes on the host, TVM's expressions."""

import subprocess
import sys

import pytest

import tilelang


@pytest.mark.parametrize(("n", "power"), [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_next_power_of_2(n, power):
    assert tilelang.next_power_of_2(n) == tilelang.math.next_power_of_2(n) == power


def test_cdiv_rounds_up():
    assert [tilelang.cdiv(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]


ORDERS = ("import tilelang; from tvm import tirx", "from tvm import tirx; import tilelang")


@pytest.mark.parametrize("imports", ORDERS)
def test_expressions_of_tvm_have_a_dtype_whoever_loads_it_first(imports):
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


def test_the_package_does_not_load_tvm():
    program = "import sys, tilelang, tilelang.language; sys.exit('tvm' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
