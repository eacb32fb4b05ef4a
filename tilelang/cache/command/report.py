"""One HTML page about a cache, with its data inside: nothing is loaded from anywhere.

A row is a list of numbers and of positions in tables of texts, since names, targets and reasons repeat: twenty thousand
kernels stay below two megabytes.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilelang.cache.command.catalog import LISTED, Catalog

_TEMPLATE = Path(__file__).with_name("report.html")
_KEY_DIGITS = 12
_OTHER_KEY = re.compile(r"\b[0-9a-f]{12}\b")
COLUMNS = "key name target backend bytes created seconds hits pinned reason other functions".split()
"""What a row holds, in order; ``reason`` has a gap, ``{}``, for the ``other`` key."""


class _Texts:
    """Texts by the order of their first use."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def listed(self) -> list[str]:
        return list(self._places)


def page(root: Path, catalog: Catalog) -> str:
    """The page as text."""
    texts = _Texts()
    functions = catalog.all_functions()
    data = {
        "root": str(root),
        "made": time.time(),
        "statistics": catalog.statistics(),
        "columns": COLUMNS,
        "rows": [_row(row, functions.get(row["key"], ()), texts) for row in catalog.kernels(columns=LISTED)],
        "texts": texts.listed(),
    }
    # A name may hold anything: no character of it can end the script element.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace("__DATA__", text)


def _row(row: Mapping[str, Any], functions: Sequence[str], texts: _Texts) -> list[Any]:
    other = _OTHER_KEY.search(row["reason"])
    return [
        row["key"][:_KEY_DIGITS],
        texts.place(row["name"]),
        texts.place(row["arch"] or row["target"]),
        texts.place(row["backend"]),
        row["bytes"],
        int(row["created"]),
        round(row["compile_seconds"], 3),
        row["hits"],
        int(row["pinned"]),
        texts.place(_OTHER_KEY.sub("{}", row["reason"], count=1)),
        other.group() if other else 0,
        texts.place("\n".join(functions)),
    ]
