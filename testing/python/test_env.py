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


@pytest.mark.parametrize(("text", "size"), [("500M", 500 << 20), ("2GiB", 2 << 30), ("1.5 g", 3 << 29), ("0", 0)])
def test_sizes(monkeypatch, text, size):
    monkeypatch.setenv("TILELANG_CACHE_MAX_SIZE", text)
    assert env.get("TILELANG_CACHE_MAX_SIZE") == size


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("TILELANG_CACHE_MAX_SIZE", "lots", "a size such as 500M or 2G"),
        ("TILELANG_CACHE_MAX_SIZE", "inf", "a size such as 500M or 2G"),
        ("TILELANG_CACHE_MAX_SIZE", "-1", "a size such as 500M or 2G"),
        ("TILELANG_CACHE_URL_TIMEOUT", "soon", "seconds, such as 2.5"),
        ("TILELANG_CACHE_URL_TIMEOUT", "nan", "seconds, such as 2.5"),
        ("TILELANG_DEVICE", "simulatr", "simulator or auto"),
        ("TILELANG_TRACEBACK", "ful", "short or full"),
        ("TILELANG_INTERPRET", "maybe", "1 or 0"),
    ],
)
def test_a_value_that_cannot_be_read_is_reported_once_at_the_users_line(monkeypatch, name, text, expected):
    monkeypatch.setenv(name, text)
    env._warn_ignored.cache_clear()
    with pytest.warns(UserWarning) as caught:
        assert [env.get(name), env.get(name)] == [env.VARIABLES[name].default] * 2
    assert [str(each.message) for each in caught] == [f"{name}={text!r} is ignored: expected {expected}"]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", sorted(env.VARIABLES))
def test_an_empty_value_is_no_value(monkeypatch, name):
    monkeypatch.setenv(name, "")
    assert env.get(name) == env.VARIABLES[name].default
