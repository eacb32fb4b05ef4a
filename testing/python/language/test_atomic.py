"""Atomic updates from many blocks at once."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError, CopyShapeError

from .support import name_of, random, run

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", TYPES, ids=name_of)
def test_scalar_updates_of_many_blocks(dtype):
    blocks = 64

    @T.prim_func
    def main(total: T.Tensor((3,), name_of(dtype))):
        with T.Kernel(blocks, threads=32) as bx:
            T.atomic_add(total[0], 1)
            T.atomic_max(total[1], T.cast(bx, name_of(dtype)))
            T.atomic_min(total[2], -T.cast(bx, name_of(dtype)))

    total = torch.zeros(3, dtype=dtype)
    run(main, total)
    assert total.tolist() == [64, 63, -63]


def test_previous_values_are_distinct():
    @T.prim_func
    def main(counter: T.Tensor((1,), "int32"), slots: T.Tensor((100,), "int32")):
        with T.Kernel(100, threads=1) as bx:
            slot = T.atomic_add(counter[0], 1, memory_order="acq_rel", return_prev=True)
            slots[slot] = bx

    counter, slots = torch.zeros(1, dtype=torch.int32), torch.full((100,), -1, dtype=torch.int32)
    run(main, counter, slots)
    assert counter[0] == 100 and sorted(slots.tolist()) == list(range(100))


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("op", ["add", "max", "min"])
def test_tiles(op, scope):
    @T.prim_func
    def main(A: T.Tensor((8, 40), "float32"), B: T.Tensor((40,), "float32")):
        with T.Kernel(8, 3, threads=32) as (bx, by):
            tile = (T.alloc_shared if scope == "shared" else T.alloc_fragment)((16,), "float32")
            T.copy(A[bx, by * 16], tile)
            getattr(T, f"atomic_{op}")(B[by * 16], tile)

    a, b = random((8, 40), torch.float32), torch.zeros(40)
    run(main, a, b)
    expected = {"add": a.sum(0), "max": a.amax(0).clamp(min=0), "min": a.amin(0).clamp(max=0)}[op]
    torch.testing.assert_close(b, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", [2, 4])
def test_consecutive_elements(lanes):
    @T.prim_func
    def main(A: T.Tensor((32, 8), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(32, threads=32) as bx:
            for i in T.Parallel(8 // lanes):
                getattr(T, f"atomic_addx{lanes}")(B[i * lanes], A[bx, i * lanes])

    a, b = random((32, 8), torch.float32), torch.zeros(8)
    run(main, a, b)
    torch.testing.assert_close(b, a.sum(0), rtol=1e-5, atol=1e-5)


def test_load_store_and_or():
    @T.prim_func
    def main(flags: T.Tensor((4,), "int32")):
        with T.Kernel(8, threads=1) as bx:
            T.atomic_or(flags[0], T.shift_left(1, bx))
            T.atomic_store(flags[1], 5, memory_order="release")
            T.atomic_max(flags[2], T.atomic_load(flags[1], memory_order="acquire"))
            T.atomic_max(flags[2], T.atomic_load(flags[1], memory_order="consume"))

    flags = torch.zeros(4, dtype=torch.int32)
    run(main, flags)
    assert flags.tolist() == [255, 5, 5, 0]


def traced(body):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            body(A, B)


@pytest.mark.parametrize(
    "body,kind,message",
    [
        (lambda A, B: T.atomic_add(A[0], 1, memory_order="strong"), CompileError, "memory_order='strong' is none of relaxed"),
        (lambda A, B: T.atomic_store(A[0], 1, memory_order="acquire"), CompileError, "is none of relaxed, release, seq_cst"),
        (lambda A, B: T.atomic_add(A, 1, return_prev=True), CompileError, "acts on one element, A has several"),
        (lambda A, B: T.atomic_add(A, B, return_prev=True), CompileError, "return_prev=True needs a single element"),
        (lambda A, B: T.atomic_or(A[0], 1), CompileError, "T.atomic_or takes integers, A is float32"),
        (lambda A, B: T.atomic_add(T.alloc_local((1,), "int32")[0], 1), CompileError, "takes memory that threads share"),
        (lambda A, B: T.atomic_max(T.alloc_local((4,), "int32"), 1), CompileError, "each thread has its own"),
        (lambda A, B: T.atomic_load(T.alloc_var("int32")), CompileError, "T.atomic_load takes memory that threads share"),
        (lambda A, B: T.atomic_addx2(T.alloc_local((2,), "float32")[0], A[0]), CompileError, "T.atomic_addx2 takes memory"),
    ],
)
def test_mistakes(body, kind, message):
    with pytest.raises(kind, match=message):
        traced(body)


def test_tiles_must_have_one_shape():
    with pytest.raises(CopyShapeError, match=r"T.atomic_add: the source is \(8,\) and the destination is \(4,\)"):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                T.atomic_add(A[0:4], B)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("target", ["cpu", "c", "simulator"])
def test_consecutive_updates_give_the_old_values(target, lanes, dtype):
    add, name = (T.atomic_addx2 if lanes == 2 else T.atomic_addx4), str(dtype).removeprefix("torch.")

    @T.prim_func
    def main(A: T.Tensor((64,), name), B: T.Tensor((64,), name), C: T.Tensor((64,), name)):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(64 // lanes):
                C[i * lanes : i * lanes + lanes] = add(A[i * lanes], B[i * lanes], return_prev=True)

    a, b, c = torch.arange(64).to(dtype), torch.ones(64, dtype=dtype), torch.zeros(64, dtype=dtype)
    if target == "simulator":
        with tilelang.simulator(strict=True):
            tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"})(a, b, c)
    else:
        tilelang.compile(main, target=target)(a, b, c)
    assert torch.equal(c, torch.arange(64).to(dtype)) and torch.equal(a, c + 1)


def test_one_scalar_updates_every_element_of_a_tile():
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            T.atomic_add(A, 2)
            T.atomic_max(A[1:3, 0:2], 7)

    want = torch.full((4, 4), 2.0)
    want[1:3, 0:2] = 7
    for target in ("cpu", {"kind": "cuda", "arch": "sm_80"}):
        a = torch.zeros(4, 4)
        with tilelang.simulator():
            tilelang.compile(main, target=target)(a)
        assert torch.equal(a, want)


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("target", ["cpu", "simulator"])
def test_consecutive_updates_take_ramps_and_vectors(target, lanes):
    add = T.atomic_addx2 if lanes == 2 else T.atomic_addx4
    vector = T.float32x2 if lanes == 2 else T.float32x4

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(64 // lanes):
                add(B[T.Ramp(i * lanes, 1, lanes)], A[T.Ramp(i * lanes, 1, lanes)])
                add(B[i * lanes], vector(*(A[i * lanes] * lane for lane in range(lanes))))

    a, b = torch.arange(64.0), torch.zeros(64)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target="cpu" if target == "cpu" else {"kind": "cuda", "arch": "sm_80"})(a, b)
    assert torch.equal(b, a + a.view(-1, lanes)[:, :1].mul(torch.arange(float(lanes))).flatten())


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_consecutive_updates_of_a_shared_tile(arch, lanes):
    add = T.atomic_addx2 if lanes == 2 else T.atomic_addx4

    @T.prim_func
    def main(A: T.Tensor((32, lanes), "float32"), B: T.Tensor((8, lanes), "float32")):
        with T.Kernel(1, threads=32):
            thread = T.get_thread_binding()
            total = T.alloc_shared((8, lanes), "float32")
            T.clear(total)
            add(total[thread % 8, 0], A[thread, 0])
            T.copy(total, B)

    a, b = torch.arange(32.0 * lanes).view(32, lanes), torch.zeros(8, lanes)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target={"kind": "cuda", "arch": arch})(a, b)
    assert torch.equal(b, a.view(4, 8, lanes).sum(0))
