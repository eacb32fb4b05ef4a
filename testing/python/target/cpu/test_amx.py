"""Products by the tiles of AMX: exact or as accurate as in registers for every shape, and no trace of them in the thread."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import host
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.dot import choose_dot_product
from tilelang.target.info import parse_target

from .support import build, on_both
from .test_cross import DOTS, LINUX, assembly
from .test_integer_products import operand

AMX = ["amx-tile", "amx-bf16", "amx-int8"]
MACHINE = {"kind": "llvm", "arch": "sapphirerapids", "triple": f"x86_64-{LINUX}", "features": [*DOTS, *AMX]}
"""A processor with tiles, whatever this one has."""

runs_tiles = pytest.mark.skipif(not set(AMX) <= set(parse_target("cpu").features), reason="no AMX here")
INSTRUCTIONS = {
    ("int8", "int8"): "tdpbssd",
    ("int8", "uint8"): "tdpbsud",
    ("uint8", "int8"): "tdpbusd",
    ("uint8", "uint8"): "tdpbuud",
    ("int4", "uint8"): "tdpbsud",
    ("bfloat16", "bfloat16"): "tdpbf16ps",
}
SHAPES = {
    # sizes -> which operands are transposed
    (32, 32, 32): (False, False),
    (16, 48, 64): (False, True),
    (7, 19, 12): (True, False),
    (64, 64, 64): (True, True),
    (33, 65, 68): (True, False),
    (50, 70, 1100): (False, False),
}
"""Whole blocks, single tiles, edges of every kind, and depths of several parts with a last one."""


def product(m, n, k, dtypes, transpose_a=False, transpose_b=False, clear=False, result=None, threads=1):
    accumulator = "float32" if dtypes[0] == "bfloat16" else "int32"

    @T.prim_func
    def main(
        A: T.Tensor((threads, k, m) if transpose_a else (threads, m, k), dtypes[0]),
        B: T.Tensor((n, k) if transpose_b else (k, n), dtypes[1]),
        C: T.Tensor((threads, m, n), result or accumulator),
    ):
        with T.Kernel(threads, threads=128) as i:
            a, b = T.alloc_shared(A.shape[1:], dtypes[0]), T.alloc_shared(B.shape, dtypes[1])
            c = T.alloc_fragment((m, n), accumulator)
            T.copy(A[i, 0, 0], a)
            T.copy(B, b)
            T.copy(C[i, 0, 0], c)
            T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b, clear_accum=clear)
            T.copy(c, C[i, 0, 0])

    return main


def without_amx(target="cpu"):
    """This machine as a target that names no tiles."""
    info = parse_target(target)
    return {"kind": info.kind, "features": [feature for feature in info.features if not feature.startswith("amx")]}


def in_order(matrix, transposed):
    return (matrix.T if transposed else matrix).contiguous()


@runs_tiles
@on_both
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bfloat16(shape, target):
    (m, n, k), transposed = shape, SHAPES[shape]
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(size, generator=generator).bfloat16() for size in ((m, k), (k, n)))
    clear = transposed[0]
    c = torch.randn(1, m, n, generator=generator)
    want = (0 if clear else c) + a.double() @ b.double()
    kernel = build(product(m, n, k, ("bfloat16", "bfloat16"), *transposed, clear), target)
    assert "dpbf16ps" in kernel.get_kernel_source()
    kernel(in_order(a, transposed[0])[None], in_order(b, transposed[1]), c)
    assert (c - want).abs().max() <= 1e-6 * k**0.5 * want.abs().max()


@runs_tiles
@pytest.mark.parametrize("shape", [(64, 32, 64), (7, 19, 12), (33, 65, 2068)], ids=str)
@pytest.mark.parametrize("dtypes", list(INSTRUCTIONS)[:4], ids="-".join)
def test_integers_are_exact(dtypes, shape):
    m, n, k = shape
    transposed = dtypes[0] == "uint8", dtypes[1] == "uint8"
    generator = torch.Generator().manual_seed(0)
    a, b = operand(generator, dtypes[0], m, k), operand(generator, dtypes[1], k, n)
    c = torch.randint(-(2**31), 2**31, (1, m, n), generator=generator)
    want = ((c + a @ b + 2**31) % 2**32 - 2**31).to(torch.int32)
    stored = c.to(torch.int32)
    left, right = (in_order(x, t).to(getattr(torch, d)) for x, t, d in zip((a, b), transposed, dtypes))
    build(product(m, n, k, dtypes, *transposed))(left[None], right, stored)
    assert torch.equal(stored, want)


@runs_tiles
@on_both
def test_tiles_give_what_registers_give(target):
    """A bfloat16 result of many blocks on all threads, twice, with torch's own tiles used by the thread in between."""
    program = product(48, 40, 96, ("bfloat16", "bfloat16"), result="bfloat16", threads=64)
    a, b = torch.randn(64, 48, 96).bfloat16(), torch.randn(96, 40).bfloat16()
    start = torch.randn(64, 48, 40).bfloat16()
    results = []
    for each in (target, without_amx(target)):
        kernel, c = build(program, each), start.clone()
        for _ in range(2):
            kernel(a, b, c)
            torch.testing.assert_close(a[0] @ b, (a[0].float() @ b.float()).bfloat16(), rtol=2e-2, atol=2e-2)
        results.append(c.float())
    torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)


