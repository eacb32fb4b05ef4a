"""Random changes of kernels that people wrote, by their Python text.

Statements are deleted, doubled, exchanged, moved, repeated, divided and restricted to some threads; tiles change their memory and
element types, accesses their indices, expressions their numbers and operators, kernels the number of their threads and stages.
What comes of it is a program in the idioms of real kernels that nobody had in mind.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator

Block = list[ast.stmt]


def rewritten(text: str, seed: int, most: int = 3) -> tuple[str, list[str]]:
    """The text of a module with up to ``most`` changes of its kernels, and what was changed."""
    drawn = random.Random(seed)
    module, done = ast.parse(text), []
    for _ in range(drawn.randint(1, most)):
        change = drawn.choice(CHANGES)
        places = list(change(module))
        if places:
            where, apply = drawn.choice(places)
            done.append(f"{change.__name__.strip('_')}: {where}")
            apply(drawn)
    return ast.unparse(ast.fix_missing_locations(module)), done


Change = Callable[[ast.Module], Iterator[tuple[str, Callable[[random.Random], None]]]]
"""Gives each place where a change can be made: what stands there, and what makes it."""


def _blocks(module: ast.Module) -> Iterator[Block]:
    """Every list of statements below a ``with T.Kernel``."""
    for kernel in _kernels(module):
        for node in ast.walk(kernel):
            yield from (block for name in ("body", "orelse") if isinstance(block := getattr(node, name, None), list) and block)


def _kernels(module: ast.Module) -> Iterator[ast.With]:
    for node in ast.walk(module):
        if isinstance(node, ast.With) and _called(node.items[0].context_expr) == "Kernel":
            yield node


def _called(node: ast.AST | None) -> str:
    """``f`` of ``T.f(...)``."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def _is_movable(stmt: ast.stmt) -> bool:
    """Whether a statement declares nothing that others name."""
    if isinstance(stmt, ast.Assign):
        return isinstance(stmt.targets[0], ast.Subscript)
    return not isinstance(stmt, (ast.AnnAssign, ast.FunctionDef, ast.Return))


def _movable(module: ast.Module) -> Iterator[tuple[Block, int]]:
    yield from ((block, at) for block in _blocks(module) for at, stmt in enumerate(block) if _is_movable(stmt))


def _line(stmt: ast.AST) -> str:
    return ast.unparse(stmt).splitlines()[0].strip()


