"""Reads in annotations that Python leaves alone but a front end evaluates: those of local variables, and those that are text."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from types import CodeType

from tilelang.fingerprint.opcodes import UnknownInstruction
from tilelang.fingerprint.reads import ANNOTATION, MADE, CodeReads, code_reads, code_tree


def annotation_reads(text: str | None, code: CodeType) -> tuple[CodeReads, ...]:
    """What the annotations of local variables (``A: T.Tensor((M, K), dtype)``) read, and annotations that are text, when they
    are evaluated where the function is defined.

    Args:
        text: the source of the function; None where it is not known.
        code: its code.

    Returns:
        The reads of annotations that only name types, and those of annotations that call something.

    Raises:
        UnknownInstruction: an annotation has code that is not known.
    """
    if text is None or ":" not in text:
        return ()
    names = frozenset(name for part in code_tree(code) for name in (*part.co_varnames, *part.co_cellvars))
    return _reads(text, names, code.co_freevars)


@functools.lru_cache(maxsize=1024)
def _reads(text: str, local: frozenset[str], free: tuple[str, ...]) -> tuple[CodeReads, ...]:
    try:
        found = list(_annotations(ast.parse(text)))
    except SyntaxError as error:
        raise UnknownInstruction(f"its source cannot be parsed ({error.msg})") from None
    if not found:
        return ()
    calls = [each for each in found if any(isinstance(part, (ast.Call, ast.JoinedStr)) for part in ast.walk(each))]
    types = [each for each in found if each not in calls]
    try:
        named, called = (_read_by(each, local, free) for each in (types, calls))
    except (SyntaxError, ValueError) as error:
        raise UnknownInstruction(f"an annotation cannot be compiled ({error})") from None
    # `x: str` names a type, and makes no text.
    return named._replace(reads=tuple(read._replace(use=ANNOTATION) for read in named.reads), names=named.names - {MADE}), called


def _read_by(expressions: list[ast.expr], local: frozenset[str], free: tuple[str, ...]) -> CodeReads:
    """The reads of expressions in a function that has these local variables, and free ones."""
    # Compiled as the body of a function with these variables, the expressions become byte code in which local, free and global
    # names are told apart as in the function itself; the analysis of code then serves for annotations, too.
    parameters = sorted(name for name in local if name.isidentifier() and name not in free)
    function = _lambda(free, _lambda(parameters, ast.Tuple(expressions, ast.Load())))
    code = compile(ast.fix_missing_locations(ast.Expression(function)), "<annotations>", "eval", dont_inherit=True)
    for _ in range(2):  # through the outer function, whose parameters are the free variables
        code = next(each for each in code.co_consts if isinstance(each, CodeType))
    return code_reads(code)


def _lambda(names: Iterable[str], body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, []), body)


def _annotations(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if annotation is None:
            continue
        yield annotation
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    yield ast.parse(part.value, mode="eval").body
                except SyntaxError:
                    continue
