"""Reads in annotations that Python leaves alone but a front end evaluates: those of local variables, and those that are text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType

from tilelang.fingerprint.reads import ANNOTATION, FREE, GLOBAL, Read, code_tree


def annotation_reads(tree: ast.AST, code: CodeType) -> tuple[Read, ...]:
    """The reads in annotations of local variables (``A: T.Tensor((M, K), dtype)``), and in annotations that are text.

    Args:
        tree: the source of the function.
        code: its code.
    """
    local = {name for part in code_tree(code) for name in (*part.co_varnames, *part.co_cellvars)}
    found: dict[Read, None] = {}
    for node in _annotations(tree):
        for name, chain in _name_chains(node):
            if name in code.co_freevars:
                found[Read(FREE, name, chain, use=ANNOTATION)] = None
            elif name not in local:
                found[Read(GLOBAL, name, chain, use=ANNOTATION)] = None
    return tuple(found)


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if annotation is None:
            continue
        yield annotation
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    yield ast.parse(part.value, mode="eval")
                except SyntaxError:
                    continue


def _name_chains(tree: ast.AST) -> Iterator[tuple[str, tuple[str, ...]]]:
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if id(node) in inner or not isinstance(node, (ast.Name, ast.Attribute)):
            continue
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            yield node.id, tuple(reversed(chain))
