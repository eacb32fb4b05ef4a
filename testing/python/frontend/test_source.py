"""Kernels without a file of their own: text given to ``exec``, and modules whose text only ``linecache`` has."""

from __future__ import annotations

import ast
import importlib
import linecache
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SourceUnavailableError, TraceError

ADDING = """
import tilelang, tilelang.language as T

@tilelang.jit(out_idx=[-1], target="cpu")
def factory(N, times=False):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if times:
                    B[i] = A[i] * 2
                else:
                    B[i] = A[i] + NUMBER
    return main

@tilelang.jit(target="cpu")
def eager(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            B[i] = A[i] - NUMBER
    return B
"""


def loaded(text: str, name: str | None = None) -> dict:
    """What a text defines; it is gone when this returns, as a program's own loader may have it."""
    names: dict = {}
    exec(text if name is None else compile(text, name, "exec"), names)
    return names


def test_text_given_to_exec():
    a = torch.arange(4.0)
    five, six = (loaded(ADDING.replace("NUMBER", number)) for number in ("5", "6"))
    for names, number in ((five, 5), (six, 6), (five, 5)):
        assert torch.equal(names["factory"](4)(a), a + number)
        assert torch.equal(names["factory"](4, times=True)(a), a * 2)
        assert torch.equal(names["eager"](a), a - number)


def test_a_program_in_a_literal():
    names = {"T": T}
    exec(
        """
@T.prim_func
def main(A: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            A[i] = 7
""",
        names,
    )
    a = torch.zeros(4)
    tilelang.compile(names["main"], target="cpu")(a)
    assert (a == 7).all()


def test_a_generated_module():
    name = "<generated for a test>"
    text = ADDING.replace("NUMBER", "9")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    assert torch.equal(loaded(text, name)["eager"](torch.zeros(4)), torch.full((4,), -9.0))


def test_a_cell_of_a_notebook_keeps_its_shortcut():
    """A notebook compiles its cells statement by statement: what a call loads first then differs from a module's code."""
    name = "<cell of a notebook>"
    text = ADDING.replace("NUMBER", "12")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict = {}
    for statement in ast.parse(text, name).body:
        exec(compile(ast.Module([statement], []), name, "exec", dont_inherit=True), names)
    kernel = names["factory"](4)
    assert kernel.source_reason == ""
    assert torch.equal(kernel(torch.zeros(4)), torch.full((4,), 12.0))
    assert torch.equal(names["eager"](torch.zeros(4)), torch.full((4,), -12.0))


def test_errors_show_the_line_of_the_text():
    names = loaded(ADDING.replace("NUMBER", "oops"))
    with pytest.raises(TraceError, match="name 'oops' is not defined") as failed:
        names["factory"](4)
    assert "  --> <string>:13\n  13 |                     B[i] = A[i] + oops\n" in str(failed.value)


def test_exec_of_bytes_has_no_source():
    pieces = ADDING.replace("NUMBER", "11").encode()
    names: dict = {}
    exec(pieces, names)
    with pytest.raises(SourceUnavailableError, match=r"the source of main\(\) is not available"):
        names["factory"](4)


LONG = """
import tilelang, tilelang.language as T

@T.macro
def write(B, i, value):
    B[i] = value

@tilelang.jit(target="cpu")
def eager(A):
    A: T.Tensor((LENGTH,), "float32")
    B = T.empty((8,), "float32")
    with T.Kernel(1, threads=1):
        for i in T.serial(8):
            write(B, i, A.shape[0])
    return B
"""


@pytest.mark.parametrize("name", [None, "<cell>"])
def test_texts_that_differ_in_an_annotation_alone(name):
    """No annotation of a local variable is compiled: the functions of both texts have equal code."""
    found = []
    for length in (4, 8):
        text = LONG.replace("LENGTH", str(length))
        if name is not None:
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        found.append(loaded(text, name)["eager"])
        assert found[-1](torch.zeros(length))[0] == length
    assert found[0].function.__code__ == found[1].function.__code__
    for function, length in zip(found, (4, 8)):
        assert function(torch.zeros(length))[0] == length


def test_modules_that_differ_in_an_annotation_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, length in (("equal_one", 4), ("equal_two", 8)):
        (tmp_path / f"{name}.py").write_text(LONG.replace("LENGTH", str(length)))
        assert importlib.import_module(name).eager(torch.zeros(length))[0] == length


def test_a_module_that_is_loaded_again_with_another_annotation(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    file = tmp_path / "loaded_again.py"
    for length in (4, 8888):
        file.write_text(LONG.replace("LENGTH", str(length)))
        importlib.invalidate_caches()
        module = importlib.reload(sys.modules["loaded_again"]) if length > 4 else importlib.import_module("loaded_again")
        assert module.eager(torch.zeros(length))[0] == length
