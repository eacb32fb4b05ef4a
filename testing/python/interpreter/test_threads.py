"""Programs that name threads: barriers, asynchronous work, the grid; each fault beside its fixed twin."""

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang import interpreter

from .support import kinds, run

X = torch.randn(128, generator=torch.Generator().manual_seed(0))


def test_statements_run_once_a_block_or_once_a_thread():
    """What mentions no thread happens once; below a condition on the thread everything is the thread's."""

    @T.prim_func
    def main(C: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            n = T.alloc_var("int32", init=0)
            n += 1
            T.atomic_add(C[0], n)
            T.atomic_add(C[1], tx)
            if tx < 128:
                T.atomic_add(C[2], 1)
            with T.ws(0):
                T.atomic_add(C[3], 1)
            for _ in T.Parallel(8):
                T.atomic_add(C[4], 1)
            if tx % 2 == 0:
                for _ in T.Parallel(8):
                    T.atomic_add(C[5], 1)

    c = torch.zeros(6, dtype=torch.int32)
    run(main, c)
    assert c.tolist() == [1, 127 * 64, 128, 128, 8, 8]


def test_exits_of_threads_end_with_their_kernel():
    """After an exit below a condition on the thread statements are the thread's, to the end of the kernel."""

    @T.prim_func
    def main(C: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            if T.get_thread_binding() < 8:
                T.thread_return()
            T.atomic_add(C[0], 1)
        with T.Kernel(1, threads=32):
            T.atomic_add(C[1], 1)

    c = torch.zeros(2, dtype=torch.int32)
    run(main, c)
    assert c.tolist() == [24, 1]


def test_warps():
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((8, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            v = A[tx]
            B[0, tx] = T.shfl_xor(v, 1)
            B[1, tx] = T.shfl_up(v, 3)
            B[2, tx] = T.shfl_down(v, 3, 8)
            B[3, tx] = T.shfl_sync(v, 5)
            B[4, tx] = T.warp_reduce_sum(v) + T.get_lane_idx() + 100 * T.get_warp_idx()
            B[5, tx] = T.cast(T.ballot_sync(v > 0), "int32")
            B[6, tx] = T.any_sync(v > 90) + 2 * T.all_sync(v > -99)
            B[7, tx] = T.syncthreads_count(v > 0)

    a = torch.randint(-99, 99, (64,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    b = torch.zeros(8, 64, dtype=torch.int32)
    run(main, a, b)
    lane, warps = torch.arange(64) % 32, a.reshape(2, 32)
    assert torch.equal(b[0], a[torch.arange(64) ^ 1])
    assert torch.equal(b[1], torch.where(lane < 3, a, a.roll(3)))
    assert torch.equal(b[2], torch.where(lane % 8 > 4, a, a.roll(-3)))
    assert torch.equal(b[3], warps[:, 5:6].expand(2, 32).flatten())
    assert torch.equal(b[4], (warps.sum(1, keepdim=True) + torch.tensor([[0], [100]])).expand(2, 32).flatten() + lane)
    ballots = ((warps > 0).long() << torch.arange(32)).sum(1, keepdim=True)
    assert torch.equal(b[5].long() & 0xFFFFFFFF, ballots.expand(2, 32).flatten())
    flags = (warps > 90).any(1, keepdim=True).int() + 2 * (warps > -99).all(1, keepdim=True).int()
    assert torch.equal(b[6], flags.expand(2, 32).flatten())
    assert (b[7] == (a > 0).sum()).all()


def handed_over(synchronised):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((128,), "float32")
            if tx < 128:
                tile[tx] = A[tx]
            if synchronised:
                T.sync_threads()
            if tx >= 128:
                B[tx - 128] = tile[255 - tx]

    return main


@pytest.mark.parametrize("synchronised", [True, False])
def test_branches_without_barriers_take_effect_in_program_order(synchronised):
    b = torch.zeros(128)
    assert kinds(handed_over(synchronised), X, b) == []
    assert torch.equal(b, X.flip(0))


@pytest.mark.parametrize("by_threads", [True, False])
def test_all_readers_of_an_element_are_recorded(by_threads):
    """The writer reads the element itself, after the threads of the other branch."""

    @T.prim_func
    def main(B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            tile, read = T.alloc_shared((128,), "float32"), T.alloc_barrier([128])
            T.clear(tile)
            with T.ws(1):
                for i in T.Parallel(128):
                    B[i] = tile[127 - i]
                T.mbarrier_arrive(read[0])
            with T.ws(0):
                if by_threads:
                    tile[tx] = tile[tx] + 1
                else:
                    for i in T.Parallel(128):
                        tile[i] += 1

    assert set(kinds(main, torch.zeros(128))) == {"race"}


def exchanged(distance):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((128,), "float32")
            tile[tx] = A[tx]
            tile[tx] = tile[(tx + distance) % 128]
            B[tx] = tile[127 - tx]

    return main


@pytest.mark.parametrize(("distance", "found"), [(0, []), (1, ["race"])])
def test_statements_are_ordered_but_threads_within_one_are_not(distance, found):
    assert kinds(exchanged(distance), X, torch.zeros(128)) == found


def counted(atomic):
    @T.prim_func
    def main(A: T.Tensor((100,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            bins = T.alloc_shared((8,), "int32")
            if tx < 8:
                bins[tx] = 0
            T.sync_threads()
            for i in T.serial(tx, 100, 64):
                if atomic:
                    T.atomic_add(bins[A[i]], 1)
                else:
                    bins[A[i]] += 1
            T.sync_threads()
            if tx < 8:
                B[tx] = bins[tx]

    return main


@pytest.mark.parametrize(("atomic", "found"), [(True, []), (False, ["race"])])
def test_loops_that_threads_leave_at_different_times(atomic, found):
    a, b = torch.arange(100, dtype=torch.int32) % 8, torch.zeros(8, dtype=torch.int32)
    assert kinds(counted(atomic), a, b) == found
    assert not atomic or torch.equal(b, torch.bincount(a, minlength=8).int())


def piped(released):
    """A producer and a consumer of a ring of two slots; the consumer gives slots back, or does not."""

    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=256):
            ring = T.alloc_shared((2, 64), "float32")
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            with T.ws(0):
                for k in T.serial(8):
                    T.mbarrier_wait_parity(empty[k % 2], (k // 2 % 2) ^ 1)
                    T.copy(A[k, 0], ring[k % 2, 0:64])
                    T.mbarrier_arrive(full[k % 2])
            with T.ws(1):
                for k in T.serial(8):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    for j in T.Parallel(64):
                        B[k, j] = ring[k % 2, j] * 2
                    if released:
                        T.mbarrier_arrive(empty[k % 2])

    return main


@pytest.mark.parametrize(("released", "found"), [(True, []), (False, ["deadlock"])])
def test_warp_groups_wait_for_each_other(released, found):
    a, b = torch.randn(8, 64), torch.zeros(8, 64)
    assert kinds(piped(released), a, b) == found
    assert not released or torch.equal(b, a * 2)


def test_warp_groups_hold_fragments_of_their_own():
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=256):
            part = T.alloc_fragment((64,), "float32")
            with T.ws(0):
                T.copy(A[0, 0:64], part)
            with T.ws(1):
                T.copy(A[1, 0:64], part)
            with T.ws(0):
                T.copy(part, B[0, 0:64])
            with T.ws(1):
                T.copy(part, B[1, 0:64])

    a, b = torch.randn(2, 64), torch.zeros(2, 64)
    run(main, a, b)
    assert torch.equal(a, b)


def copied_ahead(waits):
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=64):
            tiles = T.alloc_shared((2, 64), "float32")
            for k in T.serial(2):
                T.async_copy(A[k, 0:64], tiles[k, 0:64])
            T.ptx_wait_group(1)
            T.copy(tiles[0, 0:64], B[0, 0:64])
            if waits:
                T.ptx_wait_group(0)
            T.copy(tiles[1, 0:64], B[1, 0:64])

    return main


@pytest.mark.parametrize("waits", [True, False])
def test_data_is_used_after_its_wait(waits):
    a, b = torch.randn(2, 64), torch.zeros(2, 64)
    found = kinds(copied_ahead(waits), a, b)
    assert not found and torch.equal(a, b) if waits else found == ["async"]


def written_over(statement, waits):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            T.async_copy(A, tile)
            if waits:
                T.ptx_wait_group(0)
            statement(tile, A)
            T.ptx_wait_group(0)
            T.copy(tile, B)

    return main


@T.macro
def each_element(tile, A):
    for i in T.Parallel(64):
        tile[i] = A[i]


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "statement",
    [
        lambda tile, A: T.copy(A, tile),
        lambda tile, A: T.copy(A[0:8], tile[4:12]),
        lambda tile, A: T.async_copy(A, tile),
        lambda tile, A: (T.ptx_cp_async(tile[T.get_lane_idx()], A[0], 1), T.ptx_commit_group()),
        each_element,
    ],
    ids=["tile", "part", "asynchronously", "by elements, asynchronously", "by elements"],
)
def test_the_destination_of_a_copy_is_written_after_its_wait(statement, waits):
    found = kinds(written_over(statement, waits), torch.randn(64), torch.zeros(64))
    assert set(found) == (set() if waits else {"async"})


def loaded_by_threads(waits):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((256,), "float32")
            T.ptx_cp_async(tile[tx * 4], A[tx * 4], 4)
            T.ptx_commit_group()
            if waits:
                T.ptx_wait_group(0)
            T.sync_threads()
            for k in T.serial(4):
                B[k * 64 + tx] = tile[255 - k * 64 - tx]

    return main


SIDES = {
    # what reads the tile afterwards -> the value that it finds, or None where it has none
    "the other side": (lambda tx: tx >= 64, 1),
    "the same side": (lambda tx: tx < 64, 2),
    "some of the side": (lambda tx: tx < 32, 2),
    "a branch around the side": (lambda tx: tx < 96, 2),
    "a branch of all": (lambda tx: tx >= 0, 2),
    "some of the side with others": (lambda tx: tx >= 32, None),
}


@pytest.mark.parametrize("reader", SIDES)
def test_a_side_keeps_its_copy_of_a_fragment(reader):
    """Until all threads use it; a barrier does not move registers."""
    condition, expected = SIDES[reader]

    @T.prim_func
    def main(C: T.Tensor((32,), "float32"), D: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((32,), "float32")
            T.fill(tile, 1)
            if tx < 64:
                T.fill(tile, 2)
            T.sync_threads()
            if condition(tx):
                T.copy(tile, C)
            T.copy(tile, D)

    c, d = torch.zeros(32), torch.zeros(32)
    if expected is None:
        assert kinds(main, c, d) == ["uninitialised"]
    else:
        run(main, c, d)
        assert (c == expected).all() and (d == 2).all()


INSIDE = {
    # what reads the tile afterwards -> what it finds of the element that the inner branch changes, and of another one, where the
    # outer branch has not used the tile in between, and where it has
    "the inner branch": (lambda tx: tx < 32, (7, 2), (7, 2)),
    "others of the outer one": (lambda tx: tx // 32 == 1, (2, 2), (7, 2)),
    "the outer branch": (lambda tx: tx < 96, (7, 2), (7, 2)),
    "neither": (lambda tx: tx >= 96, (1, 1), (1, 1)),
    "a branch of all": (lambda tx: tx >= 0, (7, 2), (7, 2)),
}


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("reader", INSIDE)
def test_a_branch_inside_of_a_branch_keeps_its_copy(reader, used):
    """Until the threads of the outer one use it."""
    condition, *expected = INSIDE[reader]

    @T.prim_func
    def main(C: T.Tensor((32,), "float32"), D: T.Tensor((32,), "float32"), E: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((32,), "float32")
            T.fill(tile, 1)
            if tx < 96:
                T.fill(tile, 2)
                if tx < 32:
                    T.fill(tile[0:8], 7)
                if used:
                    T.copy(tile, E)
            if condition(tx):
                T.copy(tile, C)
            T.copy(tile, D)

    c, d, e = torch.zeros(32), torch.zeros(32), torch.zeros(32)
    run(main, c, d, e)
    assert (c[0], c[20]) == expected[used] and (d[0], d[20]) == (7, 2)
    assert (e[0], e[20]) == ((7, 2) if used else (0, 0))


def test_branches_inside_that_all_threads_of_a_branch_take_keep_what_it_stored():
    @T.prim_func
    def main(C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((32,), "float32")
            T.fill(tile, 1)
            if tx < 64:
                T.fill(tile, 2)
                if tx < 32:
                    T.fill(tile[0:8], 7)
                else:
                    T.fill(tile[8:16], 5)
            T.copy(tile, C)

    c = torch.zeros(32)
    run(main, c)
    assert c.tolist() == [7] * 8 + [5] * 8 + [2] * 16


def test_a_side_that_all_threads_take_has_no_copies():
    @T.prim_func
    def main(C: T.Tensor((32,), "float32"), D: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((32,), "float32")
            T.fill(tile, 1)
            if tx >= 64:
                T.fill(tile, 2)
            if tx >= 0:
                if tx < 64:
                    T.copy(tile, C)
            T.copy(tile, D)

    c, d = torch.zeros(32), torch.zeros(32)
    run(main, c, d)
    assert (c == 1).all() and (d == 2).all()
    for arch in ("sm_80", "sm_90a"):
        c, d = torch.zeros(32), torch.zeros(32)
        simulate(main, c, d, arch=arch)
        assert (c == 1).all() and (d == 2).all()


@pytest.mark.parametrize("kind", ["store", "atomic"])
def test_a_fragment_that_single_threads_change_is_one_tile(kind):
    @T.prim_func
    def main(C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_fragment((32,), "float32")
            T.fill(tile, 1)
            if tx < 32:
                if kind == "store":
                    tile[tx] = tx
                else:
                    T.atomic_add(tile[tx], tx)
            T.sync_threads()
            if tx >= 64:
                T.copy(tile, C)

    expected, c = torch.arange(32.0) + (kind == "atomic"), torch.zeros(32)
    run(main, c)
    assert torch.equal(c, expected)
    for arch in ("sm_80", "sm_90a"):
        c.zero_()
        simulate(main, c, arch=arch)
        assert torch.equal(c, expected)


@pytest.mark.parametrize("waits", [True, False])
def test_copies_of_threads(waits):
    a, b = torch.randn(256), torch.zeros(256)
    found = kinds(loaded_by_threads(waits), a, b)
    assert not found and torch.equal(b, a.flip(0)) if waits else "async" in found


def loaded_by_tma(expected, innermost=2):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile, full = T.alloc_shared((64, 64), "float16"), T.alloc_barrier(1)
            source = T.create_tma_descriptor(6, 2, A.data, 64, 64, innermost, 128, 64, 64, 1, 1, 0, 3, 2, 0)
            if T.get_thread_binding() == 0:
                T.mbarrier_arrive_expect_tx(full, expected)
                T.tma_load(source, full[0], tile[0, 0], 0, 0)
            T.mbarrier_wait_parity(full, 0)
            T.copy(tile, B)

    return main


@pytest.mark.parametrize(
    ("expected", "lacking"),
    [(8192, None), (8190, "the announcement of 2 bytes"), (8200, "8 bytes")],
    ids=["all", "fewer", "more"],
)
def test_bytes_that_a_barrier_expects(expected, lacking):
    a, b = torch.randn(64, 64).half(), torch.zeros(64, 64).half()
    found = interpreter.run(loaded_by_tma(expected), a, b)
    if lacking is None:
        assert not found and torch.equal(a, b)
    else:
        assert [each.message for each in found] == [f"threads wait for phase 0 of full, which lacks {lacking}"]


def test_arrivals_that_a_barrier_lacks():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            done = T.alloc_barrier([1, 128])
            if T.get_thread_binding() < 48:
                T.mbarrier_arrive(done[1])
            T.mbarrier_wait_parity(done[1], 0)
            T.clear(A)

    (found,) = interpreter.run(main, torch.zeros(128))
    assert found.message == "threads wait for phase 0 of done[1], which lacks 80 of 128 arrivals"


def test_the_innermost_axis_of_a_tensor_map_has_neighbours():
    a, b = torch.randn(64, 64).half(), torch.zeros(64, 64).half()
    assert not interpreter.run(loaded_by_tma(8192, innermost=1), a, b) and torch.equal(a, b)
    simulate(loaded_by_tma(8192, innermost=1), a, b.zero_(), arch="sm_90a")
    assert torch.equal(a, b)


def multiplied(waits):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile, total = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            T.wgmma_gemm(tile, tile, total, clear_accum=True)
            T.wgmma_gemm(tile, tile, total)
            if waits:
                T.wait_wgmma(0)
            T.copy(total, C)

    return main


@pytest.mark.parametrize("waits", [True, False])
def test_products_in_flight(waits):
    a, c = torch.randn(64, 64).half(), torch.zeros(64, 64)
    assert kinds(multiplied(waits), a, c) == ([] if waits else ["async"])
    torch.testing.assert_close(c, 2 * (a.float() @ a.float()), rtol=1e-5, atol=1e-4)


def met(together):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_shared((64,), "float32")
            T.copy(A[b, 0:64], tile)
            T.copy(tile, B[b, 0:64])
            if together:
                T.sync_grid()
            T.copy(B[(b + 1) % 4, 0:64], tile)
            T.copy(tile, C[b, 0:64])

    return main


@pytest.mark.parametrize("together", [True, False])
def test_blocks_that_use_each_others_results(together):
    a, c = torch.randn(4, 64), torch.zeros(4, 64)
    found = kinds(met(together), a, torch.zeros(4, 64), c)
    assert set(found) == (set() if together else {"race"})
    assert not together or torch.equal(c, a.roll(-1, 0))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_a_block_spins_until_another_has_released(first):
    """Block ``first`` publishes; the other waits for it, whichever runs first. For ``first`` = 2 none publishes."""

    @T.prim_func
    def main(
        A: T.Tensor((64,), "float32"),
        B: T.Tensor((64,), "float32"),
        ready: T.Tensor((1,), "int32"),
        C: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(2, threads=64) as b:
            if b == first:
                T.copy(A, B)
                T.atomic_add(ready[0], 1, memory_order="release")
            else:
                while T.atomic_load(ready[0], memory_order="acquire") == 0:
                    pass
                T.copy(B, C)

    a, c = torch.randn(64), torch.zeros(64)
    assert kinds(main, a, torch.zeros(64), torch.zeros(1, dtype=torch.int32), c) == ([] if first < 2 else ["deadlock"])
    assert first == 2 or torch.equal(a, c)


def test_accesses_of_a_kernel_are_ordered_after_the_previous_kernel():
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32"), C: T.Tensor((4, 64), "float32")):
        with T.Kernel(4, threads=64) as b:
            T.copy(A[b, 0:64], B[b, 0:64])
        with T.Kernel(4, threads=64) as b:
            T.copy(B[3 - b, 0:64], C[b, 0:64])

    a, c = torch.randn(4, 64), torch.zeros(4, 64)
    run(main, a, torch.zeros(4, 64), c)
    assert torch.equal(c, a.flip(0))


def test_two_blocks_that_write_one_element():
    @T.prim_func
    def main(B: T.Tensor((1,), "int32")):
        with T.Kernel(2, threads=32) as b:
            B[0] = b

    assert kinds(main, torch.zeros(1, dtype=torch.int32)) == ["race"]


def test_more_arrivals_than_a_phase_takes():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            full = T.alloc_barrier(48)
            T.mbarrier_arrive(full)
            A[T.get_thread_binding()] = 1.0

    assert kinds(main, torch.zeros(64)) == ["barrier"]


@pytest.mark.parametrize("name", ["any_sync", "all_sync", "ballot_sync", "match_any_sync", "match_all_sync"])
def test_the_mask_of_a_vote_includes_the_thread_that_calls_it(name):
    vote = getattr(T, name)

    def program(mask):
        @T.prim_func
        def main(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                tx = T.get_thread_binding()
                A[tx] = 0
                if tx % 32 < 16:
                    A[tx] = T.cast(vote(tx > 3, mask), "int32")

        return main

    a = torch.zeros(64, dtype=torch.int32)
    run(program(0xFFFF), a)
    (finding,) = interpreter.run(program(0xFFF0), a)
    assert finding.kind == "divergence"
    assert finding.message == f"T.{name}: its mask leaves out thread 0, which calls it"


@pytest.mark.parametrize("kind", ["tma", "cp.async"])
def test_a_variable_of_threads_names_the_barrier_of_a_copy(kind):
    """Below ``T.ws`` a counter is each thread's, with one value in all of them."""

    @T.prim_func
    def main(A: T.Tensor((5, 128), "float32"), B: T.Tensor((5, 128), "float32")):
        with T.Kernel(1, threads=256):
            ring = T.alloc_shared((2, 128), "float32")
            full, empty = T.alloc_barrier([128] * 2), T.alloc_barrier([128] * 2)
            with T.ws(1):
                n = T.alloc_var("int32", init=0)
                while n < 5:
                    T.mbarrier_wait_parity(empty[n % 2], n // 2 % 2 ^ 1)
                    if kind == "tma":
                        T.tma_copy(A[n, :], ring[n % 2, :], barrier=full[n % 2])
                        T.mbarrier_arrive(full[n % 2])
                    else:
                        T.async_copy(A[n, :], ring[n % 2, :])
                        T.cp_async_barrier_noinc(full[n % 2])
                    n += 1
            with T.ws(0):
                for k in T.serial(5):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    T.copy(ring[k % 2, :], B[k, :])
                    T.mbarrier_arrive(empty[k % 2])

    a, b = torch.randn(5, 128), torch.zeros(5, 128)
    run(main, a, b)
    assert torch.equal(a, b)
