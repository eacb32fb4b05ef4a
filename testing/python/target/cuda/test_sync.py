"""Barriers, waits and the plan of shared memory, on hand-made code trees."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.frontend.support import error_at_mark
from testing.python.target.cuda.support import leaf_of, simulate, source
from tilelang.errors import LayoutConflictError, SharedMemoryError
from tilelang.target.cuda.ir.code import Barrier, Block, BranchCode, Leaf, LoopCode, Wait
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.schedule.barriers import with_barriers
from tilelang.target.cuda.schedule.conflicts import Conflicts


def _kinds(block):
    return [type(item).__name__ for item in block.items]


_SAME = Conflicts(lambda a, b: a == b)


def test_read_after_write_gets_one_barrier():
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s"), leaf_of(["r"], reads="s")])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Barrier", "Leaf", "Leaf"]


def test_independent_buffers_get_none():
    block = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="t"), leaf_of(["w"], writes="u")])
    block = with_barriers(block, _SAME)
    assert "Barrier" not in _kinds(block)


def test_write_after_read_across_iterations():
    body = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="s")])
    (loop,) = with_barriers(Block([LoopCode(Name("for (;;)"), body)]), _SAME).items
    assert _kinds(loop.body) == ["Barrier", "Leaf", "Barrier", "Leaf"]


def test_what_loops_only_read_is_waited_for_before_the_outermost():
    body = Block([leaf_of(["r"], reads="s", writes="t")])
    inner = LoopCode(
        Name("for (;;)"), Block([leaf_of(["r"], reads="s"), BranchCode(Name("n > 0"), Block([leaf_of(["r"], reads="s")]))])
    )
    block = Block([leaf_of(["w"], writes="s"), LoopCode(Name("for (;;)"), Block([inner])), LoopCode(Name("for (;;)"), body)])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Barrier", "LoopCode", "LoopCode"]
    outer, last = block.items[2:]
    assert _kinds(outer.body.items[0].body) == ["Leaf", "BranchCode"] and _kinds(last.body) == ["Barrier", "Leaf"]


def test_a_copy_that_a_loop_reads_is_complete_before_it():
    body = Block([leaf_of(["r"], reads="s")])
    block = Block([leaf_of(["c"], copies="s"), LoopCode(Name("for (;;)"), body)])
    block = with_barriers(block, _SAME)
    assert _kinds(block) == ["Leaf", "Leaf", "Wait", "Barrier", "LoopCode"]
    assert _kinds(block.items[-1].body) == ["Leaf"]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_tile_that_serial_loops_only_read_costs_one_barrier(arch):
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), X: T.Tensor((32, 64), "float32"), Y: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float32")
            x, y = T.alloc_fragment((32, 64), "float32"), T.alloc_fragment((32, 64), "float32")
            T.copy(A, a)
            T.copy(X, x)
            T.clear(y)
            for i in T.serial(32):
                for o in T.serial(32):
                    for j in T.Parallel(64):
                        y[i, j] += a[i, o] * x[o, j]
            T.copy(y, Y)

    before, loops = source(main, arch).split("#pragma unroll 1\n", 1)
    assert "__sync" not in loops and before.count("__sync") == 1
    a, x, y = torch.randint(-4, 5, (32, 32)).float(), torch.randint(-4, 5, (32, 64)).float(), torch.zeros(32, 64)
    simulate(main, a, x, y, arch=arch)
    assert torch.equal(y, a @ x)


def test_asynchronous_copy_gets_a_wait():
    block = Block([leaf_of(["c"], copies="s"), leaf_of(["r"], reads="s")])
    block = with_barriers(block, _SAME)
    assert [type(item) for item in block.items if not isinstance(item, Leaf)] == [Wait, Barrier]


def test_no_barrier_inside_a_divergent_branch():
    inner = Block([leaf_of(["w"], writes="s"), leaf_of(["r"], reads="t")])
    block = Block([BranchCode(Name("tid < 5"), inner, None, True), leaf_of(["r"], reads="s")])
    block = with_barriers(block, _SAME)
    assert _kinds(block.items[0].then) == ["Leaf", "Leaf"]
    assert _kinds(block) == ["BranchCode", "Barrier", "Leaf"]


def test_too_much_shared_memory_is_an_error():
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float32")):
        with T.Kernel(1):
            small = T.alloc_shared((16,), "float32")
            tile = T.alloc_shared((512, 512), "float32")  # <- error
            T.clear(small)
            T.copy(A, tile)
            T.copy(tile, A)
            T.copy(small, A[0, 0:16])

    with error_at_mark(SharedMemoryError, "needs 10486.. bytes of shared memory a block, sm_80 has 166912.*tile 1048576"):
        source(main)


def test_a_pipeline_of_too_many_stages_is_an_error_at_its_tile():
    @T.prim_func
    def main(A: T.Tensor((8192, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=128):
            small = T.alloc_shared((64, 64), "float16")
            tile = T.alloc_shared((128, 64), "float16")  # <- error
            total = T.alloc_fragment((128, 64), "float32")
            T.clear(total)
            T.copy(A[0, 0], small)
            for k in T.Pipelined(64, num_stages=16):
                T.copy(A[k * 128, 0], tile)
                T.gemm(tile, small, total)
            T.copy(total, C)

    with error_at_mark(SharedMemoryError, "the largest tiles: tile 262144"):
        source(main, "sm_90a")


def test_tiles_that_are_never_alive_together_share_memory():
    @T.prim_func
    def main(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1):
            first = T.alloc_shared((128, 128), "float32")
            second = T.alloc_shared((128, 128), "float32")
            T.copy(A, first)
            T.copy(first, B)
            T.copy(A, second)
            T.copy(second, B)

    text = source(main)
    assert text.count("(pool + 0)") == 2


def test_a_layout_conflict_in_divergent_code_names_both_statements():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.gemm(a, a, d, clear_accum=True)
            if T.get_thread_binding() < 64:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] + d[j, i]
            if T.get_thread_binding() // 32 == 1:  # inside of two other groups
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] + d[j, i]
            if T.get_thread_binding() // 32 == 1 or T.get_thread_binding() // 32 == 2:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] + d[j, i]
            T.copy(c, B)

    with pytest.raises(
        LayoutConflictError, match=r"no layout of fragment \w+ suits every statement: threads \d+ to \d+ run this"
    ):
        source(main)


@pytest.mark.parametrize("width", [16, 40])
def test_copies_of_a_fragment_computed_from_memory_that_changes(width):
    """Two warps hold each element of ``kept`` here; only one of them stores to ``tile``, which both would read."""

    @T.prim_func
    def main(A: T.Tensor((48, width), "float16"), B: T.Tensor((48, width), "float32"), C: T.Tensor((48, width), "float16")):
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((48, 48), "float16")
            right = T.alloc_shared((48, width), "float16")
            tile = T.alloc_shared((48, width), "float16")
            kept = T.alloc_fragment((48, width), "float32")
            T.clear(kept)
            T.fill(left, 1)
            T.copy(A, tile)
            T.copy(A, right)
            T.gemm(left, right, kept, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(48, width):
                kept[i, j] += T.cast(tile[i, j], "float32")
                tile[i, j] = tile[i, j] * 2
                kept[i, j] += T.cast(tile[i, j], "float32")
            T.copy(kept, B)
            T.copy(tile, C)

    a = torch.randint(-3, 4, (48, width)).half()
    b, c = torch.zeros(48, width), torch.zeros(48, width).half()
    simulate(main, a, b, c)
    assert torch.equal(b, a.float().sum(0, keepdim=True) + 3 * a.float()) and torch.equal(c, 2 * a)


def test_more_threads_than_elements_change_memory_in_place():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32,), "float32")
            local = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(32, coalesced_width=4):
                tile[i] = tile[i] * 2
                local[i] = tile[i]
                A[i] = A[i] + local[i]
            T.copy(local, B)

    a, b = torch.arange(32.0), torch.zeros(32)
    simulate(main, a, b)
    assert torch.equal(b, 2 * torch.arange(32.0)) and torch.equal(a, 3 * torch.arange(32.0))


def test_a_read_after_a_store_of_the_same_iteration_sees_it():
    """Vectors are loaded before the body only where nothing that it reads is its own store."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(64, 64):
                B[i, j] = tile[i, j]
                tile[i, j] = tile[i, j] * 2
                B[i, j] = B[i, j] + tile[i, j]

    a, b = torch.randn(64, 64), torch.zeros(64, 64)
    simulate(main, a, b)
    assert torch.equal(b, a + 2 * a)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("stages", [0, 3])
