"""A random program as a tree: expressions, statements, kernels. It prints as a Python file, and a shrinker edits it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

INDENT = "    "
_NAME = re.compile(r"(?<![\w.\"])(?:(?!D\d)[a-zA-Z]+\d+(?!\w*\()|bx|tx)\b")
"""Names in the text of a program other than sizes and macros."""
_BINDING = re.compile(r"\s*(?:for )?([\w, ]+) (?:=|in) ")


@dataclass(frozen=True)
class Expr:
    """An expression.

    Attributes:
        kind: the construct, for the coverage of pairs.
        text: its text, with ``{0}``, ``{1}``, … as placeholders of the parts.
        type: ``"float"``, ``"int"``, ``"bool"`` or ``"index"``; it may be replaced by expressions of the same type.
        parts: the operands.
    """

    kind: str
    text: str
    type: str
    parts: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return self.text.format(*map(str, self.parts)) if self.parts else self.text

    def walk(self) -> Iterator[Expr]:
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True)
class Stmt:
    """A statement.

    Attributes:
        kind: the construct, for the coverage of pairs.
        lines: its text, with ``{0}``, … as placeholders of the parts; the last line opens the body, if there is one.
        parts: the expressions in it.
        body, other: the nested statements; ``other`` are those of an ``else:``.
        writes: the tiles that it stores to.
        without: the lines that replace the head if the statement is replaced by its body.
        fixed: whether the shrinker must keep it.
        macro: the name of the ``T.macro`` that the body becomes, or empty; the statement is then a call of it.
        references: mutable scalars that the macro may change.
    """

    kind: str
    lines: tuple[str, ...]
    parts: tuple[Expr, ...] = ()
    body: tuple[Stmt, ...] = ()
    other: tuple[Stmt, ...] = ()
    writes: tuple[str, ...] = ()
    without: tuple[str, ...] | None = None
    fixed: bool = False
    macro: str = ""
    references: tuple[str, ...] = ()

    def head(self) -> list[str]:
        """The lines of the statement itself."""
        if self.macro:
            return [f"{self.macro}({', '.join(self.arguments())})"]
        texts = [str(part) for part in self.parts]
        return [line.format(*texts) if texts else line for line in self.lines]

    def print(self, depth: int) -> list[str]:
        """All lines, indented."""
        found = [INDENT * depth + line for line in self.head()]
        found += _block(self.body, depth + 1) if self.lines and self.lines[-1].endswith(":") else []
        if self.other:
            found += [INDENT * depth + "else:", *_block(self.other, depth + 1)]
        return found

    def arguments(self) -> list[str]:
        """The free names of a macro's body: its parameters."""
        lines = _block(self.body, 0)
        bound = {name for line in lines if (found := _BINDING.match(line)) for name in found[1].split(", ")}
        return sorted({name for line in lines for name in _NAME.findall(line)} - (bound - set(self.references)))

    def definition(self) -> list[str]:
        """The lines of a macro."""
        names = [f"{name}: T.Ref" if name in self.references else name for name in self.arguments()]
        return [f"{INDENT}@T.macro", f"{INDENT}def {self.macro}({', '.join(names)}):", *_block(self.body, 2), ""]

    def walk(self) -> Iterator[Stmt]:
        yield self
        for inner in (*self.body, *self.other):
            yield from inner.walk()


def _block(statements: tuple[Stmt, ...], depth: int) -> list[str]:
    return [line for statement in statements for line in statement.print(depth)] or [INDENT * depth + "pass"]


