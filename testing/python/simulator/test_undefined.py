"""Loads of memory that was never written: a fault where something depends on the value, none where nothing does."""

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.simulator.models import cuda, kernels
from tilelang.errors import SimulatorError

KERNEL = """
.visible .entry k(.param .u64 o) {
  .local .align 16 .b8 array[16];
  .reg .pred %p, %q, %h; .reg .b16 %s; .reg .b32 %t, %x, %y, %a, %b, %c, %d; .reg .f32 %f; .reg .b64 %out, %w, %l;
  mov.u64 %l, array; mov.u32 %t, %tid.x; setp.lt.s32 %p, %t, 4;
  ld.param.u64 %out, [o]; mul.wide.u32 %w, %t, 4; add.u64 %out, %out, %w;
  mov.u32 %x, 5; mov.u32 %y, 5; mov.b32 %a, 0; mov.b32 %b, 0;
  BODY
  st.global.u32 [%out], %x;
  ret;
}"""
WRITTEN = "@%p st.local.u32 [%l], %t;"
UNUSED = {
    "under the condition of the store": "ld.local.u32 %y, [%l]; @%p mov.b32 %x, %y;",
    "computed with above it": "ld.local.u16 %s, [%l]; cvt.rn.f32.u16 %f, %s; cvt.rzi.s32.f32 %y, %f; @%p mov.b32 %x, %y;",
    "summed in bytes": "ld.local.u32 %y, [%l]; dp4a.u32.u32 %y, %y, %y, %x; @%p mov.b32 %x, %y;",
    "not selected": "ld.local.u32 %y, [%l]; add.s32 %y, %y, 1; selp.b32 %x, %y, 7, %p;",
    "beside a condition that decides": "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; and.pred %q, %q, %p; @%q mov.b32 %x, 9;",
    "or one that does not hold":
        "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; not.pred %h, %p; or.pred %q, %q, %h; @%q mov.b32 %x, 9;",
    "other elements of a vector": "ld.local.v4.u32 {%y, %b, %c, %d}, [%l]; @%p mov.b32 %x, %y;",
    "in another thread": "ld.local.u32 %y, [%l]; @!%p bra L; add.s32 %x, %x, %y; L:",
    "given to no lane": "ld.local.u32 %y, [%l]; shfl.sync.idx.b32 %x, %y, 2, 31, -1;",
    "given to lanes that do not use it":
        "ld.local.u32 %y, [%l]; shfl.sync.bfly.b32 %b, %y, 4, 31, -1;"
        "setp.gt.s32 %q, %t, 3; setp.lt.and.s32 %q, %t, 8, %q; @%q mov.b32 %x, %b;",
    "in local memory": "ld.local.u32 %y, [%l]; st.local.u32 [%l+4], %y; ld.local.u32 %a, [%l+4]; @%p mov.b32 %x, %a;",
    "overwritten": "ld.local.u32 %y, [%l]; mov.b32 %y, 3; add.s32 %x, %x, %y;",
}  # fmt: skip
USED = {
    "stored": "ld.local.u32 %x, [%l];",
    "computed with": "ld.local.u32 %y, [%l]; mad.lo.s32 %x, %y, 2, %x;",
    "selected": "ld.local.u32 %y, [%l]; selp.b32 %x, 7, %y, %p;",
    "a choice": "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; selp.b32 %x, 7, 8, %q;",
    "beside a condition that leaves it open":
        "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; or.pred %q, %q, %p; @%q mov.b32 %x, 9;",
    "a branch": "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; @%q bra L; mov.b32 %x, 9; L:",
    "a branch not taken": "ld.local.u32 %y, [%l]; setp.eq.s32 %q, %y, 1; @%q bra L; mov.b32 %x, 9; L:",
    "an address": "ld.local.u32 %y, [%l]; and.b32 %y, %y, 0; cvt.u64.u32 %w, %y; add.u64 %out, %out, %w;",
    "in another thread": "ld.local.u32 %y, [%l]; shfl.sync.bfly.b32 %x, %y, 4, 31, -1;",
    "an element of a vector": "ld.local.v4.u32 {%y, %b, %c, %d}, [%l]; add.s32 %x, %c, %y;",
    "in another thread, of all": "ld.local.u32 %y, [%l]; shfl.sync.idx.b32 %x, %y, 9, 31, -1;",
    "as the number of a lane": "ld.local.u32 %y, [%l]; shfl.sync.idx.b32 %x, %t, %y, 31, -1;",
    "in local memory": "ld.local.u32 %y, [%l]; st.local.u32 [%l+4], %y; ld.local.u32 %x, [%l+4];",
}  # fmt: skip


