"""Fragments that several groups of threads use: each group has a copy, which statements of all threads reach as well."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from testing.python.target.definition import check_meaning
from tilelang.errors import CompileError

ARCHS = ("sm_80", "sm_90a")


def two_products(fill):
    """Two groups add a product each to one fragment, which all threads have filled."""

    @T.prim_func
    def main(A: T.Tensor((2, 64, 64), "float16"), S: T.Tensor((64, 64), "float32"), B: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((2, 64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            fill(S, acc)
            for group in [0, 1]:
                with T.ws(group):
                    T.gemm(tile[group, :, :], tile[group, :, :], acc)
                    T.copy(acc, B[group, :, :])

    return main


FILLS = {
    "zeros": (lambda start, acc: T.clear(acc), torch.zeros_like),
    "tensor": (T.copy, lambda start: start),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("arch", ARCHS)
def test_all_threads_fill_the_copies_of_groups(name, arch):
    fill, value = FILLS[name]
    a = torch.randint(-1, 2, (2, 64, 64)).half()
    start, b = torch.randint(-3, 4, (64, 64)).float(), torch.zeros(2, 64, 64)
    program = two_products(fill)
    simulate(program, a, start, b, arch=arch)
    assert torch.equal(b, a.float() @ a.float() + value(start))
    # What a register holds that nothing has written is a matter of luck: the second group fills its own, then multiplies.
    assert source(program, arch).count("if (warp_group_id >= 1)") == 2


def products_of_each_step():
    """Two groups add a product each to one fragment in every step of a pipeline, which all threads have cleared."""

    @T.prim_func
    def main(A: T.Tensor((3, 32, 64), "float16"), B: T.Tensor((3, 2, 32, 32), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[k, :, :], tile)
                T.clear(acc)
                for group in [0, 1]:
                    with T.ws(group):
                        T.gemm(tile, tile, acc, transpose_B=True)
                        T.copy(acc, B[k, group, :, :])

    return main


def test_groups_fill_their_copies_in_a_pipelined_loop():
    a, b = torch.randint(-1, 2, (3, 32, 64)).half(), torch.zeros(3, 2, 32, 32)
    simulate(products_of_each_step(), a, b, arch="sm_80")
    assert torch.equal(b, (a.float() @ a.float().mT)[:, None].expand(3, 2, 32, 32))


def elementwise(form: str):
    """A nest of each of two groups after statements of all threads."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2, 64, 64), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((64, 64), "float32")
            rows = T.alloc_fragment((64,), "float32")
            if form == "rows":
                T.copy(A, tile)
                T.reduce_sum(tile, rows, dim=1)
            else:
                T.clear(rows)
            for _ in T.serial(2):
                if form != "own":
                    T.copy(A, tile)
                for group in [0, 1]:
                    with T.ws(group):
                        if form == "own":
                            T.copy(A, tile)
                        for i, j in T.Parallel(64, 64):
                            tile[i, j] = tile[i, j] * (group + 2) + rows[i]
                        T.copy(tile, B[group, :, :])
            T.copy(A, C)

    return main


@pytest.mark.parametrize("form", ["own", "loop", "rows"])
@pytest.mark.parametrize("arch", ARCHS)
def test_groups_go_on_from_what_all_threads_have_computed(form, arch):
    a, b, c = torch.randint(-3, 4, (64, 64)).float(), torch.zeros(2, 64, 64), torch.zeros(64, 64)
    simulate(elementwise(form), a, b, c, arch=arch)
    rows = a.sum(1, keepdim=True) if form == "rows" else 0
    assert torch.equal(b, torch.stack([a * 2 + rows, a * 3 + rows]))
    assert torch.equal(c, a)


def test_a_group_of_the_first_threads_and_all_threads_share_a_fragment():
    """The layout suits the group, although the statements of all threads move more."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=384):
            tile = T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            with T.ws(0):
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = tile[i, j] * 2
            T.copy(tile, B)

    a, b = torch.randn(64, 64), torch.zeros(64, 64)
    simulate(main, a, b)
    assert torch.equal(b, a * 2)


@pytest.mark.parametrize("sizes", [(32, 64), (96, 32), (64, 32, 32)])
@pytest.mark.parametrize("arch", ARCHS)
def test_groups_of_different_sizes_use_one_name(sizes, arch):
    """No one layout suits them, so each has a fragment of its own."""
    firsts = [sum(sizes[:group]) for group in range(len(sizes))]

    @T.prim_func
    def main(A: T.Tensor((32, 40), "float32"), B: T.Tensor((len(sizes), 32, 40), "float32")):
        with T.Kernel(1, threads=sum(sizes)):
            tile, rows = T.alloc_fragment((32, 40), "float32"), T.alloc_fragment((32,), "float32")
            tx = T.get_thread_binding(0)
            T.copy(A, tile)
            for group, (first, size) in enumerate(zip(firsts, sizes)):
                if tx >= first and tx < first + size:
                    for _ in T.serial(2):
                        T.reduce_max(tile, rows, dim=1)
                        for i, j in T.Parallel(32, 40):
                            tile[i, j] = tile[i, j] * (group + 1) - rows[i]
                    T.copy(tile, B[group, :, :])

    a, b = torch.randint(-3, 4, (32, 40)).float(), torch.zeros(len(sizes), 32, 40)
    simulate(main, a, b, arch=arch)
    for group in range(len(sizes)):
        tile = a
        for _ in range(2):
            tile = tile * (group + 1) - tile.amax(1, keepdim=True)
        assert torch.equal(b[group], tile)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_all_threads_see_what_either_group_has_stored(dtype):
    """Each group changes its half three times, from what all threads have made of both."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), dtype), B: T.Tensor((16, 32), dtype), C: T.Tensor((16, 32), dtype)):
        with T.Kernel(1, threads=256):
            tile, other = T.alloc_fragment((16, 32), dtype), T.alloc_fragment((16, 32), dtype)
            T.copy(A, tile)
            for k in T.serial(3):
                for group in [0, 1]:
                    with T.ws(group):
                        T.copy(A, other)
                        for i, j in T.Parallel(8, 32):
                            tile[i + group * 8, j] = tile[i + group * 8, j] * (1 - 2 * group) + k
                for i, j in T.Parallel(16, 32):
                    tile[i, j] -= 1
            T.copy(tile, B)
            T.copy(other, C)

    a = torch.randint(-3, 4, (16, 32)).to(getattr(torch, dtype))
    _, b, c = check_meaning(main, a, torch.zeros_like(a), torch.zeros_like(a))
    for k in range(3):
        a = torch.cat([a[:8] + k, k - a[8:]]) - 1
    assert torch.equal(b, a)


def test_single_threads_of_several_groups_do_not_store_to_one_fragment():
    """It would lie in shared memory, where the groups met."""

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((2, 64), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((64,), "float32")
            for group in [0, 1]:
                with T.ws(group):
                    T.copy(A, tile)
                    if T.get_thread_binding(0) % 128 == 3:
                        tile[5] = 7.0
                    T.copy(tile, B[group, :])

    with pytest.raises(CompileError, match=r"(?s)single threads store to fragment tile.*allocate a fragment for each group"):
        source(main)


def test_warp_groups_are_chosen_when_the_program_is_traced():
    with pytest.raises(CompileError, match=r"(?s)T.ws: a warp group is a compile-time number, not group.*for group in \[0, 1\]"):

        @T.prim_func
        def main(B: T.Tensor((2,), "float32")):
            with T.Kernel(1, threads=256):
                for group in range(2):
                    with T.ws(group):
                        B[group] = 1.0
