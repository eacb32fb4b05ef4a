"""Running one program for CUDA on the simulator, with every checker on."""

from __future__ import annotations

from typing import Any

import tilelang
from tilelang.ir.access import READ, WRITE
from tilelang.target.cuda.compile import lower
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.code import Leaf
from tilelang.target.cuda.toolchain import nvrtc
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest


def cuda(arch: str = "sm_80") -> dict[str, str]:
    """A CUDA target."""
    return {"kind": "cuda", "arch": arch}


def simulate(program: Any, *tensors: Any, arch: str = "sm_80", pass_configs: dict | None = None) -> Any:
    """Calls ``program`` on the simulator; any finding is an error. Gives what the call returns."""
    with tilelang.simulator(strict=True):
        return tilelang.compile(program, target=cuda(arch), pass_configs=pass_configs)(*tensors)


def source(program: Any, arch: str = "sm_80", pass_configs: dict | None = None) -> str:
    """The CUDA text of a program."""
    return lower(program, CompileRequest(parse_target(cuda(arch)), pass_configs=pass_configs or {})).source


def budget(instructions: int) -> int:
    """The largest number of instructions of a loop, given the count with NVRTC 13.5; older versions generate a few more."""
    counted = tuple(map(int, nvrtc.version().split("."))) >= (13, 5)
    return instructions if counted else instructions * 104 // 100


def leaf_of(body: list[Any], **touched: Any) -> Leaf:
    """Device code with the storages that it ``reads``, ``writes``, ``copies`` to, ``loads`` in bulk, or multiplies."""
    kinds = {
        "reads": (READ, Agent.THREAD),
        "writes": (WRITE, Agent.THREAD),
        "copies": (WRITE, Agent.CP_ASYNC),
        "loads": (WRITE, Agent.BULK),
        "products": (READ, Agent.TENSOR_CORE),
    }
    return Leaf(body, tuple(Access(storage, *kinds[kind]) for kind, storages in touched.items() for storage in storages))
