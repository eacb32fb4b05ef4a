"""Instructions of warp groups, which find their operands by address: the interpreter has tiles, and no addresses."""

from __future__ import annotations

from typing import Any

from tilelang.errors import CompileError, UnsupportedError
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import intrinsic
from tilelang.interpreter.operators.table import rule
from tilelang.tileop.warp_group import FenceOperand, WarpGroupInstruction


def _refusal(what: str) -> CompileError:
    return UnsupportedError(f"{what} works on addresses, which the interpreter does not have", hint="T.wgmma_gemm works on tiles")


@intrinsic("wgmma_descriptor")
def _descriptor(c: Compiler, call: Any) -> Any:
    raise _refusal("T.initialize_wgmma_descriptor")


@rule(FenceOperand)
def _fence(c: Compiler, record: FenceOperand) -> Any:
    return lambda x: None


@rule(WarpGroupInstruction)
def _product(c: Compiler, record: WarpGroupInstruction) -> Any:
    raise _refusal(record.spelling)