def _delete(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        yield _line(block[at]), lambda _, block=block, at=at: block.__setitem__(at, ast.Pass())


def _double(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        yield _line(block[at]), lambda _, block=block, at=at: block.insert(at, copy.deepcopy(block[at]))


def _exchange(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        if at + 1 < len(block) and _is_movable(block[at + 1]):

            def apply(_: random.Random, block: Block = block, at: int = at) -> None:
                block[at], block[at + 1] = block[at + 1], block[at]

            yield _line(block[at]), apply


def _move(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        later = [place for place in range(at + 1, len(block)) if _is_movable(block[place])]
        if later:
            yield (
                _line(block[at]),
                lambda drawn, block=block, at=at, later=later: block.insert(drawn.choice(later), block.pop(at)),
            )


_LOOPS = ("for _again in T.serial(2):", "for _again in T.unroll(2):", "for _again in T.Pipelined(2, num_stages=2):")
_BRANCHES = (
    *("if T.get_thread_binding() < 64:", "if T.get_thread_binding() // 32 == 1:", "if T.get_thread_binding() >= 32:"),
    *("with T.ws(0):", "with T.ws(1):", "with T.ws(0, 1):"),
)


def _repeat(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        yield _line(block[at]), lambda drawn, block=block, at=at: _put_into(drawn.choice(_LOOPS), block, at)


def _restrict(module: ast.Module) -> Iterator:
    """Statements that some threads alone run. Which threads run an iteration of a ``T.Parallel`` is not specified."""
    parallel = (node for node in ast.walk(module) if isinstance(node, ast.For) and _called(node.iter) == "Parallel")
    inside = {stmt for loop in parallel for part in loop.body for stmt in ast.walk(part)}
    for block, at in _movable(module):
        if block[at] not in inside:
            yield _line(block[at]), lambda drawn, block=block, at=at: _put_into(drawn.choice(_BRANCHES), block, at)


def _put_into(head: str, block: Block, at: int) -> None:
    around = ast.parse(f"{head}\n    pass").body[0]
    around.body, block[at] = [block[at]], around


def _divide(module: ast.Module) -> Iterator:
    """A branch of which the last statements are in one of their own."""
    for block in _blocks(module):
        for at, stmt in enumerate(block):
            plain = isinstance(stmt, ast.With) or (isinstance(stmt, ast.If) and not stmt.orelse)
            if plain and len(stmt.body) > 1 and all(map(_is_movable, stmt.body)):
                yield _line(stmt), lambda drawn, block=block, at=at: _divide_at(block, at, drawn)


def _divide_at(block: Block, at: int, drawn: random.Random) -> None:
    first = block[at]
    second, place = copy.copy(first), drawn.randrange(1, len(first.body))
    first.body, second.body = first.body[:place], first.body[place:]
    block.insert(drawn.randint(at + 1, len(block)), second)


def _synchronise(module: ast.Module) -> Iterator:
    for block, at in _movable(module):
        yield _line(block[at]), lambda _, block=block, at=at: block.insert(at, ast.parse("T.sync_threads()").body[0])


def _renamed(module: ast.Module, names: dict[str, str]) -> Iterator:
    """Calls of ``T.old`` that become calls of ``T.new``."""
    for kernel in _kernels(module):
        for node in ast.walk(kernel):
            if _called(node) in names:
                yield _line(node), lambda _, node=node: setattr(node.func, "attr", names[node.func.attr])


def _other_memory(module: ast.Module) -> Iterator:
    yield from _renamed(module, {"alloc_shared": "alloc_fragment", "alloc_fragment": "alloc_shared"})


def _other_loop(module: ast.Module) -> Iterator:
    yield from _renamed(module, {"serial": "unroll", "unroll": "serial"})


def _nodes(module: ast.Module, kind: type) -> Iterator:
    for kernel in _kernels(module):
        yield from (node for stmt in kernel.body for node in ast.walk(stmt) if isinstance(node, kind))


_TYPES = {
    "float16": ("bfloat16", "float32"),
    "bfloat16": ("float16", "float32"),
    "float32": ("float16", "float64"),
    "int32": ("int16", "int64"),
}


def _other_type(module: ast.Module) -> Iterator:
    for node in _nodes(module, ast.Constant):
        if node.value in _TYPES:
            yield node.value, lambda drawn, node=node: setattr(node, "value", drawn.choice(_TYPES[node.value]))


def _other_number(module: ast.Module) -> Iterator:
    for node in _nodes(module, ast.Constant):
        if type(node.value) is int:
            yield (
                str(node.value),
                lambda drawn, node=node: setattr(node, "value", drawn.choice([node.value + 1, node.value * 2, node.value // 2])),
            )


def _other_index(module: ast.Module) -> Iterator:
    """Two indices of an access that change places, or one that is shifted."""
    for node in _nodes(module, ast.Subscript):
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not any(isinstance(index, ast.Slice) for index in indices):
            yield _line(node), lambda drawn, node=node: _change_indices(node, drawn)


def _change_indices(node: ast.Subscript, drawn: random.Random) -> None:
    indices = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    at = drawn.randrange(len(indices))
    if len(indices) > 1 and drawn.random() < 0.5:
        indices[at - 1], indices[at] = indices[at], indices[at - 1]
    else:
        indices[at] = ast.BinOp(indices[at], drawn.choice([ast.Add(), ast.Sub(), ast.FloorDiv(), ast.Mod()]), ast.Constant(2))
    node.slice = ast.Tuple(indices, ast.Load()) if len(indices) > 1 else indices[0]


_OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mod, ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip


def _other_operator(module: ast.Module) -> Iterator:
    for node in _nodes(module, ast.BinOp):
        if type(node.op) in _OPERATORS:
            yield _line(node), lambda _, node=node: setattr(node, "op", _OPERATORS[type(node.op)]())
    for node in _nodes(module, ast.Compare):
        if type(node.ops[0]) in _OPERATORS:
            yield _line(node), lambda _, node=node: node.ops.__setitem__(0, _OPERATORS[type(node.ops[0])]())


def _other_keyword(module: ast.Module) -> Iterator:
    """Other numbers of threads and stages."""
    choices = {"threads": (64, 96, 128, 256), "num_stages": (0, 1, 2, 3, 4)}
    for kernel in _kernels(module):
        for node in ast.walk(kernel):
            if isinstance(node, ast.keyword) and node.arg in choices:
                yield (
                    ast.unparse(node),
                    lambda drawn, node=node: setattr(node, "value", ast.Constant(drawn.choice(choices[node.arg]))),
                )


CHANGES: tuple[Change, ...] = (
    *(_delete, _double, _exchange, _move, _repeat, _restrict, _divide, _synchronise, _other_memory, _other_loop, _other_keyword),
    *(_other_type, _other_number, _other_index, _other_operator),
)
