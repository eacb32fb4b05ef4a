"""Programs that order their threads themselves (``tl.disable_thread_storage_sync``): what the compiler orders all the same."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source

_OWN_ORDER = {"tl.disable_thread_storage_sync": True}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_manual_synchronisation_keeps_waits_for_copies(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 128), "float32"), C: T.Tensor((4, 128), "float32")):
        with T.Kernel(4, threads=32) as b:
            tx = T.get_thread_binding()
            s = T.alloc_shared((1, 128), "float32")
            T.copy(X[b, 0], s)
            T.sync_warp()
            for i in T.serial(4):
                C[b, i * 32 + tx] = s[0, 127 - (i * 32 + tx)]

    x, c = torch.randn(4, 128), torch.zeros(4, 128)
    simulate(main, x, c, arch=arch, pass_configs=_OWN_ORDER)
    assert torch.equal(c, x.flip(1))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_manual_synchronisation_keeps_the_barriers_of_operators(arch):
    @T.prim_func
    def main(X: T.Tensor((1024,), "float32"), C: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((1024,), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=0)
            T.copy(y, C)

    x, c = torch.randint(-9, 9, (1024,)).float(), torch.zeros(1)
    simulate(main, x, c, arch=arch, pass_configs=_OWN_ORDER)
    assert c.item() == x.sum()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_manual_synchronisation_keeps_the_order_of_variables_and_fragments(arch):
    @T.prim_func
    def main(X: T.Tensor((4, 128), "int32"), C: T.Tensor((4, 128), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            kept = T.alloc_fragment((2,), "int32")
            for k in T.serial(4):
                found = T.alloc_var("int32", init=0)
                for i in T.Parallel(128):
                    if X[k, i] > 5:
                        found = 7
                if tx == 127:
                    kept[0] = found + k
                C[k, tx] = found + 10 * kept[0]

    x, c = torch.zeros((4, 128), dtype=torch.int32), torch.zeros((4, 128), dtype=torch.int32)
    x[1, 40:100] = x[3, 5] = 6
    simulate(main, x, c, arch=arch, pass_configs=_OWN_ORDER)
    assert c.tolist() == [[value] * 128 for value in (0, 87, 20, 107)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_manual_synchronisation_keeps_the_order_of_products(arch):
    @T.prim_func
    def main(A: T.Tensor((2, 16, 64), "float16"), B: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((16, 64), "float32")
            T.clear(c)
            for k in T.serial(2):
                T.copy(A[k, 0, 0], a)
                T.copy(B[k, 0, 0], b)
                for i, j in T.Parallel(64, 64):
                    if i > 50:
                        b[i, j] = 0
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b, c = torch.randn(2, 16, 64).half(), torch.randn(2, 64, 64).half(), torch.zeros(16, 64)
    simulate(main, a, b, c, arch=arch, pass_configs=_OWN_ORDER)
    torch.testing.assert_close(c, (a[:, :, :51].float() @ b[:, :51].float()).sum(0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("threads", [32, 64])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_reduction_under_manual_synchronisation_is_a_barrier(arch, threads):
    @T.prim_func
    def main(X: T.Tensor((4, 128), "float32"), S: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=threads):
            x, total = T.alloc_fragment((128,), "float32"), T.alloc_fragment((1,), "float32")
            for k in T.serial(4):
                scale = S[k]
                for i in T.Parallel(128):
                    x[i] = X[k, i] * scale
                T.reduce_sum(x, total)
                if T.get_thread_binding() == 0:
                    S[k] = scale + total[0]

    x, s = torch.randint(-9, 9, (4, 128)).float(), torch.arange(4).float()
    expected = s + s * x.sum(1)
    simulate(main, x, s, arch=arch, pass_configs=_OWN_ORDER)
    assert torch.equal(s, expected)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tiles_under_manual_synchronisation_share_no_memory(arch):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            a, b = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
            a[tx] = X[tx]
            T.sync_threads()
            v = a[63 - tx]
            b[tx] = v * 2
            T.sync_threads()
            C[tx] = b[(tx + 1) % 64]

    x, c = torch.randn(64), torch.zeros(64)
    simulate(main, x, c, arch=arch, pass_configs=_OWN_ORDER)
    assert torch.equal(c, (2 * x).flip(0).roll(-1)) and source(main, arch, _OWN_ORDER).count("__syncthreads") == 2
