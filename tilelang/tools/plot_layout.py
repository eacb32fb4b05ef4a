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
    view: str = "input",
    grid_shape: tuple[int, int] | None = None,
) -> Path:
    """Draws a layout as ``<save_directory>/<name>.svg``.

    A cell of a fragment says which thread and register hold the element; a cell of a memory layout says where the element lies.

    Args:
        layout: a ``T.Layout``, ``T.Fragment`` or swizzled layout; all axes but the last make rows.
        save_directory: made where it is missing.
        name: of the file, without ``.svg``.
        verbose: also prints every element.
        view: ``"output"`` draws a memory layout's memory: a cell says which element lies there.
        grid_shape: rows and columns of the picture; their product is the number of cells.
        colormap, formats: have no effect; a value warns.

    Returns:
        The file.

    Raises:
        ValueError: the view is neither of the two, or of a fragment's registers, or the cells do not fill the grid.
    """
    ignored("plot_layout", colormap=colormap, formats=unless("svg", formats))
    shape = tuple(int(extent) for extent in layout.shape)
    if view == "output" and not isinstance(layout, FragmentLayout):
        flat, columns = _memory(layout, shape)
    elif view == "input":
        flat, columns = [_cell(layout, index) for index in _indices(shape)], shape[-1]
    else:
        raise ValueError(f'plot_layout: view is "input", or "output" for layouts of memory, not {view!r}')
    rows, columns = grid_shape or (len(flat) // columns, columns)
    if rows * columns != len(flat):
        raise ValueError(f"plot_layout: {len(flat)} cells do not fill a grid of {rows} x {columns}")
    cells = [flat[row * columns : (row + 1) * columns] for row in range(rows)]
    if verbose:
        for row in cells:
            print(" ".join(text for text, _ in row))
    path = Path(save_directory) / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_picture(cells))
    return path


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(extent) for extent in shape)))


def _memory(layout: Any, shape: Sequence[int]) -> tuple[list[tuple[str, int]], int]:
    """The elements in the order in which they lie in memory, gaps included, and the columns of the picture."""
    places = {int(layout.offset(index)): (element, index) for element, index in enumerate(_indices(shape))}
    size = max(places) + 1
    cells = [(",".join(map(str, places[place][1])), places[place][0]) if place in places else ("", 0) for place in range(size)]
    return cells, shape[-1] if size % shape[-1] == 0 else size


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
