"""The programs of the README, the tutorial and the how-to pages run, and print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testing import pages
from tilelang.target.cuda.toolchain import nvrtc

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
COMPILER = "13.5"
"""The version of NVRTC that the pages show instructions of."""
_OF_THE_COMPILER = re.compile(r" *\d+ instructions|PTX line \d+")
PAGES = [ROOT / "README.md", *sorted(path for folder in ("tutorial", "howto") for path in (DOCS / folder).glob("*.md"))]


@pytest.mark.assembled
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_shows_what_its_program_prints(path: Path, request, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    page = path.read_text()
    name = re.sub(r"^\d+-|-", lambda match: "_" if match[0] == "-" else "", path.stem)
    outputs = pages.run(page, name, tmp_path, lambda: capfd.readouterr().out)
    shown = pages.with_outputs(page, outputs)
    if request.config.getoption("--update-golden"):
        path.write_text(shown)
    if nvrtc.version() != COMPILER:
        page, shown = (_OF_THE_COMPILER.sub("(of the compiler)", text) for text in (page, shown))
    assert shown == page or request.config.getoption("--update-golden"), _difference(page, shown)


def _difference(page: str, shown: str) -> str:
    import difflib

    lines = difflib.unified_diff(page.splitlines(), shown.splitlines(), "the page", "what its program prints", lineterm="")
    return "run pytest with --update-golden and review the change:\n" + "\n".join(lines)


def test_every_chapter_shows_outputs():
    chapters = [path for path in PAGES if path.parent.name == "tutorial"]
    assert len(chapters) == 8
    assert all(any(block.shown for block in pages.examples(path.read_text())) for path in chapters)


PAGE = """Text.

```python
x = 2
print(x)
```

```text
old
```

More.

```python
y = x + 1
```
"""


def test_outputs_replace_those_of_the_page(tmp_path, capfd):
    outputs = pages.run(PAGE, "program", tmp_path, lambda: capfd.readouterr().out)
    assert outputs == ["2\n", ""]
    assert pages.with_outputs(PAGE, outputs) == PAGE.replace("old", "2")


def test_the_lines_of_a_program_are_those_of_its_blocks(tmp_path, capfd):
    page = PAGE.replace("y = x + 1", "y = x / 0")
    with pytest.raises(ZeroDivisionError) as raised:
        pages.run(page, "program", tmp_path, lambda: capfd.readouterr().out)
    assert (tmp_path / "program.py").read_text().splitlines()[raised.traceback[-1].lineno] == "y = x / 0"
