"""Random tile programs, as text: the same seed gives the same program.

Every value is a small integer, clamped after each step, so that all targets must agree exactly whatever the order of their sums.
A program may use everything that the generator's methods are named for; it is written to a file, so that a failure can be read.
"""

from __future__ import annotations

import importlib.util
import inspect
import random
from pathlib import Path
from typing import Any

import torch

_HEAD = """import tilelang.language as T


def build(split=False):
{dynamic}
    @T.prim_func
    def main({parameters}):
        with T.Kernel(T.ceildiv({n}, {bn}), T.ceildiv({m}, {bm}), threads={threads}) as (bx, by):
{body}
    return main
"""


class RandomProgram:
    """One program.

    Attributes:
        m, n, k: sizes of the tensors; bm, bn, bk: of the tiles.
        source: its text.
        arguments: names of the parameters with shape and dtype, inputs before results.
    """

    def __init__(self, seed: int):
        self.random = r = random.Random(seed)
        self.seed = seed
        self.bm, self.bn = r.choice([16, 32, 32, 48, 64, 20, 7]), r.choice([16, 32, 32, 64, 128, 24, 40, 5])
        self.bk = r.choice([16, 32, 64])
        self.m = self.bm * r.randint(1, 2) - r.choice([0, 0, 1, 3])
        self.n = self.bn * r.randint(1, 2) - r.choice([0, 0, 1, 2])
        self.k = r.choice([16, 48, 96, 40, 100])
        self.threads = r.choice([32, 64, 128, 128, 256])
        self.dynamic = {name for name in "mnk" if r.random() < 0.2}
        self.lines: list[str] = []
        self.indent = 3
        self.names = 0
        self.tiles: dict[str, tuple[str, str]] = {}
        self.rows: list[str] = []
        self.columns: list[str] = []
        self.source = self._text()

    # Text --------------------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        self._allocate()
        for _ in range(self.random.randint(4, 10)):
            self._statement(depth=0)
        self._results()
        size = {name: name if name in self.dynamic else str(getattr(self, name)) for name in "mnk"}
        symbols = "".join(f'    {name} = T.dynamic("{name}")\n' for name in sorted(self.dynamic)) or "    pass\n"
        parameters = ", ".join(f'{name}: T.Tensor({self._symbolic(shape)}, "{dtype}")' for name, shape, dtype in self.arguments)
        return _HEAD.format(
            dynamic=symbols, parameters=parameters, body="\n".join(self.lines) + "\n", bm=self.bm, bn=self.bn,
            threads=self.threads, m=size["m"], n=size["n"],
        )  # fmt: skip

    def _symbolic(self, shape: tuple[str, ...]) -> str:
        return "(" + ", ".join(name if name in self.dynamic else str(getattr(self, name)) for name in shape) + ",)"

    @property
    def arguments(self) -> list[tuple[str, tuple[str, ...], str]]:
        inputs = [
            ("A", ("m", "n"), "float32"), ("H", ("m", "n"), "float16"), ("I", ("m", "n"), "int32"), ("V", ("m",), "float32"),
            ("W", ("n",), "float32"), ("P", ("m", "k"), "float16"), ("Q", ("k", "n"), "float16"), ("D", ("n", "k"), "float16"),
        ]  # fmt: skip
        results = [(f"out_{name}", ("m", "n"), dtype) for name, (_, dtype) in self.tiles.items()]
        results += [(f"out_{name}", ("m", "n"), "float32") for name in [*self.rows, *self.columns]]
        return [*inputs, *results, ("total", ("n",), "int32")]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def name(self, base: str) -> str:
        self.names += 1
        return f"{base}{self.names}"

    def _allocate(self) -> None:
        r = self.random
        for number in range(r.randint(2, 4)):
            dtype = r.choice(["float32", "float32", "float16", "int32"])
            self._tile(f"f{number}", "fragment", dtype)
        for number in range(r.randint(1, 3)):
            self._tile(f"s{number}", "shared", r.choice(["float32", "float16", "int32"]))
        for number in range(r.randint(1, 2)):
            self.rows.append(f"r{number}")
            self.line(f'r{number} = T.alloc_fragment(({self.bm},), "float32")')
            self.line(f"T.fill(r{number}, {r.randint(-3, 3)})")
        for number in range(r.randint(0, 2)):
            kind = r.choice(["fragment", "shared"])
            self.columns.append(f"c{number}")
            self.line(f'c{number} = T.alloc_{kind}(({self.bn},), "float32")')
            self.line(r.choice([f"T.clear(c{number})", f"T.copy(W[bx * {self.bn}], c{number})"]))

    def _tile(self, name: str, kind: str, dtype: str) -> None:
        self.tiles[name] = (kind, dtype)
        self.line(f'{name} = T.alloc_{kind}(({self.bm}, {self.bn}), "{dtype}")')
        if self.random.random() < 0.5:
            self.line(f"T.copy({self._global(dtype)}, {name})")
        else:
            self.line(f"T.fill({name}, {self.random.randint(-3, 3)})")

    def _global(self, dtype: str) -> str:
        tensor = {"float32": "A", "float16": "H", "int32": "I"}[dtype]
        return f"{tensor}[by * {self.bm}, bx * {self.bn}]"

    # Statements --------------------------------------------------------------------------------------------------------

    def _statement(self, depth: int) -> None:
        method = self.random.choice(self.kinds(depth))
        method(depth) if "depth" in inspect.signature(method).parameters else method()

    def kinds(self, depth: int) -> list:
        """What a statement may be."""
        kinds = [
            self.copy, self.copy, self.arithmetic, self.arithmetic, self.arithmetic, self.reduce, self.reduce, self.product,
            self.scatter, self.vector, self.part, self.scan, self.atomic, self.several,
        ]  # fmt: skip
        return [*kinds, self.condition, self.loop, self.pipeline] if depth < 2 else kinds

    def pick(self, kind: str | None = None, dtype: str | None = None, but: str = "") -> str | None:
        found = [
            name for name, (k, d) in self.tiles.items() if kind in (None, k) and dtype in (None, d) and name != but
        ]  # fmt: skip
        return self.random.choice(found) if found else None

    def copy(self) -> None:
        target = self.pick()
        source = self.pick(but=target)
        choices = [f"T.copy({self._global(self.tiles[target][1])}, {target})"]
        if source is not None:
            choices += [f"T.copy({source}, {target})"] * 3
        self.line(self.random.choice(choices))

    def operand(self, target: str) -> str:
        """A value of an iteration (i, j) that does not depend on what other iterations store."""
        r = self.random
        tile = self.pick()
        choices = [
            f'T.cast({tile}[i, j], "float32")', f"{r.choice(self.rows)}[i]", f"T.float32({r.randint(-3, 3)})",
            'T.cast(i % 3, "float32")', 'T.cast(j % 4 - 1, "float32")',
        ]  # fmt: skip
        if self.columns:
            choices.append(f"{r.choice(self.columns)}[j]")
        other = self.pick("shared", but=target)
        if other is not None:
            choices.append(f'T.cast({other}[i, {self.bn - 1} - j], "float32")')
        if "m" not in self.dynamic and "n" not in self.dynamic:
            choices.append(f"A[T.min(by * {self.bm} + i, {self.m - 1}), T.min(bx * {self.bn} + j, {self.n - 1})]")
        return r.choice(choices)

    def value(self, target: str) -> str:
        r = self.random
        a, b = self.operand(target), self.operand(target)
        text = r.choice([
            f"{a} + {b}", f"{a} - {b}", f"T.max({a}, {b})", f"T.min({a}, {b})", f"T.abs({a}) - {b}", f"{a} * 2 + {b}",
            f"T.if_then_else(i > j, {a}, {b})", f"T.if_then_else({a} > {b}, T.float32(1), {b})", a,
        ])  # fmt: skip
        return f"T.clamp({text}, T.float32(-20), T.float32(20))"

    def arithmetic(self) -> None:
        target = self.pick()
        dtype = self.tiles[target][1]
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        self.indent += 1
        guard = self.random.random() < 0.2
        if guard:
            self.line(self.random.choice(["if i >= j:", "if (i + j) % 3 != 0:", f"if by * {self.bm} + i < {self.m // 2 + 1}:"]))
            self.indent += 1
        self.line(f'{target}[i, j] = T.cast({self.value(target)}, "{dtype}")')
        self.indent -= 2 if guard else 1

    def several(self) -> None:
        """Two stores of one iteration, the second of which may use the first."""
        first, second = self.pick(), self.pick()
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        self.indent += 1
        a, b = self.operand_here(first), self.operand_here(second)
        self.line(f'{first}[i, j] = T.cast({a}, "{self.tiles[first][1]}")')
        self.line(f'{second}[i, j] = T.cast({b}, "{self.tiles[second][1]}")')
        self.indent -= 1

    def operand_here(self, target: str) -> str:
        a, b = self.pick(), self.random.choice(self.rows)
        return f'T.clamp(T.cast({a}[i, j], "float32") + {b}[i], T.float32(-20), T.float32(20))'

    def scatter(self) -> None:
        """A fragment stored to a shared tile in another order, or read back from one."""
        source, target = self.pick("fragment"), self.pick("shared")
        dtype = self.tiles[target][1]
        i, j = self.random.choice([("i", f"{self.bn - 1} - j"), (f"{self.bm - 1} - i", "j"), ("i", f"(j + 3) % {self.bn}")])
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        self.line(f'    {target}[{i}, {j}] = T.cast({source}[i, j], "{dtype}")')

    def vector(self) -> None:
        r = self.random
        name = r.choice([*self.rows, *self.columns])
        extent, index = (self.bm, "by") if name in self.rows else (self.bn, "bx")
        tensor = "V" if name in self.rows else "W"
        others = self.rows if name in self.rows else self.columns
        self.line(f"for i in T.Parallel({extent}):")
        other = r.choice(others)
        text = r.choice([f"{other}[i] - {name}[i]", f"T.max({name}[i], {other}[i]) + 1", f"{name}[i] * 2"])
        self.line(f"    {name}[i] = T.clamp({text}, T.float32(-20), T.float32(20))")
        if r.random() < 0.3:
            self.line(f"T.copy({tensor}[{index} * {extent}], {name})")

    def reduce(self) -> None:
        r = self.random
        source = self.pick()
        kind = r.choice(["sum", "max", "min", "absmax", "abssum"])
        columns = self.columns and r.random() < 0.4
        target, dim, extent = (r.choice(self.columns), 0, self.bn) if columns else (r.choice(self.rows), 1, self.bm)
        if self.tiles[source][1] != "float32":
            wide = self.pick(dtype="float32")
            if wide is None:
                return
            source = wide
        self.line(f"T.reduce_{kind}({source}, {target}, dim={dim}, clear={r.random() < 0.7})")
        self.line(f"for i in T.Parallel({extent}):")
        self.line(f"    {target}[i] = T.clamp({target}[i], T.float32(-20), T.float32(20))")

    def part(self) -> None:
        """A copy of a part of a tile."""
        source, target = self.pick("shared"), self.pick()
        if source == target or self.bm < 4:
            return
        half = self.bm // 2
        a, b = self.random.choice([(0, 0), (0, self.bm - half), (self.bm - half, 0)])
        if self.tiles[target][0] == "shared":
            self.line(f"T.copy({source}[{a}:{a + half}, :], {target}[{b}:{b + half}, :])")
        else:
            self.line(f"T.fill({target}[{b}:{b + half}, :], {self.random.randint(-3, 3)})")

    def scan(self) -> None:
        tile = self.pick("shared", "float32")
        if tile is None:
            return
        dim, reverse = self.random.choice([0, 1]), self.random.random() < 0.5
        self.line(f"T.cumsum({tile}, dim={dim}, reverse={reverse})")
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        self.line(f"    {tile}[i, j] = T.clamp({tile}[i, j], T.float32(-20), T.float32(20))")

    def atomic(self) -> None:
        source = self.pick()
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        guard = f"bx * {self.bn} + j < {'n' if 'n' in self.dynamic else self.n}"
        self.line(f"    if {guard}:")
        self.line(f'        T.atomic_add(total[bx * {self.bn} + j], T.cast({source}[i, j], "int32"))')

    def product(self) -> None:
        """A product over K, pipelined, added to a tile."""
        r = self.random
        k, stages, transposed = self.name("k"), r.choice([0, 1, 2, 3]), r.random() < 0.5
        left, right, result = self.name("p"), self.name("q"), self.name("acc")
        self.line(f'{left} = T.alloc_shared(({self.bm}, {self.bk}), "float16")')
        self.line(f'{right} = T.alloc_shared({(self.bn, self.bk) if transposed else (self.bk, self.bn)}, "float16")')
        self.line(f'{result} = T.alloc_fragment(({self.bm}, {self.bn}), "float32")')
        self.line(f"T.clear({result})")
        size = "k" if "k" in self.dynamic else self.k
        self.line(f"for {k} in T.Pipelined(T.ceildiv({size}, {self.bk}), num_stages={stages}):")
        self.line(f"    T.copy(P[by * {self.bm}, {k} * {self.bk}], {left})")
        if transposed:
            self.line(f"    T.copy(D[bx * {self.bn}, {k} * {self.bk}], {right})")
        else:
            self.line(f"    T.copy(Q[{k} * {self.bk}, bx * {self.bn}], {right})")
        policy = r.choice(["Square", "FullRow", "FullCol"])
        self.line(f"    T.gemm({left}, {right}, {result}, transpose_B={transposed}, policy=T.GemmWarpPolicy.{policy})")
        target = self.pick()
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        text = f"T.clamp({result}[i, j] + {r.choice(self.rows)}[i], T.float32(-20), T.float32(20))"
        self.line(f'    {target}[i, j] = T.cast({text}, "{self.tiles[target][1]}")')

    def condition(self, depth: int) -> None:
        self.line(self.random.choice(["if bx == 0:", "if (bx + by) % 2 == 0:", "if by > 0:", "if V[0] > 0:"]))
        self._nested(depth)
        if self.random.random() < 0.4:
            self.line("else:")
            self._nested(depth)

    def loop(self, depth: int) -> None:
        self.line(f"for {self.name('t')} in T.serial({self.random.randint(1, 3)}):")
        self._nested(depth)

    def pipeline(self, depth: int) -> None:
        """A pipelined loop whose tile is used by statements of any kind."""
        tile, k = self.name("x"), self.name("k")
        self.line(f'{tile} = T.alloc_shared(({self.bm}, {self.bn}), "float32")')
        self.line(f"for {k} in T.Pipelined({self.random.randint(1, 4)}, num_stages={self.random.choice([1, 2, 3])}):")
        self.indent += 1
        self.line(f"T.copy(A[by * {self.bm} + {k} % 2, bx * {self.bn}], {tile})")
        target = self.pick("fragment")
        self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
        text = f'T.clamp(T.cast({target}[i, j], "float32") + {tile}[i, j], T.float32(-20), T.float32(20))'
        self.line(f'    {target}[i, j] = T.cast({text}, "{self.tiles[target][1]}")')
        self.indent -= 1
        if self.random.random() < 0.5:
            self._nested(depth)

    def _nested(self, depth: int) -> None:
        self.indent += 1
        before = len(self.lines)
        for _ in range(self.random.randint(1, 2)):
            self._statement(depth + 1)
        if len(self.lines) == before:
            self.line(f"T.fill({self.rows[0]}, 1)")
        self.indent -= 1

    def _results(self) -> None:
        place = f"[by * {self.bm}, bx * {self.bn}]"
        for name in self.tiles:
            self.line(f"T.copy({name}, out_{name}{place})")
        for names, index in ((self.rows, "i"), (self.columns, "j")):
            for name in names:
                wide = self.name("wide")
                self.line(f'{wide} = T.alloc_fragment(({self.bm}, {self.bn}), "float32")')
                self.line(f"for i, j in T.Parallel({self.bm}, {self.bn}):")
                self.line(f"    {wide}[i, j] = {name}[{index}]")
                self.line(f"T.copy({wide}, out_{name}{place})")

    # Running -----------------------------------------------------------------------------------------------------------

    def build(self, folder: Path, split: bool = False) -> Any:
        """The program, written to ``folder`` and imported; ``split`` where halves of a block may run statements side by side."""
        path = folder / f"random_program_{self.seed}.py"
        path.write_text(self.source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.build(split)

    def tensors(self) -> list[torch.Tensor]:
        """Arguments: inputs of small integers, results of zeros."""
        generator = torch.Generator().manual_seed(self.seed)
        found = []
        for name, shape, dtype in self.arguments:
            sizes = [getattr(self, size) for size in shape]
            kind = getattr(torch, dtype)
            empty = name.startswith("out_") or name in ("total", "counts", "kept")
            values = torch.zeros(sizes) if empty else torch.randint(-3, 4, sizes, generator=generator)
            found.append(values.to(kind))
        return found
