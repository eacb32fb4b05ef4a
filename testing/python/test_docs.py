"""The documents name files that exist, and each page that describes a part of the package names all of its files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmark").glob("*.md")),
]
MAPS = {
    "tilelang/cache": ["design/cache-parts.md"],
    "tilelang/execution": ["execution.md"],
    "tilelang/fingerprint": ["design/source-key.md"],
    "tilelang/interpreter": ["interpreter.md"],
    "tilelang/layout": ["layout.md"],
    "tilelang/target/cpu": ["cpu.md"],
    "tilelang/target/cuda": ["cuda.md", "hopper.md", "cuda-toolchain.md"],
}
"""Folder -> the pages below ``docs`` that say what its files are."""

GENERATED = {"kernel.py", "first_kernel.py"}
"""Files of a cache entry, or of the reader."""


@cache
def source_files() -> set[str]:
    folders = ("tilelang", "src", "testing", "benchmark", "examples")
    return {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page: Path):
    text = page.read_text()
    paths = re.findall(r"`((?:tilelang|src|testing|benchmark|examples|docs)/[\w./-]+)`", text)
    modules = {
        name for code in re.findall(r"`([^`\n]+)`", text) for name in re.findall(r"(?<![\w./])[a-z_]\w*\.(?:py|pyx|cc)\b", code)
    }
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert not [path for path in paths if not (ROOT / path).exists()]
    assert not [name for name in sorted(modules - GENERATED) if name not in source_files() and not (ROOT / name).exists()]
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("folder", MAPS)
def test_the_map_of_a_folder_is_complete(folder: str):
    text = "".join((ROOT / "docs" / page).read_text() for page in MAPS[folder])
    files = {path.name for path in (ROOT / folder).rglob("*.py")} - {"__init__.py", "__main__.py"}
    assert not sorted(name for name in files if not re.search(rf"\b{re.escape(name)}", text))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_table_of_steps_is_complete(target: str):
    steps = re.findall(r'Step\(\s*"(\w+)"', (ROOT / "tilelang" / "target" / target / "pipeline.py").read_text())
    assert steps
    page = (ROOT / "docs" / f"{target}.md").read_text()
    assert [step for step in steps if not re.search(rf"^\|[^|]*\b{step}\b", page, re.MULTILINE)] == []


def test_every_page_is_in_the_menu_of_the_site():
    menu = (ROOT / "mkdocs.yml").read_text()
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert not [page for page in pages if page not in menu]


def test_the_api_page_of_the_language_has_every_module_that_gives_names():
    from tilelang.language import _MODULES

    page = (ROOT / "docs" / "api" / "language.md").read_text()
    listed = set(re.findall(r"^::: tilelang\.language\.(\S+)$", page, re.MULTILINE))
    homes = {module.removeprefix("tilelang.language.") for module in _MODULES if module.startswith("tilelang.language.")}
    assert listed == homes | {"tensors", "eager.builder"}


def test_workflows_run_commands_that_there_are():
    workflows = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    (listed,) = re.findall(r"command: (\[.*\])", workflows)
    commands = [*re.findall(r"dev\.py (\w+)", workflows), *(command.split()[0] for command in re.findall('"(.+?)"', listed))]
    known = re.findall(r'^    "(\w+)": \w+,$', (ROOT / "dev.py").read_text(), re.MULTILINE)
    assert commands == ["quickstart", "test", "package", "fuzz"] and set(commands) <= set(known)
    assert "run: .ci/run" in workflows and (ROOT / ".ci" / "run").is_file()
