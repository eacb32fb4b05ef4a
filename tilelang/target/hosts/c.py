"""The host as C: a plain entry ``<name>_call``, and for tvm-ffi a packed entry ``__tvm_ffi_<name>`` around it."""

from __future__ import annotations

import json
from collections.abc import Callable

from tilelang.artifact import Dim, KernelLaunch, KernelParam
from tilelang.dtypes import canonical
from tilelang.identifiers import is_taken
from tilelang.target.hosts.text import INTEGER_BITS, MAP_BYTES, HostProgram, Names, launch_steps, tensor_maps
from tilelang.tensor_maps import EMPTY_BASE, EMPTY_STRIDE

_RESERVED = (
    "stream runtime module refused config args given result shape strides extent encodable floordiv floormod ceildiv bits"
).split()
"""What hosts call their own variables and functions."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}

_NO_SIZE = "INT64_MIN / 4"
"""What division by zero gives: no tensor has that size, and no launch that extent."""

_DECLARATIONS = """\
#include <stdint.h>
#include <string.h>

typedef struct {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t shared_bytes;
  uint32_t flags; /* 1: co-resident blocks, 2: may start before the previous kernel ends */
  void* stream;
} tl_launch;

typedef struct {
  int32_t device_type;
  int32_t (*launch)(void* module, int32_t kernel, const tl_launch* config, void** args);
  int32_t (*encode_tensor_map)(void* module, int32_t kernel, int32_t map, void* base, const uint64_t* shape,
                               const uint64_t* strides, void* out);
  void* (*current_stream)(int32_t device_type, int32_t device_id);
  const char* (*last_error)(void);
} tl_runtime;

#define EXPORT __attribute__((visibility("default")))

static const tl_runtime* runtime;
static void* module;
static _Thread_local const char* refused; /* what the program assumes of a call, and the last one did not meet */

/* The loader gives the device runtime and the loaded kernels. */
EXPORT void {name}_bind(const tl_runtime* given, void* loaded) {
  runtime = given;
  module = loaded;
}

EXPORT const char* tilelang_last_error(void) {
  return refused ? refused : runtime ? runtime->last_error() : "the kernel was not bound to a device";
}
"""

_HELPERS = {
    # C rounds a quotient towards zero, the language rounds it down (or up). Where it is no whole number, that is one less if it
    # is negative (or one more if it is positive).
    **{
        name: f"static int64_t {name}(int64_t a, int64_t b) {{ return b ? {value} : {_NO_SIZE}; }}"
        for name, value in {
            "floordiv": "a / b - (a % b != 0 && (a < 0) != (b < 0))",
            "floormod": "((a % b) + b) % b",
            "ceildiv": "a / b + (a % b != 0 && (a < 0) == (b < 0))",
        }.items()
    },
    "min": "static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }",
    "max": "static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }",
    # A negative size is an empty grid. The largest extent is 2**31 - 1 (CUDA programming guide, "Technical Specifications").
    "extent": "static uint32_t extent(int64_t size) { return size < 0 ? 0 : size > 0x7fffffff ? 0x7fffffff : (uint32_t)size; }",
    # What stands for a tensor without elements: tilelang.tensor_maps.encodable.
    "encodable": f"""\
static void* encodable(void* base, int rank, uint64_t* shape, uint64_t* strides) {{ /* the driver knows no empty tensors */
  int empty = 0;
  for (int axis = 0; axis < rank; ++axis) empty |= shape[axis] == 0;
  if (!empty) return base;
  for (int axis = 0; axis < rank; ++axis) shape[axis] = 1;
  for (int axis = 0; axis + 1 < rank; ++axis) strides[axis] = {EMPTY_STRIDE};
  return (void*){EMPTY_BASE};
}}""",
    # A double has 52 bits of fraction and float16 has ten: 42 are rounded off, and one more for each power of two below the least
    # normal number, 2**-14. A carry out of the fraction increments the exponent, which gives the next power of two, or infinity.
    "half_bits": """\
static uint16_t half_bits(double value) { /* to nearest, ties to even */
  uint64_t bits;
  memcpy(&bits, &value, 8);
  const uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  const uint64_t fraction = bits & 0xfffffffffffffull;
  if (exponent == 1024) return sign | 0x7c00 | (fraction ? 0x200 : 0);
  if (exponent > 15) return sign | 0x7c00;
  if (exponent < -25) return sign;
  const int shift = exponent >= -14 ? 42 : 28 - exponent;
  const uint64_t full = fraction | (1ull << 52), kept = full >> shift, rest = full & ((1ull << shift) - 1);
  const uint64_t rounded = kept + (rest > 1ull << (shift - 1) || (rest == 1ull << (shift - 1) && (kept & 1)));
  return (uint16_t)(sign | (exponent >= -14 ? rounded + ((uint64_t)(exponent + 14) << 10) : rounded));
}""",
    "bfloat_bits": """\
