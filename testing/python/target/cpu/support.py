"""Compiling and running small programs on both CPU targets."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang

on_both = pytest.mark.parametrize("target", ["cpu", "c"])
"""LLVM and C: one lowering, two code generators."""


def build(program: Any, target: Any = "cpu", out_idx: Any = None, **options: Any) -> Any:
    """The compiled kernel of a program."""
    return tilelang.compile(program, out_idx=out_idx, target=target, **options)
