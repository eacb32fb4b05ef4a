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
