"""What a function's code can read from outside itself: globals, closure cells, imports, and attributes of them.

The byte code is the truth for everything that runs; annotations of local variables, which the front end reads although
Python never evaluates them, come from the source text.
"""

from __future__ import annotations

import ast
import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

GLOBAL, FREE, IMPORT = "global", "free", "import"
_GLOBAL_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"))
_FREE_LOADS = frozenset(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"))
_ATTRIBUTE_LOADS = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_SILENT = frozenset(("CACHE", "PRECALL", "PUSH_NULL", "RESUME", "NOP", "EXTENDED_ARG"))


@dataclass(frozen=True, slots=True)
class Read:
    """One thing that code reads.

    Attributes:
        root: ``global``, ``free`` (a closure cell) or ``import`` (an import statement inside the function).
        name: the variable, or the module that is imported.
        chain: the attributes that follow, as in ``name.a.b``.
        constant: the string that is the subscript or first argument, as in ``os.environ["X"]`` and ``os.getenv("X")``.
    """

    root: str
    name: str
    chain: tuple[str, ...] = ()
    constant: str | None = None


@functools.lru_cache(maxsize=4096)
def code_reads(code: CodeType) -> tuple[Read, ...]:
    """The reads of ``code`` and of the functions, classes and comprehensions inside it, each once, in order."""
    found: dict[Read, None] = {}
    for part in code_tree(code):
        found.update(dict.fromkeys(_part_reads(part, frozenset(code.co_freevars))))
    return tuple(found)


def code_tree(code: CodeType) -> Iterator[CodeType]:
    """``code`` and all code inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_tree(constant)


def _part_reads(code: CodeType, free: frozenset[str]) -> Iterator[Read]:
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
    aliases: dict[str, str] = {}  # local variable -> module that an import statement gave it
    for position, step in enumerate(steps):
        following = steps[position + 1 :]
        if step.opname == "IMPORT_NAME":
            yield from _import_reads(step.argval, following, aliases)
        elif step.opname in _GLOBAL_LOADS:
            yield _chained(GLOBAL, step.argval, steps, position)
        elif step.opname in _FREE_LOADS and step.argval in free:
            yield _chained(FREE, step.argval, steps, position)
        elif step.opname.startswith("LOAD") and aliases:
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            for name in names:
                if isinstance(name, str) and name in aliases and step.opname != "LOAD_CONST":
                    # In an instruction that loads two variables the attribute belongs to the last one.
                    last = name == names[-1]
                    yield (_chained(IMPORT, aliases[name], steps, position) if last else Read(IMPORT, aliases[name]))


def _import_reads(module: str, following: list, aliases: dict[str, str]) -> Iterator[Read]:
    names = []
    for step in following:
        if step.opname == "IMPORT_FROM":
            names.append(step.argval)
        elif step.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME") and names:
            continue
        else:
            break
    if names:
        yield from (Read(IMPORT, module, (name,)) for name in names)
    elif following and following[0].opname in ("STORE_FAST", "STORE_DEREF"):
        aliases[following[0].argval] = module.partition(".")[0]
    else:
        yield Read(IMPORT, module)


def _chained(root: str, name: str, steps: list, position: int) -> Read:
    chain = []
    after = position + 1
    while after < len(steps) and steps[after].opname in _ATTRIBUTE_LOADS:
        chain.append(steps[after].argval)
        after += 1
    return Read(root, name, tuple(chain), _constant(steps, position, after))


def _constant(steps: list, position: int, after: int) -> str | None:
    candidate = None
    if after < len(steps):
        if steps[after].opname == "LOAD_CONST":
            candidate = steps[after].argval
        elif steps[after].opname == "CONTAINS_OP" and position and steps[position - 1].opname == "LOAD_CONST":
            candidate = steps[position - 1].argval
    return candidate if isinstance(candidate, str) else None


def annotation_reads(tree: ast.AST, code: CodeType) -> tuple[Read, ...]:
    """The reads in annotations of local variables (``A: T.Tensor((M, K), dtype)``), and in annotations that are strings."""
    local = {name for part in code_tree(code) for name in (*part.co_varnames, *part.co_cellvars)}
    found: dict[Read, None] = {}
    for node in _annotations(tree):
        for name, chain in _name_chains(node):
            if name in code.co_freevars:
                found[Read(FREE, name, chain)] = None
            elif name not in local:
                found[Read(GLOBAL, name, chain)] = None
    return tuple(found)


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        annotation = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if annotation is None:
            continue
        yield annotation
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                yield ast.parse(annotation.value, mode="eval")
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
