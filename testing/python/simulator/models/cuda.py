"""CUDA C++ to PTX with NVRTC, for tests; and device helpers that wrap one instruction each."""

import functools

import numpy as np
from cuda.bindings import nvrtc

import tilelang.simulator

from . import kernels

PRELUDE = r"""
typedef unsigned int u32; typedef unsigned long long u64; typedef unsigned short u16; typedef unsigned char u8;
#define DEVICE __device__ __forceinline__
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void barrier_init(u64* b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(n) : "memory");
}
DEVICE void barrier_arrive(u64* b) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0];}" :: "r"(shared_address(b)) : "memory");
}
DEVICE void barrier_expect(u64* b, u32 n) {
  asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1;}"
    :: "r"(shared_address(b)), "r"(n) : "memory");
}
DEVICE void barrier_wait(u64* b, u32 parity) {
  asm volatile("{.reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }"
    :: "r"(shared_address(b)), "r"(parity) : "memory");
}
DEVICE void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
DEVICE void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
DEVICE void bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEVICE void cluster_sync() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }
struct alignas(64) Map { u8 bytes[128]; };
"""


@functools.cache
def compile_ptx(source: str, arch: str = "sm_90a") -> str:
    """PTX text of a translation unit (the prelude goes in front); fails with the compiler's log."""

    def check(result):
        status, *values = result
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC: {status}")
        return values[0] if values else None

    program = check(nvrtc.nvrtcCreateProgram((PRELUDE + source).encode(), b"test.cu", 0, [], []))
    options = [f"--gpu-architecture=compute_{arch[3:]}".encode(), b"--std=c++17", b"-lineinfo"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytes(check(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    text = bytes(check(nvrtc.nvrtcGetPTXSize(program)))
    check(nvrtc.nvrtcGetPTX(program, text))
    return text.decode().rstrip("\0")


def function(source: str, name: str = "k", arch: str = "sm_90a"):
    """A kernel of a translation unit, loaded in the simulator."""
    return tilelang.simulator.load(compile_ptx(source, arch)).get_function(name)


def run(source: str, arrays, threads, *, name="k", grid=(1, 1, 1), scalars=(), arch="sm_90a", **options):
    """Compiles and launches `extern "C" __global__ void k(pointers..., scalars...)`; arrays are written in place.

    A scalar may be a tensor map (128 bytes).
    """
    tensors = [kernels.to_torch(a) for a in arrays]
    options.setdefault("checks", "all")
    return function(source, name, arch).launch(grid, (threads, 1, 1), [*tensors, *scalars], **options)


def kinds(report) -> set[str]:
    """The kinds of findings of a launch."""
    return {f.kind for f in report.findings}


def arange(shape, dtype) -> np.ndarray:
    """0, 1, 2, ... in that shape."""
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
