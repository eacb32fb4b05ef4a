"""Long kernels become functions: same results, and no more code for the compiler than there are different parts."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target.cpu import outline, pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

TARGETS = ["llvm", "c"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Kernels are long, and parts complete, much earlier."""
    monkeypatch.setattr(outline, "LONG", 60)
    monkeypatch.setattr(outline, "PART", 16)


def _outlined(func):
    request = CompileRequest(parse_target("c"), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    return run(pipeline.C, func, context, stop_after="outline").value


def products(count):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            A_shared = T.alloc_shared((32, 32), "float16")
            B_shared = T.alloc_shared((32, 32), "float16")
            total = T.alloc_fragment((32, 32), "float32")
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.clear(total)
            for _ in [*range(count)]:
                T.gemm(A_shared, B_shared, total)
            T.copy(total, C)

    return main


def kernels(count):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((4, 8), "float32")):
        for target in (B, C):
            with T.Kernel(4, threads=32) as bx:
                tile = T.alloc_shared((8,), "float32")
                T.copy(A[bx, 0], tile)
                for number in [*range(count)]:
                    for i in T.Parallel(8):
                        tile[i] += number
                T.copy(tile, target[bx, 0])

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [1, 3, 30])
def test_whole_kernels_become_functions(target, count):
    a, b, c = torch.ones(4, 8), torch.zeros(4, 8), torch.zeros(4, 8)
    tilelang.compile(kernels(count), target=target)(a, b, c)
    assert torch.equal(b, a + count * (count - 1) // 2) and torch.equal(c, b)


def mixed(count, dtype="bfloat16"):
    """Copies, views, branches, loops, run-time sizes and bindings, all of them long."""
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), dtype), B: T.Tensor((n, 64), "float32"), k: T.int32, scale: T.float32):
        with T.Kernel(T.ceildiv(n, 16), threads=64) as bx:
            tile = T.alloc_shared((16, 64), dtype)
            flat = T.reshape(tile, (1024,))
            total = T.alloc_fragment((16, 64), "float32")
            steps = T.alloc_var("int32", init=0)
            T.clear(total)
            T.copy(A[bx * 16, 0], tile)
            for turn in [*range(count)]:
                if k > turn:
                    for i in T.Parallel(1024):
                        flat[i] = flat[i] * 0.5
                    steps = steps + 1
                else:
                    for i, j in T.Parallel(16, 64):
                        tile[i, j] = tile[i, j] + scale
                bound = A[bx * 16, turn % 64]
                for i, j in T.Parallel(16, 64):
                    total[i, j] += tile[i, j] * bound + steps
            T.copy(total, B[bx * 16, 0])

    return main


