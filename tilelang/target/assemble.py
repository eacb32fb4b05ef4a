"""Builds the artifact of a program from its target's files and the target-independent records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.artifact import KernelArtifact, KernelLaunch
from tilelang.assumptions import recorded
from tilelang.target.assumptions import assumptions
from tilelang.target.params import dynamic_names, kernel_params, unused_names
from tilelang.target.request import CompileRequest
from tilelang.tileop.base import plain
from tilelang.transform.writes import written_tensors


def assemble(
    func: Any,
    request: CompileRequest,
    files: Mapping[str, bytes],
    metadata: Mapping[str, Any],
    launches: tuple[KernelLaunch, ...] = (),
) -> KernelArtifact:
    """The artifact of ``func``, a ``PrimFunc``.

    Args:
        func: the lowered program, with the user's parameters.
        request: what was asked of the target.
        files: name in the cache entry -> content.
        metadata: what the target knows beside ``dynamic``, ``unused``, ``written``, ``returned`` and the assumptions.
        launches: device kernels in launch order.

    Raises:
        CompileError: a dynamic size that no argument gives.
    """
    params = kernel_params(func)
    about = {
        "dynamic": dynamic_names(params),
        "unused": unused_names(func, params),
        "written": written_tensors(func),
        **recorded(assumptions(func)),
    }
    if "tl.returned" in func.attrs:
        about["returned"] = tuple(plain(func.attrs["tl.returned"]))
    return KernelArtifact(
        name=str(func.attrs["global_symbol"]),
        target=request.target.text,
        backend=request.backend,
        params=params,
        out_idx=tuple(request.out_idx),
        files=files,
        launches=launches,
        metadata={**about, **metadata},
    )
