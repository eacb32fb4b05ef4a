"""Rows that are stored past the caches: what they hold, wherever they begin and end, and which tensors are stored so."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import TargetInfo
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

F32 = "float32"
FEATURES = {"avx512f": ("avx512f",), "avx2": ("avx2",), "neither": ()}


def lowered(func, features="avx512f", kind="cpu", triple="x86_64-unknown-linux-gnu") -> str:
    """The program after its tiles are lowered, as text."""
    machine = TargetInfo(kind=kind, arch="generic", features=FEATURES[features], triple=triple)
    context = CpuContext(CompileRequest(machine, backend="tvm_ffi"), "main", vector_unit(machine))
    return run(pipeline.LLVM, func, context, stop_after="lower_tiles").value.script()


def scaled(rows, length, block=1, copies=True, reads=False):
    """``Y = 2 X + W``, by a loop over the rows in registers or by a copy of them; with ``reads``, Y is read back."""

    @T.prim_func
    def main(X: T.Tensor((rows, length), F32), W: T.Tensor((length,), F32), Y: T.Tensor((rows, length), F32)):
        with T.Kernel(rows // block, threads=128) as row:
            x = T.alloc_fragment((block, length), F32)
            T.copy(X[row * block, 0], x)
            if copies:
                for i, j in T.Parallel(block, length):
                    x[i, j] = 2 * x[i, j] + W[j]
                T.copy(x, Y[row * block, 0])
            else:
                for i, j in T.Parallel(block, length):
                    Y[row * block + i, j] = 2 * x[i, j] + W[j]
            if reads:
                Y[row, 0] = Y[row, 0] + 1.0

    return main


def offset(x: torch.Tensor, elements: int) -> torch.Tensor:
    """A copy of a tensor that begins so many elements after a line of the cache."""
    room = torch.empty(x.numel() + 64)
    first = -(room.data_ptr() // 4) % 16 + elements
    return room[first : first + x.numel()].view(x.shape).copy_(x)


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize(("rows", "length", "block"), [(2048, 2048, 1), (4200, 1004, 2), (1, 1 << 22, 1)])
def test_rows_hold_the_expected_elements(rows, length, block, copies):
    func = scaled(rows, length, block, copies)
    assert "tl_stream_16" in lowered(func)
    kernel = build(func)
    torch.manual_seed(11)
    x, w = torch.randint(-99, 99, (rows, length)).float(), torch.randint(-99, 99, (length,)).float()
    want = 2 * x + w
    for elements in (0, 1, 4):
        y = offset(torch.zeros(rows, length), elements)
        kernel(offset(x, 3), w, y)
        assert torch.equal(y, want), f"{elements} elements after a line"
    kernel(x, w, x)
    assert torch.equal(x, want), "in place"


def test_what_is_streamed():
    large, small = (2048, 2048), (1024, 1024)
    assert "tl_stream_16" in lowered(scaled(*large, copies=False))
    assert "tl_stream_8" in lowered(scaled(*large), "avx2")
    for text in (
        lowered(scaled(*small)),
        lowered(scaled(*large, reads=True)),
        lowered(scaled(*large), "neither"),
        lowered(scaled(*large), kind="c"),
        lowered(scaled(*large), "neither", triple="aarch64-unknown-linux-gnu"),
    ):
        assert "tl_stream" not in text


def test_the_next_rows_are_fetched():
    assert "tl_fetch" in lowered(scaled(2048, 2048))
    assert "tl_fetch" not in lowered(scaled(2048, 2048, block=2)), "these are no single rows"
    assert "tl_stream_fence" in lowered(scaled(1, 1 << 22))


def test_rows_that_blocks_do_not_number_are_not_fetched():
    """A row that a loop counts has no meaning after the loop; one that is looked up would be looked up past the table."""
    rows, length = 2048, 2048

    @T.prim_func
    def main(X: T.Tensor((rows, length), F32), places: T.Tensor((rows,), "int32"), Y: T.Tensor((rows, length), F32)):
        with T.Kernel(rows, threads=128) as row:
            x = T.alloc_fragment((1, length), F32)
            total = T.alloc_fragment((1, length), F32)
            T.copy(X[places[row], 0], total)
            for k in T.serial(2):
                T.copy(X[k, 0], x)
                for i, j in T.Parallel(1, length):
                    total[i, j] = total[i, j] + x[i, j]
            T.copy(total, Y[row, 0])

    text = lowered(main)
    assert "tl_stream_16" in text and "tl_fetch" not in text
    torch.manual_seed(13)
    x, places = torch.randint(-99, 99, (rows, length)).float(), torch.randperm(rows).int()
    y = torch.zeros(rows, length)
    build(main)(x, places, y)
    assert torch.equal(y, x[places.long()] + x[0] + x[1])


def powers(rows, length, writes=False):
    """The sum of the exponentials of each row, which are stored, too, with ``writes``."""

    @T.prim_func
    def main(X: T.Tensor((rows, length), F32), Y: T.Tensor((rows, length), F32), S: T.Tensor((rows,), F32)):
        with T.Kernel(rows, threads=128) as row:
            x, total = T.alloc_fragment((1, length), F32), T.alloc_fragment((1,), F32)
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, length):
                x[i, j] = T.exp2(x[i, j])
            T.reduce_sum(x, total, dim=1)
            S[row] = total[0]
            if writes:
                T.copy(x, Y[row, 0])

    return main


@pytest.mark.parametrize("writes", [True, False])
def test_the_next_rows_are_fetched_once_while_exponentials_are_computed(writes):
    text = lowered(powers(4096, 1024, writes))
    assert text.count("tl_fetch") == 8, "the lines of a piece of 128 elements"
    assert text.index("tl_fetch") < text.index("exp2") and ("tl_stream_16" in text) == writes
    assert "tl_fetch" not in lowered(powers(1024, 1024, writes))
    assert "tl_fetch" not in lowered(powers(4096, 1024, writes), "neither")
    x, y, sums = torch.randn(4096, 1024), torch.zeros(4096, 1024), torch.zeros(4096)
    build(powers(4096, 1024, writes))(x, y, sums)
    torch.testing.assert_close(sums, torch.exp2(x).sum(1))
    torch.testing.assert_close(y, torch.exp2(x) if writes else torch.zeros_like(x))
