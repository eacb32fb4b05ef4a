"""What a program puts into libraries, into numpy's settings and into our own objects is part of a fingerprint."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys

import pytest

import tilelang
import tilelang.language as T
from tilelang.fingerprint import Describer, Unfaithful, Watch
from tilelang.ir import nodes
from tilelang.layout import Layout

np = pytest.importorskip("numpy")


@T.macro
def macro(x):
    return x


@tilelang.jit
def factory():
    return None


def described(function):
    describer = Describer()
    describer.value(function, is_given=False)
    describer.finish()
    return describer.digest(), Watch(describer.records)


def numpy_divides():
    return np.divide(1.0, 3.0)


def numpy_prints():
    return str(np.array([1 / 3]))


READS = {
    # name -> (what reads, what holds the attribute, the attribute, its new value)
    "a macro's attribute": (lambda: macro.tile, macro, "tile", 5),
    "a factory's attribute": (lambda: factory.tile, factory, "tile", 5),
    "a function of the language's": (lambda: T.ceildiv.tile, T.ceildiv, "tile", 5),
    "a dtype's attribute": (lambda: T.float32.tile, type(T.float32), "tile", 5),
    "a dtype's property": (lambda: T.float32.bits, type(T.float32), "bits", property(lambda dtype: 5)),
    "our function's attribute": (lambda: Layout.tile, Layout, "tile", 5),
    "numpy's ufunc by another": (lambda: np.minimum(3, 5), np, "minimum", np.maximum),
    "numpy's ufunc by the user's": (lambda: np.maximum(3, 5), np, "maximum", np.frompyfunc(lambda a, b: 5, 2, 1)),
    "numpy's function by another": (lambda: np.prod([3, 5]), np, "prod", np.sum),
    "numpy's dtype by another": (lambda: np.float32(1 / 3), np, "float32", np.float64),
}


@pytest.mark.parametrize("name", READS)
def test_an_attribute_that_was_set_counts(name, monkeypatch):
    reads, holder, attribute, value = READS[name]
    before, watch = described(reads)
    monkeypatch.setattr(holder, attribute, value, raising=False)
    assert not watch.holds()
    with contextlib.suppress(Unfaithful):
        assert described(reads)[0] != before


SETTINGS = [(numpy_divides, np.errstate(all="raise")), (numpy_prints, np.printoptions(precision=3))]


@pytest.mark.parametrize("function, changed", SETTINGS)
def test_settings_of_numpy_count(function, changed):
    before, watch = described(function)
    with changed:
        assert not watch.holds()
        assert described(function)[0] != before
    assert described(function)[0] == before


def test_state_that_no_program_touched_is_the_same_before_and_after_it_is_loaded():
    def reads():
        return T.float32.bits, T.ceildiv(4, 3), T.GemmWarpPolicy.Square.value

    before, _ = described(reads)
    reads()
    assert described(reads)[0] == before


UNLOADED = """
import sys
import tilelang
import tilelang.language as T
from tilelang.fingerprint import Describer

def reads():
    return (T.cdiv(9, 2), T.DataType("float16").bits, tilelang.math.next_power_of_2(9), tilelang.cdiv(9, 2),
            tilelang.layout.make_swizzled_layout, T.builtin.sync_threads, T.Add)

def digest():
    describer = Describer()
    describer.value(reads, is_given=False)
    describer.finish()
    return describer.digest()

before = digest()
assert "tvm" not in sys.modules
assert reads()[:2] == (5, 16)
assert digest() == before
"""


def test_names_that_an_access_makes_are_the_same_before_and_after_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(UNLOADED)
    subprocess.run([sys.executable, program], check=True)


def test_classes_of_expressions_count_by_name_unless_they_are_replaced(monkeypatch):
    class Other:
        pass

    def reads(x):
        return isinstance(x, (T.Add, nodes.Mul))

    before, watch = described(reads)
    monkeypatch.setattr(T, "Add", Other)
    assert not watch.holds()
    assert described(reads)[0] != before


@pytest.mark.parametrize("note", [tilelang.JITKernel, nodes.PrimFunc, tilelang.JITKernel | None])
def test_a_function_may_be_annotated_with_what_it_returns(note):
    def returns():
        return 1

    returns.__annotations__["return"] = note
    first, _ = described(returns)
    returns.__annotations__["return"] = int
    assert described(returns)[0] != first


@pytest.fixture
def without_source_kernels(monkeypatch):
    """Where a test before has used ``T.CUDASourceCodeKernel``, which reads files, the language as a value may read some, too."""
    monkeypatch.delitem(T.__dict__, "CUDASourceCodeKernel", raising=False)


@pytest.mark.usefixtures("without_source_kernels")
def test_the_language_as_a_value_keeps_its_names(monkeypatch):
    name = "float32"

    def reads():
        return getattr(T, name)

    before, _ = described(reads)
    monkeypatch.setattr(T, "float32", T.float64)
    assert described(reads)[0] != before


@pytest.mark.usefixtures("without_source_kernels")
def test_the_language_as_a_value_is_the_same_after_imports_of_public_paths():
    name = "float32"

    def reads():
        return getattr(T, name)

    before, _ = described(reads)
    importlib.import_module("tilelang.cuda.language.intrinsics")  # binds `intrinsics` in the language's own module
    assert described(reads)[0] == before


CONSTANTS = ["T.int32(3)", "T.int32(4)", "T.int64(3)", "T.float32(3)", "T.float32(-0.0)", "T.float32(0.0)", "T.float16(3)"]


def test_typed_constants_of_a_module_count_by_type_and_value():
    factories = [eval(f"(lambda V: lambda: V)({text})", {"T": T}) for text in CONSTANTS]
    digests = [described(each)[0] for each in factories]
    assert len(set(digests)) == len(CONSTANTS)
    assert described(eval("(lambda V: lambda: V)(T.int32(3))", {"T": T}))[0] == digests[0]


def test_functions_that_numpy_calls_count_by_what_they_read():
    table = np.arange(2)
    values = [4]

    def prints():
        return str(table)

    def raises(*_):
        raise KeyError(values[0])

    with np.printoptions(formatter={"int": lambda _: str(values[0])}):
        before = described(prints)[0]
        values[0] = 5
        assert described(prints)[0] != before
    with np.errstate(all="call", call=raises):
        before = described(prints)[0]
        values[0] = 6
        assert described(prints)[0] != before
