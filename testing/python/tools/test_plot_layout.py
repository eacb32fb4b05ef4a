"""Pictures of layouts."""

import re

import pytest

import tilelang.language as T
from tilelang.tools import plot_layout

TRANSPOSED = T.Layout([2, 4], lambda i, j: (j, i))


def drawn(layout, folder, **options):
    """The texts of a picture's cells, row by row."""
    text = plot_layout(layout, save_directory=str(folder), name="picture", **options).read_text()
    rows: dict[str, list[str]] = {}
    for place, cell in re.findall(r'<text x="\d+" y="(\d+)">([^<]*)</text>', text):
        rows.setdefault(place, []).append(cell)
    return list(rows.values())


def test_the_input_and_the_output_view_of_a_layout(tmp_path):
    assert drawn(TRANSPOSED, tmp_path) == [["0", "2", "4", "6"], ["1", "3", "5", "7"]]
    assert drawn(TRANSPOSED, tmp_path, grid_shape=(4, 2)) == [["0", "2"], ["4", "6"], ["1", "3"], ["5", "7"]]
    assert drawn(TRANSPOSED, tmp_path, view="output") == [["0,0", "1,0", "0,1", "1,1"], ["0,2", "1,2", "0,3", "1,3"]]


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match='view is "input", or "output"'):
        drawn(TRANSPOSED, tmp_path, view="both")
    with pytest.raises(ValueError, match="8 cells do not fill a grid of 3 x 2"):
        drawn(TRANSPOSED, tmp_path, grid_shape=(3, 2))
    fragment = T.Fragment([8, 8], forward_fn=lambda i, j: (i * 4 + j // 2, j % 2))
    with pytest.raises(ValueError, match="for layouts of memory"):
        drawn(fragment, tmp_path, view="output")
