"""Parameters without effect warn once when they are set, and the page on the language lists them."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import IgnoredParameterWarning
from tilelang.ignored import ignored, reset, unless
from tilelang.profiler.bench import do_bench

PACKAGE = Path(tilelang.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "language.md").read_text()


@pytest.fixture(autouse=True)
def nothing_warned():
    reset()
    yield
    reset()


def sample(hint=None, flag=False, size=1):
    ignored("sample", hint=hint, flag=flag, size=unless(1, size))


def test_a_value_other_than_the_default_warns_once():
    with pytest.warns(IgnoredParameterWarning) as caught:
        sample(hint=3)
        sample(hint=4)
        sample(size=2)
    assert [str(each.message) for each in caught] == ["sample: hint=3 has no effect", "sample: size=2 has no effect"]
    assert caught[0].filename == __file__


def test_false_is_set_where_the_default_is_true():
    with pytest.warns(IgnoredParameterWarning, match="do_bench: fast_flush=False has no effect") as caught:
        do_bench(lambda: None, warmup=0, rep=0, fast_flush=False, backend="wall")
    assert caught[0].filename == __file__


def test_a_warning_names_the_users_line_through_decorators():
    with pytest.warns(IgnoredParameterWarning, match="jit: debug_root_path=") as caught:
        tilelang.jit(debug_root_path="folder")
    assert caught[0].filename == __file__


def test_defaults_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample()
        sample(hint="", flag=False, size=1)


def factory(n, annotations):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile, annotations=annotations)
            T.copy(tile, B)

    return main


def test_a_program_with_an_ignored_annotation_is_compiled_and_keeps_its_shortcut():
    with pytest.warns(IgnoredParameterWarning, match=r"T\.copy: annotations="):
        kernel = tilelang.jit(out_idx=[-1], target="cpu")(factory)(64, ("unknown", 1))
    assert kernel.source_reason == ""


def test_a_barrier_of_a_product_that_is_complete():
    def kernel(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile, total, full = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32"), T.alloc_barrier([1])
            T.copy(A, tile)
            T.gemm(tile, tile, total, clear_accum=True, mbar=full[0])
            T.copy(total, C)

    with pytest.warns(IgnoredParameterWarning, match=r"T\.gemm: mbar=full\[0\] has no effect"):
        T.prim_func(kernel)


def test_the_default_of_an_argument_of_a_program():
    def scaled(A: T.Tensor((64,), "float32"), s: T.float32 = 3.0):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] * s

    with pytest.warns(IgnoredParameterWarning, match="the default of an argument of scaled: s=3.0 has no effect") as caught:
        T.prim_func(scaled)
    assert caught[0].filename == __file__


def calls() -> Iterator[tuple[str, list[str]]]:
    """(function, parameters) of each call of ``ignored`` in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ignored":
                names = [keyword.arg or "private" for keyword in node.keywords]
                yield ast.unparse(node.args[0]).strip("f'").partition("{")[0], names


def test_the_page_lists_every_one():
    section = PAGE.partition("## Parameters without effect")[2].partition("\n## ")[0]
    found = list(calls())
    assert len(found) > 25
    for function, names in found:
        rows = [row for row in section.splitlines() if re.search(rf"\b{re.escape(function)}", row)]
        assert any(all(f"`{name}`" in row for name in names) for row in rows), (function, names)
