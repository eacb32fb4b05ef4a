"""Conditions on the thread's number around tile operators: the threads that meet one share the operator's work."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda, simulate, source
from testing.python.target.definition import check_meaning
from tilelang import interpreter
from tilelang.errors import CompileError, LayoutConflictError, SimulatorError

ARCHS = ("sm_80", "sm_90a")


def halves(condition):
    """Doubles the first 64 rows in the threads that meet ``condition`` of 256, and negates the others in the rest."""

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding(0)
            tile = T.alloc_shared((64, 64), "float32")
            other = T.alloc_shared((64, 64), "float32")
            if condition(tx):
                T.copy(A[0:64, :], tile)
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = tile[i, j] * 2
                T.copy(tile, B[0:64, :])
            else:
                T.copy(A[64:128, :], other)
                for i, j in T.Parallel(64, 64):
                    other[i, j] = -other[i, j]
                T.copy(other, B[64:128, :])

    return main


CONDITIONS = {
    "first half": lambda tx: tx < 128,
    "second half": lambda tx: tx >= 128,
    "warps": lambda tx: tx // 32 < 2,
    "warp group": lambda tx: T.get_warp_group_idx() == 1,
    "unsigned range": lambda tx: T.cast(tx - 128, "uint32") < 128,
    "unsigned difference": lambda tx: T.cast(tx, "uint32") - T.uint32(128) < 128,
    "bound value": lambda tx: T.bind(tx // 32) < 4,
    "eight bits": lambda tx: T.cast(tx, "int8") >= 0,
    "range": lambda tx: T.And(tx >= 0, tx <= 31) if hasattr(T, "And") else tx <= 31,
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", CONDITIONS)
def test_the_threads_of_a_branch_share_its_tiles(name: str, arch: str) -> None:
    a, b = torch.randn(128, 64), torch.zeros(128, 64)
    simulate(halves(CONDITIONS[name]), a, b, arch=arch)
    assert torch.equal(b[:64], a[:64] * 2) and torch.equal(b[64:], -a[64:])


@pytest.mark.parametrize("arch", ARCHS)
def test_a_group_within_a_group_beside_statements_of_the_outer_one(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding(0)
            if tx < 128:
                C[tx] = 1.0
                if tx < 64:
                    T.copy(A, B)

    a, b, c = torch.randn(64), torch.zeros(64), torch.zeros(256)
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(a, b) and torch.equal(c, (torch.arange(256) < 128).float())


@pytest.mark.parametrize("target", ["interpret", cuda("sm_80"), cuda("sm_90a")])
def test_a_condition_that_all_threads_meet(target: str) -> None:
    """What stands below it is still the threads' own."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), counts: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            if tx < 128:
                T.atomic_add(counts[0], 1)
                T.copy(A, B)

    a, b, counts = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, b, counts)
    assert torch.equal(a, b) and counts.item() == 128


def test_groups_with_threads_in_common_keep_their_order() -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=384):
            tx = T.get_thread_binding(0)
            tiles = [T.alloc_shared((128,), "float32") for _ in range(4)]
            if tx < 256:
                T.set_max_nreg(240, 1)
                T.copy(A, tiles[0])
                C[tx] = 1.0
            if tx < 128:
                T.copy(A, tiles[1])
                C[tx] = C[tx] * 2.0
            if tx >= 256:
                T.set_max_nreg(24, 0)
                T.copy(A, tiles[2])
            if tx < 256:
                T.copy(A, tiles[3])
                C[tx] += 10.0

    c = torch.zeros(256)
    simulate(main, torch.randn(128), c, arch="sm_90a")
    assert torch.equal(c, torch.where(torch.arange(256) < 128, 12.0, 11.0))


