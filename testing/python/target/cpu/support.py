"""Compiling and running small programs on both CPU targets."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, VectorUnit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

WIDE = VectorUnit(bits=512, registers=32)
"""The registers of AVX-512, whatever this machine has."""

on_both = pytest.mark.parametrize("target", ["cpu", "c"])
"""LLVM and C: one lowering, two code generators."""


def build(program: Any, target: Any = "cpu", out_idx: Any = None, **options: Any) -> Any:
    """The compiled kernel of a program."""
    return tilelang.compile(program, out_idx=out_idx, target=target, **options)


def lowered(program: Any, **options: Any) -> Any:
    """The body of a program as loops over registers and panels, for the registers :data:`WIDE`; ``options`` are a request's."""
    request = CompileRequest(parse_target("cpu"), backend="tvm_ffi", **options)
    return run(pipeline.LLVM, program, CpuContext(request, "main", WIDE), stop_after="lower_tiles").value.body
