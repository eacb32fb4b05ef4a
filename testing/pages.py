"""The programs of documentation pages: their Python blocks run in order, and the block after each shows its output.

A ```` ```text ```` block directly after a ```` ```python ```` block is that block's output. The blocks of a page are one program,
in a file of the page's name, so that the lines that errors name are lines of the page's code.
"""

from __future__ import annotations

import ast
import ctypes
import re
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_AT_END = "__at_end_of_block__"
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A block of Python code.

    Attributes:
        code: its text.
        line: the lines of the page's program before it.
        shown: the output that the page shows, or None where it shows none.
        end: the position in the page where the block ends.
        after: the position where its output ends.
    """

    code: str
    line: int
    shown: str | None
    end: int
    after: int


def examples(page: str) -> list[Example]:
    """The Python blocks of a page, in order."""
    found: list[Example] = []
    line = 0
    for match in _BLOCK.finditer(page):
        end = match.end("code") + len("```\n")
        found.append(Example(match["code"], line, match["output"], end, match.end()))
        line += match["code"].count("\n") + 1
    return found


def run(page: str, name: str, folder: Path, captured: Callable[[], str]) -> list[str]:
    """Runs the program of a page.

    Args:
        page: the page's text.
        name: the name of the program's module.
        folder: where the program's file is written, since the front end reads the source of functions.
        captured: gives what was written to the standard output since its last call.

    Returns:
        What each block printed.
    """
    blocks = examples(page)
    path = folder / f"{name}.py"
    path.write_text("\n".join(block.code for block in blocks))
    module = types.ModuleType(name)
    outputs: list[str] = []
    module.__dict__.update({"__file__": str(path), _AT_END: lambda: outputs.append(_written(captured).replace(f"{folder}/", ""))})
    sys.modules[name] = module
    try:
        exec(_compiled(path, blocks), module.__dict__)
    finally:
        del sys.modules[name]
    return outputs


def _compiled(path: Path, blocks: list[Example]) -> types.CodeType:
    """The whole program, which calls ``_AT_END`` after each block.

    It is compiled at once, since Python compiles uses of a name differently where the file imports it.
    """
    tree = ast.parse(path.read_text(), str(path))
    ends = [following.line for following in blocks[1:]] + [sys.maxsize]
    body: list[ast.stmt] = []
    for start, end in zip([0, *ends], ends):
        body += [statement for statement in tree.body if start < statement.lineno <= end]
        body += ast.parse(f"{_AT_END}()").body
    tree.body = body
    return compile(tree, str(path), "exec", dont_inherit=True)


def _written(captured: Callable[[], str]) -> str:
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)  # what kernels print goes through C's own buffer
    return "".join(f"{line.rstrip()}\n" for line in captured().splitlines())


def with_outputs(page: str, outputs: list[str]) -> str:
    """The page with these outputs after its blocks."""
    for block, output in reversed(list(zip(examples(page), outputs, strict=True))):
        shown = f"\n```text\n{output}```\n" if output else ""
        page = page[: block.end] + shown + page[block.after :]
    return page
