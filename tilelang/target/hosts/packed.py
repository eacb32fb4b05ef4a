"""tvm-ffi's entry of a C host: takes tensors over DLPack, checks them, binds sizes, calls the plain entry.

It accepts or refuses; what is wrong with a refused call is explained by :mod:`tilelang.execution.arguments`.
"""

from __future__ import annotations

from tilelang.artifact import KernelParam
from tilelang.dtypes import canonical
from tilelang.sizes import AXIS, Binding, bindings, stored_dims
from tilelang.storage import DLPACK_TYPES, storage_dtypes, storage_shape
from tilelang.target.hosts.c import c_size
from tilelang.target.hosts.text import HostProgram

_DECLARATIONS = """\
/* tvm-ffi and DLPack, by their stable ABI */
typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct {
  int32_t type_index;
  uint32_t padding;
  union { int64_t i; double f; void* p; } value;
} Any;
enum { kNone = 0, kInt = 1, kBool = 2, kFloat = 3, kPointer = 4, kDLTensor = 7, kTensor = 70, kObjectHeader = 24 };

typedef struct { const char* data; size_t size; } Bytes;
extern int TVMFFIErrorCreate(const Bytes* kind, const Bytes* message, const Bytes* backtrace, void** error);
extern void TVMFFIErrorSetRaised(void* error);
extern int TVMFFIObjectDecRef(void* object);

/* The backtrace is empty: for the first one of a process the symbols of every loaded library are read, up to a second. */
static int fail(const char* kind, const char* message) {
  Bytes parts[] = {{kind, strlen(kind)}, {message, strlen(message)}, {"", 0}};
  void* error = 0;
  if (TVMFFIErrorCreate(parts, parts + 1, parts + 2, &error) == 0) {
    TVMFFIErrorSetRaised(error);
    TVMFFIObjectDecRef(error);
  }
  return -1;
}

static int refuse(const char* message) { return fail("ValueError", message); }

static const DLTensor* as_tensor(const Any* any) {
  if (any->type_index == kDLTensor) return (const DLTensor*)any->value.p;
  return any->type_index == kTensor ? (const DLTensor*)((const char*)any->value.p + kObjectHeader) : 0;
}

static int is_type(const DLTensor* t, uint8_t code, uint8_t bits, uint16_t lanes) {
  return t->dtype.code == code && t->dtype.bits == bits && t->dtype.lanes == lanes;
}

static int is_compact(const DLTensor* t) {
  int64_t want = 1;
  int compact = 1;
  if (!t->strides) return 1;
  for (int axis = t->ndim - 1; axis >= 0; --axis) {
    if (t->shape[axis] == 0) return 1;
    if (t->shape[axis] != 1 && t->strides[axis] != want) compact = 0;
    want *= t->shape[axis];
  }
  return compact;
}

static void* address(const DLTensor* t) { return (char*)t->data + t->byte_offset; }
"""


def packed_entry(program: HostProgram) -> str:
    """The text of ``__tvm_ffi_<name>`` and what it needs."""
    return _DECLARATIONS + "\n" + _Packed(program).text()


