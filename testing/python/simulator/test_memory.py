"""Loads, stores and atomics of every width and space."""

import numpy as np
import pytest
import torch

import tilelang.simulator
from testing.python.simulator.models import cuda, kernels

SEED = 31


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_copy_of_every_width(bits, vector):
    if bits * vector > 128:
        vector = 128 // bits
    data = np.random.default_rng(SEED).integers(0, 256, 64 * bits // 8 * vector, dtype=np.uint8)
    out = np.zeros_like(data)
    names = ", ".join(f"%r{i}" for i in range(vector))
    operand = names if vector == 1 else "{" + names + "}"
    form = f".v{vector}" if vector > 1 else ""
    body = f"""
.visible .entry k(.param .u64 a, .param .u64 b) {{
  .reg .b{max(bits, 16)} %r<4>; .reg .b64 %p<3>; .reg .b32 %t;
  mov.u32 %t, %tid.x; mul.wide.u32 %p2, %t, {bits // 8 * vector};
  ld.param.u64 %p0, [a]; add.u64 %p0, %p0, %p2; ld.param.u64 %p1, [b]; add.u64 %p1, %p1, %p2;
  ld.global.nc.L1::no_allocate.L2::128B{form}.b{bits} {operand}, [%p0];
  st.global.cs{form}.b{bits} [%p1], {operand};
  ret;
}}"""
    kernels.clean(kernels.launch(body, "k", [data, out], 64))
    assert np.array_equal(out, data)


def test_sign_and_zero_extension():
    data = np.arange(256, dtype=np.uint8)
    outs = [np.zeros(32, np.int32), np.zeros(32, np.int64), np.zeros(32, np.int32)]
    body = """
.visible .entry k(.param .u64 a, .param .u64 o0, .param .u64 o1, .param .u64 o2) {
  .reg .b32 %r<4>; .reg .b64 %p<4>; .reg .b64 %w;
  mov.u32 %r0, %tid.x; mul.wide.u32 %p1, %r0, 4; mul.wide.u32 %p2, %r0, 8;
  ld.param.u64 %p0, [a]; add.u64 %p0, %p0, %p2;
  ld.global.s8 %r1, [%p0+7]; ld.global.s16 %w, [%p0+6]; ld.global.u8 %r2, [%p0+7];
  ld.param.u64 %p0, [o0]; add.u64 %p0, %p0, %p1; st.global.u32 [%p0], %r1;
  ld.param.u64 %p0, [o1]; add.u64 %p0, %p0, %p2; st.global.u64 [%p0], %w;
  ld.param.u64 %p0, [o2]; add.u64 %p0, %p0, %p1; st.global.u32 [%p0], %r2;
  ret;
}"""
    kernels.clean(kernels.launch(body, "k", [data, *outs], 32))
    assert np.array_equal(outs[0], data[7::8].view(np.int8).astype(np.int32))
    assert np.array_equal(outs[1], data.view(np.int16)[3::4].astype(np.int64))
    assert np.array_equal(outs[2], data[7::8].astype(np.int32))


def test_globals_constants_locals_and_pointers_to_them():
    source = """
__constant__ int table[4] = {5, 6, 7, 8};
__device__ int counter = 100;
__device__ int* where = &counter;
__device__ __noinline__ int pick(const int* p, int i) { return p[i]; }
extern "C" __global__ void k(int* out, int n) {
  __shared__ int tile[64];
  int mine[8];
  for (int i = 0; i < 8; ++i) mine[(i * n) & 7] = i * 10 + threadIdx.x;
  tile[threadIdx.x] = threadIdx.x * 3;
  __syncthreads();
  const int* any = n == 3 ? tile : out;
  out[threadIdx.x] = pick(mine, (2 * n) & 7) + pick(any, threadIdx.x) + table[threadIdx.x & 3] + *where;
}"""
    out = np.zeros(64, np.int32)
    kernels.clean(cuda.run(source, [out], 64, scalars=[3]))
    t = np.arange(64)
    assert np.array_equal(out, 20 + t + 3 * t + (5 + t % 4) + 100)


ATOMICS = [
    ("atomicAdd", "int", np.int32, lambda v: v.sum()),
    ("atomicAdd", "float", np.float32, lambda v: v.sum()),
    ("atomicAdd", "double", np.float64, lambda v: v.sum()),
    ("atomicMax", "int", np.int32, max),
    ("atomicMin", "unsigned", np.uint32, min),
    ("atomicOr", "unsigned", np.uint32, np.bitwise_or.reduce),
    ("atomicAnd", "unsigned", np.uint32, np.bitwise_and.reduce),
    ("atomicXor", "unsigned long long", np.uint64, np.bitwise_xor.reduce),
]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name,ctype,dtype,model", ATOMICS, ids=[f"{a[0]}-{a[1].replace(' ', '')}" for a in ATOMICS])
def test_atomic(name, ctype, dtype, model, shared):
    values = np.random.default_rng(SEED).integers(1, 1000, 512).astype(dtype)
    start = values[:1].copy()
    body = f"{name}(out, values[blockIdx.x * 128 + threadIdx.x]);"
    if shared:
        body = f"""__shared__ {ctype} s; if (threadIdx.x == 0) s = values[0]; __syncthreads();
        {name}(&s, values[blockIdx.x * 128 + threadIdx.x]); __syncthreads(); if (threadIdx.x == 0) {name}(out, s);"""
    source = f'extern "C" __global__ void k({ctype}* out, const {ctype}* values) {{ {body} }}'
    grid = (1, 1, 1) if shared else (4, 1, 1)
    used = values[:128] if shared else values
    kernels.clean(cuda.run(source, [start, values], 128, grid=grid))
    want = model(used)
    if name == "atomicAdd":
        want += used[0] * (2 if shared else 1)
    if name == "atomicXor" and not shared:
        want ^= used[0]
    assert start[0] == want


def test_compare_and_swap_exchange_and_wrapping_counters():
    source = """
extern "C" __global__ void k(unsigned* out) {
  __shared__ unsigned lock, total, ring;
  if (threadIdx.x == 0) { lock = 0; total = 0; ring = 0; }
  __syncthreads();
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0u, 1u) == 0u) {
      __threadfence_block(); total = total + threadIdx.x; __threadfence_block();
      atomicExch(&lock, 0u); done = true;
    }
  }
  atomicInc(&ring, 4u);
  __syncthreads();
  if (threadIdx.x == 0) { out[0] = total; out[1] = ring; }
}"""
    out = np.zeros(2, np.uint32)
    kernels.clean(cuda.run(source, [out], 96))
    assert list(out) == [95 * 96 // 2, 96 % 5]


def test_vector_and_half_reductions():
    body = """
.visible .entry k(.param .u64 f, .param .u64 h) {
  .reg .b64 %p; .reg .f32 %x; .reg .b32 %one;
  mov.f32 %x, 0f3F800000; mov.b32 %one, 0x3C003C00;
  ld.param.u64 %p, [f]; red.global.add.v4.f32 [%p], {%x, %x, %x, %x};
  ld.param.u64 %p, [h]; red.global.add.noftz.f16x2 [%p], %one;
  ret;
}"""
    f, h = np.zeros(4, np.float32), np.zeros(2, np.float16)
    kernels.clean(kernels.launch(body, "k", [f, h], 64))
    assert np.all(f == 64) and np.all(h == 64)


def test_scalars_are_converted_by_the_parameter_type():
    source = """
extern "C" __global__ void k(double* out, float f, double d, int i, long long l, unsigned char c, short s) {
  out[0] = f; out[1] = d; out[2] = i; out[3] = l; out[4] = c; out[5] = s;
}"""
    out = np.zeros(6)
    kernels.clean(cuda.run(source, [out], 1, scalars=[1.5, 2.25, -3, 1 << 40, 200, -7]))
    assert list(out) == [1.5, 2.25, -3, 1 << 40, 200, -7]


def test_strided_views_bound_the_memory_they_span():
    source = 'extern "C" __global__ void k(int* p, int n) { if (threadIdx.x < n) p[threadIdx.x] = 1; }'
    function = cuda.function(source)
    base = torch.zeros(64, dtype=torch.int32)
    assert not function.launch(1, 32, [base[16:32], 16]).findings
    report = function.launch(1, 32, [base[16:32], 17])
    assert [f.kind for f in report.findings] == ["out-of-bounds"]
    assert "0 bytes past the end of argument 0" in report.findings[0].message
    assert base[16:32].all() and not base[32:].any()


def test_printf_and_assert():
    source = r"""
#include <cassert>
extern "C" __device__ int printf(const char*, ...);
extern "C" __global__ void k(int n) {
  if (threadIdx.x < 2) printf("t%d %5.2f %s %llu%%\n", threadIdx.x, 1.5 * threadIdx.x, "ok", 1ull << 40);
}"""
    source = source.replace("#include <cassert>\n", "")
    report = cuda.function(source).launch(1, 32, [1])
    assert report.printed == "t0  0.00 ok 1099511627776%\nt1  1.50 ok 1099511627776%\n"
    trap = cuda.function('extern "C" __global__ void k(int n) { if (threadIdx.x == 5) __trap(); }').launch(1, 32, [1])
    assert [(f.kind, f.thread) for f in trap.findings] == [("trap", (5, 0, 0))] and trap.aborted


def test_module_reports_its_kernels():
    source = 'extern "C" __global__ void a(int* p) {} extern "C" __global__ void b() {}'
    module = tilelang.simulator.load(cuda.compile_ptx(source))
    assert sorted(module.kernels) == ["a", "b"]
    with pytest.raises(Exception, match="no kernel 'c'"):
        module.get_function("c")


def test_neighbours_on_other_workers_do_not_race():
    """Blocks store words and bytes side by side, in memory that does not start where the checker's pages do."""
    words = 32 * 64
    memory = torch.zeros(words + 2048, dtype=torch.int32)
    first = (-memory.data_ptr() % 4096 + 4096 - 48) // 4
    out = memory[first : first + words]
    kernel = cuda.function("""
extern "C" __global__ void k(int* out) {
  int at = blockIdx.x * 32 + threadIdx.x;
  if (at % 3) { out[at] = at; return; }
  for (int byte = 0; byte < 4; ++byte) reinterpret_cast<char*>(out + at)[byte] = at >> (8 * byte);
}""")
    for seed in range(5):
        out.zero_()
        report = kernel.launch(words // 32, 32, [out], checks="all", seed=seed, workers=4)
        assert not report.findings and torch.equal(out, torch.arange(words, dtype=torch.int32))


def test_an_unread_padding_lane_does_not_count_as_an_access():
    source = """
extern "C" __global__ void k(float* out, const float4* in) {
  __shared__ __align__(16) float s[3];
  if (threadIdx.x < 3) s[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  float x, y, z, w;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
    : "=f"(x), "=f"(y), "=f"(z), "=f"(w) : "r"((unsigned)__cvta_generic_to_shared(s)));
  out[threadIdx.x] = x + y + z USE;
}"""
    out = np.zeros(32, np.float32)
    kernels.clean(cuda.run(source.replace("USE", ""), [out, np.zeros(4, np.float32)], 32))
    assert (out == 6).all()
    report = cuda.run(source.replace("USE", "+ w"), [out, np.zeros(4, np.float32)], 32)
    assert cuda.kinds(report) & {"uninitialised", "out-of-bounds"}


def test_bytes_declared_unused_by_a_load_do_not_count_as_accesses():
    source = """
extern "C" __global__ void k(int* out) {
  __shared__ __align__(16) unsigned short s[7];
  if (threadIdx.x < 7) s[threadIdx.x] = threadIdx.x + 1;
  __syncthreads();
  unsigned x, y, z, w;
  asm volatile("{ .pragma \\"used_bytes_mask MASK\\"; ld.shared.v4.u32 {%0, %1, %2, %3}, [%4]; }"
    : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"((unsigned)__cvta_generic_to_shared(s)));
  out[threadIdx.x] = (x & 65535) + (x >> 16) + (y & 65535) + (y >> 16) + (z & 65535) + (z >> 16) + (w & 65535);
}"""
    out = np.zeros(32, np.int32)
    kernels.clean(cuda.run(source.replace("MASK", "0x3fff"), [out], 32))
    assert (out == 28).all()
    report = cuda.run(source.replace("MASK", "0xffff"), [out], 32)
    assert cuda.kinds(report) & {"uninitialised", "out-of-bounds"}


def test_a_bitwise_atomic_touches_the_bytes_that_it_can_change():
    source = """
extern "C" __global__ void k(unsigned char* out, unsigned* all) {
  unsigned* word = (unsigned*)(out - ((unsigned long long)out & 3));
  unsigned shift = 8 * ((unsigned long long)out & 3);
  atomicAnd(word, ~(0xfu << shift));
  atomicOr(word, threadIdx.x == 0 ? 5u << shift : 0);
  USE
}"""
    out, whole = np.array([0xFF, 0xFF], np.uint8), np.zeros(1, np.uint32)
    kernels.clean(cuda.run(source.replace("USE", ""), [out, whole], 32))
    assert list(out) == [0xF5, 0xFF]
    report = cuda.run(source.replace("USE", "all[0] = atomicOr(word, 0);"), [out, whole], 1)
    assert "out-of-bounds" in cuda.kinds(report)


def test_bitwise_atomics_initialise_the_bits_that_they_define():
    source = """
extern "C" __global__ void k(unsigned* out) {
  __shared__ unsigned s[1];
  atomicAnd(s, ~(0xfu << 4 * (threadIdx.x & 7)));
  ORS
  __syncthreads();
  out[0] = s[0];
}"""
    out = np.zeros(1, np.uint32)
    for some in ("", "atomicOr(s, 5u << 4 * (threadIdx.x & 7));"):
        kernels.clean(cuda.run(source.replace("ORS", some), [out], 8))  # all bits are cleared first
        assert out[0] == (0x55555555 if some else 0)
        assert "uninitialised" in cuda.kinds(cuda.run(source.replace("ORS", some), [out], 7))  # four bits are not
    only = source.replace("atomicAnd(s, ~(0xfu << 4 * (threadIdx.x & 7)));", "atomicOr(s, 0xffffu);").replace("ORS", "")
    assert "uninitialised" in cuda.kinds(cuda.run(only, [out], 8))
    flipped = source.replace("atomicAnd(s, ~(0xfu << 4 * (threadIdx.x & 7)));", "atomicXor(s, ~0u);").replace("ORS", "")
    assert "uninitialised" in cuda.kinds(cuda.run(flipped, [out], 8))


READS = {
    "a byte": "return ((volatile unsigned char*)s)[AT];",
    "one of two": """
  unsigned short byte[2];
  unsigned place = (unsigned)__cvta_generic_to_shared(s);
  asm volatile("ld.shared.v2.u8 {%0, %1}, [%2];" : "=h"(byte[0]), "=h"(byte[1]) : "r"(place));
  return byte[AT];""",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_byte_of_which_some_bits_are_initialised_may_be_read(read):
    """It holds an element of four bits whose neighbour is never stored."""
    source = """
__device__ unsigned byte_of(unsigned* s) { READ }
extern "C" __global__ void k(unsigned* out) {
  __shared__ unsigned s[1];
  atomicAnd(s, ~0xf0u);
  atomicOr(s, 0x50u);
  out[0] = byte_of(s) >> 4;
}""".replace("READ", read)
    out = np.zeros(1, np.uint32)
    kernels.clean(cuda.run(source.replace("AT", "0"), [out], 1))
    assert out[0] == 5
    assert "uninitialised" in cuda.kinds(cuda.run(source.replace("AT", "1"), [out], 1))


@pytest.mark.parametrize(("used", "found"), [(7, False), (15, True)])
def test_the_last_of_several_bytes_may_be_initialised_in_part(used, found):
    """Five elements of four bits, of whose word three bytes are used."""
    source = f"""
extern "C" __global__ void k(unsigned* out) {{
  __shared__ unsigned s[1];
  atomicAnd(s, ~0xfffffu);
  unsigned word, place = (unsigned)__cvta_generic_to_shared(s);
  asm volatile(".pragma \\"used_bytes_mask {used}\\";\\n ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(place));
  out[0] = word & 0xfffff;
}}"""
    out = np.ones(1, np.uint32)
    report = cuda.run(source, [out], 1)
    assert ("uninitialised" in cuda.kinds(report)) == found and out[0] == 0
