"""Steps of the LLVM back end: TVM's own lowering passes, machine code, and a shared library."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm_ffi

from tilelang import temporary
from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, float_constant
from tilelang.target.cpu import helpers
from tilelang.target.cpu.host import packed_entry
from tilelang.target.cpu.program import CpuProgram
from tilelang.target.cpu.runtime_ll import runtime_text
from tilelang.target.cpu.script import llvm_files
from tilelang.target.info import TargetInfo
from tilelang.target.toolchain import link_shared

_passes = ir.tirx.transform

KERNEL_LEVEL, ENTRY_LEVEL = 3, 0
"""LLVM's optimisation levels: for the kernel, and for the entry that checks arguments (long code that runs once a call)."""


_OPTIONS = ["-vectorize-scev-check-threshold:uint=0", "-small-loop-cost:uint=100"]
"""LLVM's options. Its vectoriser takes an index modulo a power of two for one that never wraps around, if another check of the
same loop seems to imply it: stores then leave the buffer. So loops that would need such checks stay scalar. And it leaves a loop
of more than 20 operations to the processor, whose window holds too little of an elementary function: two vectors at once take 0.8
of the time in GELU."""


@dataclass(frozen=True)
class HostModule:
    """TVM's modules, lowered and ready for code generation.

    Attributes:
        kernel: the kernel with its plain entry.
        entry: the entry of TVM's convention, or None.
    """

    kernel: Any
    entry: Any

    def script(self) -> str:
        """Printed IR."""
        return "\n".join(module.script() for module in (self.kernel, self.entry) if module is not None)


@dataclass(frozen=True)
class Library:
    """A shared library and the readable text that it was made from.

    Attributes:
        content: the bytes of the library.
        source: LLVM assembly or C.
        log: the linker's command and output.
        rebuild: ``compile.sh`` and the files that it needs beside the source.
    """

    content: bytes
    source: str
    log: str
    rebuild: Mapping[str, bytes]


@lru_cache(maxsize=8)
def llvm_target(
    arch: str, triple: str, features: tuple[str, ...], level: int, without: tuple[str, ...] = (), distinct: bool = True
) -> Any:
    """TVM's target of a CPU, with the widest vectors that it has.

    Args:
        arch: LLVM's name of the processor.
        triple: LLVM's target triple.
        features: names of the instruction set extensions that the code may use.
        level: LLVM's optimisation level, 0 to 3.
        without: extensions of the processor that the code may not use.
        distinct: whether buffers of different names are different memory. TVM gives each a class of its own for LLVM's analysis
            of aliases by type, parameters of functions that are not ``noalias`` included.
    """
    attributes = [*(f"+{feature}" for feature in features if feature not in without), *(f"-{feature}" for feature in without)]
    # For several processors with AVX-512 LLVM prefers vectors of 256 bits, since wide ones lowered the clock of the first of
    # them.
    if "avx512f" in features:
        attributes.append("-prefer-256-bit")
    fields = {"kind": "llvm", "mcpu": arch, "mtriple": triple, "mattr": attributes, "opt-level": level}
    fields["cl-opt"] = _OPTIONS if distinct else [*_OPTIONS, "-enable-tbaa:bool=0"]
    # A field without text means the processor's default; level 0 is a level.
    return ir.Target({name: value for name, value in fields.items() if value or value == 0})


def _target(info: TargetInfo, level: int, without: tuple[str, ...] = (), distinct: bool = True) -> Any:
    return llvm_target(info.arch, info.triple, info.instruction_sets, level, without, distinct)


_QUADWORDS = "avx512dq"
"""The extension with multiplications and conversions of vectors of 64-bit integers. LLVM 22 also makes the mask of the signs of
32- or 64-bit elements by it, and where that comes to a general register turns it into ``vmovmskps``, also on vector registers 16
to 31, which ``vmovmskps`` cannot name: it reads another register (LLVM's issue 191304)."""
_MASK_IN_REGISTER = re.compile(r"extractelement <\d+ x i1>|bitcast <\d+ x i1>|@llvm\.vector\.reduce\.\w+\.v\d+i1|@llvm\.masked\.")
"""LLVM IR that may bring the mask of a vector to a general register."""
_ON_QUADWORDS = re.compile(r"\bmul (?:n[us]w )*<\d+ x i64>|\b[su]itofp <\d+ x i64>|\bfpto[su]i <.* to <\d+ x i64>")
"""LLVM IR that the extension has instructions for."""


def lower_host(program: CpuProgram, context: Any) -> HostModule:
    """TVM's passes up to code generation, for the kernel and for the checked entry.

    The kernel meets no pass that simplifies expressions: TVM's analyzer takes floats for real numbers.
    """
    func, parts = program.func, [part.func for part in program.parts]
    imported = helpers.llvm_text(program.all_helpers)
    if imported:
        zero = ir.IntImm("int32", 0)
        func = func.with_body(ir.AttrStmt(zero, "pragma_import_llvm", ir.StringImm(imported), func.body))
    kernel = _passed(
        [func, *parts],
        context,
        [_passes.UnrollLoop(), _passes.LowerTVMBuiltin(), _passes.ConvertSSA()],
    )
    for name, each in kernel.functions.items():
        kernel.update_func(name, each.with_body(tvm_ffi.structural_map(each.body, [(ir.Call, _without_null_pointer)])))
    entry = lower_entry(packed_entry(program.signature, context.name, _pass_on), context) if context.packed else None
    return HostModule(kernel, entry)


