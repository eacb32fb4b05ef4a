"""Names of TVM's scripts and of older programs: each does in a kernel what its name says."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate
from tilelang import interpreter
from tilelang.layout import make_gemm_fragment_8x8

ARCHES = ("sm_80", "sm_90a")


@pytest.mark.parametrize("arch", ARCHES)
def test_buffers_pointers_and_branches(arch):
    @T.prim_func
    def main(handle: T.handle, B: T.Tensor((64,), "float32")):
        A = T.match_buffer(handle, (64,), "float32")
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            tile = T.alloc_shared((64,), "float32")
            again = T.decl_buffer((8, 8), "float32", data=tile.data, scope="shared.dyn")
            T.ptx_cp_async(
                T.tvm_access_ptr(T.type_annotation("float32"), tile.data, t, 1, 2),
                T.tvm_access_ptr(T.type_annotation("float32"), A.data, t, 1, 1),
                1,
            )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.tvm_storage_sync("shared")
            T.Assert(again[0, 0] < 1000, "small numbers")
            with T.If(t < 32):
                with T.Then():
                    B[t] = T.call_intrin("float32", "tirx.exp2", again[t // 8, t % 8])
                with T.Else():
                    T.buffer_store(B, again[t // 8, t % 8], [t])

    a, b = torch.randint(0, 8, (64,)).float(), torch.zeros(64)
    simulate(main, a, b, arch=arch)
    assert torch.equal(b[:32], a[:32].exp2()) and torch.equal(b[32:], a[32:])


@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_of_a_warp(arch):
    @T.prim_func
    def main(A: T.Tensor((32,), "int32"), B: T.Tensor((2, 32), "int32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            mask = T.tvm_warp_activemask()
            B[0, t] = T.tvm_warp_shuffle_up(mask, A[t], 1, 32, 32)
            B[1, t] = T.tvm_warp_shuffle_down(mask, A[t], 2, 32, 32)

    a, b = torch.arange(32, dtype=torch.int32), torch.zeros((2, 32), dtype=torch.int32)
    simulate(main, a, b, arch=arch)
    assert b[0].tolist() == [0, *range(31)] and b[1].tolist() == [*range(2, 32), 30, 31]


@pytest.mark.parametrize("gemm", [T.gemm_v1, T.gemm_v2])
@pytest.mark.parametrize("arch", ARCHES)
def test_products_by_their_older_names(gemm, arch):
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            left, right = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            T.copy(A, left)
            T.copy(B, right)
            T.clear(out)
            gemm(left, right, out)
            T.copy(out, C)

    a, b, c = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.zeros(64, 64)
    simulate(main, a, b, c, arch=arch)
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-3, atol=1e-2)


def test_the_fragment_of_one_matrix():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float16"), B: T.Tensor((8, 8), "float16")):
        with T.Kernel(1, threads=32):
            part = T.alloc_fragment((8, 8), "float16")
            T.annotate_layout({part: make_gemm_fragment_8x8()})
            T.copy(A, part)
            for i, j in T.Parallel(8, 8):
                part[i, j] = part[i, j] + 1
            T.copy(part, B)

    a, b = torch.randn(8, 8).half(), torch.zeros(8, 8).half()
    simulate(main, a, b)
    assert torch.equal(b, a + 1)


def test_a_name_that_stands_for_an_expression():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_var("int32", init=3)
            now, later = x + A[0, 0], T.meta_var(x + A[0, 0])
            row, column = T.meta_var((x // 8, x % 8))
            x = 20
            A[0, 0] = 100
            B[0], B[1], B[2] = now, later, A[row, column]

    a, b = torch.arange(64, dtype=torch.int32).view(8, 8), torch.zeros(3, dtype=torch.int32)
    interpreter.run(main, a, b)
    assert b.tolist() == [3, 120, 20]
