"""Alignment that PTX asks of tensors."""

from __future__ import annotations

import pytest

from tilelang.artifact import KernelParam
from tilelang.target.cuda.alignment import tensor_alignment

PARAMS = (
    KernelParam("A", "tensor", "float16", (8,)),
    KernelParam("B", "tensor", "float64", (8,)),
    KernelParam("s", "scalar", "int32"),
)


@pytest.mark.parametrize(
    "line, expected",
    [
        ("ld.global.nc.f32 %f1, [%rd1];", {}),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];", {"A": 16, "B": 16}),
        ("ld.global.nc.L1::no_allocate.v2.f32 {%f1, %f2}, [%rd1];", {"A": 8}),
        ("st.global.v2.b16 [%rd1], {%rs1, %rs2};", {"A": 4}),
        ("st.shared.v4.b32 [%r1], {%r1, %r2, %r3, %r4};", {}),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;", {"A": 16, "B": 16}),
        ("cp.async.ca.shared.global [%r1], [%rd1], 4;", {"A": 4}),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1];", {"A": 16, "B": 16}),
    ],
)
def test_the_widest_access_counts(line, expected):
    assert tensor_alignment(line.encode(), PARAMS) == expected
