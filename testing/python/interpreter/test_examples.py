"""Every example under the interpreter: it checks itself against torch, and nothing may be found."""

import pytest

from testing.python.examples.test_examples import SMALL, run


@pytest.mark.parametrize("name", SMALL)
def test_example(name, capsys, monkeypatch):
    monkeypatch.setenv("TILELANG_INTERPRET", "1")
    run(name, capsys)
