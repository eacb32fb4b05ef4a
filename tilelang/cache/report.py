"""One HTML page about a cache, with its data inside: nothing is loaded from anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tilelang.cache import store
from tilelang.cache.catalog import Catalog

_TEMPLATE = Path(__file__).with_name("report.html")
_COLUMNS = "key name target arch backend space bytes created compile_seconds hits last_used pinned reason".split()


def page(root: Path, catalog: Catalog) -> str:
    """The page as text."""
    data = {
        "root": str(root),
        "made": time.time(),
        "statistics": catalog.statistics(),
        "kernels": [_row(root, catalog, row) for row in catalog.kernels()],
    }
    # A name may hold anything: no character of it can end the script element.
    text = json.dumps(data).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _TEMPLATE.read_text(encoding="utf-8").replace("__DATA__", text)


def _row(root: Path, catalog: Catalog, row: dict[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in _COLUMNS}
    found["path"] = str(store.entry_path(root, row["key"]))
    found["functions"] = catalog.functions(row["key"])
    return found
