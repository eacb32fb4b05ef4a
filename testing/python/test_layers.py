"""Imports go one way along docs/architecture.md: each part of the package knows those below it, and no others."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import tilelang
from tilelang.provided import PROVIDERS, provided

PACKAGE = Path(tilelang.__file__).parent
CUDA_FOLDER = PACKAGE / "target" / "cuda"

BELOW = {
    # part -> the parts that it may import
    "records": "",
    "recursion": "",
    "unknown": "",
    "callers": "",
    "env": "records unknown callers",
    "log": "",
    "code_texts": "",
    "provided": "",
    "errors": "records env",
    "ignored": "records callers errors",
    "policy": "",
    "refusals": "errors",
    "moved": "refusals",
    "attributes": "refusals moved",
    "dtypes": "provided attributes errors",
    "artifact": "records dtypes",
    "identifiers": "",
    "keywords": "",
    "progress": "",
    "temporary": "",
    "tensor_maps": "",
    "storage": "artifact",
    "sizes": "records artifact storage",
    "assumptions": "records artifact errors",
    "ir": "artifact dtypes errors",
    "layout": "provided attributes dtypes errors",
    "tileop": "ir dtypes errors policy",
    "frontend": "records recursion provided code_texts ignored keywords tileop ir artifact sizes dtypes storage errors",
    "language": "records unknown ignored attributes refusals moved frontend tileop ir layout dtypes policy errors",
    "transform": "recursion unknown attributes tileop ir layout dtypes errors",
    "interpreter": "recursion sizes tileop ir dtypes tensor_maps env errors",
    "target": (
        "records identifiers temporary assumptions transform tileop ir layout artifact dtypes sizes storage tensor_maps policy"
        " env errors"
    ),
    "simulator": "layout dtypes tensor_maps env errors",
    "execution": "records identifiers temporary simulator assumptions artifact sizes storage tensor_maps dtypes errors",
    "fingerprint": "code_texts moved env",
    "cache": "records provided temporary callers fingerprint artifact env errors",
    "option": "cache unknown",
    "utils": "target frontend ir attributes artifact storage dtypes errors unknown",
    "profiler": "ignored attributes keywords utils artifact simulator",
    "jit": (
        "records recursion unknown ignored attributes keywords progress temporary log cache fingerprint execution target"
        " interpreter transform language frontend tileop ir profiler option artifact assumptions storage dtypes env errors"
    ),
    "autotuner": "ir ignored attributes keywords progress jit cache fingerprint profiler simulator utils env errors",
}
"""What is not here (``testing``, ``tools`` and the like) is for programs: nothing in this table may import it."""

CUDA = {
    # the same for the parts of target/cuda; what is above the steps of the pipeline (compile, pipeline) may import all of them
    "arch": "",
    "operators": "",
    "ir": "",
    "toolchain": "",
    "intrinsics": "ir arch",
    "tile": "intrinsics ir operators arch",
    "analysis": "tile intrinsics ir operators arch",
    "normalise": "analysis tile intrinsics operators arch",
    "specialize": "analysis tile intrinsics operators arch",
    "inference": "analysis tile ir operators arch",
    "schedule": "analysis tile ir operators arch",
    "headers": "ir toolchain",
    "codegen": "schedule inference analysis tile intrinsics ir operators arch",
    "ops": "codegen schedule inference analysis tile intrinsics ir operators arch",
}


def imported(path: Path) -> Iterator[str]:
    """The parts of the package that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            part = rest.partition(".")[0]
            if package == "tilelang" and ((PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists()):
                yield part


def imported_of_cuda(path: Path) -> Iterator[str]:
    """The parts of target/cuda that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tilelang.target.cuda"):
            found = [f"{node.module}.{alias.name}".split(".")[3] for alias in node.names]
            yield from (part for part in found if (CUDA_FOLDER / part).is_dir() or (CUDA_FOLDER / f"{part}.py").exists())


def test_the_parts_of_the_cuda_target_import_one_way():
    known: set[str] = set()
    for part, below in CUDA.items():
        home = CUDA_FOLDER / part
        for path in sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]:
            assert set(imported_of_cuda(path)) <= {part, *below.split()}, path
        assert set(below.split()) <= known, f"{part} stands above what it imports"
        known.add(part)
    top = {"__init__", "compile", "pipeline"}
    parts = {path.stem for path in CUDA_FOLDER.iterdir() if path.is_dir() or path.suffix == ".py"} - {"__pycache__"}
    assert parts == known | top


def test_what_targets_share_knows_none_of_them():
    shared = [path for path in (PACKAGE / "target").rglob("*.py") if not {"cpu", "cuda"} & set(path.relative_to(PACKAGE).parts)]
    assert PACKAGE / "target" / "hosts" / "c.py" in shared
    for path in shared:
        modules = {node.module or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
        assert not any(module.startswith(("tilelang.target.cpu", "tilelang.target.cuda")) for module in modules), path


def test_imports_go_one_way():
    wrong = []
    for part, below in BELOW.items():
        home = PACKAGE / part
        for path in sorted(home.rglob("*.py")) if home.is_dir() else [home.with_suffix(".py")]:
            allowed = {part, "lib", *below.split()}
            wrong += [f"{path.relative_to(PACKAGE)} imports {other}" for other in imported(path) if other not in allowed]
    assert not wrong


def test_every_provided_function_exists():
    for name, (module, function) in PROVIDERS.items():
        assert callable(getattr(importlib.import_module(module), function)) and callable(provided(name))


def test_the_order_of_parts_has_no_cycle():
    known: set[str] = set()
    for part, below in BELOW.items():
        assert set(below.split()) <= known, f"{part} stands above what it imports"
        known.add(part)
