"""Nests as code: each thread runs its share of the iterations, with vector loads before and vector stores after them.

The register digits of the loop layout become unrolled loops, the thread digits expressions of the thread's number. Along the
contiguous axis the innermost digit is a vector: what the body reads from memory is loaded as a whole into a staging array first,
what it stores is staged and stored as a whole. A body that only moves elements becomes the move itself, or cp.async.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.layout.digits import Form
from tilelang.layout.fragment import REGISTER, Mode
from tilelang.target.cuda.code import Code, leaf_of
from tilelang.target.cuda.element_types import VECTOR_TYPES, byte_count, c_type, is_packed, packed_element
from tilelang.target.cuda.emitter import Emitter
from tilelang.target.cuda.loop_layout import LoopLayout, register_form
from tilelang.target.cuda.nest import READ, UPDATE, WRITE, Access, mentions
from tilelang.target.cuda.tree import FRAGMENT, Parallel
from tilelang.target.cuda.vectors import contiguous_axis, is_memory, vector_width
from tilelang.tileop.copy import Copy, Fill

_PAIR_CONVERSIONS = {
    ("float32", "float16"): "tl::cvt_f16x2_f32",
    ("float32", "bfloat16"): "tl::cvt_bf16x2_f32",
}


def emit_nest(emitter: Emitter, node: Parallel, loop: LoopLayout) -> list[Code]:
    """The code of a nest under a distribution."""
    with emitter.names.scope():
        return _NestText(emitter, node, loop).emit()


def thread_digit(thread: str, extent: int, stride: int, threads: int) -> str:
    """C++ text of ``(thread // stride) % extent`` in a scope of ``threads``."""
    text = thread
    if stride > 1:
        text = f"({text} >> {stride.bit_length() - 1})" if _is_power(stride) else f"({text} / {stride})"
    if stride * extent < threads:
        text = f"({text} & {extent - 1})" if _is_power(extent) else f"({text} % {extent})"
    return text


def _is_power(number: int) -> bool:
    return not number & (number - 1)


class _NestText:
    def __init__(self, emitter: Emitter, node: Parallel, loop: LoopLayout):
        self.e, self.node, self.nest = emitter, node, node.nest
        self.place = contiguous_axis(self.nest) if self.nest.axes else 0
        self.width, self.loop = self._vectorised(loop)
        self.digit_text: dict[str, str] = {}
        self.stages: dict[str, str] = {}
        self.lane: str | None = None
        self.bases: dict[Any, str] = {}

    # Shape of the loops ------------------------------------------------------------------------------------------------

    def _vectorised(self, loop: LoopLayout) -> tuple[int, LoopLayout]:
        """The vector width, and the layout with the vector as a digit of its own."""
        places = [number for number, dim in enumerate(loop.dims) if dim.var is self.nest.axes[self.place].var]
        if not places:
            return 1, loop
        number = places[0]
        dim = loop.dims[number]
        if (
            not dim.modes
            or dim.modes[0].unit != REGISTER
            or not isinstance(dim.shift, int)
            or dim.shift
            or (dim.size != dim.extent and dim.extent % dim.modes[0].extent)
        ):
            return 1, loop
        limit = dim.modes[0].extent
        width = vector_width(self.nest, self.place, limit, self.e.layouts.memory, self.e.facts)
        if width == 1 or width == limit:
            return width, loop
        first = dim.modes[0]
        modes = (Mode(width, first.stride, REGISTER), Mode(limit // width, first.stride * width, REGISTER), *dim.modes[1:])
        dims = (*loop.dims[:number], replace(dim, modes=modes), *loop.dims[number + 1 :])
        return width, LoopLayout(dims, loop.replicas)

    def emit(self) -> list[Code]:
        header, guards, depth = self._open()
        body = self._body()
        lines = list(header)
        if not depth:
            lines = ["{", *("  " + line for line in lines)]
            depth = 1
        if guards:
            lines.append("  " * depth + f"if ({' && '.join(guards)}) {{")
            depth += 1
        lines += ["  " * depth + line for line in body]
        while depth:
            depth -= 1
            lines.append("  " * depth + "}")
        return [self._leaf(lines)]

    def _leaf(self, lines: list[str]) -> Code:
        guarded = [access for access in self.nest.accesses if self.e.is_guarded(access)]
        reads = {self.e.root(a.buffer) for a in guarded if a.kind in (READ, UPDATE)}
        writes = {self.e.root(a.buffer) for a in guarded if a.kind != READ}
        fills = set()
        if isinstance(self.node.op, (Copy, Fill)) and self.node.op.dst.is_whole:
            fills = {self.e.root(self.node.op.dst.buffer)} & writes
        if self.is_async:
            return leaf_of(lines, reads, (), writes, fills)
        return leaf_of(lines, reads, writes, (), fills)

    def _open(self) -> tuple[list[str], list[str], int]:
        """Loop headers and definitions of the variables; the guards that the body needs; how many braces are open."""
        e, lines, depth = self.e, [], 0
        guards: list[str] = []
        threads = self.loop.threads
        if threads < e.scope.count:
            guards.append(f"{e.thread} < {threads}")
        digits = self.loop.digits
        for number, dim in enumerate(self.loop.dims):
            name = dim.var.name if dim.var is not None else "at"
            for place, (digit, _weight) in enumerate(digits[number]):
                if digit.unit == REGISTER:
                    if self._is_vector(number, place):
                        self.digit_text[digit.name] = "0"
                        self.vector_digit = digit
                        continue
                    variable = e.names.take(f"{name}_{place}")
                    self.digit_text[digit.name] = variable
                    lines.append("  " * depth + "#pragma unroll")
                    lines.append("  " * depth + f"for (int {variable} = 0; {variable} < {digit.extent}; ++{variable}) {{")
                    depth += 1
                else:
                    self.digit_text[digit.name] = thread_digit(e.thread, digit.extent, digit.stride, e.scope.count)
        for number, dim in enumerate(self.loop.dims):
            parts = [_times(self.digit_text[digit.name], weight) for digit, weight in digits[number]]
            text = " + ".join(part for part in parts if part != "0") or "0"
            variable = e.names.take(dim.var.name if dim.var is not None else "at")
            if not (isinstance(dim.shift, int) and dim.shift == 0):
                text = f"{text} - {e.simple(dim.shift)}"
            lines.append("  " * depth + f"const int {variable} = {text};")
            guards += self._dimension_guards(dim, variable)
            if dim.var is not None:
                e.var_text[dim.var] = variable
                self.bases[dim.var] = variable
                e.facts.bind_range(dim.var, dim.extent)
        return lines, guards, depth

    def _is_vector(self, number: int, place: int) -> bool:
        dim = self.loop.dims[number]
        return place == 0 and self.width > 1 and dim.var is not None and dim.var is self.nest.axes[self.place].var

    def _dimension_guards(self, dim: Any, variable: str) -> list[str]:
        e = self.e
        if dim.equals is not None:
            return [f"{variable} == {e.simple(dim.equals)}"]
        guards = []
        shifted = not (isinstance(dim.shift, int) and dim.shift == 0)
        if shifted:
            guards.append(f"{variable} >= 0")
        if shifted or dim.size != dim.extent:
            guards.append(f"{variable} < {dim.extent}")
        for axis in self.nest.axes:
            if axis.var is dim.var and axis.limit is not None:
                guards.append(f"{variable} < {e.simple(axis.limit)}")
        return guards

    def _owner(self) -> str | None:
        """Condition under which this thread is the first of those that run the same iteration; none where all mean their own."""
        e = self.e
        if self.node in e.layouts.own:
            return None
        tests = [f"{thread_digit(e.thread, mode.extent, mode.stride, e.scope.count)} == 0" for mode in self.loop.replicas]
        return " && ".join(tests) if tests else None

    # The body ----------------------------------------------------------------------------------------------------------

    @property
    def is_async(self) -> bool:
        """Whether the nest is a copy by cp.async."""
        return self._async_bytes() > 0

    def _async_bytes(self) -> int:
        op = self.node.op
        if not isinstance(op, Copy) or op.kind not in ("copy", "async") or not self.e.use_async or self.e.target.sm < 80:
            return 0
        if op.src.scope != "global" or not op.dst.scope.startswith("shared") or op.src.dtype != op.dst.dtype:
            return 0
        if self.e.safe_values.get(op.src.buffer) is not None:
            return 0
        size = byte_count(self.width, op.src.dtype)
        return size if size in (4, 8, 16) else 0

    def _body(self) -> list[str]:
        move = self._move()
        if move is not None:
            return move
        if self.width == 1:
            self.e.shares_bytes = True
            with _Overrides(self):
                lines = self.e.statement(self.nest.body, self._owner())
            self.e.shares_bytes = False
            return lines
        return self._staged_body()

    def _move(self) -> list[str] | None:
        """A body that only copies an element, as one vector move."""
        store = self.nest.body
        if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.TensorLoad):
            return None
        source, target = store.value.source, store.buffer
        if str(source.dtype) != str(target.dtype):
            return None
        if self.width == 1 and not self.is_async and not is_packed(str(source.dtype)):
            return None
        from_text = self._vector_address(source, list(store.value.indices))
        to_text = self._vector_address(target, list(store.indices))
        if from_text is None or to_text is None:
            return None
        e = self.e
        read_guard = e.bounds_guard(source, list(store.value.indices))
        write_guard = e.bounds_guard(target, list(store.indices))
        tests = [write_guard, self._owner() if is_memory(target) else None]
        size = self._async_bytes()
        if size:
            call = f"tl::cp_async_{size}({to_text}, {from_text});"
            if read_guard:
                call = f"tl::cp_async_{size}_zfill({to_text}, {from_text}, {read_guard});"
            return _under([call], tests)
        word = VECTOR_TYPES.get(byte_count(self.width, str(source.dtype)))
        if word is None:
            return None
        value = f"*reinterpret_cast<const {word}*>({from_text})"
        target_text = f"*reinterpret_cast<{word}*>({to_text})"
        if read_guard and e.safe_values.get(source) is None:
            return _under([f"{target_text} = {read_guard} ? {value} : {word}{{}};"], tests)
        if read_guard:
            return None
        return _under([f"{target_text} = {value};"], tests)

    def _vector_address(self, buffer: Any, indices: list[Any]) -> str | None:
        """The address of ``width`` adjacent elements starting at the base of the vector; None where they are not adjacent."""
        if buffer.scope() == FRAGMENT:
            form = register_form(indices, self.e.layouts.fragments[buffer], self.loop)
            if form is None or (self.width > 1 and not self._adjacent(form)):
                return None
            return f"&{self.e.name(buffer)}[{self._form_text(form)}]"
        moves = self.width == 1 or mentions(indices[-1], {self.nest.axes[self.place].var: 0})
        return self.e.address(buffer, indices) if is_memory(buffer) and moves else None

    def _adjacent(self, form: Form) -> bool:
        for term in form:
            if term.digit is self.vector_digit:
                if term.weight != 1 or term.low != 1 or term.extent != self.width:
                    return False
            elif term.weight % self.width:
                return False
        return (
            isinstance(form.offset, int)
            and form.offset % self.width == 0
            and any(term.digit is self.vector_digit for term in form)
        )

    def _form_text(self, form: Form) -> str:
        parts = []
        for term in form:
            text = self.digit_text[term.digit.name]
            if term.digit is getattr(self, "vector_digit", None):
                text = self.lane or "0"
            if term.low > 1:
                text = f"({text} / {term.low})"
            if term.low * term.extent < term.digit.extent:
                text = f"({text} % {term.extent})"
            if text != "0":
                parts.append(_times(text, term.weight))
        if not (isinstance(form.offset, int) and form.offset == 0):
            parts.append(self.e.simple(form.offset))
        return " + ".join(parts) or "0"

    # Staged bodies -----------------------------------------------------------------------------------------------------

    def _staged_body(self) -> list[str]:
        """Vector loads, the body for each lane, vector stores."""
        e = self.e
        before, after = [], []
        written = {e.root(a.buffer): a.step for a in reversed(self.nest.accesses) if a.kind != READ}
        var = self.nest.axes[self.place].var
        for access in self.nest.accesses:
            if self._stages_read(access, written, var):
                before += self._stage_load(access)
        for access in self.nest.accesses:
            if self._stages_write(access, var):
                after += self._stage_store(access)
        inner = self._lanes(var)
        return [*before, *inner, *after]

    def _stages_read(self, access: Access, written: dict[Any, int], var: Any) -> bool:
        """Whether an element is read ahead of the body: nothing that the body reads there may be what it has stored."""
        if access.kind != READ:
            return False
        root = self.e.root(access.buffer)
        last_read = max(a.step for a in self.nest.accesses if a.kind == READ and self.e.root(a.buffer) == root)
        return (
            is_memory(access.buffer)
            and not access.conditional
            and not access.inner
            and mentions(access.indices[-1], {var: 0})
            and last_read <= written.get(root, last_read)
        )

    def _stages_write(self, access: Access, var: Any) -> bool:
        others = [a for a in self.nest.accesses if self.e.root(a.buffer) == self.e.root(access.buffer)]
        return (
            access.kind == WRITE
            and is_memory(access.buffer)
            and not access.conditional
            and not access.inner
            and mentions(access.indices[-1], {var: 0})
            and sum(a.kind != READ for a in others) == 1
            and all(a.step <= access.step for a in others)
        )

    def _key(self, buffer: Any, indices: list[Any]) -> str:
        """A staged access, named by what it is at the base of the vector."""
        return f"{self.e.name(buffer)}[{self.e.offset(buffer, indices)}]"

    def _stage(self, access: Access) -> tuple[str, str, str]:
        """Declares a staging array; gives its name, the address that it stands for, and the word that moves it."""
        e, indices = self.e, list(access.indices)
        name = e.names.take(f"{access.buffer.name}_v")
        self.stages[("w:" if access.kind == WRITE else "r:") + self._key(access.buffer, indices)] = name
        word = VECTOR_TYPES[byte_count(self.width, str(access.buffer.dtype))]
        return name, e.address(access.buffer, indices), word

    def _declaration(self, buffer: Any, name: str) -> str:
        dtype = str(buffer.dtype)
        size = byte_count(self.width, dtype)
        count = size if is_packed(dtype) else self.width
        return f"alignas({size}) {c_type(dtype)} {name}[{count}]{' = {}' if is_packed(dtype) else ''};"

    def _stage_load(self, access: Access) -> list[str]:
        e, indices = self.e, list(access.indices)
        if "r:" + self._key(access.buffer, indices) in self.stages:
            return []
        guard = e.bounds_guard(access.buffer, indices)
        if any(other.kind != READ and other.buffer.same_as(access.buffer) for other in self.nest.accesses):
            # The thread that stores is the one that reads: another may come after the store.
            guard = " && ".join(filter(None, (guard, self._owner()))) or None
        name, address, word = self._stage(access)
        value = f"*reinterpret_cast<const {word}*>({address})"
        declaration = self._declaration(access.buffer, name)
        if guard is None:
            return [declaration, f"*reinterpret_cast<{word}*>({name}) = {value};"]
        if e.safe_values.get(access.buffer) is None:
            return [declaration, f"*reinterpret_cast<{word}*>({name}) = {guard} ? {value} : {word}{{}};"]
        missing = e.missing(access.buffer)
        at = e.names.take("l")
        fill = f"for (int {at} = 0; {at} < {self.width}; ++{at}) {name}[{at}] = {missing};"
        move = f"if ({guard}) *reinterpret_cast<{word}*>({name}) = {value};"
        return [declaration, move, "else", "  #pragma unroll", "  " + fill]

    def _stage_store(self, access: Access) -> list[str]:
        e, indices = self.e, list(access.indices)
        name, address, word = self._stage(access)
        self.declared = [*getattr(self, "declared", []), self._declaration(access.buffer, name)]
        tests = [e.bounds_guard(access.buffer, indices), self._owner()]
        return _under([f"*reinterpret_cast<{word}*>({address}) = *reinterpret_cast<const {word}*>({name});"], tests)

    def _lanes(self, var: Any) -> list[str]:
        """The body for each lane of the vector; pairs of conversions where the body is one."""
        e = self.e
        declared = getattr(self, "declared", [])
        lane = e.names.take("l")
        base = self.bases[var]
        pair = self._pair(var, base, lane)
        if pair is not None:
            return [*declared, "#pragma unroll", f"for (int {lane} = 0; {lane} < {self.width}; {lane} += 2)", "  " + pair]
        e.var_text[var] = f"({base} + {lane})"
        self.lane = lane
        with _Overrides(self):
            body = e.statement(self.nest.body, self._owner())
        self.lane = None
        e.var_text[var] = base
        lines = ["  " + line for line in body]
        return [*declared, "#pragma unroll", f"for (int {lane} = 0; {lane} < {self.width}; ++{lane}) {{", *lines, "}"]

    def _pair(self, var: Any, base: str, lane: str) -> str | None:
        store = self.nest.body
        if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.Cast) or self.width % 2:
            return None
        types = str(store.value.value.ty), str(store.value.ty)
        function = _PAIR_CONVERSIONS.get(types)
        if function is None:
            return None
        texts = []
        e = self.e
        for step in ("", " + 1"):
            e.var_text[var], self.lane = f"({base} + {lane}{step})", f"({lane}{step})" if step else lane
            with _Overrides(self):
                texts.append((e.text(store.value.value), e.place(store.buffer, list(store.indices))))
        e.var_text[var], self.lane = base, None
        (low, target), (high, _) = texts
        if not self._pair_adjacent(store):
            return None
        return f"*reinterpret_cast<uint*>(&{target}) = {function}({low}, {high});"

    def _pair_adjacent(self, store: Any) -> bool:
        """Whether two neighbouring lanes store to one aligned 32-bit word."""
        buffer = store.buffer
        if buffer.scope() == FRAGMENT:
            form = register_form(list(store.indices), self.e.layouts.fragments[buffer], self.loop)
            return form is not None and self._adjacent(form)
        return self.stages.get("w:" + self._key(buffer, list(store.indices))) is not None

    # Places inside the body --------------------------------------------------------------------------------------------

    def place_of(self, buffer: Any, indices: list[Any], original: Any, kind: str) -> str:
        """The place of an element for the lane at hand: staged, in a register, or in memory."""
        if buffer.scope() == FRAGMENT and buffer in self.e.layouts.fragments:
            form = register_form(indices, self.e.layouts.fragments[buffer], self.loop)
            if form is not None:
                name, register, dtype = self.e.name(buffer), self._form_text(form), str(buffer.dtype)
                return packed_element(name, register, dtype) if is_packed(dtype) else f"{name}[{register}]"
            return original(buffer, indices)
        if self.lane is not None and is_memory(buffer):
            var = self.nest.axes[self.place].var
            current = self.e.var_text[var]
            self.e.var_text[var] = self.bases[var]
            key = self._key(buffer, indices)
            self.e.var_text[var] = current
            stage = self.stages.get(kind + key)
            if stage is not None:
                if is_packed(str(buffer.dtype)):
                    return packed_element(stage, self.lane, str(buffer.dtype))
                return f"{stage}[{self.lane}]"
        return original(buffer, indices)


class _Overrides:
    """While the body is printed, elements are where the nest has put them."""

    def __init__(self, nest: _NestText):
        self.nest = nest

    def __enter__(self) -> None:
        emitter = self.nest.e
        self.saved = (emitter.place, emitter.element, emitter.printer.load, emitter.printer.place, emitter.bounds_guard)
        place, _, _, _, guard = self.saved
        nest = self.nest

        def memory(buffer: Any, indices: list[Any]) -> str:
            # Not Emitter.element, whose place would be the array that the body's store is collected in.
            text, exists = place(buffer, indices), guard(buffer, indices)
            return text if exists is None else f"({exists} ? {text} : {emitter.missing(buffer)})"

        def load(buffer: Any, indices: list[Any]) -> str:
            return nest.place_of(buffer, indices, memory, "r:")

        def store(buffer: Any, indices: list[Any]) -> str:
            return nest.place_of(buffer, indices, place, "w:")

        def bounds(buffer: Any, indices: list[Any]) -> str | None:
            staged = nest.place_of(buffer, indices, lambda *_: "", "w:") if is_memory(buffer) else ""
            return None if staged else guard(buffer, indices)

        emitter.element = load
        emitter.place = store
        emitter.printer.load, emitter.printer.place = load, store
        emitter.bounds_guard = bounds

    def __exit__(self, *_: Any) -> None:
        emitter = self.nest.e
        for name in ("place", "element", "bounds_guard"):
            emitter.__dict__.pop(name, None)
        emitter.printer.load, emitter.printer.place = self.saved[2], self.saved[3]


def _times(text: str, weight: int) -> str:
    if text == "0" or weight == 1:
        return text
    return f"{text} * {weight}"


def _under(lines: list[str], tests: list[str | None]) -> list[str]:
    present = [test for test in tests if test]
    if not present:
        return lines
    return [f"if ({' && '.join(present)}) {{", *("  " + line for line in lines), "}"]