@dataclass(frozen=True)
class Tensor:
    """A parameter of the program.

    Attributes:
        shape: texts of the sizes.
        role: ``"in"``, ``"out"``, or ``"work"`` for memory that the call allocates.
        low, high: range of an input's values.
        digits: hexadecimal digits that the elements are made of instead.
        pad: elements in memory between its rows.
        turned: that its columns lie in memory one after the other, not its rows.
        address: that the parameter is an address, and the program makes the tensor there.
        ends: that an input has values at the ends of its type, or that zeros of different signs in an output are different.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    role: str = "in"
    low: int = -4
    high: int = 4
    digits: str = ""
    pad: int = 0
    turned: bool = False
    address: bool = False
    ends: bool = False

    def at_address(self) -> str:
        """The line that makes the tensor at its address."""
        return f'{self.name} = T.make_tensor({self.name}_at, ({", ".join(self.shape)},), "{self.dtype}")'

    def allocation(self) -> str:
        """The line that allocates a workspace."""
        return f'{self.name} = T.alloc_global(({", ".join(self.shape)},), "{self.dtype}")'

    def declaration(self) -> str:
        """The parameter of the program."""
        if self.address:
            return f'{self.name}_at: T.ptr("{self.dtype}")'
        shape = f"({', '.join(self.shape)},)"
        if self.turned:
            rows, columns = self.shape[-2:]
            strides = [
                *(f"({' * '.join(f'({size})' for size in self.shape[axis:])})" for axis in range(1, len(self.shape) - 1)),
                "1",
                f"({rows})",
            ]
            return f'{self.name}: T.StridedTensor({shape}, ({", ".join(strides)},), "{self.dtype}")'
        if not self.pad:
            return f'{self.name}: T.Tensor({shape}, "{self.dtype}")'
        strides = ["1"]
        for size in reversed(self.shape[1:]):
            strides.append(f"({size} + {self.pad})" if strides == ["1"] else f"({size}) * {strides[-1]}")
        return f'{self.name}: T.StridedTensor({shape}, ({", ".join(reversed(strides))},), "{self.dtype}")'


@dataclass(frozen=True)
class Scalar:
    """A number that is an argument of the call.

    Attributes:
        dtype: of the parameter.
        value: what the call passes.
        small: that statements may take it for a small number: an integer of 0 to 3, a float of at most 4 in magnitude.
    """

    dtype: str
    value: int | float | bool
    small: bool = True


@dataclass(frozen=True)
class Host:
    """A line of the program outside of its kernels: a loop, a branch, a value with a name.

    Attributes:
        line: its text; a line that ends in a colon contains kernels.
        other: whether the kernels are in the ``else`` branch.
        without: the line that replaces it if the shrinker removes it.
    """

    line: str
    other: bool = False
    without: str = ""

    @property
    def opens(self) -> bool:
        return self.line.endswith(":")

    def print(self, before: Host | None) -> str:
        """The line, or the ``else`` of a branch that stands before it."""
        if not self.other:
            return self.line
        return "else:" if before == replace(self, other=False) else f"if not ({self.line[3:-1]}):"


@dataclass(frozen=True)
class Kernel:
    """One launch: what is declared and filled, what is done, what is stored.

    A grid is the text of one size, or of the sizes of two axes, whose blocks are counted along the second one.

    Attributes:
        cluster: how many blocks form one, or 0.
        around: lines of the program that the launch is inside of, outermost first.
    """

    grid: str
    threads: str
    body: tuple[Stmt, ...] = ()
    cluster: int = 0
    around: tuple[Host, ...] = ()

    def print(self) -> list[str]:
        kind = f"T.ClusterKernel({self.grid}, cluster_dims={self.cluster}" if self.cluster else f"T.Kernel({self.grid}"
        _, several, columns = self.grid.partition(", ")
        names, number = ("(x0, y0)", [INDENT * 3 + f"bx = x0 * {columns} + y0"]) if several else ("bx", [])
        return [INDENT * 2 + f"with {kind}, threads={self.threads}) as {names}:", *number, *_block(self.body, 3)]


def launches(kernels: tuple[Kernel, ...]) -> list[str]:
    """Kernels with the host code around them; neighbouring kernels share equal enclosing lines."""
    found: list[str] = []
    before: tuple[Host, ...] = ()
    for kernel in kernels:
        shared = next((n for n, (a, b) in enumerate(zip(before, kernel.around)) if a != b), min(len(before), len(kernel.around)))
        for place, host in list(enumerate(kernel.around))[shared:]:
            depth = 2 + sum(outer.opens for outer in kernel.around[:place])
            twin = before[place] if place == shared and place < len(before) else None
            found.append(INDENT * depth + host.print(twin))
        inner = INDENT * sum(host.opens for host in kernel.around)
        found += [inner + line for line in kernel.print()]
        before = kernel.around
    return found


@dataclass(frozen=True)
class Program:
    """A program.

    Attributes:
        sizes: names of sizes and their values; the text uses the names.
        dynamic: the sizes that are arguments of the call.
        configs: pass configurations.
        needs: ``"threads"`` for a program that is not for a CPU, ``"sm_90a"`` for one of that architecture alone.
        thorough: whether the regular device and host compilers are used.
        scalars: arguments after the tensors.
        promises: conditions that every call meets.
    """

    name: str
    sizes: dict[str, int]
    tensors: tuple[Tensor, ...]
    kernels: tuple[Kernel, ...]
    dynamic: frozenset[str] = frozenset()
    configs: dict = field(default_factory=dict)
    needs: str = ""
    thorough: bool = True
    scalars: dict[str, Scalar] = field(default_factory=dict)
    promises: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[Tensor, ...]:
        """The tensors that the kernels use and the caller passes."""
        return tuple(tensor for tensor in self._named() if tensor.role != "work")

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """The tensors that the kernels use and the call allocates."""
        return tuple(tensor for tensor in self._named() if tensor.role == "work")

    @property
    def numbers(self) -> list[int | float | bool]:
        """The values of the scalar arguments."""
        return [scalar.value for scalar in self.scalars.values()]

    def _named(self) -> list[Tensor]:
        text = "\n".join([*launches(self.kernels), *self._macros()])
        named = set(re.findall(r"\w+", text))
        return [tensor for tensor in self.tensors if tensor.name in named]

    def __str__(self) -> str:
        fixed = {name: value for name, value in self.sizes.items() if name not in self.dynamic}
        lines = [f'"""{self.name}"""', "", "import tilelang.language as T", ""]
        lines += [f"CONFIGS = {self.configs}"] if self.configs else []
        lines += [f"{name} = {value}" for name, value in fixed.items()]
        lines += ["", "", "def build():"]
        lines += [f'{INDENT}{name} = T.dynamic("{name}")' for name in sorted(self.dynamic)]
        lines += self._macros()
        parameters = [tensor.declaration() for tensor in self.used]
        parameters += [f"{name}: T.{scalar.dtype}" for name, scalar in self.scalars.items()]
        lines += [f"{INDENT}@T.prim_func", f"{INDENT}def main({', '.join(parameters)}):"]
        lines += [f"{INDENT * 2}T.assume({promise})" for promise in self.promises]
        lines += [INDENT * 2 + tensor.at_address() for tensor in self.used if tensor.address]
        lines += [INDENT * 2 + tensor.allocation() for tensor in self.workspaces]
        return "\n".join([*lines, *launches(self.kernels), "", f"{INDENT}return main", ""])

    def _macros(self) -> list[str]:
        """Definitions of macros, callees before their callers."""
        return [line for statement in reversed([*self.statements()]) if statement.macro for line in statement.definition()]

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """Sizes as numbers."""
        return tuple(evaluate(size, self.sizes) for size in tensor.shape)

    def statements(self) -> Iterator[Stmt]:
        for kernel in self.kernels:
            for statement in kernel.body:
                yield from statement.walk()


def evaluate(size: str, sizes: dict[str, int]) -> int:
    """The value of the text of a size."""
    return int(eval(size, {"__builtins__": {}}, dict(sizes)))
