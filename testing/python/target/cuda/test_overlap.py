"""Products that start one iteration early: which loops qualify, and that any number of iterations is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang.ir.facts import Facts
from tilelang.target.cuda.specialize.overlap import Overlap, find_overlap
from tilelang.target.cuda.specialize.ring import find_rings
from tilelang.target.cuda.tile.program import split_kernels


def chain(
    steps: Any = 4,
    *,
    repeats: int = 1,
    stages: int = 2,
    keys: int = 64,
    between: Callable[..., None] | None = None,
    last: Callable[..., None] | None = None,
) -> Any:
    """O += f(Q K(i)) V(i), where f doubles and rounds; ``between`` and ``last`` add statements."""
    rows = 64 * 8

    @T.prim_func
    def main(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((rows, keys), "float16"), V: T.Tensor((rows, 64), "float16"),
             Out: T.Tensor((repeats, 64, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_shared = T.alloc_shared((64, keys), "float16")
            K_shared = T.alloc_shared((64, keys), "float16")
            V_shared = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[0:64, 0:keys], Q_shared)
            for repeat in T.serial(repeats):
                T.clear(total)
                for k in T.Pipelined(steps, num_stages=stages):
                    row = k * 64
                    T.copy(K[row, 0], K_shared)
                    T.clear(S)
                    T.gemm(Q_shared, K_shared, S, transpose_B=True)
                    for i, j in T.Parallel(64, 64):
                        S[i, j] = S[i, j] * 2
                    if between is not None:
                        between(S, P, total, Q_shared, k)
                    T.copy(S, P)
                    T.copy(V[row, 0], V_shared)
                    T.gemm(P, V_shared, total)
                    if last is not None:
                        last(S, P, total, Q_shared, k)
                T.copy(total, Out[repeat, 0:64, 0:64])

    return main


def overlap_of(program: Any, registers: int = 240) -> Overlap | None:
    (ring,) = find_rings(split_kernels(program)[0].body, Facts())
    return find_overlap(ring, 128, registers)


def check(program: Any, steps: int, repeats: int = 1, scale: float = 2) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randint(-2, 3, (rows, 64)).half() / 2 for rows in (64, 512, 512))
    out = torch.full((repeats, 64, 64), 7.0)
    simulate(program, q, k, v, out, arch="sm_90a")
    used = steps * 64
    want = (scale * (q.float() @ k[:used].float().T)).half().float() @ v[:used].float()
    torch.testing.assert_close(out, want.expand(repeats, 64, 64), rtol=0, atol=0)


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 8])
@pytest.mark.parametrize("stages", [2, 3])
def test_any_number_of_iterations(steps: int, stages: int) -> None:
    check(chain(steps, stages=stages), steps)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loop_that_runs_again(steps: int) -> None:
    program = chain(steps, repeats=3)
    assert overlap_of(program) is not None
    check(program, steps, 3)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_number_of_iterations_that_is_known_when_the_kernel_runs(steps: int) -> None:
    @T.prim_func
    def main(N: T.Tensor((2,), "int32"), K: T.Tensor((512, 64), "float16"), Out: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(2, threads=128) as bx:
            Q_shared = T.alloc_shared((64, 64), "float16")
            K_shared = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.copy(K[0, 0], Q_shared)
            T.clear(total)
            for k in T.Pipelined(N[bx], num_stages=2):
                T.copy(K[k * 64, 0], K_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True)
                T.copy(S, P)
                T.gemm(P, K_shared, total)
            T.copy(total, Out[bx, 0:64, 0:64])

    (ring,) = find_rings(split_kernels(main)[0].body, Facts())
    assert find_overlap(ring, 128, 240) is not None
    k, out = torch.randint(-2, 3, (512, 64)).half() / 2, torch.zeros(2, 64, 64)
    simulate(main, torch.tensor([steps, 2], dtype=torch.int32), k, out, arch="sm_90a")
    for result, count in zip(out, (steps, 2)):
        rows = k[: count * 64].float()
        torch.testing.assert_close(result, (k[:64].float() @ rows.T).half().float() @ rows, rtol=0, atol=0)


def changes_the_other_operand(S, P, total, Q_shared, k):
    T.copy(P, Q_shared)


def changes_the_accumulator(S, P, total, Q_shared, k):
    for i, j in T.Parallel(64, 64):
        total[i, j] = total[i, j] * 2


def test_head_middle_and_tail() -> None:
    found = overlap_of(chain())
    (ring,) = find_rings(split_kernels(chain())[0].body, Facts())
    assert found is not None
    assert ring.products(found.head) == [found.head[-1]]
    assert ring.products(found.tail) == list(found.tail) == [len(ring.body) - 1]


def test_what_the_tail_changes_is_waited_for() -> None:
    program = chain(between=T.macro(changes_the_accumulator))
    assert overlap_of(program) is not None
    text = source(program, "sm_90a")
    loop = text[text.index("= consumed_k_slot;") :]
    assert loop.index("wgmma_wait<0>") < loop.index("total[") < loop.index("wgmma_wait<1>")


@pytest.mark.parametrize("last", [changes_the_other_operand, changes_the_accumulator])
def test_an_iteration_that_does_not_end_in_its_products_keeps_its_order(last: Callable[..., None]) -> None:
    assert overlap_of(chain(last=T.macro(last))) is None


def test_a_head_that_depends_on_the_iteration_is_not_started_early() -> None:
    assert overlap_of(chain(between=T.macro(changes_the_other_operand))) is None


def test_tiles_that_would_not_fit_the_registers_keep_their_order() -> None:
    assert overlap_of(chain(), registers=96) is None


def test_the_result_of_a_loop_that_runs_again_stays_in_the_registers_of_its_products() -> None:
    @T.prim_func
    def main(
        K: T.Tensor((128, 64), "float16"), V: T.Tensor((128, 64), "float16"), N: T.Tensor((2,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            Q_shared = T.alloc_shared((64, 64), "float16")
            K_shared, V_shared = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            S, P = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            T.fill(Q_shared, 0.125)
            T.clear(total)
            for o in T.serial(2):
                for k in T.Pipelined(N[o], num_stages=2):
                    T.copy(K[k * 64, 0], K_shared)
                    T.copy(V[k * 64, 0], V_shared)
                    T.clear(S)
                    T.gemm(Q_shared, K_shared, S, transpose_B=True)
                    T.copy(S, P)
                    T.gemm(P, V_shared, total)
            T.copy(total, C)

    k, v = torch.rand(128, 64).half(), torch.rand(128, 64).half()
    c = torch.zeros(64, 64)
    simulate(main, k, v, torch.tensor([2, 1], dtype=torch.int32), c, arch="sm_90a")
    first, second = ((0.125 * k[rows].float().sum(1)).half().float() @ v[rows].float() for rows in (slice(0, 64), slice(64, 128)))
    torch.testing.assert_close(c, (2 * first + second).expand(64, 64), rtol=1e-2, atol=1e-2)
