"""What good code for sm_90a has, counted from machine code and by the simulator."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilelang
from testing.python.target.cuda.hopper import attention
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import budget, cuda, simulate, source
from tilelang.execution.simulated import last_reports
from tilelang.target.cuda.toolchain import sass
from tilelang.target.cuda.toolchain.compile import compile_device

pytestmark = pytest.mark.assembled


class Built:
    """A kernel's machine code.

    Attributes:
        counts: opcode family -> instructions of the whole kernel.
        loop: the instructions of its main loop.
    """

    def __init__(self, program: Any, fast_math: bool = False):
        text = source(program, "sm_90a", {"tl.enable_fast_math": fast_math})
        binary = compile_device(text, "sm_90a", flags=("--use_fast_math",) if fast_math else ())
        (function,) = sass.functions(binary.cubin).values()
        (used,) = binary.resources.values()
        assert used.stack_bytes == used.spill_store_bytes == used.spill_load_bytes == 0
        assert "serialized" not in binary.log and "setmaxnreg" not in binary.log
        self.counts = function.counts()
        self.loop = function.main_loop("HMMA" if "mma_m16n8" in text else "HGMMA")

    def of(self, family: str) -> int:
        """Instructions of a family in the main loop."""
        return sum(instruction.family == family for instruction in self.loop)


def totals(program: Any, *tensors: torch.Tensor) -> Any:
    """Counters of one run on the simulator."""
    with tilelang.simulator(strict=True, counters=True):
        tilelang.compile(program, target=cuda("sm_90a"))(*tensors)
    return last_reports()[0].counters.total


@pytest.mark.parametrize(("tile", "threads", "stages", "products", "loads", "most"), [
    ((128, 128, 32), 128, 3, 4, 3, 44), ((128, 128, 64), 128, 3, 8, 3, 54), ((128, 256, 64), 256, 3, 8, 5, 56),
    ((128, 128, 64), 256, 4, 4, 3, 42),
])  # fmt: skip
def test_the_main_loop_of_a_product(tile: Any, threads: int, stages: int, products: int, loads: int, most: int) -> None:
    built = Built(matmul(1024, 1024, 1024, tile, stages=stages, threads=threads))
    assert built.of("HGMMA") == products
    assert built.counts["UTMALDG"] == loads
    assert built.of("BAR") == built.of("MEMBAR") == built.of("FENCE") == 0
    assert len(built.loop) <= budget(most)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("rows", "matrices", "most"), [(16, 24, 92), (32, 32, 132)])
def test_the_main_loop_of_a_product_of_few_rows(rows: int, matrices: int, most: int, transpose_b: bool) -> None:
    """Too few for wgmma: mma loads the two panels of a tile that the tensor memory accelerator has copied by ldmatrix."""
    program = matmul(rows, 128, 1024, (rows, 128, 128), transpose_b=transpose_b)
    built = Built(program)
    assert built.counts["UTMALDG"] > 0
    assert built.of("LDSM") == matrices
    assert built.of("HMMA") == 2 * rows
    assert built.of("LDS") == 0
    assert len(built.loop) <= budget(most)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize(("tile", "threads"), [((16, 128, 128), 128), ((64, 96, 64), 96), ((48, 64, 128), 32)])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_by_mma_of_operands_in_panels(
    dtype: str, tile: tuple[int, int, int], threads: int, transpose_a: bool, transpose_b: bool
) -> None:
    rows, columns, depth = (2 * size for size in tile)
    accumulate = "int32" if dtype == "int8" else "float32"
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "accumulate": accumulate, "threads": threads}
    program = matmul(rows, columns, depth, tile, dtype=dtype, **options)
    a, b = (torch.randint(-3, 4, size).to(getattr(torch, dtype)) for size in ((rows, depth), (depth, columns)))
    c = torch.zeros(rows, columns, dtype=getattr(torch, accumulate))
    held = [each.T.contiguous() if turned else each for each, turned in ((a, transpose_a), (b, transpose_b))]
    simulate(program, *held, c, arch="sm_90a", pass_configs={"tl.disable_wgmma": True})
    assert torch.equal(c.double(), a.double() @ b.double())


@pytest.mark.parametrize("stages", [2, 3])
def test_copies_by_the_threads_cost_one_barrier_a_step(stages: int) -> None:
    program = matmul(1024, 1024, 1024, (128, 128, 32), stages=stages)
    text = source(program, "sm_90a", {"tl.disable_warp_specialized": True})
    loop = text[text.index("for (int ko") :]
    step = loop[: loop.index("wgmma_wait")]
    assert step.count("__syncthreads();") == step.count("tl::fence_proxy_async();") == 1


@pytest.mark.parametrize(("dim", "causal", "products", "most"), [
    (64, False, 12, 430), (64, True, 12, 565), (128, False, 16, 475), (128, True, 16, 605),
])  # fmt: skip
def test_the_main_loop_of_flash_attention(dim: int, causal: bool, products: int, most: int) -> None:
    built = Built(attention(2, 4096, dim, block=(128, 128), threads=256, causal=causal), fast_math=True)
    assert built.of("HGMMA") == products
    assert built.counts["UTMALDG"] == 2 * dim // 64
    assert built.of("BAR") == built.of("MEMBAR") == built.of("FENCE") == built.of("LDGDEPBAR") == 0
    assert len(built.loop) <= budget(most)
    waits = [at for at, instruction in enumerate(built.loop) if "DEPBAR.LE gsb0, 0x0" in instruction.text]
    assert len(waits) == 1
    if (dim, causal) != (128, True):  # there a mask leaves no registers for exponentials before the wait
        assert sum(instruction.family == "MUFU" for instruction in built.loop[: waits[0]]) >= 64


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_have_no_bank_conflicts(transpose_a: bool, transpose_b: bool) -> None:
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.zeros(128, 128).half()
    options = {"transpose_a": transpose_a, "transpose_b": transpose_b, "out": "float16", "through_shared": True}
    assert totals(matmul(128, 128, 128, (128, 128, 64), stages=3, **options), a, b, c)["bank_conflicts"] == 0


@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_has_no_bank_conflicts(dim: int, causal: bool) -> None:
    tensors = [torch.randn(1, 256, 1, dim).half() for _ in range(4)]
    assert totals(attention(1, 256, dim, block=(128, 128), threads=256, causal=causal), *tensors)["bank_conflicts"] == 0
