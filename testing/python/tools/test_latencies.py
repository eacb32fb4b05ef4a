"""``tilelang.testing.regression`` of scripts that measure their cases."""

from __future__ import annotations

import pytest

from tilelang.testing import process_func, regression


def regression_of_a_case():
    process_func(lambda scale: 2 * scale, "regression_case", scale=0.75)


def test_cases_are_printed(capsys):
    regression()
    assert capsys.readouterr().out == "case  1.5\n"


def other_failing():
    raise ValueError("out of memory")


def test_a_failing_case_does_not_end_the_others(capsys):
    with pytest.raises(SystemExit, match="failed: other_failing"):
        regression(("other_", "regression_of"))
    assert "1.5" in capsys.readouterr().out