class _Packed:
    """Lines of one packed entry. Locals are numbered: ``t0`` is the tensor that parameter 0 takes."""

    def __init__(self, program: HostProgram):
        self.program = program
        self.sizes: dict[str, str] = {}
        self.lines: list[str] = []

    def text(self) -> str:
        """The whole function."""
        params = self.program.params
        self._emit(f'if (count != {len(params)}) return refuse("{len(params)} arguments are expected");')
        for index, param in enumerate(params):
            if param.kind == "tensor":
                self._take_tensor(index, param)
            else:
                self._take_value(index, param)
        self._bind_sizes()
        self._check_sizes()
        tensors = [index for index, param in enumerate(params) if param.kind == "tensor"]
        # The kernels run on the first tensor's device, where an address of another one means something else.
        for index in tensors[1:]:
            self._refuse_unless(f"t{index}->device.device_id == t{tensors[0]}->device.device_id", "devices differ")
        device = f"t{tensors[0]}->device.device_id" if tensors else "0"
        values = [f"address(t{i})" if param.kind == "tensor" else f"v{i}" for i, param in enumerate(params)]
        values += [self.sizes[name] for name in self.program.dynamic]
        values.append(f"runtime->current_stream(runtime->device_type, {device})")
        self._emit(f'if ({self.program.name}_call({", ".join(values)})) return fail("RuntimeError", tilelang_last_error());')
        self._emit("result->type_index = kNone;")
        self._emit("return 0;")
        body = "\n".join("  " + line for line in self.lines)
        parameters = "void* self, const Any* given, int32_t count, Any* result"
        return f"EXPORT int __tvm_ffi_{self.program.name}({parameters}) {{\n{body}\n}}\n"

    def _emit(self, line: str) -> None:
        self.lines.append(line)

    def _refuse_unless(self, condition: str, reason: str) -> None:
        self._emit(f'if (!({condition})) return refuse("{reason}");')

    def _take_tensor(self, index: int, param: KernelParam) -> None:
        shape = storage_shape(param)
        types = " || ".join(f"is_type(t{index}, {', '.join(map(str, DLPACK_TYPES[d]))})" for d in storage_dtypes(param))
        layout = f" && is_compact(t{index})" if param.strides is None else f" && t{index}->strides" if shape else ""
        self._emit(f"const DLTensor* t{index} = as_tensor(given + {index});")
        place = f"t{index}->device.device_type == runtime->device_type"
        rank = f"t{index} && t{index}->ndim == {len(shape)}"
        self._refuse_unless(f"{rank} && ({types}) && {place}{layout}", f"{param.name} does not fit")

    def _take_value(self, index: int, param: KernelParam) -> None:
        tag, value = f"given[{index}].type_index", f"given[{index}].value"
        if param.kind == "pointer":
            self._refuse_unless(f"{tag} == kPointer || {tag} == kNone", f"{param.name} is not a pointer")
            self._emit(f"void* v{index} = {tag} == kPointer ? {value}.p : 0;")
        elif canonical(param.dtype).is_float:
            self._refuse_unless(f"{tag} == kFloat || {tag} == kInt", f"{param.name} is not a number")
            self._emit(f"double v{index} = {tag} == kFloat ? {value}.f : (double){value}.i;")
        else:
            self._refuse_unless(f"{tag} == kInt || {tag} == kBool", f"{param.name} is not an integer")
            self._emit(f"int64_t v{index} = {value}.i;")
            self.sizes[param.name] = f"v{index}"

    def _place(self, index: int, axis: int) -> str:
        """An axis of a tensor; strides count on after the shape."""
        rank = len(self.program.params[index].shape)
        return f"t{index}->shape[{axis}]" if axis < rank else f"t{index}->strides[{axis - rank}]"

    def _bind_sizes(self) -> None:
        numbers = {param.name: index for index, param in enumerate(self.program.params)}
        # Scalar parameters are known already, as they may be sizes, too; then each size is taken from the first axis that has it,
        # and `_check_sizes` compares every other axis with it.
        for binding in bindings(self.program.params, self.sizes):
            place = self._place(numbers[binding.tensor], binding.axis)
            self.sizes[binding.name] = self._solved(binding, place) if binding.solved else place

    def _solved(self, binding: Binding, place: str) -> str:
        """A local variable with a size that stands inside arithmetic."""
        local = f"n{len(self.sizes)}"
        names = {**self.sizes, AXIS: place}
        self._emit(f"const int64_t {local} = {c_size(binding.value, names.__getitem__)};")
        self._refuse_unless(f"{local} >= 0", f"{binding.tensor} has the wrong sizes")
        return local

    def _check_sizes(self) -> None:
        for index, param in enumerate(self.program.params):
            for axis, dim in enumerate(stored_dims(param) if param.kind == "tensor" else ()):
                place = self._place(index, axis)
                if not (isinstance(dim, str) and self.sizes[dim] == place):
                    self._refuse_unless(f"{place} == {c_size(dim, self.sizes.__getitem__)}", f"{param.name} has the wrong sizes")
