"""Programs that nest deeper than Python lets functions call each other: it compiles their text, and so must tracing it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from testing.python.target.cuda.support import source
from tilelang import interpreter
from tilelang.errors import MisplacedError, TraceError
from tilelang.ir.visit import walk
from tilelang.recursion import recursion

PROGRAM = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.serial(4):
{body}
"""


def program(folder: Path, body: str) -> Any:
    """A program whose text is generated: Python reads it from a file."""
    path = folder / "deep_program.py"
    path.write_text(PROGRAM.format(body=body))
    spec = importlib.util.spec_from_file_location("deep_program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def branches(count: int) -> str:
    return "\n".join(f"            {'el' * (k > 0)}if A[i] == {k}: B[i] = {3 * k}" for k in range(count))


def test_a_sum_of_many_terms(tmp_path: Path) -> None:
    found = program(tmp_path, "            B[i] = " + " + ".join(f"A[i] * {k}" for k in range(500)))
    a, b = torch.arange(4, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    assert not interpreter.run(found, a, b)
    assert torch.equal(b, a * sum(range(500)))


def test_a_choice_among_many_numbers(tmp_path: Path) -> None:
    found = program(tmp_path, branches(200))
    assert source(found).count("else") == 199


def test_hundreds_of_branches_run(tmp_path: Path) -> None:
    """Not only the walks of the targets' steps are deep: so are those that end a trace, and the interpreter's."""
    found = program(tmp_path, branches(400))
    a, b = torch.tensor([0, 3, 399, 400], dtype=torch.int32), torch.full((4,), -1, dtype=torch.int32)
    assert not interpreter.run(found, a, b)
    assert b.tolist() == [0, 9, 1197, -1]


def test_statements_that_are_too_deep_for_the_stack(tmp_path: Path) -> None:
    with pytest.raises(MisplacedError, match=r"nested more than \d+ deep(.|\n)*deep_program.py:\d+(.|\n)*elif A"):
        program(tmp_path, branches(700))


def test_endless_calls_are_an_error_at_the_line_of_the_program(tmp_path: Path) -> None:
    endless = "            def more(k): return more(k + 1)\n            B[i] = more(0)"
    with pytest.raises(TraceError, match=r"RecursionError(.|\n)*deep_program.py:\d+"):
        program(tmp_path, endless)


@pytest.mark.parametrize("count", [20, 80])
def test_positions_are_given_once(tmp_path: Path, count: int) -> None:
    """Each arm's statement has the line that it stands in, however deep."""
    lines = {int(stmt.span.line) for stmt in walk(program(tmp_path, branches(count)).body) if hasattr(stmt, "indices")}
    assert lines == {*range(8, 8 + count)}


def test_the_limit_of_calls_is_the_largest_that_is_asked_for() -> None:
    """Threads that compile begin and end in any order."""
    before = sys.getrecursionlimit()
    first, second = recursion(before + 1000), recursion(before + 500)
    first.__enter__()
    second.__enter__()
    assert sys.getrecursionlimit() == before + 1000
    first.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before + 500
    second.__exit__(None, None, None)
    assert sys.getrecursionlimit() == before
