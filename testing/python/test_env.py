"""Environment variables: values that cannot be read, names that do not exist, and the page that lists them."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tilelang import env

PAGE = Path(__file__).parents[2] / "docs" / "environment.md"


def test_the_page_lists_every_variable():
    shown = {tuple(part.strip() for part in line.split("|")[1:-1]) for line in PAGE.read_text().splitlines()}
    rows = {(cells[0], *cells[2:]) for cells in shown if len(cells) == 4}
    for variable in env.VARIABLES.values():
        assert (f"`{variable.name}`", "yes" if variable.changes_code else "", variable.doc) in rows
    assert len(rows) == len(env.VARIABLES) + 2  # the header and the line below it


def test_a_name_that_does_not_exist_is_reported_once(monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DRI", "/nowhere")
    env.warn_unknown.cache_clear()
    with pytest.warns(UserWarning, match="unknown environment variable TILELANG_CACHE_DRI; did you mean TILELANG_CACHE_DIR?"):
        env.warn_unknown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.warn_unknown()


def test_a_value_that_cannot_be_read_leaves_the_default(monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_MAX_SIZE", "many")
    with pytest.warns(UserWarning, match="TILELANG_CACHE_MAX_SIZE='many' is ignored"):
        assert env.get("TILELANG_CACHE_MAX_SIZE") == 10 << 30


@pytest.mark.parametrize(("text", "size"), [("500M", 500 << 20), ("2GiB", 2 << 30), ("1.5 g", 3 << 29), ("0", 0)])
def test_sizes(monkeypatch, text, size):
    monkeypatch.setenv("TILELANG_CACHE_MAX_SIZE", text)
    assert env.get("TILELANG_CACHE_MAX_SIZE") == size
