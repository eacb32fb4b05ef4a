"""Recommended configurations: they fit the device, divide the problem, and run."""

import subprocess
import sys

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import carver
from tilelang.carver.arch import CDNA, CUDA, auto_infer_current_arch, driver
from tilelang.carver.arch.cuda import check_sm_version
from tilelang.errors import UnknownTargetError

DEVICE = CUDA({"kind": "cuda", "arch": "sm_80"})
PROBLEMS = [
    carver.MatmulTemplate(M=33, N=20, K=24, in_dtype="float32", out_dtype="float32", accum_dtype="float32"),
    carver.GEMVTemplate(N=64, K=32, in_dtype="float32", out_dtype="float32", accum_dtype="float32"),
    carver.ElementwiseTemplate(shape=[6, 50], dtype="float32"),
    carver.GeneralReductionTemplate(structure="SRS", shape=[5, 7, 9], dtype="float32"),
]


@pytest.mark.parametrize("size", [(8192, 8192, 8192), (1024, 1024, 1024), (64, 4096, 512), (100, 72, 1000)])
@pytest.mark.parametrize("dtype", ["float16", "int8", "float32"])
def test_tiles_of_products_fit_the_device(size, dtype):
    m, n, k = size
    hints = carver.MatmulTemplate(M=m, N=n, K=k, in_dtype=dtype, accum_dtype="float32").with_arch(DEVICE).recommend_hints(topk=20)
    assert 0 < len(hints) <= 20 and [hint.time for hint in hints] == sorted(hint.time for hint in hints)
    assert len({(*hint.block, *hint.rstep) for hint in hints}) == len(hints)
    for hint in hints:
        (block_m, block_n), (warp_m, warp_n) = hint.block, hint.warp
        assert block_m % warp_m == block_n % warp_n == 0
        assert hint.threads == (block_m // warp_m) * (block_n // warp_n) * 32 <= 256
        assert hint.shared_bytes <= DEVICE.smem_cap
        assert carver.Hint.from_dict(hint.to_dict()) == hint


def test_large_products_take_large_tiles_and_panels():
    best = carver.MatmulTemplate(M=8192, N=8192, K=8192, accum_dtype="float32").with_arch(DEVICE).recommend_hints(1)[0]
    assert min(best.block) >= 128 and best.pipeline_stage > 1 and best.rasterization_plan.panel_width > 0


@pytest.mark.parametrize("template", PROBLEMS, ids=lambda each: type(each).__name__)
def test_equivalent_programs(template):
    hints = template.with_arch(DEVICE).recommend_hints(topk=5)
    assert hints and all(hint.threads % 32 == 0 and hint.time > 0 for hint in hints)
    kernel = tilelang.compile(template.equivalent_function(), out_idx=[-1], target="cpu")
    inputs = [torch.randn(param.shape) for param in kernel.params[:-1]]
    want = {
        "MatmulTemplate": lambda a, b: a @ b.T,
        "GEMVTemplate": lambda a, b: a @ b.T,
        "ElementwiseTemplate": lambda a: a + 1,
        "GeneralReductionTemplate": lambda a: a.sum(dim=1).flatten(),
    }[type(template).__name__](*inputs)
    torch.testing.assert_close(kernel(*inputs).reshape(want.shape), want, rtol=1e-4, atol=1e-4)


def test_a_product_with_a_bias():
    template = carver.MatmulTemplate(
        M=5, N=7, K=3, in_dtype="float32", out_dtype="float32", accum_dtype="float32", with_bias=True
    )
    kernel = tilelang.compile(template.equivalent_function(), out_idx=[-1], target="cpu")
    a, b, bias = torch.randn(5, 3), torch.randn(7, 3), torch.randn(7)
    torch.testing.assert_close(kernel(a, b, bias), a @ b.T + bias, rtol=1e-4, atol=1e-4)


def test_a_recommended_tile_runs():
    hint = carver.MatmulTemplate(M=128, N=128, K=64, in_dtype="float32", accum_dtype="float32").recommend_hints(1)[0]
    (block_m, block_n), (block_k,) = hint.block, hint.rstep

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float32"), B: T.Tensor((128, 64), "float32"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(T.ceildiv(128, block_n), T.ceildiv(128, block_m), threads=hint.threads) as (bx, by):
            a, b = T.alloc_shared((block_m, block_k), "float32"), T.alloc_shared((block_n, block_k), "float32")
            c = T.alloc_fragment((block_m, block_n), "float32")
            T.use_swizzle(10, enable=bool(hint.rasterization_plan.panel_width))
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(64, block_k), num_stages=hint.pipeline_stage):
                T.copy(A[by * block_m, k * block_k], a)
                T.copy(B[bx * block_n, k * block_k], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * block_m, bx * block_n])

    a, b = torch.randn(128, 64), torch.randn(128, 64)
    torch.testing.assert_close(tilelang.compile(main, out_idx=-1, target="cpu")(a, b), a @ b.T, rtol=1e-4, atol=1e-4)