_INTEGERS = ("int", "uint")
_NUMBERS = (*_INTEGERS, "float")


def _without_null_pointer(call: Any) -> Any:
    """Zero in place of the bits of an integer constant 0, which TVM's code generator takes for a null pointer; unrolled loops
    leave constants like ``min(0, 3)``, which LLVM folds as it makes them."""
    if not isinstance(call.op, ir.Op) or call.op.name != "tirx.reinterpret":
        return call
    (value,), dtype = call.args, str(call.ty)
    known = as_int(value) if str(value.ty).startswith(_INTEGERS) else None
    if isinstance(known, int) and known == 0 and dtype.startswith(_NUMBERS):
        return float_constant(0.0, dtype) if canonical(dtype).is_float else ir.IntImm(dtype, 0)
    return call


def _pass_on(code: Any) -> Any:
    """The kernel has set the error already: returns at once with a failure."""
    leave = ir.Evaluate(ir.Call(ir.Op.get("tirx.tvm_throw_last_error"), [], ret_ty="int32"))
    return ir.IfThenElse(code != 0, leave, None)


def lower_entry(func: Any, context: Any) -> Any:
    """The entry of TVM's convention: it checks the arguments."""
    passes = [
        _passes.FlattenBuffer(),
        _passes.AnnotateEntryFunc(),
        _passes.MakePackedAPI(),
        # The parameters name narrow formats, whose pointers LLVM code generation does not know.
        _passes.BF16StorageLegalize(),
        _passes.FP8StorageLegalize(),
        _passes.LowerTVMBuiltin(),
        _passes.LowerIntrin(),
        _passes.ConvertSSA(),
    ]
    return _passed([func], context, passes)


def _passed(functions: list[Any], context: Any, passes: list[Any]) -> Any:
    target = _target(context.request.target, KERNEL_LEVEL)
    module = ir.tvm.IRModule({str(func.attrs["global_symbol"]): func for func in functions})
    module = _passes.BindTarget(target.with_host(target))(module)
    return ir.tvm.transform.Sequential(passes)(module)


def _without_addresses(text: str) -> str:
    """The text with numbers for the names of alias classes, which are addresses of the compiler's objects."""
    numbers: dict[str, int] = {}
    return re.sub(r'!"(0x[0-9a-f]+)"', lambda found: f'!"buffer{numbers.setdefault(found[1], len(numbers))}"', text)


def generate(host: HostModule, context: Any) -> Library:
    """Machine code, linked with the run-time into a shared library that exports the entry point alone."""
    kernel, source = _kernel(host.kernel, context)
    objects = {"kernel.o": _object(kernel), "runtime.o": runtime_object(context.request.target.triple, context.packed)}
    exported: tuple[str, ...] = (f"{context.name}_call", "tilelang_last_error")
    if host.entry is not None:
        objects["entry.o"] = object_code(host.entry, context, ENTRY_LEVEL)
        exported = ("__tvm_ffi_*",)
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary.folder()) as folder:
        directory = Path(folder)
        for name, content in objects.items():
            (directory / name).write_bytes(content)
        content, log = link_shared([directory / name for name in objects], exported, directory)
    kept = {name: code for name, code in objects.items() if name != "kernel.o"}
    return Library(content, _without_addresses(source), log, llvm_files(context.library_file, exported, kept))


def _kernel(module: Any, context: Any) -> tuple[Any, str]:
    """A kernel's machine code, and its LLVM assembly after optimisation."""
    level = _level(context.request.compile_flags)
    without = (_QUADWORDS,) if context.request.target.has(_QUADWORDS) else ()
    built = _build(module, context, level, without)
    source = built.inspect_source("ll")
    if not without or not _ON_QUADWORDS.search(source) or _MASK_IN_REGISTER.search(source):
        return built, source
    faster = _build(module, context, level)
    faster_source = faster.inspect_source("ll")
    return (built, source) if _MASK_IN_REGISTER.search(faster_source) else (faster, faster_source)


def _level(flags: Sequence[str]) -> int:
    """The optimisation level that the user's flags ask for; other flags are for other compilers."""
    return next((int(flag[2]) for flag in reversed(flags) if re.fullmatch("-O[0-3]", flag)), KERNEL_LEVEL)


def _build(module: Any, context: Any, level: int, without: tuple[str, ...] = ()) -> Any:
    distinct = all(func.attrs.get("tirx.noalias", True) for func in module.functions.values())
    return ir.tvm.get_global_func("target.build.llvm")(module, _target(context.request.target, level, without, distinct))


def object_code(module: Any, context: Any, level: int) -> bytes:
    """The object file of a lowered module.

    Args:
        module: TVM's module, after :func:`lower_host`.
        context: the context of the pipeline.
        level: LLVM's optimisation level, 0 to 3.
    """
    return _object(_build(module, context, level))


def _object(built: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary.folder()) as folder:
        path = Path(folder) / "code.o"
        built.write_to_file(str(path), "o")
        return path.read_bytes()


@lru_cache(maxsize=8)
def runtime_object(triple: str, packed: bool) -> bytes:
    """The run-time's machine code; compiled once a process."""
    with tempfile.TemporaryDirectory(prefix="tilelang-", dir=temporary.folder()) as folder:
        source, target = Path(folder) / "runtime.ll", Path(folder) / "runtime.o"
        source.write_text(runtime_text(triple, packed))
        ir.tvm.runtime.load_module(str(source)).write_to_file(str(target), "o")
        return target.read_bytes()
