"""Reduces a failing program: fewer statements, simpler expressions, smaller sizes, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from testing.fuzz.draw import constant
from testing.fuzz.tree import Expr, Host, Kernel, Program, Stmt

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, attempts: int = 400) -> Program:
    """The smallest program found with at most ``attempts`` runs for which ``fails`` holds."""
    seen = {str(program)}
    progress = True
    while progress and attempts > 0:
        progress = False
        for candidate in candidates(program):
            if str(candidate) in seen:
                continue
            seen.add(str(candidate))
            attempts -= 1
            if fails(candidate):
                program, progress = candidate, True
                break
            if attempts <= 0:
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Slightly simpler programs, the largest reductions first."""
    if len(program.kernels) > 1:
        for kernel in program.kernels:
            yield replace(program, kernels=(kernel,))
        for number in range(len(program.kernels)):
            yield replace(program, kernels=program.kernels[:number] + program.kernels[number + 1 :])
    yield from _without_hosts(program)
    yield from _bodies(program, _fewer)
    if program.configs:
        yield replace(program, configs={})
    if program.promises:
        yield replace(program, promises=())
    if any(tensor.pad for tensor in program.tensors):
        yield replace(program, tensors=tuple(replace(tensor, pad=0) for tensor in program.tensors))
    if any(tensor.turned for tensor in program.tensors):
        yield replace(program, tensors=tuple(replace(tensor, turned=False) for tensor in program.tensors))
    if any(tensor.address for tensor in program.tensors):
        yield replace(program, tensors=tuple(replace(tensor, address=False) for tensor in program.tensors))
    if program.dynamic:
        yield replace(program, dynamic=frozenset())
    yield from _bodies(program, _opened)
    yield from _sizes(program)
    for number, kernel in enumerate(program.kernels):
        yield from (_with_kernel(program, number, replace(kernel, threads=t)) for t in _fewer_threads(kernel))
        if kernel.grid != "1":
            yield _with_kernel(program, number, replace(kernel, grid="1"))
    yield from _bodies(program, _simpler)


def _without_hosts(program: Program) -> Iterator[Program]:
    """Without a loop or branch around kernels, or with only a name in its place."""
    for host in dict.fromkeys(host for kernel in program.kernels for host in kernel.around if host.line != host.without):
        instead = (Host(host.without, without=host.without),) if host.without else ()
        kernels = []
        for kernel in program.kernels:
            parts = ((instead if other == host else (other,)) for other in kernel.around)
            kernels.append(replace(kernel, around=tuple(part for found in parts for part in found)))
        yield replace(program, kernels=tuple(kernels))


def _fewer_threads(kernel: Kernel) -> list[str]:
    return [str(t) for t in (32, 64, 128) if kernel.threads.isdigit() and t < int(kernel.threads)]


def _with_kernel(program: Program, number: int, kernel: Kernel) -> Program:
    kernels = list(program.kernels)
    kernels[number] = kernel
    return replace(program, kernels=tuple(kernels))


def _bodies(program: Program, change: Callable[[tuple[Stmt, ...]], Iterator[tuple[Stmt, ...]]]) -> Iterator[Program]:
    for number, kernel in enumerate(program.kernels):
        for body in change(kernel.body):
            yield _with_kernel(program, number, replace(kernel, body=body))


def _sizes(program: Program) -> Iterator[Program]:
    for name, value in program.sizes.items():
        for smaller in (1, 2, 4, 8, 16, 32):
            if smaller < value and (name != "P" or smaller == 32):
                yield replace(program, sizes={**program.sizes, name: smaller})


# Statements ------------------------------------------------------------------------------------------------------------


def _fewer(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Removes half of the statements, a quarter, …, a single one, at this level and in nested bodies."""
    size = len(body) // 2
    while size:
        for start in range(0, len(body), size):
            rest = body[:start] + tuple(s for s in body[start : start + size] if s.fixed) + body[start + size :]
            if len(rest) < len(body):
                yield rest
        size //= 2
    if len(body) == 1 and not body[0].fixed and body[0].kind != "kernel":
        yield ()
    yield from _inside(body, _fewer)


def _inside(body: tuple[Stmt, ...], change: Callable) -> Iterator[tuple[Stmt, ...]]:
    """Applies the same reductions to the bodies of the statements."""
    for number, statement in enumerate(body):
        for name in ("body", "other"):
            for changed in change(getattr(statement, name)):
                if changed or name == "other":
                    yield body[:number] + (replace(statement, **{name: changed}),) + body[number + 1 :]


def _opened(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Replaces a loop or branch by its body."""
    for number, statement in enumerate(body):
        if statement.without is not None:
            lines = (Stmt("text", statement.without),) if statement.without else ()
            for inner in (statement.body, statement.other):
                kept = tuple(s for s in inner if not s.fixed)
                if kept:
                    yield body[:number] + lines + kept + body[number + 1 :]
    yield from _inside(body, _opened)


def _simpler(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    """Simplifies one expression of a statement."""
    for number, statement in enumerate(body):
        for place, part in enumerate(statement.parts):
            for expr in simpler(part):
                parts = statement.parts[:place] + (expr,) + statement.parts[place + 1 :]
                yield body[:number] + (replace(statement, parts=parts),) + body[number + 1 :]
    yield from _inside(body, _simpler)


# Expressions -----------------------------------------------------------------------------------------------------------


def simpler(expr: Expr) -> Iterator[Expr]:
    """Simpler expressions of the same type."""
    if expr.type in ("float", "int") and expr.kind != "constant":
        yield constant(1, expr.type)
    if expr.type == "index" and expr.text != "0":
        yield Expr("index", "0", "index")
    for part in expr.parts:
        if part.type == expr.type:
            yield part
    for number, part in enumerate(expr.parts):
        for other in simpler(part):
            yield replace(expr, parts=expr.parts[:number] + (other,) + expr.parts[number + 1 :])
