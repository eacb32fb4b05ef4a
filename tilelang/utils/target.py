"""Which target a name means."""

from __future__ import annotations

from typing import Any


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target that ``target`` means here: CUDA where there is a device, else the CPU, for ``"auto"``.

    Args:
        return_object: give a ``tvm.target.Target`` instead of its kind and architecture as a dict.

    Raises:
        UnknownTargetError: no such target.
    """
    from tilelang.target.info import parse_target

    info = parse_target(target)
    found = {"kind": "cuda", "arch": info.arch} if info.kind == "cuda" else info.kind
    if not return_object:
        return found
    from tilelang.ir import nodes as ir

    return ir.Target("llvm" if info.kind == "cpu" else found)