def test_devices():
    assert (DEVICE.sm_version, DEVICE.compute_capability, DEVICE.warp_size) == (80, "80", 32)
    assert CUDA({"kind": "cuda", "arch": "sm_90a"}).smem_cap == 227 * 1024
    assert auto_infer_current_arch().platform == "CUDA" and driver.get_num_sms() > 0
    assert driver.get_max_dynamic_shared_size_bytes(format="kb") * 1024 <= driver.get_max_dynamic_shared_size_bytes()
    assert [check_sm_version(arch) for arch in ("sm_90a", "90", "sm_120f", "gfx90a", "sm_", "")] == [90, 90, 120, -1, -1, -1]
    with pytest.raises(UnknownTargetError):
        CDNA("hip")
    with pytest.raises(UnknownTargetError, match="unknown CUDA target 'cpu'"):
        CUDA("cpu")


@tilelang.jit(target="cpu")
def _persistent():
    blocks = driver.get_num_sms()

    @T.prim_func
    def main(A: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks, threads=32) as block:
            A[block] = block

    return main


def test_a_program_made_for_another_device_is_another_program(monkeypatch):
    for count in (3, 5):
        monkeypatch.setattr(driver, "get_num_sms", lambda device_id=0, count=count: count)
        assert _persistent().params[0].shape == (count,)
    monkeypatch.undo()
    monkeypatch.setattr(driver.os, "cpu_count", lambda: 7)
    monkeypatch.setenv("TILELANG_DEVICE", "auto")
    assert torch.cuda.is_available() or _persistent().params[0].shape == (7,)


def test_questions_about_a_device():
    from tilelang.carver import arch
    from tilelang.carver.arch.driver import get_persisting_l2_cache_max_size, get_registers_per_block

    ampere, ada, hopper = (arch.get_arch({"kind": "cuda", "arch": name}) for name in ("sm_80", "sm_89", "sm_90a"))
    assert [arch.is_ampere_arch(each) for each in (ampere, ada, hopper)] == [True, False, False]
    assert arch.is_ada_arch(ada) and arch.is_hopper_arch(hopper) and arch.is_cuda_arch(ada) and not arch.is_volta_arch(ampere)
    assert arch.has_mma_support(ampere) and not arch.is_cdna_arch(hopper) and not arch.is_cpu_arch(hopper)
    assert arch.is_tensorcore_supported_precision("float8_e4m3", "float32", hopper)
    assert not arch.is_tensorcore_supported_precision("float8_e4m3", "float32", ampere)
    assert not arch.is_tensorcore_supported_precision("bfloat16", "float16", ampere)
    assert get_registers_per_block() >= 65536 and get_persisting_l2_cache_max_size() > 1 << 20


def test_recommending_does_not_load_tvm():
    program = (
        "import sys, tilelang.carver as c; c.MatmulTemplate(M=64, N=64, K=64).recommend_hints(); sys.exit('tvm' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
