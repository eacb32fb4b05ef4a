"""One program on every target, compared with the interpreter, which defines what it means."""

from __future__ import annotations

from typing import Any

import torch

import tilelang
from testing.python.target.cuda.support import cuda
from tilelang import interpreter
from tilelang.errors import ThreadsOnCpuError

GPU = {arch: cuda(arch) for arch in ("sm_80", "sm_90a")}
EVERY = {"cpu": "cpu", "c": "c", **GPU}


def meaning(program: Any, *tensors: torch.Tensor, manual: bool = False) -> list[torch.Tensor]:
    """The tensors after a run in the interpreter, which must report no finding.

    Args:
        program: the program.
        tensors: its arguments.
        manual: whether it orders its threads itself.
    """
    after = [tensor.clone() for tensor in tensors]
    findings = interpreter.run(interpreter.Program(program, manual), *after)
    assert not findings, "\n".join(map(str, findings))
    return after


def check_meaning(program: Any, *tensors: torch.Tensor, pass_configs: dict | None = None) -> list[torch.Tensor]:
    """Checks that the tensors after a run on every target equal those of the interpreter, with all checkers of the simulator on.

    A CPU may refuse a program that names threads.

    Returns:
        The tensors afterwards.
    """
    wanted = meaning(program, *tensors, manual=bool((pass_configs or {}).get("tl.disable_thread_storage_sync")))
    for name, target in EVERY.items():
        found = [tensor.clone() for tensor in tensors]
        try:
            kernel = tilelang.compile(program, target=target, pass_configs=pass_configs)
        except ThreadsOnCpuError:
            assert name not in GPU
            continue
        with tilelang.simulator(strict=True):
            kernel(*found)
        for position, (one, other) in enumerate(zip(wanted, found)):
            assert torch.equal(one, other), f"{name}: tensor {position} is\n{other}\nand not\n{one}"
    return wanted
