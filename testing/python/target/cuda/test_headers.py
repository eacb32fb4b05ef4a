"""Device headers: each compiles alone, for every architecture that it is for, and is found by the names it defines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.target.cuda import headers
from tilelang.target.cuda.ir import wgmma
from tilelang.target.cuda.ir.wgmma import Wgmma
from tilelang.target.cuda.toolchain import locate, sass
from tilelang.target.cuda.toolchain.compile import compile_device

pytestmark = pytest.mark.assembled

FOLDER = locate.template_directory() / "tl_templates" / "cuda"
HOPPER_ONLY = {"tma.h", "wgmma.h", "cluster.h", "pdl.h", "register.h"}
ALL_HEADERS = sorted(path.name for path in FOLDER.glob("*.h"))
KERNELS = Path(__file__).parent / "kernels"
NEEDS_NVCC = pytest.mark.skipif(locate.tool("nvcc") is None, reason="no nvcc")


def with_prelude(body: str) -> str:
    return headers.prelude(headers.names_in(body)) + body


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90a"])
@pytest.mark.parametrize("name", ALL_HEADERS)
def test_each_header_compiles_alone(name: str, arch: str) -> None:
    if name in HOPPER_ONLY and arch != "sm_90a":
        return
    source = f'#include <tl_templates/cuda/{name}>\nextern "C" __global__ void k(float* a) {{ a[0] = 1; }}'
    assert "warning" not in compile_device(source, arch, compiler="nvrtc").log


@NEEDS_NVCC
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_all_headers_compile_together_with_nvcc(arch: str) -> None:
    names = [name for name in ALL_HEADERS if arch == "sm_90a" or name not in HOPPER_ONLY]
    source = headers.include_lines(names) + 'extern "C" __global__ void k(float* a) { a[0] = 1; }'
    compile_device(source, arch, compiler="nvcc")


def test_only_the_toolkit_headers_of_small_floats_are_included() -> None:
    allowed = {"<cuda_fp16.h>", "<cuda_bf16.h>", "<cuda_fp8.h>", "<cstdint>", "<cstdio>"}
    for path in FOLDER.glob("*.h"):
        included = {line.split()[1] for line in path.read_text().splitlines() if line.startswith("#include")}
        assert {name for name in included if name.startswith("<")} <= allowed, path.name


def test_a_prelude_names_only_the_families_in_use() -> None:
    assert headers.headers_of(headers.names_in("void k() {}")) == ["common.h"]
    body = "tl::ldmatrix_x4(a, b); tl::mma_m16n8k16_f32_f16(c, a, b); half x; tl::atomic_add<2>(p, v); tl::kAcquire;"
    assert headers.headers_of(headers.names_in(body)) == ["common.h", "half.h", "atomic.h", "ldmatrix.h", "mma.h"]
    names = headers.names_in("__nv_fp8_e4m3 x; tl::warp_reduce<tl::Sum>(y);")
    assert headers.headers_of(names) == [
        "common.h",
        "fp8.h",
        "reduce.h",
    ]


@pytest.mark.parametrize(("name", "header"), [
    ("__float2half_rz", "half.h"), ("__ushort_as_half", "half.h"), ("__hadd2", "half.h"), ("h2rsqrt", "half.h"),
    ("__float2bfloat16_rn", "bf16.h"), ("__nv_cvt_float_to_fp8", "fp8.h"), ("hypotf", None), ("__expf", None),
])  # fmt: skip
def test_functions_of_small_floats_that_a_program_calls_bring_their_header(name: str, header: str | None) -> None:
    want = ["common.h", header] if header else ["common.h"]
    assert headers.headers_of([name]) == want
    assert headers.headers_of(headers.names_in(f"float f(float x) {{ return {name}(x); }}")) == want


@pytest.mark.parametrize(("body", "arch"), [
    ("tl::atomic_add<4>(h, 1.0f); tl::atomic_add_x2(h, v); tl::atomic_max(h, 2.0f); tl::atomic_add_x4(f, f + 4);", "sm_80"),
    ("tl::atomic_add<4>(b, 1.0f); tl::atomic_add_x2(b, b + 4); tl::atomic_min<5>(f, 2.0f); "
     "tl::atomic_add_x4(f, f + 4);", "sm_90a"),
    ("tl::atomic_max(i8, 1); tl::atomic_or(i, 3); tl::atomic_xor(i8, 3); "
     "tl::atomic_exch(h, v[1]); tl::atomic_add(l, 1);", "sm_86"),
    ("tl::atomic_store<3>(h, 1.0f); f[0] = tl::atomic_load<2>(h); tl::atomic_store<5>(l, 3); "
     "i[0] = tl::atomic_load(i8);", "sm_89"),
    ("f[0] = tl::warp_reduce<tl::MaxNan, 8, 4>(f[2]);", "sm_80"),
    ("h[0] = tl::warp_reduce<tl::Max>(h[1]); b[0] = tl::warp_reduce<tl::Sum, 4>(b[1]); l[0] = tl::shfl_xor(l[1], 3);", "sm_80"),
    ("f[2] = tl::warp_scan_part<tl::Max, true>(f[3], i[0]);", "sm_80"),
    ("tl::Philox s = tl::philox_init(1, 2, 3); f[0] = tl::philox_uniform(s); f[1] = tl::philox_normal(s);", "sm_80"),
    ("tl::debug_print_line(\"%g %lld\", h[0], i8[0]); tl::debug_print_element(\"y[%lld] = %lld\", 1, i8[0]); "
     "tl::device_assert_msg(f[0] > 0, \"positive\");", "sm_80"),
    ("f[0] = tl::fast_exp(f[1]) + tl::ieee_add<2>(f[2], f[3]) + tl::ieee_fma(f[1], f[2], f[3]) + tl::fast_tanh(f[4]);", "sm_80"),
    ("tl::cluster_sync(); i[0] = tl::cluster_rank(); tl::pdl_wait(); tl::pdl_trigger();", "sm_90a"),
    ("uint8_t* p = (uint8_t*)i; i[0] = tl::nibble_s(p, 5) + tl::nibble_u(p, 6); tl::set_nibble(p, 7, i[1]);", "sm_80"),
    ("tl::set_nibble_atomic(i, 7, tl::wrap_nibble_s(i[1]) + tl::wrap_nibble_u(i[2]));", "sm_80"),
    ("dim3 x = tl::rasterize_row<8>(); dim3 y = tl::rasterize_column<4>(); i[x.x] = y.y;", "sm_80"),
    ("tl::grid_sync((uint*)i); tl::named_barrier_sync(1, 64); tl::named_barrier_arrive(2, 96); tl::sync_warp();", "sm_80"),
    ("uint* u = (uint*)i; u[0] = tl::cvt_f16x2_f32(f[0], f[1]); u[1] = tl::cvt_bf16x2_f32(f[0], f[1]);", "sm_80"),
    ("tl::mma_sp_m16n8k32_f32_f16<1>(f, i, i + 4, 3); tl::mma_sp_m16n8k64_s32_s8(i, i + 4, i + 8, 3);", "sm_80"),
    ("tl::mma_m8n8k4_f64(d, d + 2, d + 3); tl::mma_m16n8k256_s32_b1_xor(i, i + 4, i + 8); "
     "f[0] = tl::round_tf32(f[1]);", "sm_80"),
    ("tl::mma_m16n8k32_f32_e4m3_e5m2(f, i, i + 4); tl::mma_m16n8k8_f16_f16(i, i + 4, i + 8);", "sm_89"),
    ("tl::stmatrix_x4_trans(f, i);", "sm_90a"),
])  # fmt: skip
def test_functions_compile_for_their_declared_types(body: str, arch: str) -> None:
    kernel = (
        'extern "C" __global__ void k(half* h, nv_bfloat16* b, float* f, double* d, int* i, signed char* i8, int64_t* l)'
        " { half v[4]; v[0] = v[1] = v[2] = v[3] = h[5]; " + body + " h[9] = v[0]; }"
    )
    compile_device(with_prelude(kernel), arch, compiler="nvrtc")


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4, 5])
def test_tma_instructions_of_every_rank(dimensions: int) -> None:
    at = ", ".join(str(8 * i) for i in range(dimensions))
    kernel = f"""extern "C" __global__ void k(const __grid_constant__ CUtensorMap map) {{
      __shared__ __align__(128) float tile[1024];
      __shared__ uint64_t barrier;
      tl::tma_prefetch(map);
      tl::tma_load_{dimensions}d(tile, map, &barrier, {at});
      tl::tma_load_{dimensions}d_multicast(tile, map, &barrier, 3, {at});
      tl::tma_load_{dimensions}d_hint(tile, map, &barrier, tl::cache_policy_evict_first(), {at});
      tl::tma_store_{dimensions}d(map, tile, {at});
      tl::tma_reduce_add_{dimensions}d(map, tile, {at});
      tl::tma_store_commit();
      tl::tma_store_wait<0>();
    }}"""
    counts = sass.functions(compile_device(with_prelude(kernel), "sm_90a").cubin)["k"].counts()
    assert (counts["UTMALDG"], counts["UTMASTG"], counts["UTMAREDG"]) == (3, 1, 1)


def all_wgmma(n: int) -> list[Wgmma]:
    found = []
    for a, accumulators in wgmma.ACCUMULATORS.items():
        for b in wgmma.K_OF:
            for accumulator in accumulators:
                for flags in range(8):
                    try:
                        found.append(Wgmma(n, accumulator, a, b, bool(flags & 1), bool(flags & 2), bool(flags & 4)))
                    except ValueError:
                        continue
    return found


@pytest.mark.parametrize("n", [8, 96, 256])
def test_every_type_of_wgmma_compiles(n: int) -> None:
    calls = "".join(
        f"{{ uint32_t d[128] = {{0}}; tl::{i.name}(d, {'a' if i.a_in_registers else 'p[0]'}, p[1], 1); o[0] = d[0] + d[1]; }}\n"
        for i in all_wgmma(n)
    )
    kernel = f'extern "C" __global__ void k(uint64_t* p, uint32_t* o) {{ uint32_t a[4] = {{1, 2, 3, 4}};\n{calls}}}'
    if n == 8:  # machine code of the smallest, PTX (which names all types alike) of the others
        counts = sass.functions(compile_device(with_prelude(kernel), "sm_90a").cubin)["k"].counts()
        assert counts["HGMMA"] + counts["QGMMA"] + counts["IGMMA"] == len(all_wgmma(n)) == 44
    else:
        compile_device(with_prelude(kernel), "sm_90a", flags=("--ptxas-options=-O0",))


def test_names_of_wgmma_functions_round_trip() -> None:
    for n in (8, 64, 256):
        for instruction in all_wgmma(n):
            assert wgmma.parse(instruction.name) == instruction
    assert wgmma.parse("wgmma_fence") is None


@pytest.mark.parametrize("arguments", [(12, "f32", "f16", "f16"), (40, "s32", "s8", "s8"), (64, "f16", "bf16", "bf16"),
                                       (64, "f32", "f16", "bf16"), (64, "f32", "e4m3", "e4m3", False, True)])  # fmt: skip
def test_wgmma_forms_that_do_not_exist_are_refused(arguments: tuple) -> None:
    with pytest.raises(ValueError, match="wgmma"):
        Wgmma(*arguments)


def test_the_reference_kernel_overlaps_loads_and_products() -> None:
    """The hand-written producer/consumer GEMM: one TMA load a panel, eight products a step, no spill, a lean loop."""
    source = (KERNELS / "hopper_gemm.cu").read_text()
    binary = compile_device(with_prelude(source), "sm_90a")
    assert "setmaxnreg" not in binary.log
    used = binary.resources["hopper_gemm"]
    assert used.spill_store_bytes == used.stack_bytes == 0
    function = sass.functions(binary.cubin)["hopper_gemm"]
    assert function.counts()["UTMALDG"] == 3
    loop = function.main_loop("HGMMA")
    assert sum(i.family == "HGMMA" for i in loop) == 8
    assert len(loop) < 70