def _mixed_reference(a, count, k, scale):
    n = a.shape[0]
    tile, total, steps = a.clone(), torch.zeros(n, 64), 0
    for turn in range(count):
        if k > turn:
            tile, steps = (tile.float() * 0.5).to(a.dtype), steps + 1
        else:
            tile = (tile.float() + scale).to(a.dtype)
        bound = a[torch.arange(n) // 16 * 16, turn % 64].float()[:, None]
        total += tile.float() * bound + steps
    return total


def test_equal_parts_are_one_function():
    few, many = _outlined(products(6)), _outlined(products(24))
    assert len(few.parts) == len(many.parts) <= 6


def buffers(count):
    @T.prim_func
    def main(A: T.Tensor((count, 128), "float32"), B: T.Tensor((count, 128), "float32")):
        with T.Kernel(1, threads=128) as _:
            for i in [*range(count)]:
                tile = T.alloc_shared((128,), "float32")
                row = T.alloc_fragment((128,), "float32")
                T.copy(A[i, 0], tile)
                T.copy(tile, row)
                for j in T.Parallel(128):
                    row[j] = row[j] + 1
                T.copy(row, B[i, 0])

    return main


def test_a_part_takes_only_the_buffers_that_it_works_on():
    few, many = (max(len(part.func.params) for part in _outlined(buffers(count)).parts) for count in (12, 96))
    assert few == many <= 6


def test_a_short_kernel_stays_one_function():
    assert _outlined(products(0)).parts == ()


@pytest.mark.parametrize("target", TARGETS)
def test_products(target):
    a, b, c = torch.randn(32, 32).half(), torch.randn(32, 32).half(), torch.empty(32, 32)
    tilelang.compile(products(6), target=target)(a, b, c)
    torch.testing.assert_close(c, 6 * (a.float() @ b.float()), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_views_branches_and_runtime_sizes(target, dtype):
    count = 8
    program = mixed(count, dtype)
    assert len(_outlined(program).parts) > 3
    a = torch.randn(37, 64).to(getattr(torch, dtype))
    padded = torch.cat([a, torch.zeros(11, 64, dtype=a.dtype)])
    b = torch.empty(37, 64)
    tilelang.compile(program, target=target)(a, b, 4, 0.25)
    torch.testing.assert_close(b, _mixed_reference(padded, count, 4, 0.25)[:37], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("target", TARGETS)
def test_assertions_leave_the_kernel(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), k: T.int32):
        with T.Kernel(1, threads=64) as _:
            for turn in [*range(20)]:
                for i in T.Parallel(64):
                    A[i] = A[i] + 1.0
                T.device_assert(k != turn, "stopped")

    kernel = tilelang.compile(main, target=target)
    whole, stopped = torch.zeros(64), torch.zeros(64)
    kernel(whole, -1)
    assert whole.eq(20).all()
    with pytest.raises(RuntimeError, match="stopped"):
        kernel(stopped, 12)
    assert stopped.eq(13).all()


def tiles_of_caller_and_part():
    """The sums belong to the kernel and the packed operands to a loop in a part; neither fits on the stack."""

    @T.prim_func
    def main(A: T.Tensor((32, 256), "float16"), B: T.Tensor((256, 512), "float16"), C: T.Tensor((32, 512), "float32")):
        with T.Kernel(1, threads=128) as _:
            b = T.alloc_shared((64, 512), "float16")
            a = T.alloc_shared((32, 64), "float16")
            total = T.alloc_fragment((32, 512), "float32")
            T.clear(total)
            for k in T.serial(4):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                for i, j in T.Parallel(64, 512):
                    b[i, j] = b[i, j] * T.float16(2.0)
                T.gemm(a, b, total)
            for i, j in T.Parallel(32, 512):
                total[i, j] = total[i, j] + 1.0
            T.copy(total, C)

    return main


@pytest.mark.parametrize("target", TARGETS)
def test_a_parts_workspace_is_not_its_callers(target, monkeypatch):
    func = tiles_of_caller_and_part()
    request = CompileRequest(parse_target(target), backend="tvm_ffi")
    context = CpuContext(request, "main", vector_unit(request.target))
    whole = run(pipeline.COMMON, func, context, stop_after="lower_exits").value
    monkeypatch.setattr(outline, "LONG", outline.weight(whole.body) - 1)
    monkeypatch.setattr(outline, "PART", outline.LONG)
    placed = run(pipeline.COMMON, func, context).value
    assert all("tl_workspace" in program.helpers for program in (placed, *placed.parts))
    kernel = tilelang.compile(func, target=target, out_idx=-1)
    a, b = torch.randint(-3, 4, (32, 256)).half(), torch.randint(-3, 4, (256, 512)).half()
    torch.testing.assert_close(kernel(a, b), 2 * (a.float() @ b.float()) + 1, rtol=0, atol=0)


def shifts(count):
    """Row after row of B from A by way of one tile: with one tensor for both, each row reads what was written before it."""

    @T.prim_func
    def main(A: T.Tensor((count + 1, 64), "float16"), B: T.Tensor((count + 1, 64), "float16")):
        with T.Kernel(1, threads=64) as _:
            row = T.alloc_shared((64,), "float16")
            for i in [*range(count)]:
                T.copy(A[i, 0:64], row)
                T.copy(row, B[i + 1, 0:64])

    return main


def test_no_part_reads_a_tensor_after_writing_another():
    parts = _outlined(shifts(40)).parts
    assert len(parts) == 40
    assert all(part.func.attrs["tirx.noalias"] for part in parts)


@pytest.mark.parametrize("target", TARGETS)
def test_one_tensor_for_two(target):
    kernel = tilelang.compile(shifts(40), target=target)
    a = torch.randn(41, 64).half()
    b = torch.zeros_like(a)
    kernel(a, b)
    assert torch.equal(b[1:], a[:-1])
    first = a[0].clone()
    kernel(a, a)
    assert torch.equal(a, first.expand(41, 64))


@pytest.mark.parametrize("part", [4, 16])
@pytest.mark.parametrize("rows", [4, 32])
@pytest.mark.parametrize("columns", [16, 80])
@pytest.mark.parametrize("target", TARGETS)
def test_registers_stay_in_one_part(target, columns, rows, part, monkeypatch):
    """A product's accumulators are variables of C, which have no address: what names them is not divided."""
    monkeypatch.setattr(outline, "LONG", 20)
    monkeypatch.setattr(outline, "PART", part)

    shapes = (rows, 128), (128, columns), (rows, columns)

    @T.prim_func
    def main(A: T.Tensor(shapes[0], "float32"), B: T.Tensor(shapes[1], "float32"), C: T.Tensor(shapes[2], "float32")):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((rows, 32), "float32"), T.alloc_shared((32, columns), "float32")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for k in T.serial(4):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = (torch.randint(-4, 4, shape).float() for shape in shapes[:2])
    c = torch.zeros(shapes[2])
    tilelang.compile(main, target=target)(a, b, c)
    assert torch.equal(c, a @ b)
