"""Layouts as pictures: one cell an element, coloured by the thread that holds it or by its place in memory."""

from __future__ import annotations

import colorsys
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from tilelang.ignored import ignored, unless
from tilelang.layout import FragmentLayout

_CELL = (64, 36)
"""Width and height of a cell in pixels."""


def plot_layout(
    layout: Any,
    save_directory: str = "./tmp",
    name: str = "layout",
    colormap: str = "",
    verbose: bool = False,
    formats: Any = "svg",
    view: Any = None,
    grid_shape: Any = None,
) -> Path:
    """Draws a layout as ``<save_directory>/<name>.svg``.

    A cell of a fragment says which thread and register hold the element; a cell of a memory layout says where the element lies.

    Args:
        layout: a ``T.Layout``, ``T.Fragment`` or swizzled layout; all axes but the last make rows.
        save_directory: made where it is missing.
        name: of the file, without ``.svg``.
        verbose: also prints every element.
        colormap, formats, view, grid_shape: have no effect; a value warns.

    Returns:
        The file.
    """
    ignored("plot_layout", colormap=colormap, formats=unless("svg", formats), view=view, grid_shape=grid_shape)
    shape = tuple(int(extent) for extent in layout.shape)
    rows = itertools.product(*(range(extent) for extent in shape[:-1]))
    cells = [[_cell(layout, (*row, column)) for column in range(shape[-1])] for row in rows]
    if verbose:
        for row in cells:
            print(" ".join(text for text, _ in row))
    path = Path(save_directory) / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_picture(cells))
    return path


def _cell(layout: Any, index: Sequence[int]) -> tuple[str, int]:
    """The text of an element, and the number that colours it."""
    if isinstance(layout, FragmentLayout):
        register = layout.locate(index)[1]
        owners = layout.owners(index)
        threads = f"T{owners[0]}" if len(owners) == 1 else f"T{owners[0]}+{len(owners) - 1}"
        return f"{threads}:{register}", owners[0]
    offset = int(layout.offset(index))
    return str(offset), offset


def _picture(cells: Sequence[Sequence[tuple[str, int]]]) -> str:
    width, height = _CELL
    most = max(number for row in cells for _, number in row) + 1
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(cells[0])}" height="{height * len(cells)}"'
        ' font-family="monospace" font-size="11" text-anchor="middle">'
    ]
    for y, row in enumerate(cells):
        for x, (text, number) in enumerate(row):
            red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(number / most, 0.35, 1.0))
            lines.append(
                f'<rect x="{x * width}" y="{y * height}" width="{width}" height="{height}"'
                f' fill="rgb({red},{green},{blue})" stroke="black"/>'
                f'<text x="{x * width + width // 2}" y="{y * height + height // 2 + 4}">{escape(text)}</text>'
            )
    return "\n".join([*lines, "</svg>\n"])