@pytest.mark.parametrize("arch", ARCHS)
def test_lanes_of_one_warp_share_a_tile(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            if T.get_warp_idx() == 1 and T.get_lane_idx() >= 16:
                T.copy(A, B)

    a, b = torch.randn(64), torch.zeros(64)
    simulate(main, a, b, arch=arch)
    assert torch.equal(a, b)


@pytest.mark.parametrize("arch", ARCHS)
def test_three_roles_with_products_and_reductions(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((2, 64, 64), "float32"), sums: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=384):
            tx = T.get_thread_binding(0)
            tile = T.alloc_shared((64, 64), "float16")
            product = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_fragment((64, 64), "float32")
            values = T.alloc_fragment((64, 64), "float32")
            total = T.alloc_fragment((64,), "float32")
            T.copy(A, tile)
            if tx < 128:
                T.gemm(tile, tile, product, clear_accum=True)
                T.copy(product, C[0, :, :])
            elif tx < 256:
                T.gemm(tile, tile, other, transpose_B=True, clear_accum=True)
                T.copy(other, C[1, :, :])
            elif tx >= 256:
                T.copy(tile, values)
                T.reduce_sum(values, total, dim=1)
                T.copy(total, sums)

    a, c, sums = torch.randn(64, 64).half(), torch.zeros(2, 64, 64), torch.zeros(64)
    simulate(main, a, c, sums, arch=arch)
    torch.testing.assert_close(c, torch.stack([a.float() @ a.float(), a.float() @ a.float().T]), rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(sums, a.float().sum(1), rtol=1e-3, atol=1e-3)


def test_two_warp_groups_that_are_not_the_first_share_a_product() -> None:
    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=384):
            left = T.alloc_shared((128, 64), "float16")
            right = T.alloc_shared((64, 64), "float16")
            product = T.alloc_fragment((128, 64), "float32")
            T.copy(A, left)
            T.copy(B, right)
            if T.get_thread_binding(0) >= 128:
                T.gemm(left, right, product, clear_accum=True)
                T.copy(product, C)

    a, b, c = torch.randn(128, 64).half(), torch.randn(64, 64).half(), torch.zeros(128, 64)
    simulate(main, a, b, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)
    assert "wgmma" in source(main, arch="sm_90a")


def test_one_thread_copies_a_tile() -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=64):
            if T.get_thread_binding(0) == 40:
                T.copy(A, B)

    a, b = torch.randn(8), torch.zeros(8)
    simulate(main, a, b)
    assert torch.equal(a, b)


def test_statements_beside_tile_operators_are_each_threads_own() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), count: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            if T.get_thread_binding(0) < 64:
                T.copy(A, B)
                T.atomic_add(count[0], 1)

    a, b, count = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    simulate(main, a, b, count)
    assert torch.equal(a, b) and int(count) == 64


