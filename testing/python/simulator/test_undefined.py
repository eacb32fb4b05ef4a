"""Loads of local memory that was never written: a fault where something depends on the value, none where nothing does."""

import numpy as np
import pytest

from testing.python.simulator.models import cuda, kernels

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
    "not selected": "ld.local.u32 %y, [%l]; add.s32 %y, %y, 1; selp.b32 %x, %y, 7, %p;",
    "beside a condition that decides": "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; and.pred %q, %q, %p; @%q mov.b32 %x, 9;",
    "or one that does not hold":
        "ld.local.u32 %y, [%l]; setp.gt.s32 %q, %y, 1; not.pred %h, %p; or.pred %q, %q, %h; @%q mov.b32 %x, 9;",
    "other elements of a vector": "ld.local.v4.u32 {%y, %b, %c, %d}, [%l]; @%p mov.b32 %x, %y;",
    "in another thread": "ld.local.u32 %y, [%l]; @!%p bra L; add.s32 %x, %x, %y; L:",
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
    "in local memory": "ld.local.u32 %y, [%l]; st.local.u32 [%l+4], %y;",
}  # fmt: skip


def run(body):
    return kernels.launch(KERNEL.replace("BODY", f"{WRITTEN}\n  {body}"), "k", [np.zeros(32, np.int32)], 32)


@pytest.mark.parametrize("body", UNUSED.values(), ids=UNUSED)
def test_nothing_depends_on_the_value(body):
    kernels.clean(run(body))


@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_something_depends_on_the_value(body):
    report = run(body)
    assert "uninitialised" in cuda.kinds(report)
    (found,) = [finding for finding in report.findings if finding.kind == "uninitialised"]
    assert found.instruction.startswith("ld.local") and ", used at PTX line " in found.message
