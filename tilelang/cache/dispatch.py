"""Dispatch tables: which schedule is the best for which dynamic sizes.

A table belongs to one tuning task. Rows are in the index; ``scripts/<name>/<hash>/dispatch_table.txt`` shows them.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.cache.disk import DiskCache
from tilelang.cache.entries import scripts

Sizes = tuple[int, ...]
SEARCHED_FOR_SIZES = 2


@dataclass(frozen=True, slots=True)
class Row:
    """The best schedule that is known for some sizes.

    Attributes:
        sizes: values of the table's dynamic variables.
        kernel_key: the kernel.
        config: the configuration that it was compiled with.
        seconds: what one call took.
    """

    sizes: Sizes
    kernel_key: str
    config: Mapping[str, Any]
    seconds: float


class DispatchTable:
    """The rows of one task.

    Args:
        disk: where they are kept; None keeps them in this process only.
        task: the tuning task's digest; None keeps them in this process only.
        name: the program's name.
        target: the target's text.
        variables: names of the dynamic variables, in the order of a row's sizes.
    """

    def __init__(self, disk: DiskCache | None, task: str | None, name: str, target: str, variables: tuple[str, ...]):
        self.task, self.name, self.target, self.variables = task, name, target, variables
        self._disk = disk if disk is not None and disk.keeps_index and task is not None else None
        self.rows: dict[Sizes, Row] = {}
        self._chosen: dict[Sizes, Row] = {}
        self._load()

    def put(self, row: Row) -> None:
        """Adds or replaces the row of its sizes."""
        self.rows[row.sizes] = row
        self._chosen.clear()
        if self._disk is None:
            return
        self._disk.index.put_dispatch(
            {
                "task": self.task,
                "sizes": json.dumps(row.sizes),
                "name": self.name,
                "target": self.target,
                "kernel_key": row.kernel_key,
                "config": json.dumps(dict(row.config), sort_keys=True),
                "seconds": row.seconds,
                "recorded": time.time(),
            }
        )
        self._disk.index.set_space([row.kernel_key], SEARCHED_FOR_SIZES)
        scripts.write(self._disk.root, self.name, str(self.task), scripts.DISPATCH_TABLE, self.text())

    def choose(self, sizes: Sizes) -> Row | None:
        """The row of these sizes, else of the nearest: sizes are compared by their ratio, variable by variable."""
        row = self._chosen.get(sizes)
        if row is None and self.rows:
            row = self._chosen[sizes] = min(self.rows.values(), key=lambda row: (distance(row.sizes, sizes), row.sizes))
        return row

    def text(self) -> str:
        """The table as readable text."""
        lines = [f"# {self.name}: the best schedule by size", " ".join((*self.variables, "seconds", "kernel", "config"))]
        for row in sorted(self.rows.values(), key=lambda row: row.sizes):
            config = json.dumps(dict(row.config), sort_keys=True)
            lines.append(" ".join((*map(str, row.sizes), f"{row.seconds:.3e}", row.kernel_key[:12], config)))
        return "\n".join(lines) + "\n"

    def _load(self) -> None:
        if self._disk is None:
            return
        for sizes, kernel_key, config, seconds in self._disk.index.dispatch(str(self.task)):
            row = Row(tuple(json.loads(sizes)), kernel_key, json.loads(config), seconds)
            if len(row.sizes) == len(self.variables):
                self.rows[row.sizes] = row


def distance(one: Sizes, other: Sizes) -> float:
    """The distance between sizes: the sum of the logarithms of their ratios."""
    return sum(abs(math.log2(max(a, 1) / max(b, 1))) for a, b in zip(one, other, strict=True))
