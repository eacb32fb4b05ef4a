"""Memory under several names: views of a buffer, and rows read as pairs or fours.

TVM's code generation tells LLVM that accesses under different names never overlap. So if memory is accessed under several names,
all its loads and stores are calls of inlined functions, to which that information is not attached.
"""

from __future__ import annotations

import re
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu import helpers

_ELEMENTS = {"float16": "half", "float32": "float", "float64": "double"}


def overlapping(body: Any) -> frozenset[int]:
    """The accessed buffers (by hash) whose memory is accessed under another name, too."""
    parents = {hash(stmt.buffer): _origin(stmt.data) for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer)}
    if not parents:
        return frozenset()
    names: dict[int, set[int]] = {}
    for buffer in _accessed(body):
        memory = buffer
        while memory in parents:
            memory = parents[memory]
        names.setdefault(memory, set()).add(buffer)
    return frozenset(name for several in names.values() if len(several) > 1 for name in several)


def _origin(data: Any) -> int:
    """What a pointer is derived from: the variable in it, or the call that gives it."""
    found: list[int] = []
    tvm_ffi.structural_walk(data, [(ir.Var, lambda var: found.append(hash(var)))])
    return found[0] if found else hash(data)


def _accessed(body: Any) -> set[int]:
    found: set[int] = {hash(stmt.buffer) for stmt in walk(body) if isinstance(stmt, ir.BufferStore)}
    tvm_ffi.structural_walk(body, [(ir.TensorLoad, lambda load: found.add(hash(load.source)))])
    return found


def load(dtype: str) -> str:
    """The name of the function that loads values of a type."""
    element, _, kind = _parts(dtype)
    name = f"tl_load_{dtype}"
    if name not in helpers.HELPERS:
        text = f"  %r = load {kind}, ptr %p, align {_bytes(element)}\n  ret {kind} %r"
        helpers.register(name, f"define {kind} @{name}(ptr %p) alwaysinline {{\n{text}\n}}")
    return name


def store(dtype: str) -> str:
    """The name of the function that stores values of a type."""
    element, lanes, kind = _parts(dtype)
    name = f"tl_store_{dtype}"
    if name not in helpers.HELPERS:
        text = f"  store {kind} %x, ptr %p, align {_bytes(element)}\n  ret i32 0"
        helpers.register(name, f"define i32 @{name}(ptr %p, {kind} %x) alwaysinline {{\n{text}\n}}")
    return name


def _parts(dtype: str) -> tuple[str, int, str]:
    """The element type, the lanes, and the LLVM type."""
    found = re.fullmatch(r"([a-z]+\d+)(?:x(\d+))?", dtype)
    if found is None:
        raise ValueError(f"{dtype} is no type of an access")
    element, lanes = found.groups()
    scalar = _ELEMENTS.get(element, "i" + re.sub(r"\D", "", element))
    return element, int(lanes or 1), f"<{lanes} x {scalar}>" if lanes else scalar


def _bytes(element: str) -> int:
    return int(re.sub(r"\D", "", element)) // 8
