"""Writes docs/cuda-walkthrough.md: what each step of the CUDA target makes of the README's GEMM.

    python -m testing.cuda_walkthrough

A test compares the page with what the compiler gives now.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import tilelang.language as T
from tilelang.target.cuda.compile import lower
from tilelang.target.cuda.pipeline import PIPELINE
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest

PAGE = Path(__file__).parent.parent / "docs" / "cuda-walkthrough.md"
_TARGET = {"kind": "cuda", "arch": "sm_80"}
_HEAD = """# One GEMM through the CUDA target

What `dump_ir=True` keeps of the README's GEMM (1024 x 1024 x 1024, tiles of 128 x 128 x 32, three stages) for sm_80: the program
before the first step, and after each step what it has become, or what has changed where most is as before. Device code stands in
the notation of its printer; a comment before a group of statements says what it does to the memory that barriers guard.
[cuda.md](cuda.md) says why the steps are there and where. `python -m testing.cuda_walkthrough` writes this page.
"""


def program():
    """The README's GEMM."""

    @T.prim_func
    def gemm(A: T.Tensor((1024, 1024), "float16"), B: T.Tensor((1024, 1024), "float16"), C: T.Tensor((1024, 1024), "float16")):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 32), "float16")
            B_shared = T.alloc_shared((32, 128), "float16")
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for k in T.Pipelined(32, num_stages=3):
                T.copy(A[by * 128, k * 32], A_shared)
                T.copy(B[k * 32, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(128, 128):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * 128, bx * 128])

    return gemm


def page() -> str:
    """The page as it should be."""
    dumps = lower(program(), CompileRequest(parse_target(_TARGET), dump_ir=True)).dumps
    texts = [text.decode() for _, text in sorted(dumps.items())]
    parts = [_HEAD, "## The program\n", _block(texts[0])]
    for step, before, after in zip(PIPELINE, texts, texts[1:]):
        parts += [f"## {step.name}\n", f"{step.reason[0].upper()}{step.reason[1:]}.\n", _changed(before, after)]
        parts += [f"Holds from here on: {_first_lower(step.verify.__doc__)}\n"]
    return "\n".join(parts)


def _first_lower(text: str) -> str:
    """A docstring as the end of a sentence."""
    text = " ".join(text.split())
    return text[0].lower() + text[1:]


def _changed(before: str, after: str) -> str:
    """The text after a step; the difference where most of it is that from before."""
    if before == after:
        return "Nothing changes here.\n"
    old, new = before.splitlines(), after.splitlines()
    if difflib.SequenceMatcher(None, old, new).ratio() < 0.7:
        return _block(after)
    return _block("\n".join(list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]), "diff")


def _block(text: str, kind: str = "") -> str:
    return f"```{kind}\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page())
