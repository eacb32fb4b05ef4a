"""``kernel.export_library``: kernels called from C and C++, on the CPU and through the CUDA driver."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import tvm_ffi.libinfo

import tilelang
import tilelang.language as T
from testing import driver
from tilelang.errors import ExecutionError

SM90 = {"kind": "cuda", "arch": "sm_90a"}


def scaled():
    """``B = A * s`` for as many rows of 64 as there are, through a shared tile."""
    n = T.dynamic("n")

    @T.prim_func
    def scale(A: T.Tensor((n, 64), "float32"), s: T.float32, B: T.Tensor((n, 64), "float32")):
        with T.Kernel(T.ceildiv(n, 16), threads=128) as block:
            tile = T.alloc_shared((16, 64), "float32")
            T.copy(A[block * 16, 0], tile)
            for row, j in T.Parallel(16, 64):
                tile[row, j] = tile[row, j] * s
            T.copy(tile, B[block * 16, 0])

    return scale


# Memory of the kernel: the process's own, or the GPU's through the driver.
ON_HOST = """
#include <stdlib.h>
#include <string.h>
static void open_device(void) {}
static void* allocate(size_t bytes) { return aligned_alloc(64, bytes); }
static void to_device(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
static void from_device(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }
enum { DEVICE = 1 };
"""
ON_GPU = """
#include <stdlib.h>
#ifdef __cplusplus
extern "C" {
#endif
int cuInit(unsigned); int cuDevicePrimaryCtxRetain(void**, int); int cuCtxSetCurrent(void*); int cuMemAlloc_v2(void**, size_t);
int cuMemcpyHtoD_v2(void*, const void*, size_t); int cuMemcpyDtoH_v2(void*, const void*, size_t);
#ifdef __cplusplus
}
#endif
static void must(int status) { if (status) abort(); }
static void open_device(void) {
  void* context = 0;
  must(cuInit(0)); must(cuDevicePrimaryCtxRetain(&context, 0)); must(cuCtxSetCurrent(context));
}
static void* allocate(size_t bytes) { void* found = 0; must(cuMemAlloc_v2(&found, bytes)); return found; }
static void to_device(void* to, const void* from, size_t bytes) { must(cuMemcpyHtoD_v2(to, from, bytes)); }
static void from_device(void* to, const void* from, size_t bytes) { must(cuMemcpyDtoH_v2(to, from, bytes)); }
enum { DEVICE = 2 };
"""

MAIN = """
#include <stdio.h>
enum { ROWS = 21, COUNT = ROWS * 64 };
static float a[COUNT], b[COUNT];
int main(void) {
  open_device();
  for (int i = 0; i < COUNT; ++i) a[i] = (float)i;
  void *first = allocate(sizeof a), *second = allocate(sizeof b);
  to_device(first, a, sizeof a);
  RUN
  from_device(b, second, sizeof b);
  for (int i = 0; i < COUNT; ++i) if (b[i] != 0.5f * (float)i) return printf("element %d is %g\\n", i, b[i]), 1;
  puts("right");
  return 0;
}
"""

PLAIN = """
  if (scale_call(first, 0.5, second, ROWS, NULL)) return printf("failed: %s\\n", tilelang_last_error()), 1;
"""

PACKED = """
  tvm::ffi::Module library = tvm::ffi::Module::LoadFromFile(LIBRARY);
  tvm::ffi::Function scale = library->GetFunction("scale").value();
  int64_t shape[2] = {ROWS, 64}, wrong[2] = {ROWS - 1, 64};
  DLTensor x{first, {static_cast<DLDeviceType>(DEVICE), 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  DLTensor y{second, {static_cast<DLDeviceType>(DEVICE), 0}, 2, {kDLFloat, 32, 1}, wrong, nullptr, 0};
  try {
    scale(&x, 0.5, &y);
    return puts("a wrong shape was taken"), 1;
  } catch (const tvm::ffi::Error&) {
    y.shape = shape;
  }
  scale(&x, 0.5, &y);
"""


def build_and_run(folder: Path, command: list[str], text: str, header: Path, **environment: str) -> str:
    """What the program prints, which must end well."""
    source, program = folder / f"main.{'c' if command[0] == 'cc' else 'cc'}", folder / "main"
    source.write_text(text)
    library = header.with_suffix(".so")
    words = [command[0], f"-I{folder}", str(source), str(library), "-o", str(program), f"-Wl,-rpath,{folder}", *command[1:]]
    subprocess.run([*words, *EXTRA.get(command[0], []), "-lm"], check=True, timeout=300)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, env={**os.environ, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


EXTRA = {"c++": [f"-L{Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent}", "-ltvm_ffi"]}
CC = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror"]
CXX = ["c++", "-std=c++17", "-O0", *(f"-I{path}" for path in tvm_ffi.libinfo.include_paths())]


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_cpu_kernel_is_called_from_c(target, tmp_path):
    header = tilelang.compile(scaled(), target=target, execution_backend="ctypes").export_library(tmp_path / "scale.so")
    text = ON_HOST + '#include "scale.h"\n' + MAIN.replace("RUN", PLAIN)
    assert build_and_run(tmp_path, CC, text, header) == "right\n"


def test_a_cpu_kernel_is_called_from_cpp_through_tvm_ffi(tmp_path):
    header = tilelang.compile(scaled(), target="cpu", execution_backend="tvm_ffi").export_library(tmp_path / "scale.so")
    text = CPP_HEAD.format(library=header.with_suffix(".so")) + ON_HOST + MAIN.replace("RUN", PACKED)
    assert build_and_run(tmp_path, CXX, text, header, LD_LIBRARY_PATH=EXTRA["c++"][0][2:]) == "right\n"


CPP_HEAD = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/module.h>
#include "scale.h"
#define LIBRARY "{library}"
"""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    """The header of a CUDA kernel's library, the driver's library, and what a process needs to find both."""
    folder = tmp_path_factory.mktemp("gpu")
    kernel = tilelang.compile(scaled(), target=SM90, execution_backend="nvrtc")
    assert kernel.artifact.launches[0].tensor_maps  # the launcher encodes them
    header = kernel.export_library(folder / "scale.so")
    found = driver.build()
    paths = os.pathsep.join([str(found), EXTRA["c++"][0][2:]])
    kernels = {"TEST_DRIVER_DEVICES": "9.0", "TEST_DRIVER_KERNELS": os.environ["TILELANG_CACHE_DIR"], "TEST_DRIVER_CHECKS": "all"}
    return header, str(found / "libcuda.so.1"), {"LD_LIBRARY_PATH": paths, **kernels}


def test_a_cuda_kernel_is_called_from_c(gpu):
    header, cuda, environment = gpu
    text = ON_GPU + '#include "scale.h"\n' + MAIN.replace("RUN", PLAIN)
    assert build_and_run(header.parent, [*CC, cuda], text, header, **environment) == "right\n"


def test_a_cuda_kernel_is_called_from_cpp_through_tvm_ffi(gpu):
    header, cuda, environment = gpu
    text = CPP_HEAD.format(library=header.with_suffix(".so")) + ON_GPU + MAIN.replace("RUN", PACKED)
    assert build_and_run(header.parent, [*CXX, cuda], text, header, **environment) == "right\n"


def test_a_cuda_library_says_that_there_is_no_driver(gpu, tmp_path):
    header, _, _ = gpu
    text = ON_HOST + '#include "scale.h"\n' + MAIN.replace("RUN", PLAIN.replace(", 1;", ", 0;"))
    printed = build_and_run(header.parent, CC, text, header, LD_LIBRARY_PATH=str(tmp_path))
    assert printed.startswith("failed: ") and "CUDA driver" in printed


def test_the_header_says_what_the_arguments_are(gpu):
    text = gpu[0].read_text()
    assert "scale: a kernel made by tilelang, for cuda sm_90a" in text
    assert "A: device memory, float32 [n, 64], row-major and compact, at a multiple of 16 bytes" in text
    assert "int32_t scale_call(void* A, double s, void* B, int64_t n, void* stream);" in text


def test_an_interpreted_kernel_has_no_library(tmp_path):
    with pytest.raises(ExecutionError, match="scale is interpreted and has no machine code"):
        tilelang.compile(scaled(), target="interpret").export_library(tmp_path / "scale.so")