def test_an_iteration_that_ends_early_leaves_its_copies_pending(stages, arch):
    @T.prim_func
    def main(A: T.Tensor((6, 32, 64), "float16"), skip: T.Tensor((6,), "int32"), B: T.Tensor((2, 32, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            tile, total = T.alloc_shared((32, 64), "float16"), T.alloc_fragment((32, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(6, num_stages=stages):
                T.copy(A[k, 0, 0], tile)
                if skip[k] == 1:
                    continue
                if skip[k] == bx:
                    break
                for i, j in T.Parallel(32, 64):
                    total[i, j] += tile[31 - i, j]
            T.copy(total, B[bx, 0, 0])

    a, skip = torch.randint(-8, 8, (6, 32, 64)).half(), torch.tensor([2, 1, 1, 2, 0, 2], dtype=torch.int32)
    b = torch.zeros(2, 32, 64)
    simulate(main, a, skip, b, arch=arch)
    assert torch.equal(b[0], (a[0] + a[3]).flip(0).float()) and torch.equal(b[1], (a[0] + a[3:].sum(0)).flip(0).float())


@pytest.mark.parametrize("leave", ["break", "continue"])
def test_a_tile_that_a_left_iteration_does_not_fill_keeps_its_memory(leave):
    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), stop: T.Tensor((4,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            first, last = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for k in T.serial(4):
                T.copy(A[k, :], first)
                for i in T.Parallel(64):
                    total[i] += first[63 - i]
                if stop[k] == 1:
                    if leave == "break":
                        break
                    else:
                        continue
                T.copy(A[k, :], last)
            for i in T.Parallel(64):
                total[i] += last[63 - i]
            T.copy(total, B)

    a, b = torch.randint(-8, 8, (4, 64)).float(), torch.zeros(64)
    simulate(main, a, torch.tensor([0, 0, 1, 1], dtype=torch.int32), b)
    assert torch.equal(b, (a[: 3 if leave == "break" else 4].sum(0) + a[1]).flip(0))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("pipelined", [False, True])
def test_a_plain_copy_is_complete_when_the_program_signals_an_mbarrier(arch, pipelined):
    stages, steps = 2, 5

    @T.prim_func
    def main(
        A: T.Tensor((64, 32 * steps), "float16"), B: T.Tensor((64, 32 * steps), "float16"), C: T.Tensor((64, 64), "float32")
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((stages, 64, 32), "float16")
            b = T.alloc_shared((stages, 64, 32), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([128] * stages)
            with T.ws(0):
                T.clear(c)
            for k in T.Pipelined(steps, num_stages=2) if pipelined else T.serial(steps):
                with T.ws(1):
                    T.barrier_wait(empty[k % stages], (k // stages + 1) % 2)
                    T.copy(A[0, k * 32], a[k % stages, :, :])
                    T.copy(B[0, k * 32], b[k % stages, :, :])
                    T.barrier_arrive(full[k % stages])
                with T.ws(0):
                    T.barrier_wait(full[k % stages], k // stages % 2)
                    T.gemm(a[k % stages, :, :], b[k % stages, :, :], c, transpose_B=True)
                    T.barrier_arrive(empty[k % stages])
            with T.ws(0):
                T.copy(c, C)

    a, b, c = torch.randn(64, 160).half(), torch.randn(64, 160).half(), torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=1e-2, atol=1e-2)


def test_a_plain_copy_is_complete_at_a_named_barrier():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((64, 64), "float32")
            with T.ws(1):
                T.copy(A, tile)
                T.named_barrier_arrive(1, 256)
            with T.ws(0):
                T.sync_threads(1, 256)
                for i, j in T.Parallel(64, 64):
                    B[i, j] = tile[j, i]

    a, b = torch.randn(64, 64), torch.zeros(64, 64)
    simulate(main, a, b)
    assert torch.equal(b, a.T)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_scalar_of_a_pipelined_loop_keeps_the_tile_that_it_is_read_from(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 64), "float32"), W: T.Tensor((4,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            w, tile = T.alloc_shared((4,), "float32"), T.alloc_shared((64,), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for j in T.Parallel(4):
                w[j] = W[j] * 2
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[k, :], tile)
                scale = w[k]
                for i in T.Parallel(64):
                    total[i] += scale * tile[i]
            T.copy(total, C)

    x, w, c = torch.randint(-9, 9, (4, 64)).float(), torch.randint(-9, 9, (4,)).float(), torch.zeros(64)
    simulate(main, x, w, c, arch=arch)
    assert torch.equal(c, 2 * w @ x)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_atomic_updates_by_different_operations_keep_their_order(arch):
    @T.prim_func
    def main(V: T.Tensor((64,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((1,), "int32")
            s[0] = 100
            tx = T.get_thread_binding()
            T.atomic_add(s[0], V[tx])
            T.atomic_min(s[0], tx + 5)
            T.atomic_add(s[0], V[tx])
            C[0] = s[0]

    c = torch.zeros(1, dtype=torch.int32)
    simulate(main, torch.full((64,), 2, dtype=torch.int32), c, arch=arch)
    assert c.item() == 5 + 128 and source(main, arch).count("__syncthreads") == 4


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_threads_that_write_one_tensor_in_turns_keep_their_order(arch):
    @T.prim_func
    def main(Y: T.Tensor((64,), "int32"), Z: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            Y[tx] = 1
            Y[63 - tx] = tx + 100
            for k in T.serial(5):
                Z[(tx + k * 7) % 64] = k * 100 + tx

    y, z = torch.zeros(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    simulate(main, y, z, arch=arch)
    assert torch.equal(y, (163 - torch.arange(64)).int()) and torch.equal(z, (400 + torch.arange(64)).roll(28).int())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("scope", ["global", "shared"])
def test_an_old_value_that_is_used_is_read_in_the_order_of_the_program(scope, used, arch):
    """It has all that the statement before has added; sums alone need no barrier among each other."""

    @T.prim_func
    def main(C: T.Tensor((1,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            own, old = T.alloc_shared((1,), "int32"), T.alloc_fragment((128,), "int32")
            count = C if scope == "global" else own
            T.fill(own, 0)
            for _ in T.Parallel(128):
                T.atomic_add(count[0], 1)
            for i in T.Parallel(128):
                if used:
                    old[i] = T.atomic_add(count[0], 0, return_prev=True)
                else:
                    T.atomic_add(count[0], 1)
            if used:
                T.copy(old, B)

    assert source(main, arch).count("__syncthreads()") == used + (scope == "shared")
    b = torch.zeros(128, dtype=torch.int32)
    simulate(main, torch.zeros(1, dtype=torch.int32), b, arch=arch)
    assert (b == (128 if used else 0)).all()
