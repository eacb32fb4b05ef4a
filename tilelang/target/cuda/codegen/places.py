"""Where elements of buffers are, as C++ text, for code that each thread runs by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir.expr import as_int
from tilelang.layout.fragment import THREAD
from tilelang.target.cuda.codegen.element_types import c_type, is_packed, packed_element
from tilelang.target.cuda.inference.vectors import element_strides

if TYPE_CHECKING:
    from tilelang.target.cuda.codegen.emitter import Emitter

_INT32_LIMIT = 2**31


class Places:
    """Elements where the layouts of the kernel have them; nests see some of theirs elsewhere and override this.

    Attributes:
        shares_bytes: whether neighbouring four-bit elements may be stored by different threads.
    """

    shares_bytes = False

    def __init__(self, emitter: Emitter):
        self.e = emitter

    def element(self, buffer: Any, indices: list[Any]) -> str:
        """The value of an element; what the program wants in its place where it does not exist."""
        return self.or_missing(buffer, self.place(buffer, indices), self.bounds_guard(buffer, indices))

    def or_missing(self, buffer: Any, place: str, exists: str | None) -> str:
        """The value of an element at ``place``, which is there under a condition."""
        return place if exists is None else f"({exists} ? {place} : {self.missing(buffer)})"

    def place(self, buffer: Any, indices: list[Any]) -> str:
        """An element as an lvalue."""
        name, scope = self.e.name(buffer), buffer.scope()
        if scope == "local.var":
            return f"{name}[0]" if buffer in self.e.tree.aliases else name
        offset = self.offset(buffer, indices)
        return packed_element(name, offset, str(buffer.dtype)) if is_packed(str(buffer.dtype)) else f"{name}[{offset}]"

    def address(self, buffer: Any, indices: list[Any]) -> str:
        """The address of an element."""
        name = self.e.name(buffer)
        if buffer.scope() == "local.var":
            return f"&{name}"
        offset = self.offset(buffer, indices)
        if is_packed(str(buffer.dtype)):
            return f"{name} + ({offset}) / 2"
        return name if offset == "0" else f"{name} + {offset}"

    def missing(self, buffer: Any) -> str:
        """What an out-of-bounds read gives."""
        value = self.e.safe_values.get(buffer)
        dtype = c_type(str(buffer.dtype))
        if value is None:
            return f"{dtype}(0)" if dtype != "bool" else "false"
        if isinstance(value, (int, float)):
            return f"{dtype}({value!r}{'f' if isinstance(value, float) else ''})"
        return f"{dtype}({self.e.text(value)})"

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> str | None:
        """The condition under which a global element exists; None where it certainly does."""
        e = self.e
        if buffer.scope() not in ("global", "") or not e.guarded:
            return None
        tests = []
        for index, size in zip(indices, map(as_int, buffer.shape)):
            low, high = e.facts.bounds(index)
            if low < 0:
                tests.append(f"{e.simple(index)} >= 0")
            if not (isinstance(size, int) and high < size) and not e.facts.holds(index < size):
                tests.append(f"{e.simple(index)} < {e.simple(size)}")
        return " && ".join(tests) if tests else None

    # Offsets -----------------------------------------------------------------------------------------------------------

    def offset(self, buffer: Any, indices: list[Any]) -> str:
        """The offset of an element in its buffer."""
        scope = buffer.scope()
        if scope in ("global", ""):
            return self._global_offset(buffer, indices)
        if scope.startswith("shared"):
            return self.in_slot(buffer, self.tile_offset(buffer, indices))
        layout = self.e.layouts.fragments.get(buffer)
        if layout is not None:
            return self._register_offset(buffer, indices, layout)
        return self.e.simple(_row_major(buffer, indices))

    def tile_offset(self, buffer: Any, indices: list[Any]) -> str:
        """The offset of an element in a shared tile, without the slot in use."""
        layout = self.e.layouts.memory.get(buffer)
        return self.e.simple(_row_major(buffer, indices) if layout is None else layout.offset(indices))

    def in_slot(self, buffer: Any, text: str) -> str:
        """The offset ``text`` of a shared tile in the slot in use, where it has several."""
        slot = self.e.versions.get(buffer)
        return text if slot is None else f"{slot} * {self.slot_elements(buffer)} + {text}"

    def slot_elements(self, buffer: Any) -> int:
        """Elements of one slot of a shared buffer, rounded up to 128 bytes."""
        unit = 1024 // canonical(str(buffer.dtype)).bits
        return -(-self.e.layouts.memory[buffer].size // unit) * unit

    def _register_offset(self, buffer: Any, indices: list[Any], layout: Any) -> str:
        """A fragment's element where every thread holds the whole tile."""
        total: Any = 0
        for index, modes in zip(indices, layout.modes):
            for number, mode in enumerate(modes):
                if mode.unit == THREAD:
                    raise CompileError(
                        f"{buffer.name} is spread over the threads; one element of it can only be read inside T.Parallel",
                        hint="copy it to shared memory, or index it in a T.Parallel loop",
                    )
                last = number == len(modes) - 1
                total = total + (index if last else index % mode.extent) * mode.stride
                index = index // mode.extent
        return self.e.simple(total)

    def _global_offset(self, buffer: Any, indices: list[Any]) -> str:
        strides = element_strides(buffer)
        if _fits_int32(buffer, strides):
            total: Any = 0
            for index, stride in zip(indices, strides):
                total = total + index * stride
            return self.e.simple(total)
        parts = []
        for index, stride in zip(indices, strides):
            place, step = self.e.simple(index), self.e.simple(stride)
            if place != "0":
                parts.append(place if step == "1" else f"int64_t({place}) * {step}")
        return " + ".join(reversed(parts)) or "0"


def _fits_int32(buffer: Any, strides: list[Any]) -> bool:
    reach = 1
    for size, stride in zip(map(as_int, buffer.shape), strides):
        if not isinstance(size, int) or not isinstance(stride, int):
            return False
        reach += (size - 1) * stride
    return reach < _INT32_LIMIT


def _row_major(buffer: Any, indices: list[Any]) -> Any:
    total: Any = 0
    for index, extent in zip(indices, map(as_int, buffer.shape)):
        total = total * extent + index
    return total
