"""Steps of the LLVM back end: TVM's own lowering passes, machine code, and a shared library."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm
from tvm.tirx import transform as tirx

from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.legalize import LegalProgram
from tilelang.target.cpu.runtime_ll import runtime_text
from tilelang.target.cpu.toolchain import link_shared
from tilelang.target.info import TargetInfo


@dataclass(frozen=True)
class HostModule:
    """TVM's module of the entry function, lowered and ready for code generation."""

    module: Any

    def script(self) -> str:
        """Printed IR."""
        return self.module.script()


@dataclass(frozen=True)
class Library:
    """A shared library and the readable text that it was made from.

    Attributes:
        content: the bytes of the library.
        source: LLVM assembly or C.
        log: the linker's command and output.
    """

    content: bytes
    source: str
    log: str


def llvm_target(target: TargetInfo) -> Any:
    """TVM's target of a CPU, with the widest vectors that it has."""
    return _llvm_target(target.arch, target.triple, target.features)


@lru_cache(maxsize=8)
def _llvm_target(arch: str, triple: str, features: tuple[str, ...]) -> Any:
    attributes = [f"+{feature}" for feature in features]
    if "avx512f" in features:
        attributes.append("-prefer-256-bit")
    fields = {"kind": "llvm", "mcpu": arch, "mtriple": triple, "mattr": attributes}
    return ir.Target({name: value for name, value in fields.items() if value})


def lower_host(program: LegalProgram, context: Any) -> HostModule:
    """TVM's passes up to code generation: flat buffers, checked arguments, target intrinsics."""
    target = llvm_target(context.request.target)
    func = program.func
    imported = helpers.llvm_text(program.helpers)
    if imported:
        zero = ir.IntImm("int32", 0)
        func = func.with_body(ir.AttrStmt(zero, "pragma_import_llvm", ir.StringImm(imported), func.body))
    module = tirx.BindTarget(target.with_host(target))(tvm.IRModule.from_expr(func))
    entry = [tirx.AnnotateEntryFunc(), tirx.MakePackedAPI()] if context.packed else []
    passes = [
        tirx.FlattenBuffer(),
        tirx.StmtSimplify(),
        tirx.UnrollLoop(),
        *entry,
        # The parameters alone still name narrow formats, whose pointers LLVM code generation does not know.
        tirx.BF16StorageLegalize(),
        tirx.FP8StorageLegalize(),
        tirx.LowerTVMBuiltin(),
        tirx.LowerIntrin(),
        # Simplification copies expressions, and with them the variables that they bind.
        tirx.ConvertSSA(),
    ]
    return HostModule(tvm.transform.Sequential(passes)(module))


def generate(host: HostModule, context: Any) -> Library:
    """Machine code, linked with the run-time into a shared library that exports the entry point alone."""
    target = llvm_target(context.request.target)
    built = tvm.get_global_func("target.build.llvm")(host.module, target)
    with tempfile.TemporaryDirectory(prefix="tilelang-") as folder:
        directory = Path(folder)
        built.write_to_file(str(directory / "kernel.o"), "o")
        (directory / "runtime.o").write_bytes(_runtime_object(context.request.target.triple, context.packed))
        exported = ("__tvm_ffi_*",) if context.packed else (f"{context.name}_call", "tilelang_last_error")
        content, log = link_shared([directory / "kernel.o", directory / "runtime.o"], exported, directory)
    return Library(content, built.inspect_source("ll"), log)


def object_code(host: HostModule, context: Any) -> bytes:
    """The machine code of a module alone."""
    target = llvm_target(context.request.target)
    with tempfile.TemporaryDirectory(prefix="tilelang-") as folder:
        path = Path(folder) / "entry.o"
        tvm.get_global_func("target.build.llvm")(host.module, target).write_to_file(str(path), "o")
        return path.read_bytes()


@lru_cache(maxsize=8)
def _runtime_object(triple: str, packed: bool) -> bytes:
    """The run-time's machine code; compiled once a process."""
    with tempfile.TemporaryDirectory(prefix="tilelang-") as folder:
        source, target = Path(folder) / "runtime.ll", Path(folder) / "runtime.o"
        source.write_text(runtime_text(triple, packed))
        tvm.runtime.load_module(str(source)).write_to_file(str(target), "o")
        return target.read_bytes()
