"""Copies by the tensor memory accelerator: which are possible, their descriptors, and their text on the simulator."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tilelang import simulator
from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.facts import Facts
from tilelang.ir.region import Region
from tilelang.layout import TileLayout, row_major, swizzled
from tilelang.layout.panels import panel_layout
from tilelang.target.cuda.headers import names_in, prelude
from tilelang.target.cuda.ir.code import Block
from tilelang.target.cuda.ir.instructions import BulkLoad
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import AddressOf, Array, Name, value_of
from tilelang.target.cuda.ops import copy_bulk as tma
from tilelang.target.cuda.toolchain.compile import compile_device

C_TYPES = {"float16": "half", "float32": "float", "int8": "int8_t", "float8_e4m3fn": "__nv_fp8_e4m3", "int32": "int"}


def tile(shape: tuple, dtype: str = "float16", scope: str = "shared.dyn", mins: tuple | None = None, extents: tuple | None = None,
         strides: tuple = (), name: str = "A") -> Region:  # fmt: skip
    buffer = SimpleNamespace(name=name, shape=shape, dtype=dtype, scope=lambda: scope, strides=strides)
    return Region(buffer, mins or (0,) * len(shape), extents or tuple(shape))


SMEM = Array("smem", "uint8")
EMITTER = SimpleNamespace(array=lambda buffer: SMEM, index=value_of)


def text(code: list) -> str:
    """The text of some instructions."""
    return "\n".join(Printer().lines(Block(code), 0))


def loads(plan, barrier, multicast=None):
    """The instructions of a load."""
    name = Name(plan.spec.name)
    return [BulkLoad(name, place, barrier, at, multicast) for place, at in plan.operations(EMITTER)]


def plan_named(source: Region, target: Region, layout: TileLayout, name: str, reduction: str | None = None) -> tma.TmaPlan | None:
    """The plan of a copy whose descriptor has a name, as a kernel gives it one."""
    found = tma.plan_copy(source, target, layout, Facts(), reduction)
    return found and replace(found, spec=replace(found.spec, name=name))


def plan_load(source: Region, target: Region, layout: TileLayout | None = None) -> tma.TmaPlan | None:
    return plan_named(source, target, layout or tma.natural_layout(target), "A_map")


CASES = [
    # tensor, first index, extents, dtype, shared shape, layout
    ((200, 136), (64, 64), (128, 64), "float16", (128, 64), None),
    ((200, 136), (128, 128), (128, 128), "float16", (128, 128), None),
    ((200, 136), (64, 32), (64, 32), "float16", (64, 32), None),
    ((100, 48), (90, 16), (16, 16), "float16", (16, 16), None),
    ((100, 48), (90, 16), (16, 16), "float16", (16, 16), row_major((16, 16))),
    ((600, 64), (40, 0), (512, 64), "float16", (512, 64), None),
    ((40, 512), (8, 0), (16, 512), "float16", (16, 512), row_major((16, 512))),
    ((8, 20, 72), (3, 8, 32), (1, 16, 64), "float16", (16, 64), None),
    ((4, 6, 40, 16), (1, 2, 24, 0), (2, 1, 16, 16), "float32", (2, 16, 16), None),
    ((2, 3, 4, 10, 64), (1, 2, 1, 3, 0), (1, 1, 1, 8, 64), "int8", (8, 64), None),
    ((500,), (400,), (128,), "float32", (128,), None),
    ((100, 256), (0, 128), (64, 128), "float8_e4m3fn", (64, 128), None),
    ((3, 5, 8), (0, 0, 0), (3, 5, 8), "float32", (3, 5, 8), None),
    ((2, 320, 8), (0, 0, 0), (2, 320, 8), "int32", (2, 320, 8), row_major((2, 320, 8))),
    ((600, 8), (40, 0), (520, 8), "float32", (520, 8), None),  # boxes of 130 rows would begin between two multiples of 128 bytes
]


@pytest.mark.parametrize(("shape", "mins", "extents", "dtype", "shared", "layout"), CASES)
def test_loads_and_stores_move_the_box_and_leave_the_rest(shape, mins, extents, dtype, shared, layout) -> None:
    source = tile(shape, dtype, "global", mins, extents)
    target = tile(shared, dtype)
    layout = layout or tma.natural_layout(target)
    load = plan_load(source, target, layout)
    store = plan_named(target, source, layout, "B_map")
    assert load is not None and store is not None
    element = canonical(dtype)
    body = f"""extern "C" __global__ void move(const __grid_constant__ CUtensorMap A_map,
                                            const __grid_constant__ CUtensorMap B_map) {{
      extern __shared__ __align__(1024) uchar pool[];
      {C_TYPES[dtype]}* smem = reinterpret_cast<{C_TYPES[dtype]}*>(pool);
      __shared__ uint64_t barrier;
      if (threadIdx.x == 0) {{ tl::mbarrier_init(&barrier, 1); tl::mbarrier_fence_init(); }}
      __syncthreads();
      if (threadIdx.x == 0) {{
        tl::mbarrier_arrive_expect_tx(&barrier, {load.bytes});
        {text(loads(load, AddressOf(Name("barrier"))))}
      }}
      tl::mbarrier_wait(&barrier, 0);
      if (threadIdx.x == 0) {{
        {text(store.stores(EMITTER))}
        tl::tma_store_wait_complete<0>();
      }}
    }}"""
    kernel = simulator.load(compile_device(prelude(names_in(body)) + body, "sm_90a").ptx.decode()).get_function("move")
    a = torch.randint(-4, 5, shape).to(element.as_torch())
    b = torch.full(shape, 7.0).to(element.as_torch())
    box = load.spec.box[::-1]
    maps = [
        simulator.encode_tensor_map(
            t, box, swizzle=load.spec.swizzle, dtype=load.spec.dtype,
            shape=load.spec.shape[::-1], strides=[s // element.bytes for s in load.spec.strides[::-1]] + [1],
        )
        for t in (a, b)
    ]  # fmt: skip
    kernel.launch(1, 32, maps, shared_bytes=layout.size * element.bytes, strict=True)
    inside = tuple(slice(low, low + extent) for low, extent in zip(mins, extents))
    want = torch.full(shape, 7.0)
    want[inside] = a.float()[inside]
    torch.testing.assert_close(b.float(), want, rtol=0, atol=0)


def test_a_row_of_256_bytes_is_two_panels() -> None:
    plan = plan_load(tile((512, 512), scope="global", extents=(64, 128)), tile((64, 128)))
    assert plan is not None
    assert (plan.spec.box, plan.spec.swizzle, plan.bytes) == ((64, 64), 128, 64 * 128 * 2)
    assert plan.boxes == (((0, 0), 0), ((0, 64), 64 * 64))


def test_dynamic_rows_are_dimensions_of_the_descriptor() -> None:
    rows = ir.Var("m", "int32")
    plan = plan_load(tile((rows, 512), scope="global", extents=(64, 64)), tile((64, 64)))
    assert plan is not None
    assert (plan.spec.shape, plan.spec.strides) == ((512, "m"), (1024,))


def test_strides_of_the_tensor_are_used() -> None:
    plan = plan_load(tile((128, 512), scope="global", extents=(64, 64), strides=(640, 1)), tile((64, 64)))
    assert plan is not None and plan.spec.strides == (1280,)


IMPOSSIBLE = {
    "row stride of 2 * 100 bytes": (tile((64, 100), scope="global", extents=(64, 64)), tile((64, 64))),
    "row stride known at run time only": (tile((64, ir.Var("n", "int32")), scope="global", extents=(64, 64)), tile((64, 64))),
    "a column": (tile((64, 64), scope="global", extents=(64, 1)), tile((64,))),
    "innermost stride of 2": (tile((64, 64), scope="global", strides=(128, 2)), tile((64, 64))),
    "six axes": (tile((1, 1, 1, 1, 64, 64), scope="global"), tile((64, 64))),
    "half of the shared tile": (tile((64, 64), scope="global", extents=(64, 32)), tile((64, 64), extents=(64, 32))),
    "eight bytes a row": (tile((64, 64), scope="global", extents=(64, 4)), tile((64, 4))),
    "four-bit elements": (tile((64, 64), "int4", "global"), tile((64, 64), "int4")),
    "registers": (tile((64, 64), scope="global"), tile((64, 64), scope="local.fragment")),
    "a row of panels that is no eighth": (
        tile((64,), "float32", "global", extents=(8,)),
        tile((8, 8), "float32", mins=(3, 0), extents=(1, 8)),
    ),
    "a place that is no multiple of 128 bytes": (
        tile((40,), "float32", "global"),
        tile((3, 40), "float32", mins=(1, 0), extents=(1, 40)),
    ),
    "pieces of 160 bytes": (tile((300, 5, 8), "float32", "global"), tile((300, 5, 8), "float32")),
}


@pytest.mark.parametrize("case", sorted(IMPOSSIBLE))
def test_copies_that_the_accelerator_cannot_do(case: str) -> None:
    assert plan_load(*IMPOSSIBLE[case]) is None


def test_a_swizzle_that_tma_does_not_have_is_copied_by_threads() -> None:
    layout = swizzled((64, 256), 16)
    assert tma.plan_copy(tile((64, 256), scope="global"), tile((64, 256)), layout, Facts()) is None


def test_a_version_of_a_staged_tile_starts_at_its_stage() -> None:
    target = tile((3, 64, 64), mins=(2, 0, 0), extents=(1, 64, 64))
    plan = plan_load(tile((512, 512), scope="global", extents=(64, 64)), target, panel_layout((3, 64, 64), 16, 128))
    assert plan is not None
    bar = Name("bar")
    assert text(loads(plan, bar)) == "tl::tma_load_2d(smem + 8192, A_map, bar, 0, 0);"
    load = text(loads(plan, bar, multicast=3))
    assert load == "tl::tma_load_2d_multicast(smem + 8192, A_map, bar, 3, 0, 0);"


def test_one_row_of_each_matrix_of_a_tile_is_an_operation_of_its_own() -> None:
    rows = tile((4, 8, 64), mins=(0, 0, 0), extents=(4, 1, 64))
    plan = plan_load(tile((4, 64), scope="global"), rows)
    assert plan is not None
    assert plan.spec.box == (64, 1) and [place for _, place in plan.boxes] == [0, 512, 1024, 1536]


@pytest.mark.parametrize(("dtype", "operation", "possible"), [
    ("float32", "add", True), ("float16", "max", True), ("float32", "max", False), ("int32", "min", True), ("int8", "add", False),
])  # fmt: skip
def test_reductions_into_global_memory(dtype: str, operation: str, possible: bool) -> None:
    shared, outer = tile((64, 64), dtype), tile((64, 64), dtype, "global")
    plan = plan_named(shared, outer, tma.natural_layout(shared), "C_map", operation)
    assert (plan is not None) == possible
    if plan is not None:
        assert text(plan.stores(EMITTER)).startswith(f"tl::tma_reduce_{operation}_2d(C_map, smem")
