"""The request that the JIT passes to a target."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilelang.artifact import KernelArtifact
from tilelang.target.info import TargetInfo

_PACKAGES = {"cpu": "tilelang.target.cpu", "c": "tilelang.target.cpu", "cuda": "tilelang.target.cuda"}


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """Everything but the program that decides what code is generated.

    Attributes:
        target: for what.
        backend: the execution backend that will load the artifact; it decides the host's calling convention.
        out_idx: positions of the parameters that a call allocates, ascending.
        pass_configs: ``PassConfigKey`` names and values.
        compile_flags: for the device or system compiler.
        dump_ir: keep the IR after each pass in the artifact.
        verbose: print what is done.
    """

    target: TargetInfo
    backend: str = "tvm_ffi"
    out_idx: tuple[int, ...] = ()
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    dump_ir: bool = False
    verbose: bool = False

    def config(self, key: Any, default: Any = None) -> Any:
        """The value of a pass configuration."""
        return self.pass_configs.get(str(getattr(key, "value", key)), default)


def compile_program(func: Any, request: CompileRequest) -> KernelArtifact:
    """Compiles a traced program (``PrimFunc``) for the request's target.

    Raises:
        CompileError: the program cannot be compiled for this target.
    """
    return importlib.import_module(_PACKAGES[request.target.kind]).compile_program(func, request)
