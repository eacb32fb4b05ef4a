"""Steps of the C back end: the program as one readable C file, built with the system compiler."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang import temporary
from tilelang.ir import nodes as ir
from tilelang.target.cpu import helpers
from tilelang.target.cpu.c_stmt import CStatements
from tilelang.target.cpu.c_types import c_type, vector_typedef
from tilelang.target.cpu.codegen_llvm import ENTRY_LEVEL, Library, lower_entry, object_code
from tilelang.target.cpu.functions import FUNCTIONS
from tilelang.target.cpu.host import packed_entry
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.runtime_c import PRELUDE, WORKSPACE
from tilelang.target.cpu.script import EXPORTS, c_arguments, c_files, exports
from tilelang.target.postproc import rewritten
from tilelang.target.toolchain import c_compiler, run

_TUNING = (
    # As in the IR, integers wrap around and one memory may have several types; errno and traps are not observed; and a sum
    # may take a product that was not rounded, as on a GPU.
    "-O3", "-std=gnu11", "-fPIC", "-fno-strict-aliasing", "-fwrapv", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-w",
)  # fmt: skip


@dataclass(frozen=True)
class CSource:
    """A program as C text.

    Attributes:
        text: the file.
        failures: what the entry's positive return codes mean, from 1.
        program: the program that it was generated from.
    """

    text: str
    failures: tuple[str, ...]
    program: CpuProgram

    def script(self) -> str:
        """The C text."""
        return self.text


def emit_c(program: CpuProgram, context: Any) -> CSource:
    """The program as a C file with the plain entry point."""
    func = program.func
    statements = CStatements(context.name)
    parameters = [_parameter(statements, param) for param in func.params]
    body = list(statements.lines(func.body, 1))
    tasks = list(statements.tasks)
    called = [text for part in program.parts for text in _part(statements, part.func)]
    functions = [_function(statements, name) for name in program.all_functions]
    vectors = [vector_typedef(dtype) for dtype in statements.expr.vectors]
    own = [helpers.c_text(program.all_helpers)] if helpers.c_text(program.all_helpers) else []
    entry = [f"int32_t {context.name}_call({', '.join(parameters)}) {{", *body, "}"]
    workspace = [WORKSPACE] if "tl_workspace" in program.all_helpers else []
    imported = [str(program.signature.attrs["tl.import_source"])] if "tl.import_source" in (program.signature.attrs or {}) else []
    parts = [
        PRELUDE, *workspace, *vectors, "", *statements.expr.definitions.values(), *functions, *own, *imported, "",
        *called, *tasks, *entry,
    ]  # fmt: skip
    return CSource(rewritten("c", "\n".join(parts) + "\n", context.request.target), tuple(statements.failures), program)


def _parameter(statements: CStatements, param: Any) -> str:
    if isinstance(param.ty, ir.ir.PointerType):
        kind = statements.expr.type(param.ty.element_type)
        statements.visible[param] = f"{kind}*"
        return f"{kind}* {statements.expr.names(param)}"
    kind = statements.expr.type(param.ty)
    statements.visible[param] = kind
    return f"{kind} {statements.expr.names(param)}"


def _part(statements: CStatements, func: Any) -> list[str]:
    """A function that the kernel calls, after the functions over the blocks of its own parallel loops."""
    statements.visible = {}
    before = len(statements.tasks)
    distinct = "restrict " if func.attrs.get("tirx.noalias", False) else ""
    parameters = [_parameter(statements, param).replace("* ", f"* {distinct}") for param in func.params]
    head = f"static __attribute__((noinline)) int32_t {func.attrs['global_symbol']}({', '.join(parameters) or 'void'}) {{"
    body = list(statements.lines(func.body, 1))
    return [*statements.tasks[before:], "\n".join([head, *body, "}", ""])]


def _function(statements: CStatements, name: str) -> str:
    """A scalar function as ``static inline`` C."""
    function = FUNCTIONS[name]
    variables = [ir.Var(f"x{position}" if position else "x", dtype) for position, dtype in enumerate(function.arguments)]
    parameters = ", ".join(f"{c_type(str(v.ty))} {statements.expr.names(v)}" for v in variables)
    value = function.build(*variables)
    lines = []
    # Each `let` of the function is a local constant of the C function, in the same order.
    while isinstance(value, ir.Let):
        declared = f"const {statements.expr.type(value.var.ty)} {statements.expr.names(value.var)}"
        lines.append(f"  {declared} = {statements.expr(value.value)};")
        value = value.body
    lines.append(f"  return {statements.expr(value)};")
    return f"static inline {c_type(function.result)} {name}({parameters}) {{\n" + "\n".join(lines) + "\n}"


def build_c(source: CSource, context: Any) -> Library:
    """Compiles the C file and links it, with the checked entry of TVM's convention where that is wanted."""
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary.folder()) as folder:
        directory = Path(folder)
        (directory / "kernel.c").write_text(source.text)
        objects = [directory / "kernel.c"]
        kept = {}
        exported = [f"{context.name}_call", "tilelang_last_error"]
        if context.packed:
            entry = directory / "entry.o"
            kept["entry.o"] = _packed_entry(source, context)
            entry.write_bytes(kept["entry.o"])
            objects.append(entry)
            exported = ["__tvm_ffi_*"]
        (directory / EXPORTS).write_text(exports(exported))
        machine, flags = [*_TUNING, *_machine_flags(context)], context.request.compile_flags
        library, script = str(directory / "kernel.so"), str(directory / EXPORTS)
        log = run([c_compiler(), *c_arguments(machine, [*map(str, objects)], flags, library, script)])
        rebuild = c_files(context.library_file, machine, flags, exported, kept)
        return Library((directory / "kernel.so").read_bytes(), source.text, log, rebuild)


def _machine_flags(context: Any) -> list[str]:
    target = context.request.target
    if not target.triple.startswith("x86_64"):
        return ["-mcpu=native"]
    flags = [f"-m{feature}" for feature in target.instruction_sets]
    # Compilers prefer registers of 32 bytes even with AVX-512, because of clocks that older processors lowered.
    return [*flags, "-mprefer-vector-width=512"] if target.has("avx512f") else flags


def _packed_entry(source: CSource, context: Any) -> bytes:
    """TVM's entry: it checks the arguments, calls the C function, and raises the failure that its code stands for."""

    def failed(code: Any) -> Any:
        return [
            ir.AssertStmt(code != number, ir.StringImm("RuntimeError"), [ir.StringImm(message)])
            for number, message in enumerate(source.failures, start=1)
        ]

    entry = packed_entry(source.program.signature, context.name, failed)
    return object_code(lower_entry(entry, context), context, ENTRY_LEVEL)
