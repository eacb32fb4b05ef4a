"""Kernels without a file of their own: text given to ``exec``, and modules whose text only ``linecache`` has."""

from __future__ import annotations

import linecache

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
