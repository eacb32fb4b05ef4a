"""Static bounds: what is refused, and what is left to guards."""

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import BufferIndexError
from tilelang.transform.bounds import check_bounds


def checked(program):
    return check_bounds(program, None)


def test_a_loop_that_leaves_a_local_buffer_is_refused_at_its_line():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            local = T.alloc_fragment((128,), "float32")
            for i in T.Parallel(130):
                local[i] = A[i]

    with pytest.raises(BufferIndexError, match="index 129 is out of range for axis 0 of local, which has 128") as caught:
        checked(main)
    assert "local[i] = A[i]" in str(caught.value)


def test_a_load_is_judged_like_a_store():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            local = T.alloc_shared((2, 64), "float32")
            for i in T.serial(64):
                A[i] = local[1, i + 1]

    with pytest.raises(BufferIndexError, match="index 64 is out of range for axis 1 of local"):
        checked(main)


def test_a_negative_index_is_refused():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            local = T.alloc_local((8,), "float32")
            for i in T.serial(8):
                local[i - 1] = A[i]

    with pytest.raises(BufferIndexError, match="index -1"):
        checked(main)


def test_a_region_of_a_tile_operator_is_judged():
    @T.prim_func
    def main(A: T.Tensor((256, 256), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((4, 32), "float32")
            for k in T.serial(5):
                T.copy(A[k, 0:32], tile[k, 0:32])

    with pytest.raises(BufferIndexError, match="index 4 is out of range for axis 0 of tile"):
        checked(main)


@pytest.mark.parametrize(
    "use",
    [
        lambda A, tile, i: T.print(tile[i]),
        lambda A, tile, i: T.device_assert(tile[i] > 0),
        lambda A, tile, i: T.fill(A[0:4], tile[i]),
        lambda A, tile, i: T.clear(A[T.cast(tile[i], "int32")]),
    ],
    ids=["print", "assert", "fill", "place"],
)
def test_a_value_that_a_tile_operator_takes_is_judged(use):
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((4,), "float32")
            T.clear(tile)
            for i in T.serial(5):
                use(A, tile, i)

    with pytest.raises(BufferIndexError, match="index 4 is out of range for axis 0 of tile"):
        checked(main)


def test_a_global_access_that_is_always_out_of_bounds_is_refused():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.Parallel(64):
                A[256 + bx * 64 + i] = 0.0

    with pytest.raises(BufferIndexError, match="index 256"):
        checked(main)


def test_ragged_tiles_and_guarded_accesses_are_left_alone():
    @T.prim_func
    def main(A: T.Tensor((250,), "float32"), B: T.Tensor((250,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((64,), "float32")
            T.copy(A[bx * 64], tile)
            for i in T.Parallel(64):
                B[bx * 64 + i] = tile[i]
            for i in T.Parallel(66):
                if i < 64:
                    tile[i] = T.if_then_else(i + 1 < 64, tile[i + 1], 0.0)
            for i in T.serial(100):
                if i >= 64:
                    break
                tile[i] = 1.0

    assert checked(main) is main


def test_data_dependent_indices_are_not_judged():
    @T.prim_func
    def main(A: T.Tensor((256,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.serial(256):
                B[A[i]] = B[A[i] * 2 - A[i]] + i // 2

    assert checked(main) is main


def test_a_variable_of_unknown_range_is_not_taken_to_have_every_value_of_its_type():
    @T.prim_func
    def main(A: T.Tensor((1,), "uint32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 4), "float32")
            index = A[0] % 4
            T.copy(B[0, :], tile[index, :])
            T.copy(tile, B)

    assert checked(main) is main


CUDA = {"kind": "cuda", "arch": "sm_80"}


@pytest.mark.parametrize("target", ["cpu", "c", CUDA, {"kind": "cuda", "arch": "sm_90a"}], ids=["cpu", "c", "sm_80", "sm_90a"])
@pytest.mark.parametrize("scope", [T.alloc_shared, T.alloc_fragment, T.alloc_local], ids=lambda scope: scope.__name__)
def test_a_store_out_of_range_is_an_error_of_every_target(scope, target):
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tile = scope((64,), "float32")
            for i in T.serial(65):
                tile[i] = A[i]

    with pytest.raises(BufferIndexError, match="index 64 is out of range for axis 0 of tile, which has 64") as caught:
        tilelang.compile(main, target=target)
    assert "tile[i] = A[i]" in str(caught.value)


@pytest.mark.parametrize("target", ["cpu", "c", CUDA], ids=["cpu", "c", "cuda"])
def test_a_constant_index_beyond_a_tensor_is_an_error_of_every_target(target):
    with pytest.raises(BufferIndexError, match="index 128"):

        @T.prim_func
        def main(A: T.Tensor((128,), "float32")):
            with T.Kernel(1, threads=128):
                A[128] = 0.0

        tilelang.compile(main, target=target)


def test_code_under_a_false_condition_is_not_checked():
    @T.prim_func
    def main(A: T.Tensor((2, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            for k in T.serial(2):
                if k + 2 < 2:
                    T.copy(A[k + 2, :], tile)
                if k >= 0:
                    T.copy(A[k, :], tile)
                else:
                    T.copy(A[5, :], tile)
                if 1 < k and k < 1:
                    T.copy(A[k + 7, :], tile)
            T.copy(tile, B)

    checked(main)


def test_accesses_under_a_true_condition_are_checked():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_local((8,), "float32")
            for i in T.serial(9):
                if i < 16:
                    tile[i] = A[i]

    with pytest.raises(BufferIndexError, match="index 8 is out of range for axis 0 of tile"):
        checked(main)


def test_an_index_that_no_iteration_below_a_condition_has_is_refused():
    @T.prim_func
    def main(A: T.Tensor((256,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            tile = T.alloc_local((8,), "float32")
            for i in T.serial(8):
                if A[i] > 0 and n > 3:
                    tile[i + 8] = A[i]

    with pytest.raises(BufferIndexError, match="index 8 is out of range for axis 0 of tile"):
        checked(main)


def test_and_evaluates_its_second_operand_under_the_first():
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_local((4,), "int32")
            for k in T.serial(4):
                tile[k] = A[k]
                if k != 0 and tile[k - 1] == tile[k]:
                    B[k] = 1
                if k == 0 or tile[k - 1] != tile[k]:
                    B[k] = 2
                B[k] = tile[k - 1] if k > 0 else 0

    checked(main)


def test_code_after_a_return_and_of_a_warp_group_runs_for_some_threads():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((64,), "float32")
            tx = T.get_thread_binding()
            with T.ws(0):
                if tx < 64:
                    tile[tx] = X[tx]
            if tx >= 64:
                T.thread_return()
            Y[tx] = tile[tx]

    checked(main)

    @T.prim_func
    def grouped(X: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((128,), "float32")
            with T.ws(0):
                tile[T.get_thread_binding()] = X[T.get_thread_binding()]

    checked(grouped)


def test_unreachable_code_is_not_checked_and_the_rest_is():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_local((4,), "float32")
            tx = T.get_thread_binding()
            if tx >= 32:
                T.thread_return()
            tile[tx + 4] = X[tx]

    with pytest.raises(BufferIndexError, match="index 4 is out of range for axis 0 of tile"):
        checked(main)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("side", ["read", "written"])
def test_a_tensor_that_is_left_whatever_the_arguments_are_is_refused_on_every_target(target, side):
    """What may be inside for some block is not, and reads zero."""

    def program(blocks):
        @T.prim_func
        def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
            with T.Kernel(blocks, threads=32) as bx:
                for j in T.Parallel(8):
                    if side == "read":
                        B[bx, j] = A[bx + 3, j]
                    else:
                        B[bx + 3, j] = A[bx, j]

        return main

    tilelang.compile(program(2), target=target)

    @T.prim_func
    def outside(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for j in T.Parallel(8):
                if side == "read":
                    B[bx, j] = A[bx + 4, j]
                else:
                    B[bx + 4, j] = A[bx, j]

    with pytest.raises(BufferIndexError, match="index 4 is out of range for axis 0"):
        tilelang.compile(outside, target=target)