@runs_tiles
def test_two_products_in_a_loop_and_a_failed_block_leave_no_tiles():
    """Attention's shape: the second product reads what the first has made; a block that fails stops between two products."""

    @T.prim_func
    def main(
        Q: T.Tensor((40, 32), "bfloat16"), K: T.Tensor((96, 32), "bfloat16"), Out: T.Tensor((40, 32), "float32"), most: T.float32
    ):
        with T.Kernel(1, threads=128):
            s, p = T.alloc_fragment((40, 48), "float32"), T.alloc_fragment((40, 48), "bfloat16")
            o = T.alloc_fragment((40, 32), "float32")
            k = T.alloc_shared((48, 32), "bfloat16")
            q = T.alloc_shared((40, 32), "bfloat16")
            T.copy(Q, q)
            T.clear(o)
            for j in T.Pipelined(2, num_stages=1):
                T.copy(K[j * 48, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for x, y in T.Parallel(40, 48):
                    T.device_assert(s[x, y] < most, "too large")
                    p[x, y] = s[x, y]
                T.gemm(p, k, o)
            T.copy(o, Out)

    q, k, o = torch.randn(40, 32).bfloat16(), torch.randn(96, 32).bfloat16(), torch.empty(40, 32)
    kernel = build(main)
    with pytest.raises(RuntimeError, match="too large"):
        kernel(q, k, o, 0.0)
    kernel(q, k, o, 1e9)
    scores = (q.float() @ k.float().T).bfloat16().float()
    torch.testing.assert_close(o, scores @ k.float(), rtol=1e-2, atol=1e-2 * float(scores.abs().max()))


@pytest.mark.parametrize(("dtypes", "instruction"), INSTRUCTIONS.items())
def test_the_instruction_follows_from_the_targets_features(dtypes, instruction):
    unit = vector_unit(parse_target(MACHINE))
    accumulator = "float32" if dtypes[0] == "bfloat16" else "int32"

    def chosen(vectors, k=64, **options):
        return choose_dot_product(*dtypes, accumulator, k, CpuContext(None, "main", vectors), **options).tile

    assert chosen(unit) == instruction
    plain = vector_unit(parse_target({**MACHINE, "features": DOTS}))
    unfit = [chosen(plain), chosen(unit, k=63), chosen(unit, loads_bind=True), chosen(unit, tiles=False)]
    assert unfit == [""] * 4


def test_machine_code_configures_multiplies_and_releases():
    """Checked without running, so on every machine: each product's configuration is released before the block ends."""
    text = assembly(product(50, 32, 100, ("bfloat16", "bfloat16")), MACHINE)
    order = [text.index(name) for name in ("ldtilecfg", "tileloadd", "tdpbf16ps", "tilestored")]
    assert order == sorted(order)
    assert text.rindex("tilerelease") > text.rindex("tilestored")
    assert text.count("ldtilecfg") >= 2  # whole blocks, and the rows of an edge
    assert "arch_prctl" not in text and "syscall" in text  # the entry asks for permission
    assert "tile" not in assembly(product(50, 32, 100, ("bfloat16", "bfloat16")), {**MACHINE, "features": DOTS})


@pytest.mark.parametrize("granted", [True, False])
def test_a_machine_whose_system_refuses_tiles_has_none(monkeypatch, granted):
    flags = frozenset({"avx512f", "amx_tile", "amx_bf16", "amx_int8"})
    monkeypatch.setattr(host, "_kernel_report", lambda: ("GenuineIntel", flags))
    monkeypatch.setattr(host, "platform", SimpleNamespace(machine=lambda: "x86_64", system=lambda: "Linux"))
    monkeypatch.setattr(host, "grants_tiles", lambda: granted)
    host.host_cpu.cache_clear()
    try:
        text = parse_target("cpu").text  # part of the key of every kernel
    finally:
        monkeypatch.undo()
        host.host_cpu.cache_clear()
    assert ("amx-tile" in text) == granted


@runs_tiles
def test_a_target_without_the_features_uses_no_tiles():
    program = product(32, 32, 64, ("bfloat16", "bfloat16"))
    assert "tdpbf16ps" in build(program).get_kernel_source()
    assert "tdpbf16ps" not in tilelang.compile(program, target=without_amx()).get_kernel_source()


def rounded(m, n, k, result):
    """A product whose sums are rounded to the type of the tensor, in two tiles down and one across."""

    @T.prim_func
    def main(A: T.Tensor((2 * m, k), "bfloat16"), B: T.Tensor((k, n), "bfloat16"), C: T.Tensor((2 * m, n), result)):
        with T.Kernel(1, 2, threads=128) as (bx, by):
            a, b = T.alloc_shared((m, k), "bfloat16"), T.alloc_shared((k, n), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            T.copy(A[by * m, 0], a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C[by * m, 0])

    return main


@runs_tiles
@on_both
@pytest.mark.parametrize("result", ["bfloat16", "float16"])
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (17, 15, 34), (33, 65, 600), (1, 1, 2)])
def test_sums_are_rounded_block_by_block(m, n, k, result, target):
    a, b = torch.randint(-4, 5, (2 * m, k)), torch.randint(-4, 5, (k, n))
    c = torch.empty(2 * m, n, dtype=getattr(torch, result))
    build(rounded(m, n, k, result), target)(a.bfloat16(), b.bfloat16(), c)
    assert torch.equal(c, (a @ b).to(c.dtype))


@runs_tiles
@on_both
def test_sums_that_replace_an_operand_are_rounded_at_the_end(target):
    a, b = torch.randint(-4, 5, (96, 48)).bfloat16(), torch.randint(-4, 5, (48, 48)).bfloat16()
    expected = (a.float() @ b.float()).bfloat16()
    build(rounded(48, 48, 48, "bfloat16"), target)(a, b, a)
    assert torch.equal(a, expected)


@runs_tiles
@on_both
def test_sums_are_rounded_to_nearest_even_and_keep_what_is_not_finite(target):
    first = [1.0, 1.0, -1.0, 3.0e38, float("inf"), float("nan"), 0.0, 2.0**-120]
    second = [2.0**-8, 3 * 2.0**-8, -(2.0**-8), 3.0e38, 1.0, 1.0, 0.0, 2.0**-127]
    a, b = torch.zeros(64, 32).bfloat16(), torch.zeros(32, 32).bfloat16()
    a[:8, 0], a[:8, 1] = torch.tensor(first), torch.tensor(second)
    b[:2] = 1.0
    sums, c = torch.empty(64, 32), torch.empty(64, 32).bfloat16()
    build(rounded(32, 32, 32, "float32"), target)(a, b, sums)
    build(rounded(32, 32, 32, "bfloat16"), target)(a, b, c)
    assert torch.equal(c.nan_to_num(-7.0), sums.bfloat16().nan_to_num(-7.0))
    assert c[5].isnan().all() and c[0, 0] == 1.0


def test_the_processor_rounds_sums_where_it_can():
    program = rounded(32, 32, 32, "bfloat16")
    assert "vcvtne2ps2bf16" in assembly(program, MACHINE)
    without = [feature for feature in MACHINE["features"] if feature != "avx512bf16"]
    text = assembly(program, {**MACHINE, "arch": "x86-64-v4", "features": without})
    assert "tdpbf16ps" in text and "vcvtne2ps2bf16" not in text
