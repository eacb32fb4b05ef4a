"""``T.Pipelined(order=, stage=, group=)``: the user's schedule is followed, and refused where it would change a result."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import PipelineScheduleError

ARCHES = ("sm_80", "sm_90a")


def _product(order, stage, k=130, n=70, *, group=None, stages=0, named=False, annotations=None):
    """A product whose loop has two copies and the product."""

    @T.prim_func
    def main(A: T.Tensor((n, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((n, n), "float32")):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(n, 32), threads=64) as (bx, by):
            A_shared = T.alloc_shared((32, 32), "float16")
            B_shared = T.alloc_shared((32, 32), "float16")
            C_local = T.alloc_fragment((32, 32), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(
                T.ceildiv(k, 32), order=order, stage=stage, group=group, num_stages=stages, annotations=annotations
            ):
                first = T.min(ko * 32, ko * 32) if named else ko * 32
                T.copy(A[by * 32, first], A_shared)
                T.copy(B[first, bx * 32], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 32, bx * 32])

    return main


def _check_product(program, k, n=70, arch="sm_80"):
    a, b, c = torch.randn(n, k).half(), torch.randn(k, n).half(), torch.zeros(n, n)
    simulate(program, a, b, c, arch=arch)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize(
    "order, stage",
    [([0, 1, 2], [0, 0, 1]), ([0, 1, 2], [0, 0, 2]), ([1, 2, 0], [0, 0, 2]), ([1, 2, 0], [0, 0, 1]), ([2, 1, 0], [0, 1, 3])],
)
def test_any_trip_count(order, stage, arch):
    for k in (1, 40, 130):
        _check_product(_product(order, stage, k, named=k == 40), k, arch=arch)


def test_slots_follow_from_the_schedule():
    pool = {}
    for order, stage in (([1, 2, 0], [0, 0, 1]), ([0, 1, 2], [0, 0, 1]), ([0, 1, 2], [0, 0, 2])):
        with tilelang.simulator():
            kernel = tilelang.compile(_product(order, stage), target={"kind": "cuda", "arch": "sm_80"})
        pool[tuple(order), max(stage)] = kernel.artifact.launches[0].shared_bytes
    assert list(pool.values()) == [4096, 8192, 12288]


def test_statements_are_issued_in_the_order_given():
    loop = source(_product([1, 2, 0], [0, 0, 1], 128, 64)).split("for (int ko", 1)[1]
    assert loop.index("mma_") < loop.index("cp_async_16")
    loop = source(_product([0, 1, 2], [0, 0, 1], 128, 64)).split("for (int ko", 1)[1]
    assert loop.index("cp_async_16") < loop.index("mma_") and loop.count("__syncthreads") == 1


def test_annotations_of_a_serial_loop():
    notes = {"software_pipeline_order": [1, 2, 0], "software_pipeline_stage": [0, 0, 1]}
    program = _product(None, None, annotations=notes)
    assert source(program) == source(_product([1, 2, 0], [0, 0, 1]))
    _check_product(program, 130)


def _attention(order, stage, group, stages, length=96, dim=32, block=32):
    """Flash attention whose loop body has fourteen statements in six groups."""
    scale = 1.44269504 / dim**0.5

    @T.prim_func
    def main(
        Q: T.Tensor((length, dim), "float16"),
        K: T.Tensor((length, dim), "float16"),
        V: T.Tensor((length, dim), "float16"),
        Out: T.Tensor((length, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(length, block), threads=64) as bx:
            Q_shared = T.alloc_shared((block, dim), "float16")
            K_shared = T.alloc_shared((block, dim), "float16")
            V_shared = T.alloc_shared((block, dim), "float16")
            scores = T.alloc_fragment((block, block), "float32")
            weights = T.alloc_fragment((block, block), "float16")
            out = T.alloc_fragment((block, dim), "float32")
            before = T.alloc_fragment((block,), "float32")
            peak = T.alloc_fragment((block,), "float32")
            factor = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(Q[bx * block, 0], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(peak, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(length, block), num_stages=stages, order=order, stage=stage, group=group):
                T.copy(K[k * block, 0], K_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                T.copy(peak, before)
                T.reduce_max(scores, peak, dim=1, clear=False)
                for i in T.Parallel(block):
                    factor[i] = T.exp2(before[i] * scale - peak[i] * scale)
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.exp2(scores[i, j] * scale - peak[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block, dim):
                    out[i, j] *= factor[i]
                T.copy(V[k * block, 0], V_shared)
                T.gemm(weights, V_shared, out)
            for i, j in T.Parallel(block, dim):
                out[i, j] /= total[i]
            T.copy(out, Out[bx * block, 0])

    return main


_GROUPS = [[0], [1, 2], [3, 4, 5, 6, 7, 8, 9], [10], [11], [12]]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("stages", (1, 2, 3))
def test_groups_with_loads_left_to_the_compiler(stages, arch):
    program = _attention([-1, 0, 3, 1, -1, 2], [-1, 0, 0, 1, -1, 1], _GROUPS, stages)
    q, k, v = (torch.randn(96, 32).half() for _ in range(3))
    out = torch.zeros(96, 32)
    simulate(program, q, k, v, out, arch=arch)
    expected = torch.softmax(q.float() @ k.float().T / 32**0.5, -1) @ v.float()
    torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)


def _chain(order, stage):
    """Four statements over two shared tiles, a fragment and a value; any schedule gives the same, or is refused."""

    @T.prim_func
    def main(A: T.Tensor((7 * 64,), "float32"), B: T.Tensor((7 * 64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            first = T.alloc_shared((64,), "float32")
            second = T.alloc_shared((64,), "float32")
            running = T.alloc_fragment((64,), "float32")
            T.clear(running)
            for k in T.Pipelined(7, order=order, stage=stage):
                T.copy(A[k * 64], first)
                for i in T.Parallel(64):
                    second[i] = first[63 - i] * 2
                head = second[k]
                for i in T.Parallel(64):
                    running[i] += second[i] + head
                T.copy(running, B[k * 64])
            T.copy(running, C)

    return main


def test_every_schedule_is_right_or_refused():
    a = torch.randn(7 * 64)
    b, c = torch.zeros(7 * 64), torch.zeros(64)
    tilelang.compile(_chain(list(range(5)), [0] * 5), target="cpu")(a, b, c)
    drawn = random.Random(5)
    orders = list(itertools.permutations(range(5)))
    right = refused = 0
    while right < 12 or refused < 3:
        order, stage = list(drawn.choice(orders)), sorted(drawn.randrange(3) for _ in range(5))
        got_b, got_c = torch.zeros_like(b), torch.zeros_like(c)
        try:
            simulate(_chain(order, stage), a, got_b, got_c)
        except PipelineScheduleError:
            refused += 1
            continue
        right += 1
        torch.testing.assert_close(got_b, b)
        torch.testing.assert_close(got_c, c)


@pytest.mark.parametrize(
    "order, stage, said, line",
    [
        ([0, 1, 2], [1, 1, 0], "T.gemm", "before the statement at line"),
        ([2, 1, 0], [0, 0, 0], "T.gemm", "before the statement at line"),
        ([0, 0, 1], [0, 0, 1], "for ko", "two statements have the same order"),
        ([0, 1], [0, 1], "for ko", "the body has 3 statements"),
    ],
)
def test_invalid_schedules_are_refused(order, stage, said, line):
    with pytest.raises(PipelineScheduleError) as caught:
        source(_product(order, stage))
    text = str(caught.value)
    assert said in text and line in text and len(text.splitlines()) < 15


def test_a_tile_that_another_loop_uses_has_one_slot_and_the_message_says_so():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            for k in T.Pipelined(4, order=[0, 1], stage=[0, 1]):
                T.copy(A[k, 0], tile)
                T.copy(tile, C[k, 0])
            T.copy(A[0, 0], tile)
            T.copy(tile, C[3, 0])

    with pytest.raises(PipelineScheduleError, match="or load a tile that only this loop uses"):
        source(main)


@pytest.mark.parametrize("is_value", [True, False], ids=["a value", "the start of a region"])
def test_what_an_operator_reads_for_its_numbers_keeps_its_order(is_value):
    @T.prim_func
    def main(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 8), "float16"), C: T.Tensor((16, 8), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 8), "float16")
            number, c = T.alloc_shared((1,), "int32"), T.alloc_fragment((16, 8), "float32")
            T.clear(c)
            T.copy(A, a[0:16, :])
            T.copy(B, b)
            for k in T.Pipelined(4, order=[1, 0], stage=[0, 0]):
                number[0] = k
                if is_value:
                    T.gemm(a[0:16, :], b, c, clear_accum=number[0] == 0)
                else:
                    T.gemm(a[number[0] : number[0] + 16, :], b, c)
            T.copy(c, C)

    with pytest.raises(PipelineScheduleError, match="would touch number before"):
        source(main)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("order, stage", [([0, 1, 2], [0, 0, 1]), ([0, 1, 2], [0, 1, 2]), ([2, 0, 1], [0, 0, 2])])
def test_tiles_that_elements_fill_have_slots(arch, order, stage):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(4, order=order, stage=stage):
                for i, j in T.Parallel(64, 32):
                    a[i, j] = A[i, k * 32 + j]
                for i, j in T.Parallel(32, 64):
                    b[i, j] = B[k * 32 + i, j]
                T.gemm(a, b, total)
            T.copy(total, C)

    a, b = torch.randint(-4, 5, (64, 128)).half(), torch.randint(-4, 5, (128, 64)).half()
    c = torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(c, a.float() @ b.float())


def test_a_tile_of_which_an_element_stays_has_one_slot():
    @T.prim_func
    def main(A: T.Tensor((4, 63), "float32"), C: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            for k in T.Pipelined(4, order=[0, 1], stage=[0, 1]):
                for i in T.Parallel(63):
                    tile[i] = A[k, i]
                for i in T.Parallel(64):
                    C[k, i] = tile[i]

    with pytest.raises(PipelineScheduleError, match="would touch tile before"):
        source(main)


def test_registers_have_one_version():
    with pytest.raises(PipelineScheduleError, match="running"):
        source(_chain([0, 1, 2, 3, 4], [0, 0, 0, 0, 1]))


@pytest.mark.parametrize("left_after", [1, 8])
def test_a_loop_left_with_copies_in_flight(left_after):
    """What reuses the tiles' memory waits for the copies that no statement has waited for."""

    @T.prim_func
    def main(A: T.Tensor((512, 64), "float16"), B: T.Tensor((64, 64), "float32"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_shared((64, 64), "float16")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[k * 64, 0], tile)
                for i, j in T.Parallel(64, 64):
                    total[i, j] += tile[i, j]
                if k + 1 >= left_after:
                    T.loop_break()
            for i, j in T.Parallel(64, 64):
                other[i, j] = T.cast(i % 7, "float16")
            for i, j in T.Parallel(64, 64):
                C[i, j] = other[j, i]
            T.copy(total, B)

    a, b, c = torch.randint(-3, 4, (512, 64)).half(), torch.zeros(64, 64), torch.zeros(64, 64).half()
    simulate(main, a, b, c)
    assert torch.equal(b, a.float().view(8, 64, 64)[:left_after].sum(0))
    assert torch.equal(c, (torch.arange(64) % 7).half().expand(64, 64))


@pytest.mark.parametrize(
    "order, stage, group, said",
    [
        ([0, 0, 1], [0, 0, 1], None, "two statements have the same order"),
        ([0, 1], [0, 1], None, "the body has 3 statements"),
        ([0, 1, 2, 3], [0, 0, 0, 1], None, "the body has 3 statements"),
        ([0, 1, 2], [0, 1], None, "the body has 3 statements"),
        ([0, 1, 2], [0, 0, 1], [[0, 1], [2]], "the body has 2 groups"),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "c", "cuda -arch=sm_80"])
def test_a_schedule_that_fits_no_body_is_refused_on_every_target(order, stage, group, said, target):
    with pytest.raises(PipelineScheduleError, match=said):
        tilelang.compile(_product(order, stage, group=group), target=target)


@pytest.mark.parametrize("order, stage", [([0, 1, 2], [0, 0, 1]), ([-1, -1, 0], [-1, -1, 0])])
def test_a_schedule_that_fits_is_taken_on_the_cpu(order, stage):
    a, b, c = torch.randn(70, 130).half(), torch.randn(130, 70).half(), torch.zeros(70, 70)
    tilelang.compile(_product(order, stage), target="cpu")(a, b, c)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("trips", [0, 1, 4])
@pytest.mark.parametrize("arch", ARCHES)
def test_copies_before_a_pipelined_loop_that_may_be_skipped(arch, trips):
    """The loop waits for them in its first iteration; where it has none, what follows it waits."""

    @T.prim_func
    def main(A: T.Tensor((16, 8), "float16"), B: T.Tensor((4, 64), "float16"), C: T.Tensor((16, 8), "float16"), n: T.int32):
        with T.Kernel(1, threads=32):
            first, total = T.alloc_shared((16, 8), "float16"), T.alloc_fragment((64,), "float16")
            T.copy(A, first)
            T.clear(total)
            for k in T.Pipelined(n, num_stages=3):
                part = T.alloc_shared((64,), "float16")
                T.copy(B[k, 0], part)
                for i in T.Parallel(64):
                    total[i] += part[i] + first[0, i % 8]
            T.copy(first, C)

    a, c = torch.randn(16, 8).half(), torch.zeros(16, 8).half()
    simulate(main, a, torch.randn(4, 64).half(), c, trips, arch=arch)
    assert torch.equal(a, c)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tile_that_is_used_before_it_is_filled_anew(arch):
    """Iterations read what the one before has copied: the copy cannot run ahead of them."""

    @T.prim_func
    def main(A: T.Tensor((6, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile, total = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.Pipelined(6, num_stages=3):
                if k > 0:
                    for i in T.Parallel(64):
                        total[i] += tile[i]
                T.copy(A[k, 0], tile)
            T.copy(total, B)

    a, b = torch.arange(6 * 64.0).view(6, 64), torch.zeros(64)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a[:-1].sum(0))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_statement_of_a_pipelined_loop_that_no_thread_runs(arch):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding(0)
            tile, total = T.alloc_shared((64,), "float32"), T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k, 0], tile)
                if tx >= 64:
                    T.clear(total)
                for i in T.Parallel(64):
                    total[i] += tile[i]
            T.copy(total, B)

    a, b = torch.arange(4 * 64.0).view(4, 64), torch.zeros(64)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b, a.sum(0))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("source_is_shared", [False, True], ids=["part of a tile", "from a tile that changes"])
