"""Groups of threads that use and change a tile which other statements spread over all threads: each has a copy."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import interpreter
from tilelang.errors import DivergenceError, LayoutConflictError

ARCHS = ("sm_80", "sm_90a")


def _reads(tx, tile, C):
    if tx // 32 == 0:
        for i, j in T.Parallel(32, 64):
            C[i, j] = tile[i, j] * 2


def _reads_elements(tx, tile, C):
    if tx // 32 == 1:
        for j in T.serial(32):
            C[tx - 32, j] = tile[tx - 32, j]


def _copies_some(tx, tile, C):
    if tx >= 64:
        T.copy(tile, C)


def _updates(tx, tile, C):
    if tx // 32 == 3:
        for i, j in T.Parallel(16, 64):
            tile[i, j] = tile[i + 16, j] + 1
    T.copy(tile, C)


def _reduces(tx, tile, C):
    if tx < 64:
        total = T.alloc_fragment((32,), "float32")
        T.reduce_sum(tile, total, dim=1)
        T.copy(total, C[0, 0:32])


def _both_sides(tx, tile, C):
    if tx < 64:
        for i, j in T.Parallel(16, 64):
            C[i, j] = tile[i, 63 - j] * 2
    else:
        for i, j in T.Parallel(16, 64):
            C[i + 16, j] = tile[i + 16, j] - 1


def _with_another(tx, tile, C):
    own = T.alloc_fragment((32, 64), "float32")
    if tx < 32:
        T.fill(own, 3)
    T.sync_threads()
    if tx < 32:
        for i, j in T.Parallel(32, 64):
            C[i, j] = own[i, j] + tile[i, j]


def of_a_product(use):
    """A program in which groups use a tile that a product spreads over all threads."""
    body = T.macro(use)

    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 64), "float16"), C: T.Tensor((32, 64), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 64), "float16")
            tile = T.alloc_fragment((32, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, tile, clear_accum=True)
            body(tx, tile, C)

    return main


def _nested(tx, tile, C):
    if tx < 96:
        for i, j in T.Parallel(32, 64):
            tile[i, j] += 1
        if tx >= 32:
            for i, j in T.Parallel(32, 64):
                tile[i, j] *= 2
        for i, j in T.Parallel(16, 64):
            tile[i, j] += tile[i + 16, 63 - j]
    T.copy(tile, C)


def _in_one_another(tx, tile, C):
    if tx < 64:
        T.copy(tile, C)
    if tx < 32:
        for i, j in T.Parallel(16, 64):
            tile[i, j] = tile[i + 16, j] * 2
    T.sync_threads()
    if tx < 64:
        for i, j in T.Parallel(32, 64):
            C[i, j] += tile[i, j]


def _overlapping(tx, tile, C):
    if tx < 64:
        for i, j in T.Parallel(16, 64):
            C[i, j] = tile[i, j] + 1
    if tx // 32 == 1 or tx // 32 == 2:
        for i, j in T.Parallel(16, 64):
            C[i + 16, j] = tile[i + 16, j] * 2


def _overlapping_in_the_block(tx, tile, C):
    T.macro(_overlapping)(tx, tile, C)
    for i, j in T.Parallel(32, 64):
        C[i, j] += tile[i, 63 - j]


def _inside_of_a_read(tx, tile, C):
    if tx < 96:
        if tx >= 32:
            for i, j in T.Parallel(32, 64):
                tile[i, j] *= 2
        T.copy(tile, C)


def _in_a_loop(tx, tile, C):
    for _ in T.serial(2):
        for i, j in T.Parallel(32, 64):
            tile[i, j] += 1
        if tx < 32:
            for i, j in T.Parallel(16, 64):
                tile[i, j] *= 2
        else:
            if tx < 64:
                for i, j in T.Parallel(16, 64):
                    tile[i + 16, j] *= 3
    T.copy(tile, C)


def _groups_first_in_a_loop(tx, tile, C):
    for _ in T.serial(2):
        if tx // 32 == 1:
            for i, j in T.Parallel(16, 64):
                C[i, j] = tile[i + 16, j]
        if tx < 32:
            for i, j in T.Parallel(16, 64):
                tile[i, j] *= 2
        for i, j in T.Parallel(16, 64):
            C[i + 16, j] = tile[i, 63 - j]


def _overlapping_with_a_view(tx, tile, C):
    rows = T.view(tile, (2048,))
    if tx < 64:
        for i, j in T.Parallel(16, 64):
            C[i, j] = rows[i * 64 + j] + 1
    if tx // 32 == 1 or tx // 32 == 2:
        for i, j in T.Parallel(16, 64):
            C[i + 16, j] = tile[i + 16, j] * 2


def _reduces_a_view(tx, tile, C):
    parts, largest = T.reshape(tile, (32, 4, 16)), T.alloc_fragment((32, 4), "float32")
    if tx < 64:
        T.reduce_max(parts, largest, dim=2)
        T.copy(largest, C[0:32, 0:4])


def _changes_a_view(tx, tile, C):
    bits, rows = T.view(tile, (32, 64), "int32"), T.view(tile, (64, 32))
    if tx < 64:
        for i, j in T.Parallel(16, 64):
            bits[i, j] = T.if_then_else(tile[i, j] < 0, 0, bits[i, j])
    if tx >= 96:
        for i, j in T.Parallel(32, 32):
            rows[i + 32, j] *= 2
    T.copy(tile, C)


USES = [_reads, _reads_elements, _copies_some, _updates, _reduces, _both_sides, _with_another, _nested, _in_one_another]
USES += [_in_a_loop, _overlapping, _overlapping_in_the_block, _inside_of_a_read, _groups_first_in_a_loop]
USES += [_overlapping_with_a_view, _reduces_a_view, _changes_a_view]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("use", USES)
def test_a_group_uses_what_all_threads_hold(use, arch):
    main = of_a_product(use)
    a, b = torch.randint(-3, 4, (32, 16)).half(), torch.randint(-3, 4, (16, 64)).half()
    expected, found = torch.zeros(32, 64), torch.zeros(32, 64)
    assert interpreter.run(main, a, b, expected) == []
    simulate(main, a, b, found, arch=arch)
    assert torch.equal(found, expected)


def test_a_group_inside_of_two_others_is_told_where_to_copy_a_tile():
    def use(tx, tile, C):
        if tx < 64:
            T.copy(tile, C)
        if tx // 32 == 1:
            for i, j in T.Parallel(32, 64):
                tile[i, j] *= 2
        if tx // 32 == 1 or tx // 32 == 2:
            T.copy(tile, C)

    with pytest.raises(LayoutConflictError, match="threads 0 to 63 run this, and its elements are in threads 32 to 63") as raised:
        source(of_a_product(use))
    assert "copy it to shared memory where threads 32 to 63 run, before the condition on threads" in str(raised.value)


def test_a_group_does_not_see_what_another_has_changed():
    def use(tx, tile, C):
        for _ in T.serial(2):
            for i, j in T.Parallel(32, 64):
                tile[i, j] += 1
            if tx < 32:
                T.fill(tile, 7)
        if tx // 32 == 1:
            T.copy(tile, C)

    with pytest.raises(DivergenceError, match="may have changed tile, and no statement of both has used it since") as raised:
        source(of_a_product(use))
    assert "exchange the values through shared memory" in str(raised.value)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_group_of_the_consumers_uses_what_they_all_hold(arch):
    @T.prim_func
    def main(A: T.Tensor((64, 128), "float16"), C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            product, twice = T.alloc_fragment((64, 64), "float32"), T.alloc_fragment((64, 64), "float32")
            T.clear(product)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, product, transpose_B=True)
            if T.get_thread_binding() >= 64:
                T.copy(product, C)
            for i, j in T.Parallel(64, 64):
                twice[i, j] = product[i, j] * 2
            if T.get_thread_binding() < 64:
                T.copy(twice, D)

    a, c, d = torch.randint(-3, 4, (64, 128)).half(), torch.zeros(64, 64), torch.zeros(64, 64)
    simulate(main, a, c, d, arch=arch)
    assert torch.equal(c, a.float() @ a.float().T) and torch.equal(d, 2 * c)


def test_groups_with_threads_in_common_hold_a_product_in_registers_of_their_own():
    """They multiply for themselves; nothing goes through shared memory but the operands."""
    text = source(of_a_product(_overlapping))
    assert text.count("float tile") == 2 and "tile_start" not in text


@pytest.mark.parametrize("arch", ARCHS)
def test_a_group_fills_a_tile_whose_layout_only_the_search_finds(arch):
    @T.prim_func
    def main(X: T.Tensor((8, 128), "float32"), Y: T.Tensor((8, 128), "float32")):
        with T.Kernel(1, threads=128):
            x, e = T.alloc_fragment((8, 128), "float32"), T.alloc_fragment((8, 128), "float32")
            largest, last = T.alloc_fragment((8,), "float32"), T.alloc_fragment((8,), "float32")
            part, total = T.alloc_fragment((8,), "float32"), T.alloc_fragment((8,), "float32")
            T.fill(total, 1)
            T.fill(last, 2)
            for _ in T.serial(2):
                T.copy(X, x)
                T.reduce_max(x, largest, dim=1)
                for i, j in T.Parallel(8, 128):
                    e[i, j] = x[i, j] - largest[i]
                T.reduce_sum(e, part, dim=1)
                for i in T.Parallel(8):
                    total[i] = total[i] * (last[i] - largest[i]) + part[i]
                    last[i] = largest[i]
            if T.get_thread_binding() < 64:
                T.copy(X, x)
            for i, j in T.Parallel(8, 128):
                x[i, j] *= total[i]
            T.copy(x, Y)

    x, expected, found = torch.randint(-3, 4, (8, 128)).float(), torch.zeros(8, 128), torch.zeros(8, 128)
    assert interpreter.run(main, x, expected) == []
    simulate(main, x, found, arch=arch)
    assert torch.equal(found, expected)
