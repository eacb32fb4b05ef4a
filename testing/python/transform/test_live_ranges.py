"""Live-range splitting: the programs compute what Python computes, and values that never meet are apart."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from testing.python.target.definition import check_meaning
from tilelang import interpreter
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_local
from tilelang.ir.visit import walk

VARIABLES = ("a", "b", "c")
SIZE = 16


class _Python:
    """What the programs need of the language, as Python."""

    @staticmethod
    def serial(count: int) -> range:
        return range(count)


class _Text:
    """A random program over three variables: assignments, branches on data, loops that are left early, results on the way."""

    def __init__(self, seed: int):
        self.random, self.results = random.Random(seed), 0
        self.lines = self.block(1, False)

    def block(self, depth: int, loop: bool) -> list[str]:
        count = self.random.randint(2, 5)
        return [line for _ in range(count) for line in self.statement(depth, loop)]

    def statement(self, depth: int, loop: bool) -> list[str]:
        kinds = (
            ["assign"] * 4
            + ["result"] * 2
            + (["branch", "counted", "repeated"] if depth < 4 else [])
            + (["jump"] if loop else [])
        )
        return getattr(self, self.random.choice(kinds))(depth, loop)

    def value(self) -> str:
        left, right = (self.random.choice([*VARIABLES, f"A[{self.random.randrange(SIZE)}]", "3"]) for _ in range(2))
        return f"({left} {self.random.choice('+-*')} {right}) % 7"

    def assign(self, depth: int, loop: bool) -> list[str]:
        return [f"{self.random.choice(VARIABLES)} = {self.value()}"]

    def result(self, depth: int, loop: bool) -> list[str]:
        self.results += 1
        return [f"O[{self.results - 1}] = {self.random.choice(VARIABLES)}"]

    def branch(self, depth: int, loop: bool) -> list[str]:
        sides = [self.block(depth + 1, loop) for _ in range(self.random.randint(1, 2))]
        lines = [f"if {self.value()} < 3:", *("    " + line for line in sides[0])]
        return lines + (["else:", *("    " + line for line in sides[1])] if len(sides) > 1 else [])

    def jump(self, depth: int, loop: bool) -> list[str]:
        return [f"if {self.value()} == 2:", f"    {self.random.choice(['break', 'continue'])}"]

    def counted(self, depth: int, loop: bool) -> list[str]:
        return [f"for i{depth} in T.serial(3):", *("    " + line for line in self.block(depth + 1, True))]

    def repeated(self, depth: int, loop: bool) -> list[str]:
        # `n` counts, so that the loop ends.
        body = [f"n{depth} = n{depth} + 1", *self.block(depth + 1, True)]
        head = [f"n{depth} = 0", f"while n{depth} < 4 and {self.value()} != 1:"]
        return [*head, *("    " + line for line in body)]


def _kernel(lines: list[str], name: str) -> str:
    counters = [f"n{depth}" for depth in range(1, 5)]
    allocated = [f'{variable} = T.alloc_var("int32", init={i})' for i, variable in enumerate((*VARIABLES, *counters))]
    body = "\n".join(" " * 12 + line for line in (*allocated, *lines))
    return (
        "import tilelang.language as T\n\n\n@T.prim_func\n"
        f'def {name}(A: T.Tensor(({SIZE},), "int32"), O: T.Tensor((64,), "int32")):\n    if True:\n'
        f"        with T.Kernel(1, threads=32):\n{body}\n"
    )


def _traced(lines: list[str], name: str) -> Any:
    source = _kernel(lines, name)
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)
    return scope[name]


def _in_python(lines: list[str], a: list[int]) -> list[int]:
    out = [0] * 64
    scope = {"T": _Python, "A": a, "O": out, **{name: i for i, name in enumerate((*VARIABLES, "n1", "n2", "n3", "n4"))}}
    exec("\n".join(lines), scope)
    return out


@pytest.mark.parametrize("part", range(4))
def test_random_programs_compute_what_python_computes(part):
    found = 0
    for seed in range(part * 15, part * 15 + 15):
        text = _Text(seed)
        program = _traced(text.lines, f"program_{seed}")
        a = [random.Random(seed).randrange(7) for _ in range(SIZE)]
        out = torch.zeros(64, dtype=torch.int32)
        interpreter.run(program, torch.tensor(a, dtype=torch.int32), out)
        assert out.tolist() == _in_python(text.lines, a), (seed, "\n".join(text.lines))
        found += len(_variables(program)) > 7
    print(found, "of 15 programs have more variables than their text")
    assert found > 3


def _variables(program: Any) -> list[str]:
    return [str(stmt.buffer.name) for stmt in walk(program.body) if isinstance(stmt, ir.AllocBuffer) and is_local(stmt.buffer)]


def test_values_that_meet_stay_in_one_variable():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            total, other = T.alloc_var("int32", init=0), T.alloc_var("int32", init=0)
            for i in T.serial(8):
                if A[i] > 2:
                    total = total + A[i]
                other = A[i]
                B[i] = other
            other = total
            B[0] = other

    assert sorted(_variables(main)) == ["other", "other", "total"]


def test_a_variable_that_an_operator_fills_is_one():
    """Also where it reads the variable itself."""

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            place = T.alloc_local((1,), "int32")
            place[0] = 2
            B[0] = place[0]
            place[0] = 3
            T.copy(A[place[0] : place[0] + 1], place)
            B[1] = place[0]

    assert _variables(main) == ["place"]
    a, b = torch.arange(8, dtype=torch.int32) * 10, torch.zeros(8, dtype=torch.int32)
    interpreter.run(main, a, b)
    assert b.tolist() == [2, 30, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("by", ["operator", "loop", "sum"])
def test_the_next_tile_that_one_thread_asks_for(by, arch):
    """``tile`` differs between threads only until all of them take what the one has handed on."""

    @T.prim_func
    def main(sums: T.Tensor((64, 32), "float32"), taken: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            handed, values = T.alloc_shared((1,), "int32"), T.alloc_fragment((16, 32), "float32")
            tile = T.alloc_var("int32", init=0)
            for _ in T.serial(5):
                if tx == 0:
                    tile = T.atomic_add(taken[0], 1, return_prev=True)
                    handed[0] = tile
                T.sync_threads()
                tile = handed[0]
                T.sync_threads()
                if tile < 4:
                    T.fill(values, tile + 1)
                    if by == "operator":
                        T.atomic_add(sums[tile * 16, 0], values)
                    elif by == "loop":
                        for i, j in T.Parallel(16, 32):
                            T.atomic_add(sums[tile * 16 + i, j], values[i, j])
                    else:
                        for i, j in T.Parallel(16, 32):
                            sums[tile * 16 + i, j] += values[i, j]

    found, taken = torch.zeros(64, 32), torch.zeros(1, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=cuda(arch))(found, taken)
    assert torch.equal(found, torch.arange(1.0, 5).repeat_interleave(16)[:, None].expand(64, 32))
    check_meaning(main, torch.zeros(64, 32), torch.zeros(1, dtype=torch.int32))


@pytest.mark.parametrize("value", ["load", "part", "either", "alike"])
def test_operators_at_what_threads_may_disagree_on_are_each_threads(value):
    """Whether they do does not matter: the text says how often the sum is changed."""

    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), sums: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            tile, row = T.alloc_shared((8,), "float32"), T.alloc_var("int32", init=0)
            T.fill(tile, 1)
            if value == "load":
                row = A[tx]
            elif value == "part":
                if tx < 16:
                    row = A[0]
            elif value == "either":
                if tx < 16:
                    row = A[0]
                else:
                    row = A[1]
            else:
                row = A[0]
            T.atomic_add(sums[row, 0:8], tile)

    sums = torch.zeros(32, 8)
    check_meaning(main, torch.zeros(32, dtype=torch.int32), sums)
    interpreter.run(main, torch.zeros(32, dtype=torch.int32), sums.zero_())
    assert sums[0].tolist() == [1.0 if value == "alike" else 32.0] * 8
