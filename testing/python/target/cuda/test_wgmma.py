"""Products by wgmma: plans, layouts, and the code on the simulator against torch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source
from tilelang import simulator
from tilelang.dtypes import canonical
from tilelang.ir.region import Region
from tilelang.layout import FragmentLayout, TileLayout
from tilelang.layout.panels import panel_bytes_of, panel_layout
from tilelang.target.cuda.headers import names_in, prelude
from tilelang.target.cuda.ir.printer import Printer
from tilelang.target.cuda.ir.values import Array, Name, value_of
from tilelang.target.cuda.ops import gemm_wgmma as wgmma
from tilelang.target.cuda.ops.gemm_wgmma import accumulator_layout
from tilelang.target.cuda.toolchain.compile import compile_device
from tilelang.tileop.gemm import Gemm, GemmWarpPolicy

C_TYPES = {"float32": "float", "float16": "half", "int32": "int"}


def region(name: str, shape: tuple[int, ...], dtype: str, scope: str) -> Region:
    buffer = SimpleNamespace(name=name, shape=shape, dtype=dtype, scope=lambda: scope)
    return Region(buffer, (0,) * len(shape), shape)


def product(m: int, n: int, k: int, a: str, c: str, *, b: str | None = None, ta: bool = False, tb: bool = False,
            a_scope: str = "shared.dyn", policy: GemmWarpPolicy = GemmWarpPolicy.Square) -> Gemm:  # fmt: skip
    return Gemm(
        region("A", (k, m) if ta else (m, k), a, a_scope),
        region("B", (n, k) if tb else (k, n), b or a, "shared.dyn"),
        region("C", (m, n), c, "local.fragment"),
        transpose_a=ta, transpose_b=tb, policy=policy,
    )  # fmt: skip


def values(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    if dtype in ("int8", "uint8"):
        return torch.randint(0 if dtype == "uint8" else -8, 8, shape).to(canonical(dtype).as_torch())
    return torch.randint(-4, 5, shape).to(canonical(dtype).as_torch())


def shared_image(tensor: torch.Tensor, layout: TileLayout) -> torch.Tensor:
    """The bytes of shared memory that hold ``tensor`` under ``layout``."""
    raw = tensor.contiguous().view(torch.uint8).reshape(*tensor.shape, -1)
    image = torch.zeros(layout.size, raw.shape[-1], dtype=torch.uint8)
    offsets = [layout.offset((i, j)) for i in range(tensor.shape[0]) for j in range(tensor.shape[1])]
    image[torch.tensor(offsets)] = raw.reshape(-1, raw.shape[-1])
    return image.reshape(-1)


def registers_of(tensor: torch.Tensor, layout: FragmentLayout, threads: int) -> torch.Tensor:
    """What each thread holds of ``tensor``: (threads, registers)."""
    held = torch.zeros(threads, layout.registers, dtype=tensor.dtype)
    for i in range(tensor.shape[0]):
        for j in range(tensor.shape[1]):
            register = layout.locate((i, j))[1]
            for thread in layout.owners((i, j)):
                held[thread, register] = tensor[i, j]
    return held


def run(gemm: Gemm, threads: int, clear: bool = False, panels: tuple[int, int] | None = None) -> None:
    torch.manual_seed(0)
    plan = wgmma.plan_gemm(gemm, threads)
    assert plan is not None
    a, b = values(gemm.a.extents, gemm.a.dtype), values(gemm.b.extents, gemm.b.dtype)
    c = values((plan.m, plan.n), gemm.c.dtype)
    wide_a, wide_b = panels or (plan.a_panel, plan.b_panel)
    bits = canonical(gemm.a.dtype).bits
    b_layout = panel_layout(gemm.b.extents, bits, wide_b)
    operands, images = [], [shared_image(b, b_layout)]
    right = wgmma.SharedOperand(Array("pool", "uint8").to(0), b_layout, gemm.b, bits, gemm.transpose_b)
    if plan.a is None:
        a_layout = panel_layout(gemm.a.extents, bits, wide_a)
        images.append(shared_image(a, a_layout))
        left = wgmma.SharedOperand(Array("pool", "uint8").to(images[0].numel()), a_layout, gemm.a, bits, not gemm.transpose_a)
        operands.append(torch.zeros(1, dtype=torch.int32))
    else:
        left = Array("a_registers", gemm.a.dtype)
        operands.append(registers_of(a, plan.a, threads).view(torch.uint8).view(torch.int32))
    held = registers_of(c, plan.c, threads)
    registers = Array("c_registers", gemm.c.dtype)
    lines = "\n".join(Printer().lines(plan.multiply(left, right, registers, lower=value_of, take=Name, clear=clear)))
    count, a_words = plan.c.registers, operands[0].numel() // threads if plan.a else 1
    c_type, a_type = C_TYPES[gemm.c.dtype], "half" if bits == 16 else "uint8_t" if bits == 8 else "float"
    body = f"""extern "C" __global__ void __launch_bounds__({threads}) product(const uint4* image, const uint* a, {c_type}* c) {{
      extern __shared__ __align__(1024) uchar pool[];
      const int {wgmma.WARP_GROUP_NUMBER.text} = tl::warp_group();
      for (int i = threadIdx.x; i < {sum(map(torch.numel, images)) // 16}; i += {threads}) ((uint4*)pool)[i] = image[i];
      tl::fence_proxy_async();
      __syncthreads();
      uint a_words[{a_words}];
      {c_type} c_registers[{count}];
      {a_type}* a_registers = reinterpret_cast<{a_type}*>(a_words);
      for (int i = 0; i < {a_words}; ++i) a_words[i] = {"a[threadIdx.x * " + str(a_words) + " + i]" if plan.a else "0"};
      for (int i = 0; i < {count}; ++i) c_registers[i] = c[threadIdx.x * {count} + i];
      {lines}
      for (int i = 0; i < {count}; ++i) c[threadIdx.x * {count} + i] = c_registers[i];
    }}"""
    binary = compile_device(prelude(names_in(body)) + body, "sm_90a")
    kernel = simulator.load(binary.ptx.decode()).get_function("product")
    image = torch.cat(images)
    kernel.launch(1, threads, [image, operands[0], held], shared_bytes=image.numel(), strict=True)
    left_value, right_value = (a.T if gemm.transpose_a else a), (b.T if gemm.transpose_b else b)
    want = left_value.double() @ right_value.double() + (0 if clear else c.double())
    got = torch.tensor([[held[plan.c.locate((i, j))].item() for j in range(plan.n)] for i in range(plan.m)])
    torch.testing.assert_close(got.double(), want, rtol=0, atol=0)


@pytest.mark.parametrize(("dtype", "accumulator"), [
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32"), ("int8", "int32"),
    ("uint8", "int32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
])  # fmt: skip
def test_every_type_k_major_from_shared_memory(dtype: str, accumulator: str) -> None:
    run(product(64, 48, 64, dtype, accumulator, tb=True), 128)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("panel", [128, 64, 32])
def test_16_bit_operands_in_every_order_and_panel_width(ta: bool, tb: bool, panel: int) -> None:
    run(product(128, 128, 64, "float16", "float32", ta=ta, tb=tb), 128, panels=(panel, panel))


@pytest.mark.parametrize("dtype", ["float16", "float8_e4m3fn", "int8", "float32"])
def test_a_from_registers(dtype: str) -> None:
    run(product(128, 32, 64, dtype, "int32" if dtype == "int8" else "float32", tb=True, a_scope="local.fragment"), 128)


@pytest.mark.parametrize("policy", list(GemmWarpPolicy))
@pytest.mark.parametrize(("m", "n"), [(128, 64), (256, 96), (64, 128)])
def test_two_warp_groups_share_the_tile(policy: GemmWarpPolicy, m: int, n: int) -> None:
    run(product(m, n, 32, "bfloat16", "float32", policy=policy), 256, clear=True)


def test_a_from_registers_with_rows_shared_by_two_groups() -> None:
    gemm = product(64, 64, 32, "float16", "float32", a_scope="local.fragment", policy=GemmWarpPolicy.FullCol)
    assert wgmma.plan_gemm(gemm, 256).groups_n == 2
    run(gemm, 256)


def test_wide_tiles_take_several_instructions() -> None:
    gemm = product(64, 384, 32, "float16", "float32")
    assert wgmma.plan_gemm(gemm, 128).instruction.n == 192
    run(gemm, 128)


@pytest.mark.parametrize("gemm", [
    product(16, 64, 64, "float16", "float32"),
    product(64, 64, 8, "float16", "float32"),
    product(64, 64, 64, "int8", "int32"),
    product(64, 60, 64, "float16", "float32"),
    product(64, 64, 64, "float64", "float64"),
    product(64, 64, 64, "bfloat16", "bfloat16"),
    product(64, 64, 64, "float16", "float32", ta=True, a_scope="local.fragment"),
])  # fmt: skip
def test_products_that_wgmma_cannot_do_are_left_to_mma_sync(gemm: Gemm) -> None:
    assert wgmma.plan_gemm(gemm, 128) is None


def test_a_block_without_whole_warp_groups_has_no_plan() -> None:
    assert wgmma.plan_gemm(product(64, 64, 64, "float16", "float32"), 96) is None


@pytest.mark.parametrize("panel", [128, 64, 32])
def test_panels_are_the_swizzle_that_the_hardware_computes_from_addresses(panel: int) -> None:
    layout = panel_layout((2, 16, 128), 16, panel)
    assert panel_bytes_of(layout, 16) == panel
    width, rows = panel // 2, 16
    for stage, row, column in [(0, 0, 0), (1, 3, 17), (0, 7, 64), (1, 15, 127), (0, 9, 100)]:
        plain = 2 * (stage * rows * 128 + column // width * rows * width + row * width + column % width)
        assert 2 * layout.offset((stage, row, column)) == plain ^ (((plain >> 7) & (panel // 16 - 1)) << 4)


def test_an_accumulator_is_the_left_operand_of_the_next_product() -> None:
    first = wgmma.plan_gemm(product(128, 64, 32, "float16", "float32"), 128)
    second = wgmma.plan_gemm(product(128, 32, 64, "float16", "float32", a_scope="local.fragment"), 128)
    assert second.a == first.c == accumulator_layout(128, 64, 1, 1)


@pytest.mark.parametrize("row, column", [(0, 64), (64, 0), (64, 64)])
def test_product_of_parts_of_tiles(row, column):
    """Descriptors begin at the first element of a part."""

    @T.prim_func
    def program(A: T.Tensor((128, 128), "float16"), B: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 128), "float16"), T.alloc_shared((2, 64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a[row : row + 64, column : column + 64], b[1, :, :], c, clear_accum=True)
            T.copy(c, C)

    a, b, c = values((128, 128), "float16"), values((2, 64, 64), "float16"), torch.zeros(64, 64)
    simulate(program, a, b, c, arch="sm_90a")
    assert torch.equal(c, a[row : row + 64, column : column + 64].float() @ b[1].float())
    assert "wgmma_desc" in source(program, "sm_90a")
