"""Random changes of kernels that people wrote, by their Python text.

Statements are deleted, doubled, exchanged, moved, repeated and restricted to some threads; tiles change their memory, kernels the
number of their threads and stages. What comes of it is a program in the idioms of real kernels that nobody had in mind.
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
_BRANCHES = ("if T.get_thread_binding() < 64:", "if T.get_thread_binding() // 32 == 1:", "if T.get_thread_binding() >= 32:")


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
    *(_delete, _double, _exchange, _move, _repeat, _restrict, _synchronise, _other_memory, _other_loop, _other_keyword),
)
