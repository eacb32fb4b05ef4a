"""The helpers over the IR: regions, sizes, spans, walks."""

import sys

import pytest

import tilelang.language as T
from tilelang.artifact import evaluate_dim
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int, constant, difference, same, simplify
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.text import expr_text, shape_text
from tilelang.ir.visit import any_statement, mentions, statement_exprs, variables, walk, walk_expr

N, M = ir.Var("n", "int32"), ir.Var("m", "int32")
BUFFER = ir.decl_buffer((16, N), "float16", "A", layout=None)


def test_whole_region():
    region = Region.whole(BUFFER)
    assert region.is_whole and region.extents[0] == 16 and region.dtype == "float16"
    assert not Region(BUFFER, (1, 0), (15, N)).is_whole


def test_region_as_expression():
    region = Region(BUFFER, (N * 2, 0), (4, 8))
    again = Region.of(region.to_expr())
    assert again.extents == (4, 8) and same(again.mins[0], N * 2)


def test_indices_inside_a_region():
    region = Region(BUFFER, (3, M), (1, 8))
    row, column = region.index([N])
    assert row == 3 and same(column, M + N)
    assert region.shape == (8,)


def test_small_expressions():
    assert as_int((N - N) + 5) == 5 and as_int(7) == 7
    assert same(N * 2, N + N) and not same(N, M)
    assert str(constant(2**40).ty) == "int64" and str(constant(5).ty) == "int32"
    assert simplify(3) == 3


@pytest.mark.parametrize(
    "expr,values,expected",
    [
        (N * 2 + 1, {"n": 5}, 11),
        ((N + 15) // 16, {"n": 33}, 3),
        (N % 4 - M, {"n": 7, "m": 1}, 2),
        (ir.tirx.max(N, M), {"n": 7, "m": 9}, 9),
        (ir.tirx.min(N, 3) * M, {"n": 7, "m": 9}, 27),
        (ir.Cast("int64", N) * ir.IntImm("int64", 3), {"n": 4}, 12),
    ],
)
def test_sizes_of_artifacts(expr, values, expected):
    assert evaluate_dim(to_dim(expr), values) == expected


def test_not_a_size():
    with pytest.raises(CompileError, match="is not a size"):
        to_dim(ir.tirx.exp(ir.Cast("float32", N)))


def program():
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.serial(n):
                if A[i] > 0:
                    A[i] = (A[i] & 3) << 1

    return main


def test_spans_name_the_users_lines():
    with open(__file__) as file:
        lines = file.read().splitlines()
    stores = [stmt for stmt in walk(program().body) if isinstance(stmt, ir.BufferStore)]
    location = location_of(stores[0].span)
    assert location.file == __file__
    assert lines[location.line - 1].strip() == "A[i] = (A[i] & 3) << 1"
    if sys.version_info >= (3, 11):  # before, instructions have no columns
        assert lines[location.line - 1][location.column - 1] == "A"


def test_every_statement_has_a_span():
    for stmt in walk(program().body):
        assert isinstance(stmt, ir.SeqStmt) or stmt.span is not None, type(stmt)


def test_walks():
    func = program()
    kinds = [type(stmt).__name__ for stmt in walk(func.body)]
    assert kinds[-3:] == ["For", "IfThenElse", "BufferStore"]
    assert any_statement(func.body, lambda stmt: isinstance(stmt, ir.For))
    store = next(stmt for stmt in walk(func.body) if isinstance(stmt, ir.BufferStore))
    names = {var.name for expr in statement_exprs(store) for var in variables(expr)}
    assert names == {"A", "i"}
    assert len(list(walk_expr(N + M))) == 3


def test_shared_expressions_are_walked_once():
    expr = N
    for _ in range(40):
        expr = expr + expr
    assert len(list(walk_expr(expr))) < 100
    assert mentions(expr, {N}) and not mentions(expr, {M})


def test_text_of_expressions():
    assert expr_text((N + 1) // 2 * M) == "(((n + 1) // 2) * m)"
    assert shape_text((16, N)) == "(16, n)"
    assert expr_text(ir.BufferLoad(BUFFER, [ir.IntImm("int32", 0), N])) == "A[0, n]"


def test_values_named_inside_of_an_expression_are_not_remembered():
    named, byte = ir.Var("t", "int32"), ir.BufferLoad(ir.decl_buffer((16,), "uint8", "B", layout=None), [N])
    expr = ir.Let(named, ir.Cast("int32", byte), named - (named // 10) * 10)
    assert str(simplify(expr + 0)) == str(simplify(expr + 0)) == str(expr)
    assert "part" not in str(simplify(named * 2))


def test_differences_of_unsigned_constants_are_numbers():
    zero, three = ir.IntImm("uint32", 0), ir.IntImm("uint32", 3)
    assert difference(zero, three) == -3 and not same(zero, three) and same(three, three)
    assert simplify(difference(N + 3, N)) == 3


def test_a_value_that_wraps_around_is_itself():
    row = ir.Cast("int16", N) % ir.IntImm("int16", 4)
    assert difference(row, ir.Cast("int16", N) % ir.IntImm("int16", 4)) == 0
    assert not same(row, ir.Cast("int16", N + 1) % ir.IntImm("int16", 4))
