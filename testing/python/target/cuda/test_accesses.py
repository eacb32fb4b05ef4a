"""What statements do to buffers, as every analysis of the CUDA target is told."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.visit import walk
from tilelang.target.cuda.analysis.availability import is_available
from tilelang.target.cuda.tile.nest import accesses_in, given_to_calls, handed_on, writes_in
from tilelang.tileop.thread import intrinsic_call


@T.prim_func
def _program(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        T.atomic_add(B[0], tile[1])
        T.call_extern("handle", "f", T.address_of(C[2]))


def _kinds(name):
    return {access.kind for access in accesses_in(_program.body) if access.buffer.name == name}


@pytest.mark.parametrize("name, kinds", [("A", {READ}), ("tile", {READ, WRITE}), ("B", {UPDATE}), ("C", {ADDRESS})])
def test_operands_elements_atomics_and_addresses(name, kinds):
    assert _kinds(name) == kinds


def test_what_an_atomic_update_adds_is_only_read():
    (fill,) = (access for access in accesses_in(_program.body) if access.kind == WRITE)
    assert fill.site.fills and fill.site.extents == (64,)
    written = {buffer.name for buffer, times in writes_in(_program.body).items() if times}
    assert written == {"tile", "B", "C"}


def test_a_pointer_that_a_call_gets_is_handed_on():
    buffer = ir.decl_buffer((4,), "float32", "p")
    assert handed_on(ir.Evaluate(ir.tirx.call_extern("int32", "f", buffer))) == {buffer}
    assert not handed_on(ir.Evaluate(ir.tirx.call_extern("int32", "f", ir.BufferLoad(buffer, [ir.IntImm("int32", 0)]))))


def test_an_intrinsic_with_an_effect_may_write_the_elements_that_it_gets():
    a, b = (ir.BufferLoad(ir.decl_buffer((4,), "float32", name), [ir.IntImm("int32", 0)]) for name in "ab")
    load = ir.Evaluate(intrinsic_call("ptx_ldmatrix", ir.IntImm("int32", 0), ir.IntImm("int32", 4), a, b))
    assert given_to_calls(load) == {a.source, b.source}
    assert given_to_calls(ir.Evaluate(ir.tirx.exp(a))) == set()


def test_availability():
    tensor, var = ir.decl_buffer((4,), "int32", "t", scope="global"), ir.Var("x", "int32")
    load = ir.BufferLoad(tensor, [ir.IntImm("int32", 0)])
    assert is_available(load + var, lambda buffer: True, set())
    assert not is_available(load + var, lambda buffer: buffer != tensor, set())
    assert not is_available(load + var, lambda buffer: True, {var})
    calls = (stmt.value for stmt in walk(_program.body) if isinstance(stmt, ir.Evaluate))
    assert not any(is_available(call, lambda buffer: True, set()) for call in calls if call.op.name.startswith("tl."))
