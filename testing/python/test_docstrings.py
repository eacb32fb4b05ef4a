"""Public functions of three or more parameters document them: ``Args:`` names each, ``Raises:`` what the function raises itself.

In the packages that users call, ``Returns:`` (or ``Yields:``) says what a result is; elsewhere the first line does. An override
without a text of its own has that of the method that it overrides. Functions of the CUDA target's steps, which only other steps
call, document the parameters of which the signature does not say enough, and none by repeating it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "tilelang"

FOR_USERS = ("autotuner", "cuda", "jit", "language", "layout", "profiler", "testing", "tools", "utils", "cache/kernel_cache.py")
"""Parts of the package whose functions users call."""

STEPS = ("analysis", "codegen", "inference", "intrinsics", "normalise", "ops", "schedule", "specialize", "tile")
"""Folders of the CUDA target whose functions only its own steps call; what recipes of CONTRIBUTING.md offer is beside them."""

FILLERS = frozenset(("a", "an", "the", "of", "to", "in", "for", "from", "its", "this"))

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The public functions and methods of a module, with their names; an overload has the text of its implementation."""
    for node in body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            if "overload" not in map(ast.unparse, node.decorator_list):
                yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from functions(node.body, f"{prefix}{node.name}.")


def parameters(function: Function) -> list[str]:
    """Names of the parameters, without the object and those that begin with an underscore."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *filter(None, [given.vararg]), *given.kwonlyargs, *filter(None, [given.kwarg])]
    return [each.arg for each in every if each.arg not in ("self", "cls") and not each.arg.startswith("_")]


def is_command(function: Function) -> bool:
    """Whether a function is a command whose parameters the command line documents."""
    return any("app.command" in ast.unparse(each) for each in function.decorator_list) or "typer." in ast.unparse(function.args)


def documented(text: str) -> dict[str, str]:
    """The parameters that ``Args:`` names, each with what it says of it."""
    section = re.split(r"^(?:Returns|Yields|Raises):", text.partition("Args:")[2], maxsplit=1, flags=re.MULTILINE)[0]
    _, *parts = re.split(r"^ {4}([\w, ]+):", section, flags=re.MULTILINE)
    return {name: said for head, said in zip(parts[::2], parts[1::2]) for name in re.findall(r"\w+", head)}


def repeated(function: Function, said: dict[str, str]) -> list[str]:
    """The parameters of which a documentation says no more than their names and types do: ``buffer: the buffer``."""
    given = function.args
    typed = {
        each.arg: ast.unparse(each.annotation or ast.Constant(None))
        for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)
    }
    found = []
    for name, text in said.items():
        known = re.findall(r"[A-Z]?[a-z]+", f"{name} {typed.get(name, '')}")
        words = set(re.findall(r"[a-z]+", text.lower())) - FILLERS
        if all(any(word.startswith(each.lower()) or each.lower().startswith(word) for each in known) for word in words):
            found.append(name)
    return found


def raises(function: Function) -> bool:
    """Whether a function itself raises something new."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, (Function, ast.ClassDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
    return False


def lacks(function: Function, for_users: bool, of_step: bool = False) -> list[str]:
    """What the documentation of a function does not say, says of parameters that there are not, or repeats."""
    names = parameters(function)
    text = ast.get_docstring(function) or ""
    found = documented(text)
    missing = [f"{name}, which is no parameter" for name in found if name not in names and not name.startswith("_")]
    if of_step:
        missing += [f"more of {name} than the signature says" for name in repeated(function, found)]
    if len(names) < 3 or is_command(function):
        return missing if of_step else []
    missing += [] if of_step else [name for name in names if name not in found]
    gives = function.returns is not None and ast.unparse(function.returns) not in ("None", "NoReturn")
    if for_users and gives and not re.search(r"^(Returns|Yields):", text, re.MULTILINE):
        missing.append("Returns")
    if raises(function) and "Raises:" not in text:
        missing.append("Raises")
    return missing


@cache
def classes() -> dict[str, ast.ClassDef]:
    """The classes of the package by name."""
    trees = (ast.parse(file.read_text()) for file in PACKAGE.rglob("*.py"))
    return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def inherits_text(owner: str, method: str) -> bool:
    """Whether a base of a class documents a method, whose overrides then need no text of their own (:func:`inspect.getdoc`)."""
    bases = [base.id for base in classes()[owner].bases if isinstance(base, ast.Name) and base.id in classes()]
    defined = (node for base in bases for node in classes()[base].body if isinstance(node, Function) and node.name == method)
    return any(map(ast.get_docstring, defined)) or any(inherits_text(base, method) for base in bases)


def undocumented(part: str) -> list[str]:
    """The functions of a part of the package whose documentation lacks something, with that."""
    path = PACKAGE / part
    steps = [PACKAGE / "target" / "cuda" / folder for folder in STEPS]
    found = []
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for name, function in functions(ast.parse(file.read_text()).body):
            owner, _, method = name.rpartition(".")
            if owner and not ast.get_docstring(function) and inherits_text(owner.rpartition(".")[2], method):
                continue
            missing = lacks(function, part in FOR_USERS, any(map(file.is_relative_to, steps)))
            if missing:
                found.append(f"{file.relative_to(ROOT)}:{function.lineno} {name} lacks {', '.join(missing)}")
    return found


def parts() -> list[str]:
    """Every folder and file of the package; of targets and the cache, their own."""
    top = [path for path in PACKAGE.iterdir() if path.name not in ("target", "cache", "__pycache__", "lib")]
    inner = [path for folder in ("target", "cache") for path in (PACKAGE / folder).iterdir() if path.name != "__pycache__"]
    return sorted(path.relative_to(PACKAGE).as_posix() for path in (*top, *inner) if path.is_dir() or path.suffix == ".py")


@pytest.mark.parametrize("part", parts())
def test_functions_of_three_parameters_document_them(part: str):
    assert undocumented(part) == []


def test_an_undocumented_parameter_is_found():
    text = 'def f(a, b, c):\n    """Adds.\n\n    Args:\n        a, b: numbers.\n        d: none.\n    """\n    raise ValueError\n'
    ((_, function),) = functions(ast.parse(text).body)
    assert lacks(function, for_users=False) == ["d, which is no parameter", "c", "Raises"]


def test_a_repetition_of_the_signature_is_found():
    text = (
        'def f(expr: Expr, bits: int):\n    """Is.\n\n    Args:\n        expr: the expression.\n        bits: of each.\n    """\n'
    )
    ((_, function),) = functions(ast.parse(text).body)
    assert lacks(function, for_users=False) == []
    assert lacks(function, for_users=False, of_step=True) == ["more of expr than the signature says"]
