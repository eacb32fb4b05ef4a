"""Warp specialisation: which loops get a producer, and what the two roles do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.visit import walk
from tilelang.target.cuda.ops.gemm_plan import COMPLETE, IN_FLIGHT
from tilelang.target.cuda.specialize.ring import find_rings
from tilelang.target.cuda.specialize.warp_specialize import specialize
from tilelang.target.cuda.tile.program import Kernel, split_kernels
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.thread import intrinsic_name


def gemm(
    threads: int = 128, stages: int = 3, k: Any = 512, extra: Callable[..., None] | None = None, dtype: str = "float16"
) -> Any:
    @T.prim_func
    def main(A: T.Tensor((512, k), dtype), B: T.Tensor((512, 512), dtype), C: T.Tensor((512, 512), dtype)):
        with T.Kernel(4, 4, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((128, 64), dtype)
            B_shared = T.alloc_shared((64, 128), dtype)
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(8, num_stages=stages):
                T.copy(A[by * 128, ko * 64], A_shared)
                T.copy(B[ko * 64, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
                if extra is not None:
                    extra(A, B, A_shared, B_shared, C_local, ko)
            T.copy(C_local, C[by * 128, bx * 128])

    return main


def kernel_of(program: Any) -> Kernel:
    return split_kernels(program)[0]


def roles(kernel: Kernel) -> dict[int, Any]:
    """Mask of warp groups -> the statement of the role."""
    found = (node for node in walk(kernel.body) if isinstance(node, ir.AttrStmt) and node.attr_key == "tl.warp_role")
    return {as_int(node.value): node for node in found}


def operators(stmt: Any) -> list[Any]:
    return [decode(node.value) for node in walk(stmt) if isinstance(node, ir.Evaluate) and is_tile_op(node.value)]


def calls(stmt: Any) -> list[str]:
    """Names of the intrinsics that a statement calls, in order; the moves of registers are left out."""
    names = (intrinsic_name(node.value) for node in walk(stmt) if isinstance(node, ir.Evaluate))
    return [name for name in names if name not in (None, "ring_registers")]


def register_moves(stmt: Any) -> list[tuple[str, int]]:
    """How a statement changes the registers of its threads: the direction, and how many they have then."""
    found = (node.value for node in walk(stmt) if isinstance(node, ir.Evaluate))
    return [(str(call.args[0].value), as_int(call.args[1])) for call in found if intrinsic_name(call) == "ring_registers"]


def test_one_group_loads_and_the_others_multiply() -> None:
    kernel = specialize(kernel_of(gemm()), Facts())
    assert [extent for _, extent in kernel.threads] == [256, 1, 1]
    parts = roles(kernel)
    assert set(parts) == {1, 2}
    loads = [op for op in operators(parts[2]) if isinstance(op, Copy)]
    assert [op.kind for op in loads] == ["tma", "tma"]
    assert [op.dst.buffer.name for op in loads] == ["A_shared", "B_shared"]
    assert all(as_int(op.dst.buffer.shape[0]) == 3 for op in loads)
    assert calls(parts[2]) == ["ring_wait", "ring_expect"]
    assert not [op for op in operators(parts[1]) if isinstance(op, Copy) and op.kind == "tma"]


def test_a_product_stays_in_flight_over_one_iteration() -> None:
    consumer = roles(specialize(kernel_of(gemm()), Facts()))[1]
    products = [op for op in operators(consumer) if isinstance(op, Gemm)]
    assert [op.wg_wait for op in products] == [IN_FLIGHT, COMPLETE]
    assert calls(consumer) == ["ring_wait", "wait_wgmma", "ring_release"]


def test_without_wgmma_a_tile_is_released_after_its_product() -> None:
    consumer = roles(specialize(kernel_of(gemm()), Facts(), wgmma=False))[1]
    assert [op.wg_wait for op in operators(consumer) if isinstance(op, Gemm)] == [0]
    assert calls(consumer) == ["ring_wait", "ring_release"]


def test_an_accumulator_that_is_touched_in_the_loop_is_waited_for() -> None:
    def scale(A, B, A_shared, B_shared, C_local, ko):
        for i, j in T.Parallel(128, 128):
            C_local[i, j] = C_local[i, j] * 0.5

    consumer = roles(specialize(kernel_of(gemm(extra=T.macro(scale))), Facts()))[1]
    assert [op.wg_wait for op in operators(consumer) if isinstance(op, Gemm)] == [0]


@pytest.mark.parametrize(("threads", "consumer"), [(128, 240), (256, 240), (384, 160), (512, 112)])
def test_registers_are_moved_to_the_consumers(threads: int, consumer: int) -> None:
    kernel = specialize(kernel_of(gemm(threads)), Facts())
    assert register_moves(kernel.body) == [("dec", 24), ("inc", consumer)]
    assert consumer * threads + 24 * 128 <= 65536


def test_register_limits_set_by_the_user() -> None:
    @T.macro
    def keep(*_: Any) -> None:
        T.no_set_max_nreg()

    kernel = specialize(kernel_of(gemm(extra=keep)), Facts())
    assert not register_moves(kernel.body)


def test_tiles_with_different_uses_arrive_separately() -> None:
    @T.prim_func
    def main(Q: T.Tensor((512, 64), "float16"), K: T.Tensor((512, 64), "float16"), V: T.Tensor((512, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            Q_shared = T.alloc_shared((128, 64), "float16")
            K_shared = T.alloc_shared((64, 64), "float16")
            V_shared = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((128, 64), "float32")
            P = T.alloc_fragment((128, 64), "float16")
            O_local = T.alloc_fragment((128, 64), "float32")
            T.copy(Q[bx * 128, 0], Q_shared)
            T.clear(O_local)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(K[k * 64, 0], K_shared)
                T.clear(S)
                T.gemm(Q_shared, K_shared, S, transpose_B=True)
                T.copy(S, P)
                T.copy(V[k * 64, 0], V_shared)
                T.gemm(P, V_shared, O_local)

    kernel = specialize(kernel_of(main), Facts())
    parts = roles(kernel)
    assert calls(parts[2]) == ["ring_wait", "ring_expect"] * 2
    wait, arrive = "ring_wait", "ring_release"
    assert calls(parts[1]) == [wait, arrive, wait, arrive, wait, arrive, arrive, wait]
    assert [op.src.buffer.name for op in operators(parts[1]) if isinstance(op, Copy)] == ["Q", "S", "S"]


def test_a_loop_that_runs_again_continues_in_its_ring() -> None:
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float16"), C: T.Tensor((512, 64), "float32")):
        with T.Kernel(4, threads=128) as bx:
            A_shared = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            for tile in T.serial(2):
                T.clear(total)
                for ko in T.Pipelined(8, num_stages=2):
                    T.copy(A[(bx * 2 + tile) * 64, ko * 64], A_shared)
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += A_shared[i, j]
                T.copy(total, C[(bx * 2 + tile) * 64, 0])

    kernel = specialize(kernel_of(main), Facts())
    counters = [node for part in roles(kernel).values() for node in walk(part)
                if isinstance(node, ir.AllocBuffer) and node.buffer.scope() == "local.var"]  # fmt: skip
    names = ["consumed_ko_parity", "consumed_ko_slot", "produced_ko_parity", "produced_ko_slot"]
    assert sorted(node.buffer.name for node in counters) == names


def test_products_that_overlap_continue_in_their_rings() -> None:
    @T.prim_func
    def main(
        Q: T.Tensor((2, 64, 64), "float16"), K: T.Tensor((2, 192, 64), "float16"), V: T.Tensor((2, 192, 64), "float16"),
        Out: T.Tensor((2, 64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_shared = T.alloc_shared((64, 64), "float16")
            K_shared = T.alloc_shared((64, 64), "float16")
            V_shared = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((64, 64), "float32")
            weights = T.alloc_fragment((64, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            for head in T.serial(2):
                T.copy(Q[head, 0, 0], Q_shared)
                T.clear(out)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(K[head, k * 64, 0], K_shared)
                    T.copy(V[head, k * 64, 0], V_shared)
                    T.clear(scores)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(scores, weights)
                    T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
                T.copy(out, Out[head, 0, 0])

    # The last tile of V is released after the loop, that of K in it. One that is released twice, or never, is waited for forever.
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randint(-1, 2, (2, rows, 64), generator=generator).half() for rows in (64, 192, 192))
    out = torch.zeros(2, 64, 64)
    simulate(main, q, k, v, out, arch="sm_90a")
    torch.testing.assert_close(out, q.float() @ k.float().transpose(1, 2) @ v.float())


def written_by_hand(A, B, A_shared, B_shared, C_local, ko):
    T.sync_threads()
    A_shared[0, 0] = T.float16(0)


def source_is_written(A, B, A_shared, B_shared, C_local, ko):
    A[0, 0] = T.float16(0)


def test_a_tile_that_threads_also_write_is_not_loaded_by_tma() -> None:
    rings = find_rings(kernel_of(gemm(extra=T.macro(written_by_hand))).body, Facts())
    assert [buffer.name for ring in rings for buffer in ring.versions] == ["B_shared"]


def test_a_tensor_that_the_kernel_writes_is_not_loaded_ahead() -> None:
    rings = find_rings(kernel_of(gemm(extra=T.macro(source_is_written))).body, Facts())
    assert [buffer.name for ring in rings for buffer in ring.versions] == ["B_shared"]


def groups_by_hand(A, B, A_shared, B_shared, C_local, ko):
    T.ptx_commit_group()


@pytest.mark.parametrize("program", [gemm(stages=1), gemm(threads=96), gemm(threads=1024), gemm(extra=T.macro(groups_by_hand))])
def test_kernels_that_keep_their_form(program: Any) -> None:
    kernel = kernel_of(program)
    assert specialize(kernel, Facts()) is kernel


def test_a_row_stride_of_unknown_alignment_keeps_the_copy_by_threads() -> None:
    rings = find_rings(kernel_of(gemm(k=T.dynamic("k"))).body, Facts())
    assert [buffer.name for ring in rings for buffer in ring.versions] == ["B_shared"]


def test_a_tile_with_rows_below_16_bytes_is_not_loaded_by_tma() -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "uint16"), B: T.Tensor((64, 64), "uint16"), C: T.Tensor((64, 4), "uint16")):
        with T.Kernel(1, threads=128):
            narrow = T.alloc_shared((64, 4), "uint16")
            wide = T.alloc_shared((64, 8), "uint16")
            total = T.alloc_fragment((64, 4), "uint16")
            T.clear(total)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 4], narrow)
                T.copy(B[0, k * 8], wide)
                for i, j in T.Parallel(64, 4):
                    total[i, j] += narrow[i, j] + wide[i, j]
            T.copy(total, C)

    rings = find_rings(kernel_of(main).body, Facts())
    assert [buffer.name for ring in rings for buffer in ring.versions] == ["wide"]


@pytest.mark.parametrize("leave", ["continue", "break"])
def test_both_roles_leave_an_iteration_around_a_ring(leave: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 3, 64, 64), "float16"), skip: T.Tensor((4,), "int32"), C: T.Tensor((4, 64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            seen = T.alloc_var("int32", init=0)
            for tile in T.serial(4):
                if skip[tile] == 1:
                    if leave == "break":
                        break
                    else:
                        continue
                for _ in T.serial(2):
                    if seen > tile:
                        break
                    seen += 1
                T.clear(c)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(A[tile, k, 0, 0], a)
                    T.gemm(a, a, c)
                T.copy(c, C[tile, 0, 0])

    kernel = split_kernels(main)[0]
    assert find_rings(kernel.body, Facts()) and specialize(kernel, Facts()) is not kernel
    a, c = torch.randint(-2, 3, (4, 3, 64, 64)).half(), torch.zeros(4, 64, 64)
    simulate(main, a, torch.tensor([0, 0, 1, 0], dtype=torch.int32), c, arch="sm_90a")
    done = [0, 1, 3] if leave == "continue" else [0, 1]
    assert torch.equal(c[done], (a.float() @ a.float()).sum(1)[done]) and not c[2].any()


def test_a_loop_of_some_threads_has_no_producer() -> None:
    """The threads of a producer have other numbers: they do not take the branch."""

    @T.prim_func
    def main(A: T.Tensor((2, 4, 32, 32), "float16"), C: T.Tensor((2, 32, 32), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            warp = tx // 32
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c, d = T.alloc_fragment((32, 32), "float32"), T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[1, k, 0, 0], b)
                for i, j in T.Parallel(32, 32):
                    d[i, j] += b[i, j]
            if warp == 1:
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k, 0, 0], a)
                    for i, j in T.Parallel(32, 32):
                        c[i, j] += a[i, j]
                T.copy(c, C[0, 0, 0])
            T.copy(d, C[1, 0, 0])

    a, c = torch.randint(-2, 3, (2, 4, 32, 32)).half(), torch.zeros(2, 32, 32)
    simulate(main, a, c, arch="sm_90a")
    assert torch.equal(c, a.float().sum(1))
    text = source(main, "sm_90a")
    assert "b_full" in text and "a_full" not in text


def test_an_early_exit_known_only_to_the_consumers_prevents_warp_specialisation() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 3, 64, 64), "float16"), C: T.Tensor((4, 64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            done = T.alloc_shared((1,), "int32")
            T.clear(done)
            for tile in T.serial(4):
                T.clear(c)
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(A[tile, k, 0, 0], a)
                    T.gemm(a, a, c)
                T.copy(c, C[tile, 0, 0])
                done[0] = tile
                if done[0] == 2:
                    break

    kernel = split_kernels(main)[0]
    assert find_rings(kernel.body, Facts()) and specialize(kernel, Facts()) is kernel


def test_products_stay_with_mma_where_tiles_are_not_swizzled():
    """The panels of ``wgmma`` are swizzled, so the roles must not wait for its products."""

    @T.prim_func
    def main(A: T.Tensor((128, 128), "float16"), B: T.Tensor((16, 128), "float16"), C: T.Tensor((128, 16), "float32")):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((128, 64), "float16")
            B_shared = T.alloc_shared((16, 64), "float16")
            C_local = T.alloc_fragment((128, 16), "float32")
            T.clear(C_local)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C)

    torch.manual_seed(0)
    a, b, c = torch.randint(-3, 4, (128, 128)).half(), torch.randint(-3, 4, (16, 128)).half(), torch.zeros(128, 16)
    options = {"tl.disable_shared_swizzle": True}
    assert "wgmma" not in source(main, "sm_90a", options)
    simulate(main, a, b, c, arch="sm_90a", pass_configs=options)
    torch.testing.assert_close(c, a.float() @ b.float().T, rtol=0, atol=0)


AXES = {
    "sum of rows": lambda tile, rows, cols, whole: T.reduce_sum(tile, rows, dim=1),
    "sum of columns, onto": lambda tile, rows, cols, whole: T.reduce_sum(tile, cols, dim=0, clear=False),
    "maximum of half a row": lambda tile, rows, cols, whole: T.reduce_max(tile[:, 0:8], rows, dim=-1),
    "scan of rows": lambda tile, rows, cols, whole: T.cumsum(tile, whole, dim=1, reverse=True),
    "scan of columns": lambda tile, rows, cols, whole: T.cumsum(tile, whole, dim=0),
}


@pytest.mark.parametrize("shape", [(16, 16), (8, 32)])
@pytest.mark.parametrize("use", AXES)
def test_an_operator_over_an_axis_of_a_tile_with_slots(use: str, shape: tuple[int, int]) -> None:
    m, n = shape

    @T.prim_func
    def main(
        A: T.Tensor((4 * m, n), "int32"), R: T.Tensor((4, m), "int32"), C: T.Tensor((4, n), "int32"),
        W: T.Tensor((4, m, n), "int32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((m, n), "int32")
            rows, cols = T.alloc_fragment((m,), "int32"), T.alloc_shared((n,), "int32")
            whole = T.alloc_shared((m, n), "int32")
            for part in (rows, cols, whole):
                T.clear(part)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k * m, 0], tile)
                AXES[use](tile, rows, cols, whole)
                T.copy(rows, R[k, :])
                T.copy(cols, C[k, :])
                T.copy(whole, W[k, :, :])

    assert set(roles(specialize(kernel_of(main), Facts()))) == {1, 2}
    a = torch.randint(-9, 9, (4 * m, n), dtype=torch.int32)
    expected, results = ([torch.zeros(size, dtype=torch.int32) for size in ((4, m), (4, n), (4, m, n))] for _ in range(2))
    assert interpreter.run(main, a, *expected) == []
    simulate(main, a, *results, arch="sm_90a")
    assert all(map(torch.equal, results, expected))


@pytest.mark.parametrize("written", [False, True], ids=["read", "written"])
@pytest.mark.parametrize("inside", [False, True], ids=["before the kernel", "in it"])
def test_how_often_a_ring_is_fed_is_read_from_a_view(inside: bool, written: bool) -> None:
    """The producer has the view's name, too; it cannot read what the kernel writes, under whichever name."""

    @T.prim_func
    def main(A: T.Tensor((4, 64, 64), "float16"), n: T.Tensor((2,), "int32"), C: T.Tensor((64, 64), "float32")):
        before = T.view(n, (2, 1), "int32")
        with T.Kernel(1, threads=128):
            within = T.view(n, (2, 1), "int32")
            a, c = T.alloc_shared((64, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            if written:
                n[0] = 3
            times = within if inside else before
            for k in T.Pipelined(times[0, 0], num_stages=2):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, c)
            T.copy(c, C)

    kernel = split_kernels(main)[0]
    assert (specialize(kernel, Facts()) is kernel) == written
    a, c = torch.randint(-2, 3, (4, 64, 64)).half(), torch.zeros(64, 64)
    simulate(main, a, torch.tensor([2, 0], dtype=torch.int32), c, arch="sm_90a")
    used = a[: 3 if written else 2].float()
    assert torch.equal(c, (used @ used).sum(0))


def test_an_accumulator_from_a_product_in_other_threads_is_converted_before_the_loop():
    """The product in the loop is complete at a later wait, so that the one before it gets the copy of the accumulator."""

    @T.prim_func
    def main(
        A: T.Tensor((8, 128), "float8_e5m2"),
        B: T.Tensor((8, 8), "float8_e5m2"),
        X: T.Tensor((128, 256), "float16"),
        Y: T.Tensor((8, 256), "float16"),
        C: T.Tensor((128, 8), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((8, 128), "float8_e5m2"), T.alloc_shared((8, 8), "float8_e5m2")
            x, y = T.alloc_shared((128, 128), "float16"), T.alloc_shared((8, 128), "float16")
            c = T.alloc_fragment((128, 8), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_A=True, clear_accum=True)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(X[0, k * 128], x)
                T.copy(Y[0, k * 128], y)
                T.gemm(x, y, c, transpose_B=True)
            T.copy(c, C)

    a, b = (torch.randint(-4, 4, shape).float() for shape in ((8, 128), (8, 8)))
    x, y = torch.randint(-4, 4, (128, 256)).half(), torch.randint(-4, 4, (8, 256)).half()
    c = torch.zeros(128, 8)
    simulate(main, a.to(torch.float8_e5m2), b.to(torch.float8_e5m2), x, y, c, arch="sm_90a")
    assert torch.equal(c, a.T @ b + x.float() @ y.float().T)


@pytest.mark.parametrize("by_branch", [False, True])
def test_a_variable_that_threads_compute_from_their_numbers_is_not_known_to_the_producer(by_branch: bool) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            first = T.alloc_var("int32", init=0)
            if by_branch:
                if tx >= 128:
                    first = 1
            else:
                first = tx // 128
            A_shared = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.clear(total)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, (k + first) * 64], A_shared)
                for i, j in T.Parallel(64, 64):
                    total[i, j] += A_shared[i, j]
            T.copy(total, C)

    a = torch.rand(64, 256).half()
    c = torch.zeros(64, 64)
    simulate(main, a, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float().reshape(64, 4, 64)[:, :3].sum(1))


@pytest.mark.parametrize("in_loop", [False, True])
def test_what_foreign_code_gives_is_not_known_to_the_producer(in_loop: bool) -> None:
    @T.prim_func
    def main(A: T.Tensor((64, 256), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            T.import_source("__device__ inline int group() { return threadIdx.x / 128; }")
            A_shared = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            first = 0 if in_loop else T.call_extern("int32", "group")
            T.clear(total)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, (k + (T.call_extern("int32", "group") if in_loop else first)) * 64], A_shared)
                for i, j in T.Parallel(64, 64):
                    total[i, j] += A_shared[i, j]
            T.copy(total, C)

    a = torch.rand(64, 256).half()
    c = torch.zeros(64, 64)
    simulate(main, a, c, arch="sm_90a")
    torch.testing.assert_close(c, a.float().reshape(64, 4, 64)[:, :3].sum(1))
