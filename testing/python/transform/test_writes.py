"""Which tensors a program may write: at least every one that it does."""

from __future__ import annotations

import tilelang.language as T
from tilelang.transform.writes import written_tensors


def test_stores_operators_atomics_and_views_write():
    @T.prim_func
    def program(
        A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), C: T.Tensor((8,), "float32"),
        D: T.Tensor((8,), "float32"), E: T.Tensor((8,), "int32"), F: T.Tensor((8,), "float32"), G: T.Tensor((8,), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A, tile)
            for r, j in T.Parallel(4, 8):
                tile[r, j] = T.exp(tile[r, j]) + G[E[j] % 8]
            T.copy(tile, B)
            T.atomic_add(C[0], tile[0, 0])
            halves = T.view(D, (2, 4))
            quarters = T.view(halves, (4, 2))
            quarters[0, 0] = 1.0
            for j in T.Parallel(8):
                if E[j] > 0:
                    F[j] = T.max(F[j], 0)

    assert written_tensors(program) == ("B", "C", "D", "F")


def test_extern_functions_may_write_buffers_whose_address_they_get():
    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            T.evaluate(T.call_extern("int32", "fill", T.address_of(A[0]), B.data, C[0]))

    assert written_tensors(program) == ("A", "B", "C")  # of C it gets a value, which only its declaration could tell


def test_a_kernel_of_cuda_source_may_write_everything():
    @T.prim_func
    def program(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        T.CUDASourceCodeKernel(1, threads=32, source_code_or_path="__global__ void k(float*, float*) {}", entry_name="k")

    assert written_tensors(program) == ("A", "B")
