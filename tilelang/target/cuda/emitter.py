"""What every part of code generation shares: names, places of buffer elements, and statements that each thread runs by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.span import location_of
from tilelang.target.cuda.element_types import c_type, is_packed, packed_element, packed_store, value_type
from tilelang.target.cuda.expr import ExprPrinter
from tilelang.target.cuda.facts import Facts
from tilelang.target.cuda.inference import Layouts, ThreadScope
from tilelang.target.cuda.intrinsics import intrinsic_text
from tilelang.target.cuda.nest import READ, UPDATE, Access, Nest
from tilelang.target.cuda.tree import TileTree
from tilelang.target.cuda.vectors import element_strides
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_RESERVED = frozenset(
    """asm auto bool break case catch char class const continue default delete do double else enum explicit extern false float
    for friend goto half if inline int long new operator private protected public register return short signed sizeof static
    struct switch template this throw true try typedef typename uint union unsigned using virtual void volatile while tid tl
    pool main warp_group_id""".split()
)
_INT32_LIMIT = 2**31


class Names:
    """C++ identifiers, each used once in a kernel."""

    def __init__(self) -> None:
        self.used: set[str] = set(_RESERVED)
        self.kernel_wide: set[str] = set()

    def take(self, wanted: str) -> str:
        """``wanted``, made an identifier and numbered where it is taken."""
        base = re.sub(r"\W", "_", wanted) or "v"
        base = f"_{base}" if base[0].isdigit() else base
        name, number = base, 0
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name

    def declare(self, wanted: str) -> str:
        """A name for something that is declared at the kernel's top."""
        name = self.take(wanted)
        self.kernel_wide.add(name)
        return name

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names taken inside stand in braces of their own, and are free again afterwards."""
        before = set(self.used)
        yield
        self.used = before | self.kernel_wide


@dataclass(eq=False)
class Emitter:
    """The state of generating one kernel.

    Attributes:
        kernel: the kernel.
        target: what for.
        tree, layouts, facts: what is known about it.
        safe_values: what an out-of-bounds read of a buffer gives, where not zero.
        guarded: whether accesses that may leave a global buffer are guarded.
        fast_math, use_async: options.
        names: identifiers.
        var_text: C++ text of each variable.
        buffer_text: name of each buffer's pointer, array or variable.
        versions: text of the slot in use of each multi-versioned shared buffer.
        version_count: how many slots a shared buffer has.
        scope: threads that run the statements being generated.
        scratch: bytes and alignment of shared scratch buffers.
        shared_buffers, local_buffers: tiles and fragments that code generation added.
        kept: numbers that each thread computes once, at the kernel's top: C++ text -> name.
        divergent_vars: values that differ between the threads of a warp.
        tracked: tensors that the kernel both writes and reads, or writes in several places.
        descriptors: the kernel's tensor maps so far; None where the target has none.
        shares_bytes: whether neighbouring four-bit elements may be stored by different threads.
    """

    kernel: Any
    target: Any
    tree: TileTree
    layouts: Layouts
    facts: Facts
    safe_values: Mapping[Any, Any] = field(default_factory=dict)
    guarded: bool = True
    fast_math: bool = False
    use_async: bool = True
    names: Names = field(default_factory=Names)
    var_text: dict[Any, str] = field(default_factory=dict)
    buffer_text: dict[Any, str] = field(default_factory=dict)
    versions: dict[Any, str] = field(default_factory=dict)
    version_count: dict[Any, int] = field(default_factory=dict)
    scope: ThreadScope = ThreadScope(0, 128)
    scratch: dict[Any, tuple[int, int]] = field(default_factory=dict)
    shared_buffers: list[Any] = field(default_factory=list)
    local_buffers: list[Any] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    divergent_vars: set[Any] = field(default_factory=set)
    tracked: set[Any] = field(default_factory=set)
    shares_bytes: bool = False
    descriptors: Any = None

    def __post_init__(self) -> None:
        self.printer = ExprPrinter(self.var_text, self.element, self.place, self.intrinsic, self.facts, self.fast_math)

    # Expressions -------------------------------------------------------------------------------------------------------

    def text(self, expr: Any) -> str:
        """C++ text of an expression."""
        return self.printer.text(expr)

    def simple(self, expr: Any) -> str:
        """C++ text of an index expression, simplified first."""
        return self.printer.text(self.facts.simplify(expr))

    def intrinsic(self, call: Any) -> str | None:
        """C++ text of a call that the language defines."""
        return intrinsic_text(self, call)

    @property
    def thread(self) -> str:
        """The thread's number in the scope."""
        return "tid" if self.scope.first == 0 else f"(tid - {self.scope.first})"

    def keep(self, text: str, wanted: str) -> str:
        """The name of an integer that each thread computes once, from its own number only."""
        if text not in self.kept:
            self.kept[text] = self.names.declare(wanted)
        return self.kept[text]

    # Buffers -----------------------------------------------------------------------------------------------------------

    def root(self, buffer: Any) -> Any:
        """The buffer that owns the storage of ``buffer``."""
        while buffer in self.tree.aliases:
            buffer = self.tree.aliases[buffer]
        return buffer

    def is_shared(self, buffer: Any) -> bool:
        """Whether a buffer lies in shared memory."""
        return buffer.scope().startswith("shared")

    def name(self, buffer: Any) -> str:
        """The C++ name of a buffer."""
        try:
            return self.buffer_text[buffer]
        except KeyError:
            raise CompileError(f"{buffer.name} is not defined in this kernel") from None

    def element(self, buffer: Any, indices: list[Any]) -> str:
        """C++ text of the place of one element, read or written by the thread itself; guarded where it may not exist."""
        place = self.place(buffer, indices)
        guard = self.bounds_guard(buffer, indices)
        if guard is None:
            return place
        return f"({guard} ? {place} : {self.missing(buffer)})"

    def place(self, buffer: Any, indices: list[Any]) -> str:
        """C++ text of an element as an lvalue."""
        scope = buffer.scope()
        if scope == "local.var":
            return self.name(buffer) if buffer not in self.tree.aliases else f"{self.name(buffer)}[0]"
        if is_packed(str(buffer.dtype)):
            return packed_element(self.name(buffer), self.offset(buffer, indices), str(buffer.dtype))
        return f"{self.name(buffer)}[{self.offset(buffer, indices)}]"

    def missing(self, buffer: Any) -> str:
        """What an out-of-bounds read gives."""
        value = self.safe_values.get(buffer)
        dtype = c_type(str(buffer.dtype))
        if value is None:
            return f"{dtype}(0)" if dtype != "bool" else "false"
        if isinstance(value, (int, float)):
            return f"{dtype}({value!r}{'f' if isinstance(value, float) else ''})"
        return f"{dtype}({self.text(value)})"

    def address(self, buffer: Any, indices: list[Any]) -> str:
        """C++ text of the address of an element."""
        if buffer.scope() == "local.var":
            return f"&{self.name(buffer)}"
        offset = self.offset(buffer, indices)
        if is_packed(str(buffer.dtype)):
            return f"{self.name(buffer)} + ({offset}) / 2"
        return self.name(buffer) if offset == "0" else f"{self.name(buffer)} + {offset}"

    def offset(self, buffer: Any, indices: list[Any]) -> str:
        """C++ text of the offset of an element in its buffer."""
        scope = buffer.scope()
        if scope in ("global", ""):
            return self._global_offset(buffer, indices)
        if scope.startswith("shared"):
            return self.in_slot(buffer, self.tile_offset(buffer, indices))
        layout = self.layouts.fragments.get(buffer)
        if layout is not None:
            return self._register_offset(buffer, indices, layout)
        return self.simple(_row_major(indices, [as_int(size) for size in buffer.shape]))

    def tile_offset(self, buffer: Any, indices: list[Any]) -> str:
        """C++ text of the offset of an element in a shared tile, without the slot in use."""
        layout = self.layouts.memory.get(buffer)
        return self.simple(
            _row_major(indices, [as_int(size) for size in buffer.shape]) if layout is None else layout.offset(indices)
        )

    def in_slot(self, buffer: Any, text: str) -> str:
        """The offset ``text`` of a shared tile in the slot in use, where it has several."""
        slot = self.versions.get(buffer)
        return text if slot is None else f"{slot} * {self.slot_elements(buffer)} + {text}"

    def slot_elements(self, buffer: Any) -> int:
        """Elements of one slot of a shared buffer, rounded up to 128 bytes."""
        layout = self.layouts.memory[buffer]
        bits = canonical(str(buffer.dtype)).bits
        unit = 1024 // bits
        return -(-layout.size // unit) * unit

    def _register_offset(self, buffer: Any, indices: list[Any], layout: Any) -> str:
        """A fragment's element where every thread holds the whole tile."""
        total: Any = 0
        for index, modes in zip(indices, layout.modes):
            for number, mode in enumerate(modes):
                last = number == len(modes) - 1
                digit = index if last else index % mode.extent
                index = index if last else index // mode.extent
                if mode.unit == "thread":
                    raise CompileError(
                        f"{buffer.name} is spread over the threads; one element of it can only be read inside T.Parallel",
                        hint="copy it to shared memory, or index it in a T.Parallel loop",
                    )
                total = total + digit * mode.stride
        return self.simple(total)

    def _global_offset(self, buffer: Any, indices: list[Any]) -> str:
        strides = element_strides(buffer)
        if self._fits_int32(buffer, strides):
            total: Any = 0
            for index, stride in zip(indices, strides):
                total = total + index * stride
            return self.simple(total)
        parts = []
        for index, stride in zip(indices, strides):
            place = self.simple(index)
            if place != "0":
                step = self.simple(stride)
                parts.append(place if step == "1" else f"int64_t({place}) * {step}")
        return " + ".join(reversed(parts)) or "0"

    @staticmethod
    def _fits_int32(buffer: Any, strides: list[Any]) -> bool:
        reach = 1
        for size, stride in zip(map(as_int, buffer.shape), strides):
            if not isinstance(size, int) or not isinstance(stride, int):
                return False
            reach += (size - 1) * stride
        return reach < _INT32_LIMIT

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> str | None:
        """C++ text of the condition under which a global element exists; None where it certainly does."""
        if buffer.scope() not in ("global", "") or not self.guarded:
            return None
        tests = []
        for index, size in zip(indices, map(as_int, buffer.shape)):
            low, high = self.facts.bounds(index)
            if low < 0:
                tests.append(f"{self.simple(index)} >= 0")
            if not (isinstance(size, int) and high < size) and not self.facts.holds(index < size):
                tests.append(f"{self.simple(index)} < {self.simple(size)}")
        return " && ".join(tests) if tests else None

    def declare_local(self, buffer: Any) -> None:
        """Adds a fragment that the program does not know of."""
        self.buffer_text[buffer] = self.names.declare(buffer.name)
        self.local_buffers.append(buffer)

    # Statements --------------------------------------------------------------------------------------------------------

    def statement(self, stmt: Any, owner: str | None = None) -> list[str]:
        """Lines of a statement that a thread runs by itself.

        Args:
            owner: condition under which this thread is the one that stores to memory.
        """
        return _STATEMENTS[type(stmt).__name__](self, stmt, owner)

    def body(self, stmt: Any, owner: str | None) -> list[str]:
        """Lines of a statement, indented."""
        return ["  " + line for line in self.statement(stmt, owner)]

    def _sequence(self, stmt: Any, owner: str | None) -> list[str]:
        return [line for child in stmt.seq for line in self.statement(child, owner)]

    def _store(self, stmt: Any, owner: str | None) -> list[str]:
        indices = list(stmt.indices)
        if is_packed(str(stmt.buffer.dtype)):
            alone = not self.shares_bytes or stmt.buffer.scope().startswith("local")
            line = packed_store(self.place(stmt.buffer, indices), self.text(stmt.value), alone)
        else:
            line = f"{self.place(stmt.buffer, indices)} = {self.text(stmt.value)};"
        tests = [self.bounds_guard(stmt.buffer, indices)]
        if stmt.buffer.scope() in ("global", "", "shared", "shared.dyn") or self._accumulates(stmt):
            tests.append(owner)
        return guarded(line, tests)

    def _accumulates(self, stmt: Any) -> bool:
        """Whether a store adds to a reducer, which only one of the threads that run an iteration may do."""
        from tilelang.ir.visit import walk_expr

        return stmt.buffer in self.layouts.reducers and any(
            isinstance(node, ir.TensorLoad) and node.source == stmt.buffer for node in walk_expr(stmt.value)
        )

    def _evaluate(self, stmt: Any, owner: str | None) -> list[str]:
        value = stmt.value
        if isinstance(value, ir.IntImm):
            return []
        name = value.op.name if isinstance(value, ir.Call) and isinstance(value.op, ir.Op) else ""
        if name.endswith(".assume"):
            return []
        if name.startswith("tl.atomic"):
            return guarded(self.text(value) + ";", [self._atomic_guard(value), owner])
        return [self.text(value) + ";"]

    def _atomic_guard(self, call: Any) -> str | None:
        target = call.args[0]
        return self.bounds_guard(target.source, list(target.indices)) if isinstance(target, ir.TensorLoad) else None

    def _bind(self, stmt: Any, owner: str | None) -> list[str]:
        if intrinsic_name(stmt.value) == "create_tma_descriptor":  # it is a parameter of the kernel, not a value
            self.var_text[stmt.var] = self.text(stmt.value)
            return []
        name = self.names.take(stmt.var.name)
        value = self.text(stmt.value)
        self.var_text[stmt.var] = name
        if str(stmt.var.ty).startswith(("int", "uint")) and not _loads(stmt.value):
            self.facts.bind_value(stmt.var, stmt.value)
        if any(var in self.divergent_vars for var in _variables(stmt.value)):
            self.divergent_vars.add(stmt.var)
        return [f"const {value_type(str(stmt.var.ty))} {name} = {value};"]

    def _if(self, stmt: Any, owner: str | None) -> list[str]:
        lines = [f"if ({self.text(stmt.condition)}) {{", *self.body(stmt.then_case, owner)]
        if stmt.else_case is not None:
            lines += ["} else {", *self.body(stmt.else_case, owner)]
        return [*lines, "}"]

    def loop_header(self, stmt: Any) -> str:
        """The header of a serial, unrolled or vectorised loop, with its pragma; names the variable."""
        name = self.names.take(stmt.loop_var.name)
        low, extent = self.facts.simplify(stmt.min), self.facts.simplify(stmt.extent)
        step = 1 if stmt.step is None else as_int(stmt.step)
        first, limit = self.text(low), self.simple(stmt.min + stmt.extent)
        self.facts.bind_range(stmt.loop_var, stmt.extent, stmt.min)
        self.var_text[stmt.loop_var] = name
        kind = int(stmt.kind)
        pragma = ""
        if kind == int(ir.ForKind.UNROLLED):
            factor = stmt.annotations["pragma_unroll_factor"] if "pragma_unroll_factor" in stmt.annotations else None
            pragma = "#pragma unroll\n" if factor is None else f"#pragma unroll {as_int(factor)}\n"
        elif kind == int(ir.ForKind.VECTORIZED):
            pragma = "#pragma unroll\n"
        increment = f"++{name}" if step == 1 else f"{name} += {step if isinstance(step, int) else self.text(step)}"
        del extent
        return f"{pragma}for ({c_type(str(stmt.loop_var.ty))} {name} = {first}; {name} < {limit}; {increment})"

    def _for(self, stmt: Any, owner: str | None) -> list[str]:
        *pragma, header = self.loop_header(stmt).split("\n")
        return [*pragma, header + " {", *self.body(stmt.body, owner), "}"]

    def _while(self, stmt: Any, owner: str | None) -> list[str]:
        return [f"while ({self.text(stmt.condition)}) {{", *self.body(stmt.body, owner), "}"]

    def _attribute(self, stmt: Any, owner: str | None) -> list[str]:
        return self.statement(stmt.body, owner)

    def _break(self, stmt: Any, owner: str | None) -> list[str]:
        return ["break;"]

    def _continue(self, stmt: Any, owner: str | None) -> list[str]:
        return ["continue;"]

    def _tensor_at(self, stmt: Any, owner: str | None) -> list[str]:
        kind = c_type(str(stmt.buffer.dtype))
        return [f"{kind}* {self.name(stmt.buffer)} = reinterpret_cast<{kind}*>({self.text(stmt.data)});"]

    def _nothing(self, stmt: Any, owner: str | None) -> list[str]:
        return []

    def accesses(self, stmt: Any) -> tuple[set[Any], set[Any]]:
        """Shared storage that a statement reads and writes."""
        nest = Nest.build((), stmt, stmt.span, "statement")
        reads = {self.root(a.buffer) for a in nest.accesses if a.kind == READ and self.is_tile(a.buffer)}
        writes = {self.root(a.buffer) for a in nest.accesses if a.kind != READ and self.is_guarded(a)}
        return reads, writes

    def is_tile(self, buffer: Any) -> bool:
        """Whether barriers guard a buffer: a shared tile (mbarriers order themselves), or a tensor whose accesses meet."""
        return buffer.scope() in ("shared", "shared.dyn") or buffer in self.tracked

    def is_guarded(self, access: Access) -> bool:
        """Whether barriers guard an access; atomic updates of tensors need none."""
        return self.is_tile(access.buffer) and (access.kind != UPDATE or access.buffer not in self.tracked)

    def names_thread(self, stmt: Any) -> bool:
        """Whether a statement mentions a value that differs between threads, so that each of them means its own."""
        from tilelang.ir.visit import statement_exprs, walk_expr

        return any(
            (isinstance(node, ir.Var) and node in self.divergent_vars)
            or (isinstance(node, ir.TensorLoad) and node.source.scope().startswith("local"))
            or (intrinsic_name(node) is not None and INTRINSICS[intrinsic_name(node)].threads)
            for part in statement_exprs(stmt)
            for node in walk_expr(part)
        )

    def location(self, span: Any) -> Any:
        """The user's position of a span."""
        return location_of(span)


_STATEMENTS = {
    "SeqStmt": Emitter._sequence,
    "BufferStore": Emitter._store,
    "Evaluate": Emitter._evaluate,
    "Bind": Emitter._bind,
    "IfThenElse": Emitter._if,
    "For": Emitter._for,
    "While": Emitter._while,
    "AttrStmt": Emitter._attribute,
    "Break": Emitter._break,
    "Continue": Emitter._continue,
    "AssertStmt": Emitter._nothing,
    "AllocBuffer": Emitter._nothing,
    "DeclBuffer": Emitter._tensor_at,
}


def guarded(line: str, tests: list[str | None]) -> list[str]:
    """A line under the conjunction of the conditions that are there."""
    present = [test for test in tests if test]
    return [f"if ({' && '.join(present)}) {line}"] if present else [line]


def _row_major(indices: list[Any], shape: list[int]) -> Any:
    total: Any = 0
    for index, extent in zip(indices, shape):
        total = total * extent + index
    return total


def _variables(expr: Any) -> Any:
    from tilelang.ir.visit import variables

    return variables(expr)


def _loads(expr: Any) -> bool:
    from tilelang.ir.visit import walk_expr

    return any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(expr))
