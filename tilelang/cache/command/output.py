"""Output of the command line: aligned columns on a terminal, complete tab-separated lines in a pipe.

No character of a name or message reaches the terminal as a control. Styles are bold and dim, and follow ``NO_COLOR``.
"""

from __future__ import annotations

import json
import pydoc
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.text import Text

from tilelang.cache.printable import one_line, printable

_GAP = "  "
_NARROWEST = 16


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: its heading.
        exact: row -> the value, for a pipe.
        short: row -> the value on a terminal; as ``exact`` where it is None.
        right: aligned to the right.
        cut: may be shortened to fit the terminal.
        spare: left out where the terminal is narrow.
    """

    name: str
    exact: Callable[[Any], Any]
    short: Callable[[Any], Any] | None = None
    right: bool = False
    cut: bool = False
    spare: bool = False

    def shown(self, row: Any) -> str:
        """The value as a terminal shows it."""
        return one_line(str((self.short or self.exact)(row)))


def is_terminal() -> bool:
    """Whether a person reads the output."""
    return sys.stdout.isatty()


def say(text: str, style: str = "", error: bool = False) -> None:
    """Prints a line as it is: nothing in it is markup, and it is not wrapped.

    Args:
        text: the line; control characters are escaped.
        style: of rich, ``"bold"`` or ``"dim"``.
        error: print to stderr.
    """
    console = Console(stderr=error)
    console.print(Text(printable(text)), style=None if console.no_color else style or None, soft_wrap=True, highlight=False)


def facts(pairs: Mapping[str, Any]) -> None:
    """Prints names and values, one a line."""
    widest = max(map(len, pairs))
    for name, value in pairs.items():
        gap = " " * (widest - len(name) + 2) if is_terminal() else "\t"
        sys.stdout.write(f"{name}{gap}{one_line(str(value))}\n")


def as_json(value: Any) -> None:
    """Prints ``value`` as JSON."""
    print(json.dumps(value, indent=2, default=str))


def table(columns: Sequence[Column], rows: Sequence[Any], footer: str = "") -> None:
    """Prints rows: aligned on a terminal, through a pager where they do not fit; tab-separated in a pipe.

    Args:
        columns: what is shown of each row.
        rows: the objects that the columns read.
        footer: a line below, on a terminal only.
    """
    if not is_terminal():
        lines = ["\t".join(column.name for column in columns)]
        lines += ["\t".join(one_line(str(column.exact(row))) for column in columns) for row in rows]
        sys.stdout.write("\n".join(lines) + "\n")
        return
    size = shutil.get_terminal_size()
    head, *lines = _aligned(columns, rows, size.columns)
    if len(lines) + 2 > size.lines:
        pydoc.pager("\n".join([head, *lines, footer, ""]))
        return
    say(head, "bold")
    if lines:
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
    if footer:
        say(footer, "dim")


def _aligned(columns: Sequence[Column], rows: Sequence[Any], width: int) -> list[str]:
    cells = {column: [column.name, *map(column.shown, rows)] for column in columns}
    widths = {column: max(map(len, texts)) for column, texts in cells.items()}
    for column in reversed(columns):
        if column.spare and _total({c: min(w, _NARROWEST) if c.cut else w for c, w in widths.items()}) > width:
            del widths[column]
    while _total(widths) > width:
        column = max((column for column in widths if column.cut), key=widths.__getitem__, default=None)
        if column is None or widths[column] <= _NARROWEST:
            break
        widths[column] -= 1
    line = _GAP.join(f"{{:{'>' if column.right else '<'}{size}}}" for column, size in widths.items())
    cut = [[_cut(text, size) for text in cells[column]] for column, size in widths.items()]
    return [line.format(*row).rstrip() for row in zip(*cut, strict=True)]


def _total(widths: Mapping[Column, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def progress(title: str, silent: bool) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """What wraps the items of a long work: a bar on the terminal, silent otherwise."""
    console = Console(stderr=True)

    def show(items: Iterable[Any]) -> Iterable[Any]:
        return track(items, title, console=console, transient=True, disable=silent or not console.is_terminal)

    return show
