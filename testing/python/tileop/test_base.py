"""Tile operators as records: they survive the way through the IR, and check their operands."""

import dataclasses

import pytest

from tilelang.errors import CopyShapeError, GemmDtypeError, GemmShapeError, ReduceShapeError
from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.tileop import OPERATORS, decode, is_tile_op
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.base import TileOp, tile_operator
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose
from tilelang.tileop.debug import DeviceAssert, PrintBuffer, PrintLine
from tilelang.tileop.gemm import Gemm, GemmSparse
from tilelang.tileop.hint import (
    AnnotateLayout,
    L2HitRatio,
    MaxRegisters,
    MinBlocksPerSM,
    RestrictBuffers,
    SafeValue,
    UseSwizzle,
)
from tilelang.tileop.reduce import FinalizeReducer, Reduce
from tilelang.tileop.scan import Scan
from tilelang.tileop.thread import INTRINSICS, intrinsic_call, intrinsic_name
from tilelang.tileop.warp_group import FenceOperand, WarpGroupInstruction


def region(*shape, dtype="float32", name="buffer"):
    return Region.whole(ir.decl_buffer(shape, dtype, name, layout=None))


A, B, C = region(16, 32, name="A"), region(32, 8, name="B"), region(16, 8, name="C")
ROW, ONE = region(16, name="row"), region(1, dtype="uint64", name="barrier")
INDEX = ir.Var("i", "int32")

EXAMPLES = [
    Copy(A, A, ONE, kind="tma", coalesced_width=4, disable_tma=True, eviction_policy="evict_first", cluster_mask=3),
    Copy(A, A),
    Transpose(A, region(32, 16)),
    Im2Col(region(1, 8, 8, 4), region(16, 36), INDEX, INDEX + 1, kernel=3, stride=2, dilation=1, pad=1),
    Fill(A, ir.FloatImm("float32", 1.5)),
    AtomicTile(A, A, "max", "acq_rel", True),
    PrintBuffer(A, "message"),
    PrintLine(("", " and ", "."), (INDEX, INDEX + 1)),
    PrintLine(("only text",)),
    DeviceAssert(INDEX > 0, "message"),
    Gemm(A, B, C, ir.EQ(INDEX, ir.IntImm("int32", 0)), ONE, policy=2, kind="wgmma", wg_wait=-1, k_pack=2),
    Gemm(A, region(8, 32), C, True, None, transpose_b=True),
    GemmSparse(A, region(16, 4, dtype="uint16"), region(64, 8), C),
    Reduce(A, ROW, "absmax", 1, False, True),
    Scan(A, A, "max", 1, True),
    FinalizeReducer(ROW, "min"),
    AnnotateLayout(A, "text"),
    UseSwizzle(4, "column"),
    SafeValue(A, ir.FloatImm("float32", -1.0)),
    L2HitRatio(A, 0.5),
    RestrictBuffers(("A", "B")),
    MaxRegisters(240, "dec"),
    MinBlocksPerSM(2),
    FenceOperand(ROW, INDEX, 8),
    WarpGroupInstruction(A, B, C, INDEX, INDEX, INDEX, INDEX, INDEX, n=64, k=8, transpose_a=True),
]


def same(left, right) -> bool:
    if isinstance(left, Region):
        pairs = [*zip(left.mins, right.mins), *zip(left.extents, right.extents)]
        return left.buffer.same_as(right.buffer) and all(same(a, b) for a, b in pairs)
    if isinstance(left, tuple) and any(isinstance(item, ir.PrimExpr) for item in left):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, ir.PrimExpr):
        return left.same_as(right) or str(left) == str(right)
    return left == right


@pytest.mark.parametrize("operator", EXAMPLES, ids=lambda operator: type(operator).__name__)
def test_round_trip(operator):
    stmt = operator.to_stmt()
    assert is_tile_op(stmt.value)
    found = decode(stmt.value)
    assert type(found) is type(operator)
    for field in dataclasses.fields(operator):
        assert same(getattr(operator, field.name), getattr(found, field.name)), field.name


def test_every_operator_has_an_example_and_a_description():
    assert {type(example) for example in EXAMPLES} == set(OPERATORS.values())
    assert all(operator.__doc__ for operator in OPERATORS.values())


def test_access_of_the_regions():
    gemm = Gemm(A, B, C)
    assert [(r.buffer.name, access) for r, access in gemm.regions()] == [("A", "r"), ("B", "r"), ("C", "rw")]
    assert [access for _, access in Copy(A, A).regions()] == ["r", "w"]


def test_a_name_is_declared_once():
    with pytest.raises(ValueError, match="tl.copy is declared in tilelang.tileop.copy and in"):

        @tile_operator("tl.copy")
        class Another(TileOp):
            """A second one."""


def test_records_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXAMPLES[0].kind = "copy"


@pytest.mark.parametrize(
    "operator,error",
    [
        (Copy(A, B), CopyShapeError),
        (Transpose(A, A), CopyShapeError),
        (AtomicTile(A, ROW), CopyShapeError),
        (Gemm(A, B, region(8, 16)), GemmShapeError),
        (Gemm(A, B, C, transpose_a=True), GemmShapeError),
        (Gemm(A, region(32, 8, dtype="float16"), C), GemmDtypeError),
        (Gemm(region(16, 32, dtype="int8"), region(32, 8, dtype="int8"), C), GemmDtypeError),
        (Gemm(region(2, 16, 32), B, C), GemmShapeError),
        (GemmSparse(A, ROW, B, C), GemmShapeError),
        (Reduce(A, region(32), "sum", 1), ReduceShapeError),
        (Scan(A, ROW, "sum", 0), ReduceShapeError),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_checks(operator, error):
    with pytest.raises(error):
        operator.check()


def test_legal_operands():
    for operator in (
        Copy(region(1, 16, 32), A),
        Reduce(A, region(16, 1), "sum", 1),
        Reduce(ROW, region(1), "sum", 0),
        Gemm(region(1, 16, 32), B, C),
        Gemm(region(16, 32, dtype="float8_e4m3fn"), region(32, 8, dtype="float8_e5m2"), C),
        Gemm(region(16, 32, dtype="uint8"), region(32, 8, dtype="int8"), region(16, 8, dtype="int32")),
    ):
        operator.check()


@pytest.mark.parametrize("name", INTRINSICS)
def test_intrinsics_build(name):
    call = intrinsic_call(name, INDEX, span=None)
    assert intrinsic_name(call) == name
    result = INTRINSICS[name].result
    assert str(call.ty) == ("int32" if result in ("void", "same") else result) or result == "handle"
    assert INTRINSICS[name].spelling.startswith("T.")
