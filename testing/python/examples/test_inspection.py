"""The example that looks into kernels writes its pictures and its page; the README of the examples lists every example."""

from __future__ import annotations

import importlib.util

from testing.python.examples.test_examples import EXAMPLES


def test_every_question_is_answered(tmp_path, capfd):
    spec = importlib.util.spec_from_file_location("inspection", EXAMPLES / "inspection" / "inspection.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(tmp_path, 64, 64, 64)
    out = capfd.readouterr().out
    assert "top = [7.0, 15.0, 23.0]" in out and "__global__" in out and "findings: 0" in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fragment.svg", "report.html", "swizzled.svg", "tuning.svg"]
    assert all("<svg" in path.read_text() for path in tmp_path.glob("*.svg"))


def test_the_readme_lists_every_example():
    text = (EXAMPLES / "README.md").read_text()
    programs = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/example_*.py")]
    assert [program for program in programs if f"]({program})" not in text] == []
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    assert [link for link in links if not (EXAMPLES / link).exists()] == []
