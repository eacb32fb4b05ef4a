"""``T.CUDASourceCodeKernel``: kernels of the user's own CUDA source."""

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.support import cuda
from tilelang.errors import CompileError, ThreadsOnCpuError

SOURCE = """
extern "C" __global__ void scaled(const float* A, float* B, float scale, int n) {
  int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) B[i] = A[i] * scale;
}
"""


def program(source=SOURCE, entry="scaled"):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), scale: T.float32):
        T.CUDASourceCodeKernel(T.ceildiv(n, 128), threads=128, source_code_or_path=source, entry_name=entry)
        with T.Kernel(T.ceildiv(n, 64), threads=64) as block:
            for i in T.Parallel(64):
                B[block * 64 + i] = B[block * 64 + i] + 1

    return main


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes", "cython", "nvrtc"])
def test_a_kernel_of_source_between_others(backend):
    kernel = tilelang.compile(program(), target=cuda("sm_80"), execution_backend=backend)
    assert "B[i] = A[i] * scale;" in kernel.get_kernel_source()
    a, b = torch.randn(200), torch.zeros(200)
    with tilelang.simulator(strict=True):
        kernel(a, b, 3.0)
    torch.testing.assert_close(b, a * 3 + 1)


def test_source_of_a_file(tmp_path):
    path = tmp_path / "scaled.cu"
    path.write_text(SOURCE)
    a, b = torch.randn(50), torch.zeros(50)
    with tilelang.simulator(strict=True):
        tilelang.compile(program(path, None), target=cuda("sm_90a"))(a, b, 2.0)
    torch.testing.assert_close(b, a * 2 + 1)


def test_errors_of_source_kernels(tmp_path):
    with pytest.raises(CompileError, match="Available entries: scaled"):
        program(entry="main_kernel")
    with pytest.raises(CompileError, match="cannot read"):
        program(tmp_path / "missing.cu")
    with pytest.raises(ThreadsOnCpuError, match="T.CUDASourceCodeKernel"):
        tilelang.lower(program(), target="cpu")


@tilelang.jit(target=cuda("sm_80"))
def from_file(path):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32,), "float32"), scale: T.float32, n: T.int32):
        T.CUDASourceCodeKernel(1, threads=32, source_code_or_path=path)

    return main


def test_an_edited_file_is_another_kernel(tmp_path):
    path = tmp_path / "scaled.cu"
    for text in (SOURCE, SOURCE.replace("* scale", "+ scale")):
        path.write_text(text)
        kernel = from_file(str(path))
        assert text in kernel.get_kernel_source() and kernel.source_reason


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_foreign_code_gets_the_address_that_is_chosen(arch):
    @T.prim_func
    def main(A: T.Tensor((2, 64), "int32"), B: T.Tensor((2, 64), "int32"), to_first: T.int32):
        with T.Kernel(1, threads=64):
            T.import_source('extern "C" __device__ void put(int *to, int value) { to[threadIdx.x] = value; }\n')
            even, odd = T.alloc_shared((64,), "int32"), T.alloc_shared((64,), "int32")
            for i in T.unroll(2, explicit=True):
                T.call_extern("handle", "put", T.if_then_else(i == 0, T.address_of(even[0]), T.address_of(odd[0])), i + 1)
            T.call_extern("handle", "put", B.data if to_first == 0 else T.Select(to_first < 2, A.data, T.address_of(A[1, 0])), 3)
            T.copy(even, B[0, :])
            T.copy(odd, B[1, :])

    kernel = tilelang.compile(main, target=cuda(arch))
    for chosen, expected in ((0, [0, 0]), (1, [3, 0]), (2, [0, 3])):
        a, b = torch.zeros(2, 64, dtype=torch.int32), torch.zeros(2, 64, dtype=torch.int32)
        with tilelang.simulator(strict=True):
            kernel(a, b, chosen)
        assert a[:, 5].tolist() == expected and b[:, 5].tolist() == [1, 2]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_imported_source_may_include_the_drivers_header(arch):
    source = "#include <cstdio>\n#include <cuda.h>\n__device__ int size_of_map(int x) { return x + sizeof(CUtensorMap); }"

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            T.import_source(source)
            tile = T.alloc_shared((32, 32), "float32")
            T.copy(A, tile)  # by a tensor map on sm_90a
            T.copy(tile, B)
            C[0] = T.call_extern("int32", "size_of_map", 2)

    a, b, c = torch.randn(32, 32), torch.zeros(32, 32), torch.zeros(1, dtype=torch.int32)
    with tilelang.simulator():
        tilelang.compile(main, target=cuda(arch))(a, b, c)
    assert torch.equal(a, b) and c.item() == 130
