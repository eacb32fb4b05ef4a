"""Running programs on the interpreter."""

from __future__ import annotations

from typing import Any

from tilelang import interpreter


def run(program: Any, *arguments: Any, checks: bool = True) -> None:
    """Runs a program in which nothing may be found."""
    findings = interpreter.run(program, *arguments, checks=checks)
    assert not findings, "\n".join(map(str, findings))


def kinds(program: Any, *arguments: Any) -> list[str]:
    """The kinds of what is found in a program."""
    return [finding.kind for finding in interpreter.run(program, *arguments)]