STORED = "ld.shared.u32 %y, [%l]; add.s32 %y, %y, 1; st.shared.v2.u32 [%l+8], {%y, %t};"
DROPPED = {
    "stored and not read": "",
    "the other element": "ld.shared.u32 %x, [%l+12];",
    "read and not used": "ld.shared.u32 %a, [%l+8]; @%p mov.b32 %x, %a;",
    "written later": "st.shared.u32 [%l+8], %t; ld.shared.u32 %x, [%l+8];",
}
KEPT = {
    "stored": "ld.shared.u32 %x, [%l+8];",
    "an element of a vector": "ld.shared.v2.u32 {%x, %c}, [%l+8];",
    "by another store": "ld.shared.u32 %a, [%l+8]; st.shared.u32 [%l+4], %a; ld.shared.u32 %x, [%l+4];",
    "by another thread":
        "bar.sync 0; mov.u64 %w, array; sub.s32 %c, 31, %t; mad.wide.u32 %w, %c, 16, %w; ld.shared.u32 %x, [%w+8];",
}  # fmt: skip


def run(body, memory="local"):
    text = KERNEL.replace("BODY", f"{WRITTEN}\n  {body}")
    if memory == "shared":
        text = text.replace("array[16]", "array[512]").replace("ld.param", "mad.wide.u32 %l, %t, 16, %l; ld.param")
        text = text.replace(".local", ".shared")
    return kernels.launch(text, "k", [np.zeros(32, np.int32)], 32)


def the_load(report):
    assert "uninitialised" in cuda.kinds(report)
    (found,) = [finding for finding in report.findings if finding.kind == "uninitialised"]
    assert ", used at PTX line " in found.message
    return found.instruction


@pytest.mark.parametrize("memory", ["local", "shared"])
@pytest.mark.parametrize("body", UNUSED.values(), ids=UNUSED)
def test_nothing_depends_on_the_value(body, memory):
    kernels.clean(run(body, memory))


@pytest.mark.parametrize("memory", ["local", "shared"])
@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_something_depends_on_the_value(body, memory):
    if "st.local" not in body or memory == "local":
        assert the_load(run(body, memory)).startswith(f"ld.{memory}")


@pytest.mark.parametrize("body", DROPPED.values(), ids=DROPPED)
def test_nothing_depends_on_what_was_stored(body):
    kernels.clean(run(STORED + body, "shared"))


@pytest.mark.parametrize("body", KEPT.values(), ids=KEPT)
def test_something_depends_on_what_was_stored(body):
    assert the_load(run(STORED + body, "shared")).startswith("ld.shared")


LEFT = "setp.gt.s32 %q, %t, 15; @%q ret; shfl.sync.idx.b32 %y, %t, SOURCE, 31, 0xffff;"


@pytest.mark.parametrize("use, found", [("mov.b32 %x, %y;", True), ("@%p mov.b32 %x, %y;", True), ("", False)])
def test_a_lane_that_has_left_gives_nothing(use, found):
    report = run(LEFT.replace("SOURCE", "16") + use)
    messages = [finding.message for finding in report.findings if finding.kind == "uninitialised"]
    assert bool(messages) == found
    assert all(m.startswith("the shuffle reads a lane that does not take part in it, used at PTX line ") for m in messages)
    kernels.clean(run(LEFT.replace("SOURCE", "15") + use))


def test_an_address_of_a_store_is_a_use():
    body = "ld.shared.u32 %y, [%l]; and.b32 %y, %y, 0; cvt.u64.u32 %w, %y; add.u64 %l, %l, %w; st.shared.u32 [%l+4], %t;"
    assert the_load(run(body, "shared")).startswith("ld.shared")


@pytest.mark.parametrize("dropped", [True, False])
def test_rows_that_nothing_wrote_are_computed(dropped):
    @T.prim_func
    def double(A: T.Tensor((10, 32), "float32"), B: T.Tensor((12, 32), "float32")):
        with T.Kernel(3, threads=128) as block:
            tile, result = T.alloc_shared((4, 40), "float32"), T.alloc_shared((4, 40), "float32")
            for i, j in T.Parallel(4, 32):
                if block * 4 + i < 10:
                    tile[i, j] = A[block * 4 + i, j]
            for i, j in T.Parallel(4, 32):
                result[i, j] = tile[i, j] * 2
            for i, j in T.Parallel(4, 32):
                if not dropped or block * 4 + i < 10:
                    B[block * 4 + i, j] = result[i, j]

    b = torch.zeros(12, 32)
    kernel = tilelang.compile(double, target={"kind": "cuda", "arch": "sm_90a"})
    with tilelang.simulator(strict=True):
        if dropped:
            kernel(torch.ones(10, 32), b)
            assert torch.equal(b[:10], torch.full((10, 32), 2.0))
        else:
            with pytest.raises(SimulatorError, match="uninitialised"):
                kernel(torch.ones(10, 32), b)