static uint16_t bfloat_bits(double value) { /* to nearest, ties to even, from float32 */
  const float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, 4);
  if (single != single) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}""",
}


def c_source(program: HostProgram, packed: bool) -> str:
    """The host's text; with ``packed`` it has tvm-ffi's entry too."""
    body = _Entry(program).text()
    if packed:
        from tilelang.target.hosts.packed import packed_entry

        body += "\n" + packed_entry(program)
    helpers = "\n".join(text for name, text in _HELPERS.items() if f"{name}(" in body)
    head = f"/* Host of {program.name}: launches its kernels in order. */\n"
    return f"{head}{_DECLARATIONS.replace('{name}', program.name)}\n{helpers}\n\n{body}"


class _Entry:
    """Text of the plain entry."""

    def __init__(self, program: HostProgram):
        self.program = program
        self.names = Names([*_RESERVED, f"{program.name}_call", f"{program.name}_bind"], is_taken)
        self.lines: list[str] = []
        self.indent = ""

    def text(self) -> str:
        """``int32_t <name>_call(...)``."""
        parameters = [f"{_plain_type(param)} {self.names.of(param)}" for param in self.program.params]
        parameters += [f"int64_t {self.names(name)}" for name in self.program.dynamic]
        parameters.append("void* stream")
        if self.program.assumptions:
            self._emit("refused = 0;")
        for assumption in self.program.assumptions:
            reason = f"refused = {json.dumps(assumption.located_message, ensure_ascii=False)};"
            self._emit(f"if (!{c_size(assumption.condition, self.names)}) {{ {reason} return -1; }}")
        for what, detail in launch_steps(self.program.launches):
            if what == "open":
                self.lines.append(self._opened(detail))
                self.indent += "  "
            elif what == "close":
                self.indent = self.indent[2:]
                self.lines.append(f"{self.indent}}}")
            else:
                self._launch(detail, self.program.launches[detail])
        body = "\n".join(f"  {line}" for line in self.lines)
        return f"EXPORT int32_t {self.program.name}_call({', '.join(parameters)}) {{\n{body}\n  return 0;\n}}\n"

    def _opened(self, step: tuple) -> str:
        """The head of a loop or of a condition around launches."""
        if step[0] == "if":
            return f"{self.indent}if ({c_size(step[1], self.names)}) {{"
        name = self.names(step[1])
        return f"{self.indent}for (int64_t {name} = 0; {name} < {c_size(step[2], self.names)}; ++{name}) {{"

    def _emit(self, line: str) -> None:
        self.lines.append(self.indent + line)

    def _launch(self, index: int, launch: KernelLaunch) -> None:
        emit = self._emit
        emit(f"{{ /* {launch.symbol} */")
        maps = tensor_maps(launch)
        for number, spec in maps.values():
            rank = len(spec.shape)
            # CUDA demands that a tensor map is aligned to 64 bytes.
            emit(f"  _Alignas(64) unsigned char tl_map{number}[{MAP_BYTES}];")
            base, sizes = self.names.address(spec.tensor), f"tl_shape{number}, tl_strides{number}"
            qualifier = "const "
            if not all(isinstance(extent, int) and extent for extent in spec.shape):
                base, qualifier = f"encodable({base}, {rank}, {sizes})", ""
            emit(f"  {qualifier}uint64_t tl_shape{number}[{rank}] = {{{self._sizes(spec.shape)}}};")
            emit(f"  {qualifier}uint64_t tl_strides{number}[{max(rank - 1, 1)}] = {{{self._sizes(spec.strides) or '0'}}};")
            encoded = f"module, {index}, {number}, {base}, {sizes}, tl_map{number}"
            emit(f"  if (runtime->encode_tensor_map({encoded})) return -1;")
        addresses = []
        for position, ((kind, name), dtype) in enumerate(zip(launch.args, launch.arg_dtypes)):
            if kind == "tensor_map":
                addresses.append(f"tl_map{maps[name][0]}")
                continue
            source = self.names.address(name) if dtype == "handle" else self.names(name)
            emit(f"  {_value_declaration(f'tl_arg{position}', source, dtype)}")
            addresses.append(f"&tl_arg{position}")
        emit(f"  void* tl_args[] = {{{', '.join(addresses) or '0'}}};")
        emit(f"  const tl_launch tl_config = {{{{{self._extents(launch.grid)}}}, {{{self._extents(launch.block)}}},")
        flags = (1 if launch.cooperative else 0) | (2 if launch.dependent_launch else 0)
        cluster = ", ".join(map(str, launch.cluster))
        emit(f"                               {{{cluster}}}, {self._extents((launch.shared_bytes,))}, {flags}, stream}};")
        emit(f"  if (runtime->launch(module, {index}, &tl_config, tl_args)) return -1;")
        emit("}")

    def _sizes(self, dims: tuple[Dim, ...]) -> str:
        return ", ".join(f"(uint64_t){c_size(dim, self.names)}" for dim in dims)

    def _extents(self, dims: tuple[Dim, ...]) -> str:
        return ", ".join(str(dim) if isinstance(dim, int) else f"extent({c_size(dim, self.names)})" for dim in dims)


def c_size(dim: Dim, names: Callable[[str], str]) -> str:
    """A size as a C expression of type int64_t; ``names`` gives the identifier of each dynamic size."""
    if isinstance(dim, int):
        return str(dim)
    if isinstance(dim, str):
        return names(dim)
    a, b = c_size(dim[1], names), c_size(dim[2], names)
    return f"({a} {_INFIX[dim[0]]} {b})" if dim[0] in _INFIX else f"{dim[0]}({a}, {b})"


def _plain_type(param: KernelParam) -> str:
    if param.kind != "scalar":
        return "void*"
    return "double" if canonical(param.dtype).is_float else "int64_t"


def _value_declaration(target: str, source: str, dtype: str) -> str:
    """A local variable with the bits that the kernel takes."""
    if dtype == "handle":
        return f"void* {target} = {source};"
    if dtype == "bool":
        return f"uint8_t {target} = {source} != 0;"
    if dtype in INTEGER_BITS:
        return f"{dtype}_t {target} = ({dtype}_t){source};"
    spelling = {
        "float64": f"double {target} = {source};",
        "float32": f"float {target} = (float){source};",
        "float16": f"uint16_t {target} = half_bits({source});",
        "bfloat16": f"uint16_t {target} = bfloat_bits({source});",
    }
    return spelling[dtype]