def test_a_tile_that_no_iteration_fills_ahead(arch, source_is_shared):
    """A slot for each iteration would lack the rows that the loop does not fill, or hold what another tile held earlier."""

    @T.prim_func
    def main(A: T.Tensor((4, 32, 64), "float16"), B: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile, other = T.alloc_shared((32, 64), "float16"), T.alloc_shared((32, 64), "float16")
            total = T.alloc_fragment((32, 64), "float32")
            T.clear(total)
            T.fill(tile, 2)
            T.copy(A[3, 0, 0], other)
            for k in T.Pipelined(4, num_stages=3):
                if source_is_shared:
                    T.copy(other, tile)
                else:
                    T.copy(A[k, 0:16, :], tile[0:16, :])
                for i, j in T.Parallel(32, 64):
                    total[i, j] += tile[i, j]
                for i, j in T.Parallel(32, 64):
                    other[i, j] += 1
            T.copy(total, B)

    a, b = torch.arange(4 * 32 * 64).view(4, 32, 64).remainder(7).half(), torch.zeros(32, 64)
    simulate(main, a, b, arch=arch)
    expected = torch.full((32, 64), 8.0)
    expected[:16] = a[:, :16].float().sum(0)
    assert torch.equal(b, 4 * a[3].float() + 6 if source_is_shared else expected)


def test_a_part_of_a_tile_at_a_place_that_some_threads_hold():
    """The place is a value of its own in the loop, and a copy of the fragment to shared memory comes before it."""

    @T.prim_func
    def main(A: T.Tensor((64, 2), "int32"), B: T.Tensor((8, 2), "int32")):
        with T.Kernel(1, threads=32):
            tile, places = T.alloc_shared((8, 2), "int32"), T.alloc_fragment((64, 2), "int32")
            terms, rows = T.alloc_fragment((2, 2), "int32"), T.alloc_fragment((8, 2), "int32")
            T.copy(A, places)
            T.fill(terms, 3)
            T.clear(rows)
            for k in T.Pipelined(1, num_stages=2):
                T.copy(A[k * 8, 0], tile)
                T.reduce_sum(terms, rows[places[0, 0] % 8, :], dim=1)
                for i, j in T.Parallel(8, 2):
                    rows[i, j] += tile[i, j]
            T.copy(rows, B)

    a = torch.arange(64 * 2, dtype=torch.int32).view(64, 2) + 5
    _, b = check_meaning(main, a, torch.zeros(8, 2, dtype=torch.int32))
    assert (b - a[:8]).tolist() == [[6, 6] if row == 5 else [0, 0] for row in range(8)]


@pytest.mark.parametrize("second", ["add", "max"])
def test_updates_by_one_operation_may_be_reordered(second):
    @T.prim_func
    def main(A: T.Tensor((8, 64), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "int32")
            for k in T.Pipelined(8, order=[0, 1, 2], stage=[0, 0, 1]):
                T.copy(A[k, 0], tile)
                T.atomic_add(C, tile)
                if second == "add":
                    T.atomic_add(C, 10)
                else:
                    T.atomic_max(C, 10)

    a, c = torch.arange(512, dtype=torch.int32).reshape(8, 64), torch.zeros(64, dtype=torch.int32)
    if second == "add":
        simulate(main, a, c)
        assert torch.equal(c, a.sum(0, dtype=torch.int32) + 80)
    else:
        with pytest.raises(PipelineScheduleError, match="this statement would touch C before"):
            source(main)
