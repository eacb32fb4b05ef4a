"""Random programs mean the same as kernels and as plain Python.

A program is generated as text: mutable scalars, loops, conditions, breaks, stores. The text is run once by Python on a list of
integers and once as a kernel on the CPU. Every assignment is reduced modulo 97, so that no integer overflows, and ``while`` loops
share some fuel, so that each ends.
"""

import importlib.util
import random
import sys

import pytest
import torch

import tilelang

SIZE = 8
VARIABLES = ("x", "y", "z")

KERNEL = """
import tilelang.language as T


@T.prim_func
def main(A: T.Tensor(({size},), "int32")):
    with T.Kernel(1, threads=1):
        x = T.alloc_var("int32", init=1)
        y = T.alloc_var("int32", init=2)
        z = T.alloc_var("int32", init=3)
        fuel = T.alloc_var("int32", init=30)
{body}
        A[0] = x
        A[1] = y + z
"""

PLAIN = """
def main(A):
    if True:
        x, y, z, fuel = 1, 2, 3, 30
{body}
        A[0] = x
        A[1] = y + z
"""


class Generator:
    """Writes a random program."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.temporaries = 0

    def atom(self) -> str:
        names = [*VARIABLES, *self.loops, f"A[{self.index()}]", str(self.random.randint(-9, 20))]
        return self.random.choice(names)

    def index(self) -> str:
        base = self.random.choice([*VARIABLES, *self.loops, str(self.random.randint(0, 50))])
        return f"({base} + {self.random.randint(0, 7)}) % {SIZE}"

    def expression(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.2:
            return self.atom()
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        return self.random.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {self.random.randint(-3, 3)})",
                f"({a} // {self.random.choice([2, 3, -4])})",
                f"({a} % {self.random.choice([2, 5, 7])})", f"min({a}, {b})", f"max({a}, {b}, 0)", f"abs({a})",
                f"({a} if {self.condition(0)} else {b})", f"(({a} & 15) | ({b} & 3))", f"(({a} & 31) << 2)", f"-({a})",
            ]
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        a, b = self.expression(depth), self.expression(0)
        simple = self.random.choice(
            [f"{a} < {b}", f"{a} >= {b}", f"{a} == {b}", f"{a} != {b}", f"0 <= {a} < 40", f"{a} in (1, 2, 3)"]
        )
        if depth == 0 or self.random.random() < 0.6:
            return simple
        return self.random.choice([f"{simple} and {self.condition(0)}", f"{simple} or {self.condition(0)}", f"not ({simple})"])

    def emit(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, indent: int, budget: int) -> None:
        for _ in range(self.random.randint(1, budget)):
            self.statement(indent, budget - 1)

    def statement(self, indent: int, budget: int) -> None:
        kinds = ["assign", "assign", "augment", "store", "swap", "hold"]
        if budget > 0:
            kinds += ["if", "for", "for", "while"]
        if self.loops:
            kinds += ["leave"]
        getattr(self, f"{self.random.choice(kinds)}_")(indent, budget)

    def assign_(self, indent: int, budget: int) -> None:
        self.emit(indent, f"{self.random.choice(VARIABLES)} = ({self.expression()}) % 97")

    def augment_(self, indent: int, budget: int) -> None:
        name = self.random.choice(VARIABLES)
        self.emit(indent, f"{name} {self.random.choice(['+=', '-='])} {self.expression(1)}")
        self.emit(indent, f"{name} %= 97")

    def store_(self, indent: int, budget: int) -> None:
        self.emit(indent, f"A[{self.index()}] = ({self.expression()}) % 97")

    def swap_(self, indent: int, budget: int) -> None:
        a, b = self.random.sample(VARIABLES, 2)
        self.emit(indent, f"{a}, {b} = {b}, ({a} + {self.expression(0)}) % 97")

    def hold_(self, indent: int, budget: int) -> None:
        self.temporaries += 1
        name = f"held{self.temporaries}"
        self.emit(indent, f"{name} = {self.expression()}")
        self.store_(indent, budget)
        self.emit(indent, f"A[{self.index()}] = ({name} + {self.atom()}) % 97")

    def if_(self, indent: int, budget: int) -> None:
        self.emit(indent, f"if {self.condition()}:")
        self.block(indent + 1, budget)
        if self.random.random() < 0.5:
            self.emit(indent, f"elif {self.condition()}:")
            self.block(indent + 1, budget)
        if self.random.random() < 0.5:
            self.emit(indent, "else:")
            self.block(indent + 1, budget)

    def for_(self, indent: int, budget: int) -> None:
        name = f"i{len(self.loops)}"
        bounds = self.random.choice(["4", "1, 6", "6, 0, -2", f"({self.random.choice(VARIABLES)}) % 5"])
        self.emit(indent, f"for {name} in range({bounds}):")
        self.loops.append(name)
        self.block(indent + 1, budget)
        self.loops.pop()

    def while_(self, indent: int, budget: int) -> None:
        name = self.random.choice(VARIABLES)
        self.emit(indent, f"while {name} > 2 and fuel > 0:")
        self.emit(indent + 1, "fuel -= 1")
        self.emit(indent + 1, f"{name} = {name} // 2")
        self.assign_(indent + 1, budget)
        self.emit(indent + 1, f"if {name} > 40:")
        self.emit(indent + 2, "break")
        self.emit(indent + 1, f"{name} = min({name}, 30) - 1")

    def leave_(self, indent: int, budget: int) -> None:
        self.emit(indent, f"if {self.condition()}:")
        self.emit(indent + 1, self.random.choice(["break", "continue"]))


def expected(body: str) -> list[int]:
    scope: dict = {}
    exec(compile(PLAIN.format(body=body), "plain", "exec"), scope)
    values = list(range(SIZE))
    scope["main"](values)
    return values


SEEDS = {
    "cpu": [*range(30), 135, 182],
    # Programs that once differed on targets that evaluate the bounds of a loop in every iteration.
    "c": [75, 106, 133, 145],
    "simulator": [*range(30, 34), 173, 225, 274],
}


@pytest.mark.property
@pytest.mark.parametrize("target, seed", [(target, seed) for target, seeds in SEEDS.items() for seed in seeds])
def test_random_program(target, seed, tmp_path):
    generator = Generator(seed)
    while len(generator.lines) < 12:
        generator.statement(2, 3)
    body = "\n".join(generator.lines)
    path = tmp_path / f"program_{target}_{seed}.py"
    path.write_text(KERNEL.format(size=SIZE, body=body))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    values = torch.arange(SIZE, dtype=torch.int32)
    run(module.main, target, values)
    assert values.tolist() == expected(body), f"seed {seed}\n{body}"


def run(program, target, values):
    if target != "simulator":
        tilelang.compile(program, target=target)(values)
        return
    with tilelang.simulator(strict=True):
        tilelang.compile(program, target={"kind": "cuda", "arch": "sm_80"})(values)