@pytest.mark.parametrize("arch", ARCHS)
def test_threads_with_others_between_them_beside_a_tile_operator(arch: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            if tx < 32 or tx >= 96:
                C[tx] = 1.0
            else:
                T.copy(A, B)
            if tx >= 32 and tx < 96:
                T.copy(A, B)
            else:
                C[tx] += 1.0

    a, b, c = torch.randn(64), torch.zeros(64), torch.zeros(128)
    simulate(main, a, b, c, arch=arch)
    assert torch.equal(a, b)
    assert c[:32].eq(2).all() and c[96:].eq(2).all() and not c[32:96].any()


def test_a_condition_of_the_block_beside_one_of_threads() -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            if T.get_thread_binding(0) < 64 and bx == 1:
                T.copy(A[bx, :], B[bx, :])

    a, b = torch.randn(2, 64), torch.zeros(2, 64)
    simulate(main, a, b)
    assert torch.equal(b[1], a[1]) and not b[0].any()


def partial_product(condition):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            product = T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            if condition(T.get_thread_binding(0), A):
                T.gemm(tile, tile, product, clear_accum=True)

    return main


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda tx, A: tx < 16, "threads 0 to 15 meet"),
        (lambda tx, A: tx % 2 == 0, "only some threads between others meet"),
        (lambda tx, A: A[0, tx % 64] > 0, "only some threads meet"),
    ],
)
def test_a_tile_operator_needs_threads_that_can_share_it(condition, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        source(partial_product(condition))


def test_all_threads_clear_the_fragment_of_some() -> None:
    def program(first: int, count: int):
        @T.prim_func
        def main(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
            with T.Kernel(1, threads=256):
                tx = T.get_thread_binding(0)
                tile = T.alloc_shared((64, 64), "float16")
                product = T.alloc_fragment((64, 64), "float32")
                T.copy(A, tile)
                T.clear(product)
                if tx >= first and tx < first + count:
                    T.gemm(tile, tile, product)
                    T.copy(product, C)

        return main

    a = torch.randn(64, 64).half()
    for first in (0, 128):
        c = torch.zeros(64, 64)
        simulate(program(first, 128), a, c)
        torch.testing.assert_close(c, a.float() @ a.float(), rtol=1e-3, atol=1e-2)


def test_copies_that_some_threads_have_changed_and_all_read() -> None:
    """An element that is named alone makes the fragment whole in every thread; a branch changes the copies of its threads."""

    def program(*groups: tuple[int, int]):
        @T.prim_func
        def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=128):
                tile = T.alloc_fragment((64,), "float32")
                tx = T.get_thread_binding(0)
                T.copy(A, tile)
                for first, last in groups:
                    if tx >= first and tx < last:
                        for i in T.Parallel(16):
                            tile[i + 40] = tile[i + 20] + 1
                        tile[0] = 9.0
                T.copy(tile, B)

        return main

    a, b = torch.arange(64.0), torch.zeros(64)
    for groups in ([(0, 32)], [(96, 128)], [(0, 32), (64, 128)]):
        simulate(program(*groups), a, b.zero_())
        assert torch.equal(b, torch.cat([torch.tensor([9.0]), a[1:40], a[20:36] + 1, a[56:]]))
    with pytest.raises(LayoutConflictError, match=r"threads 0 to 127 read here what threads 0 to 31 alone have stored"):
        source(program((0, 32), (0, 64)))


def test_a_part_of_the_threads_that_reduce_what_all_hold() -> None:
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tile, total = T.alloc_fragment((64,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(A, tile)
            if T.get_thread_binding(0) >= 64:
                T.reduce_sum(tile, total, dim=0)
                T.copy(total, B[0:1])

    a, b = torch.arange(64.0), torch.zeros(64)
    simulate(main, a, b)
    assert b[0] == a.sum()


def test_two_warp_groups_may_each_have_a_copy_of_a_fragment() -> None:
    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float32"), B: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(1, threads=256):
            part = T.alloc_fragment((64, 64), "float32")
            if T.get_thread_binding(0) < 128:
                T.copy(A[0, :, :], part)
                T.copy(part, B[0, :, :])
            else:
                T.copy(A[1, :, :], part)
                T.copy(part, B[1, :, :])

    a, b = torch.randn(2, 64, 64), torch.zeros(2, 64, 64)
    simulate(main, a, b)
    assert torch.equal(a, b)


def test_a_product_of_operands_copied_by_other_threads_follows_a_proxy_fence() -> None:
    """A ring by hand: threads copy by cp.async and arrive on mbarriers, a warp group multiplies."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding(0)
            ring = T.alloc_shared((2, 64, 64), "float16")
            product = T.alloc_fragment((64, 64), "float32")
            ready = T.alloc_barrier([128, 128])
            if tx < 128:
                T.clear(product)
                for k in T.serial(2):
                    T.barrier_wait(ready[k], 0)
                    T.gemm(ring[k, :, :], ring[k, :, :], product, transpose_B=True)
                T.copy(product, C)
            else:
                for k in T.serial(2):
                    for r in T.serial(4):
                        row, column = r * 16 + (tx - 128) // 8, tx % 8 * 8
                        T.ptx_cp_async(T.access_ptr(ring[k, row, column]), T.access_ptr(A[row, k * 64 + column]), 8)
                    T.cp_async_barrier_noinc(ready[k])

    a, c = torch.randn(64, 128).half(), torch.zeros(64, 64)
    simulate(main, a, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float() @ a.float().T, rtol=1e-3, atol=1e-2)
    text = source(main, arch="sm_90a")
    assert text.count("tl::fence_proxy_async()") == 1 and "__syncthreads" not in text[text.index("mbarrier_wait") :]


SOME = {
    "first half": lambda tx: tx < 128,
    "second half": lambda tx: tx >= 128,
    "some lanes": lambda tx: tx < 20,
    "one thread": lambda tx: tx == 3,
    "all": lambda tx: tx < 256,
}


@pytest.mark.parametrize("target", ["interpret", *ARCHS])
@pytest.mark.parametrize("name", [*SOME, "T.ws"])
def test_a_store_of_a_fragments_element_is_that_of_the_threads_together(name: str, target: str) -> None:
    """As a ``T.Parallel`` over it would be: what it adds is added once, and all of them see it next."""

    @T.macro
    def body(B, C, slot, total, tx):
        slot[0] += total[0]
        C[tx] = slot[0]
        for i in T.serial(2):
            B[i] = B[i] + total[0] * 2
        B[2] = slot[0] + total[0]

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((3,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding(0)
            tile, total = T.alloc_fragment((128,), "float32"), T.alloc_fragment((1,), "float32")
            slot = T.alloc_shared((2,), "float32")
            T.clear(slot)
            T.copy(A, tile)
            T.reduce_sum(tile, total)
            if name == "T.ws":
                with T.ws(1):
                    body(B, C, slot, total, tx)
            else:
                if SOME[name](tx):
                    body(B, C, slot, total, tx)

    a, b, c = torch.arange(128.0), torch.zeros(3), torch.zeros(256)
    if target == "interpret":
        with tilelang.interpret():
            tilelang.compile(main)(a, b, c)
    else:
        simulate(main, a, b, c, arch=target)
    chosen = SOME.get(name, lambda tx: tx >= 128)(torch.arange(256))
    assert (b == 2 * a.sum()).all() and torch.equal(c, torch.where(chosen, a.sum(), 0.0))


@pytest.mark.parametrize("target", ["interpret", *ARCHS])
@pytest.mark.parametrize("chosen", [range(0, 32), range(224, 256), range(40, 50)], ids=["first warp", "last warp", "some lanes"])
def test_a_warp_that_changes_an_element_changes_it_once(chosen: range, target: str) -> None:
    """Its lanes would all read the element, and then all store the same sum; all of them see it next."""

    @T.prim_func
    def main(N: T.Tensor((1,), "int32"), B: T.Tensor((8,), "float32"), C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding(0)
            slot = T.alloc_shared((4,), "float32")
            last = T.alloc_var("int32")
            T.fill(slot, 3)
            last = N[0]
            if (tx >= chosen.start) & (tx < chosen.stop):
                if last % 4 > 0:
                    B[last - 1] += slot[3]
                slot[1] = slot[1] * 2 + 1
                C[tx] = slot[1] + B[last - 1]

    n, b, c = torch.tensor([6], dtype=torch.int32), torch.arange(8.0), torch.zeros(256)
    if target == "interpret":
        with tilelang.interpret():
            tilelang.compile(main)(n, b, c)
    else:
        simulate(main, n, b, c, arch=target)
    expected = torch.arange(8.0)
    expected[5] += 3
    numbers = torch.arange(256)
    assert torch.equal(b, expected)
    assert torch.equal(c, torch.where((numbers >= chosen.start) & (numbers < chosen.stop), 15.0, 0.0))


def test_two_warps_that_change_an_element_race():
    @T.prim_func
    def main(B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=128):
            if T.get_thread_binding() < 64:
                B[0] += 1

    found = interpreter.run(main, torch.zeros(8))
    assert {finding.kind for finding in found} == {"race"}
    with pytest.raises(SimulatorError, match="race"):
        simulate(main, torch.zeros(8))


@pytest.mark.parametrize(
    "condition", [lambda tx: tx < 59, lambda tx: tx % 2 == 0, lambda tx: tx % 32 < 20], ids="first even lanes".split()
)
def test_any_threads_may_run_loops_of_their_own(condition):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            first = tx * 4
            tile, mine = T.alloc_shared((256,), "float32"), T.alloc_local((4,), "float32")
            T.clear(tile)
            if condition(tx):
                T.copy(A[first : first + 4], mine)
                for i in T.Parallel(4):
                    tile[first + i] = mine[i] * 2
                for i in T.Parallel(4):
                    tile[first + i] = tile[first + i] + 1
            T.copy(tile, B)

    a = torch.arange(256.0)
    taken = torch.tensor([bool(condition(thread)) for thread in range(64)]).repeat_interleave(4)
    _, b = check_meaning(main, a, torch.zeros(256))
    assert torch.equal(b, torch.where(taken, a * 2 + 1, 0.0))


def test_groups_keep_the_element_that_they_stored():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=256):
            c = T.alloc_fragment((16,), "int32")
            T.copy(A, c)
            with T.ws(0):
                c[0] = 5
            with T.ws(1):
                c[1] = c[0] + 1
            T.copy(c, B)

    check_meaning(main, torch.arange(16).int() + 7, torch.zeros(16).int())
