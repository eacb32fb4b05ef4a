"""The body of a nest on vectors: loads of whole vectors, the body for each of their elements, stores of whole vectors."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cuda.codegen.element_types import VECTOR_TYPES, byte_count, c_type, is_packed
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.nest_places import NestPlaces
from tilelang.target.cuda.codegen.nest_steps import stepped_address
from tilelang.target.cuda.codegen.statements import guarded, statement
from tilelang.target.cuda.inference.loop_layout import register_form
from tilelang.target.cuda.reading.nest import READ, WRITE, Access, is_memory, is_movable, mentions
from tilelang.target.cuda.reading.tree import FRAGMENT

_PAIR_CONVERSIONS = {
    ("float32", "float16"): "tl::cvt_f16x2_f32",
    ("float32", "bfloat16"): "tl::cvt_bf16x2_f32",
}


class VectorBody:
    """Prints the body of one nest whose loops have a vector."""

    def __init__(self, loops: NestLoops):
        self.loops, self.e, self.nest = loops, loops.e, loops.nest
        self.stages: dict[tuple[str, str], str] = {}
        self.collected: list[str] = []  # declarations of the arrays that stores are collected in

    def lines(self) -> list[str]:
        """What runs for one vector."""
        loads = [line for access in self.nest.accesses if self._stages_read(access) for line in self._load(access)]
        stores = [line for access in self.nest.accesses if self._stages_write(access) for line in self._store(access)]
        return [*loads, *self.collected, *self._elements(), *stores]

    # What is staged ----------------------------------------------------------------------------------------------------

    def _may_stage(self, access: Access) -> bool:
        movable = not access.conditional and is_movable(access, self.nest, self.e.root)
        return is_memory(access.buffer) and movable and mentions(access.indices[-1], {self.loops.axis: 0})

    def _same_storage(self, access: Access) -> list[Access]:
        root = self.e.root(access.buffer)
        return [other for other in self.nest.accesses if self.e.root(other.buffer) == root]

    def _stages_read(self, access: Access) -> bool:
        """Whether an element is read ahead of the body: nothing that the body reads there may be what it has stored."""
        if access.kind != READ or not self._may_stage(access):
            return False
        others = self._same_storage(access)
        last_read = max(other.step for other in others if other.kind == READ)
        return all(last_read <= other.step for other in others if other.kind != READ)

    def _stages_write(self, access: Access) -> bool:
        """Whether a store is collected: nothing of that storage is touched after it."""
        if access.kind != WRITE or not self._may_stage(access):
            return False
        others = self._same_storage(access)
        return sum(other.kind != READ for other in others) == 1 and all(other.step <= access.step for other in others)

    # Loads and stores --------------------------------------------------------------------------------------------------

    def _load(self, access: Access) -> list[str]:
        e, buffer, indices = self.e, access.buffer, list(access.indices)
        if self._key(READ, access) in self.stages:
            return []
        guard = e.places.bounds_guard(buffer, indices)
        if any(other.kind != READ and other.buffer.same_as(buffer) for other in self.nest.accesses):
            # The thread that stores is the one that reads: another may come after the store.
            guard = " && ".join(filter(None, (guard, self.loops.owner))) or None
        name, address, word = self._stage(READ, access)
        declaration, target = self._declaration(buffer, name), f"*reinterpret_cast<{word}*>({name})"
        value = f"*reinterpret_cast<const {word}*>({address})"
        if guard is None:
            return [declaration, f"{target} = {value};"]
        if e.safe_values.get(buffer) is None:
            return [declaration, f"{target} = {guard} ? {value} : {word}{{}};"]
        missing, at = e.places.missing(buffer), e.names.take("l")
        fill = f"for (int {at} = 0; {at} < {self.loops.width}; ++{at}) {name}[{at}] = {missing};"
        return [declaration, f"if ({guard}) {target} = {value};", "else", "  #pragma unroll", "  " + fill]

    def _store(self, access: Access) -> list[str]:
        buffer, indices = access.buffer, list(access.indices)
        name, address, word = self._stage(WRITE, access)
        self.collected.append(self._declaration(buffer, name))
        move = f"*reinterpret_cast<{word}*>({address}) = *reinterpret_cast<const {word}*>({name});"
        return guarded(move, [self.e.places.bounds_guard(buffer, indices), self.loops.owner])

    def _stage(self, kind: str, access: Access) -> tuple[str, str, str]:
        """The array that stands for an access, the address that it stands for, and the word that moves it."""
        buffer = access.buffer
        name = self.stages[self._key(kind, access)] = self.e.names.take(f"{buffer.name}_v")
        word = VECTOR_TYPES[byte_count(self.loops.width, str(buffer.dtype))]
        return name, stepped_address(self.loops, buffer, list(access.indices)), word

    def _key(self, kind: str, access: Any) -> tuple[str, str]:
        return NestPlaces(self.loops).stage_key(kind, access.buffer, list(access.indices))

    def _declaration(self, buffer: Any, name: str) -> str:
        dtype = str(buffer.dtype)
        size = byte_count(self.loops.width, dtype)
        if is_packed(dtype):
            return f"alignas({size}) {c_type(dtype)} {name}[{size}] = {{}};"
        return f"alignas({size}) {c_type(dtype)} {name}[{self.loops.width}];"

    # Elements ----------------------------------------------------------------------------------------------------------

    def _elements(self) -> list[str]:
        """The body for each element of the vector; pairs of conversions where the body is one."""
        lane, width = self.e.names.take("l"), self.loops.width
        pair = self._pair(lane)
        if pair is not None:
            return ["#pragma unroll", f"for (int {lane} = 0; {lane} < {width}; {lane} += 2)", "  " + pair]
        with self._element(lane):
            body = statement(self.e, self.nest.body, self.loops.owner)
        header = f"for (int {lane} = 0; {lane} < {width}; ++{lane}) {{"
        return ["#pragma unroll", header, *("  " + line for line in body), "}"]

    def _element(self, lane: str) -> Any:
        return NestPlaces(self.loops, lane, self.stages).in_force()

    def _pair(self, lane: str) -> str | None:
        store = self.nest.body
        if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.Cast) or self.loops.width % 2:
            return None
        function = _PAIR_CONVERSIONS.get((str(store.value.value.ty), str(store.value.ty)))
        if function is None or not self._stores_neighbours(store):
            return None
        with self._element(lane):
            low, target = self.e.text(store.value.value), self.e.places.place(store.buffer, list(store.indices))
        with self._element(f"({lane} + 1)"):
            high = self.e.text(store.value.value)
        return f"*reinterpret_cast<uint*>(&{target}) = {function}({low}, {high});"

    def _stores_neighbours(self, store: Any) -> bool:
        """Whether two neighbouring elements of the vector are stored to one aligned 32-bit word."""
        if store.buffer.scope() == FRAGMENT:
            form = register_form(list(store.indices), self.e.layouts.fragments[store.buffer], self.loops.layout)
            return form is not None and self.loops.is_adjacent(form)
        return self._key(WRITE, store) in self.stages
