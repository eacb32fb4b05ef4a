"""Writes the type stubs of the packages whose names are resolved when they are first used.

    python -m testing.stubs            # writes them
    python -m testing.stubs --check    # fails where they are not what would be written

An editor cannot follow ``__getattr__``, so ``tilelang/__init__.pyi`` and ``tilelang/language/__init__.pyi`` say where each name
is. A function that its module defines is imported from there, with its own signature and docstring; one that the module makes
from a table is declared here with those of the function that was made.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("tilelang", "tilelang.language")
_BUILTIN = {"Any", "None", "bool", "dict", "float", "int", "list", "object", "str", "tuple"}
_HEAD = '"""Written by ``python -m testing.stubs``."""\n\n'


def stub_path(package: str) -> Path:
    """The stub beside a package's ``__init__.py``."""
    return Path(importlib.import_module(package).__file__).with_suffix(".pyi")


def stub_text(package: str) -> str:
    """The stub of a package."""
    module = importlib.import_module(package)
    homes: dict[str, str] = {**_own_imports(module), **module._HOME}
    imports = {"import builtins", "from typing import Any"} | {_submodule(name) for name in getattr(module, "_SUBMODULES", ())}
    declarations = []
    for name in module.__all__:
        if name in getattr(module, "_SUBMODULES", ()):
            continue
        value = getattr(module, name)
        source = _source(name, value, homes.get(name))
        if source is not None:
            imports.add(f"from {source[0]} import {source[1]} as {name}")
        else:
            declarations.append(_declaration(name, value, imports))
    return _HEAD + "\n".join(sorted(imports)) + "\n\n" + "\n".join(filter(None, declarations)) + "\n"


def _submodule(name: str) -> str:
    """The import of a submodule; of one that is called like its main function (``tilelang.jit``), that function."""
    function = getattr(importlib.import_module(f"tilelang.{name}"), name, None)
    if inspect.isfunction(function):
        return f"from {function.__module__} import {name} as {name}"
    return f"from tilelang import {name} as {name}"


def _source(name: str, value: Any, home: str | None) -> tuple[str, str] | None:
    """The module, and the name there, by which a type checker finds a value; None where no statement defines it."""
    candidates = [(home, name), (getattr(value, "__module__", None), getattr(value, "__name__", None))]
    for module, there in candidates:
        if module is not None and there in _defined(module) and getattr(importlib.import_module(module), there) is value:
            return module, there
    return None


def _own_imports(module: Any) -> dict[str, str]:
    """Name -> module, of what a package imports by itself."""
    found = {}
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            found.update({alias.asname or alias.name: node.module for alias in node.names})
    return found


def _defined(home: str) -> set[str]:
    """Names that a module binds by a statement that a type checker reads."""
    return set(_bound(ast.parse(Path(importlib.util.find_spec(home).origin).read_text()).body))


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _declaration(name: str, value: Any, imports: set[str]) -> str:
    if inspect.isfunction(value):
        return _function(name, value)
    if inspect.ismodule(value):
        imports.add(_module(value.__name__, name))
        return ""
    kind = type(value)
    if kind.__module__ in ("builtins", "types"):
        return f"{name}: {f'builtins.{kind.__name__}' if kind.__module__ == 'builtins' and kind is not type else 'Any'}"
    imports.add(f"from {kind.__module__} import {kind.__qualname__}")
    return f"{name}: {kind.__qualname__}"


def _module(module: str, name: str) -> str:
    """The import of a module; a type checker exports ``name`` only where an import repeats it."""
    package, _, last = module.rpartition(".")
    return f"from {package} import {last} as {name}" if package else f"import {module} as {name}"


def _function(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    text = ", ".join(_parameters(list(signature.parameters.values())))
    doc = inspect.getdoc(value)
    body = f'    """{doc.splitlines()[0]}"""' if doc else "    ..."
    return f"def {name}({text}) -> {_annotation(signature.return_annotation)}:\n{body}"


def _annotation(given: Any) -> str:
    """An annotation that means the same in the stub: ``T.int``, ``T.bool`` and others hide the builtin types there."""
    if not isinstance(given, str) or not set(re.findall(r"\w+", given)) <= _BUILTIN:
        return "Any"
    return re.sub(r"\b(?!Any\b|None\b)(\w+)", r"builtins.\1", given)


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    kinds = inspect.Parameter
    starred = False
    for position, parameter in enumerate(parameters):
        after_positional = position and parameters[position - 1].kind is kinds.POSITIONAL_ONLY
        if after_positional and parameter.kind is not kinds.POSITIONAL_ONLY:
            yield "/"
        if parameter.kind is kinds.KEYWORD_ONLY and not starred:
            yield "*"
            starred = True
        prefix = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or prefix == "*"
        default = "" if parameter.default is kinds.empty else " = ..."
        yield f"{prefix}{parameter.name}: {_annotation(parameter.annotation)}{default}"
    if parameters and parameters[-1].kind is kinds.POSITIONAL_ONLY:
        yield "/"


def main(arguments: list[str]) -> int:
    """Writes or checks the stubs."""
    outdated = []
    for package in PACKAGES:
        path, text = stub_path(package), stub_text(package)
        if path.exists() and path.read_text() == text:
            continue
        outdated.append(package)
        if "--check" not in arguments:
            path.write_text(text)
            print(f"wrote {path.name} of {package}")
    if "--check" in arguments and outdated:
        print(f"outdated stubs: {', '.join(outdated)}; run python -m testing.stubs")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
