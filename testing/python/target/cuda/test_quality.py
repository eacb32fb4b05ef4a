"""What good code has, counted: bank conflicts, global sectors, spills, barriers, instructions."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.cuda.hopper import attention
from testing.python.target.cuda.programs import matmul
from testing.python.target.cuda.support import budget, cuda, source
from tilelang.execution.simulated import last_reports
from tilelang.target.cuda.toolchain.compile import compile_device
from tilelang.target.cuda.toolchain.sass import functions

pytestmark = pytest.mark.assembled


def _totals(program, *tensors):
    with tilelang.simulator(strict=True, counters=True):
        tilelang.compile(program, target=cuda())(*tensors)
    return last_reports()[0].counters.total


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_product_has_no_bank_conflict_and_whole_sectors(transpose_a, transpose_b):
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.zeros(128, 128)
    program = matmul(128, 128, 128, (128, 128, 32), stages=3, transpose_a=transpose_a, transpose_b=transpose_b)
    totals = _totals(program, a, b, c)
    assert totals["bank_conflicts"] == 0
    assert totals["global_sectors"] * 32 == (2 * 128 * 128 * 2 + 128 * 128 * 4)


def test_epilogue_through_shared_has_no_bank_conflict():
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 128).half(), torch.zeros(128, 128).half()
    totals = _totals(matmul(128, 128, 128, (128, 128, 32), stages=3, out="float16", through_shared=True), a, b, c)
    assert totals["bank_conflicts"] == 0


def test_product_does_not_spill_and_has_one_barrier_an_iteration():
    program = matmul(1024, 1024, 1024, (128, 128, 32), stages=3)
    text = source(program)
    binary = compile_device(text, "sm_80")
    used = binary.resources["main_kernel"]
    assert used.stack_bytes == used.spill_store_bytes == used.spill_load_bytes == 0
    assert text.count("__syncthreads();") == 1


def test_arrays_that_serial_loops_step_through_are_registers():
    @T.prim_func
    def main(A: T.Tensor((128, 16), "float32"), B: T.Tensor((128, 16), "float32")):
        with T.Kernel(1, threads=128):
            thread = T.get_thread_binding()
            row = T.alloc_local((16,), "float32")
            for i in T.vectorized(16):
                row[i] = A[thread, i]
            for step in T.serial(4):
                for i in T.serial(16):
                    row[i] = row[i] + T.shfl_xor(row[i], 1 << step)
            for i in T.vectorized(16):
                B[thread, i] = row[i]

    used = compile_device(source(main), "sm_80").resources["main_kernel"]
    assert used.stack_bytes == used.spill_store_bytes == used.spill_load_bytes == 0


def test_copies_are_whole_vectors_without_guards():
    text = source(matmul(1024, 1024, 1024, (128, 128, 32), stages=3))
    assert set(re.findall(r"cp_async_(\d+)", text)) == {"16"}
    assert "zfill" not in text


def test_a_copy_in_a_pipeline_has_one_address_and_constants():
    """What depends on the thread alone is computed before the loop, and each step adds a constant."""
    text = source(matmul(1024, 1024, 1024, (128, 128, 32), stages=3, transpose_b=True))
    copies = re.findall(r"tl::cp_async_16\((.*), (.*)\);", text)
    assert len(copies) == 6
    assert all(re.fullmatch(r"\w+( \+ (\w+ \* )?4096)? \+ copy_lane \+ i_\d \* 1024", to) for to, _ in copies), copies
    assert all(re.search(r" \+ i_\d \* 32768$", origin) for _, origin in copies), copies


def test_ragged_copies_are_guarded():
    assert "cp_async_16_zfill" in source(matmul(1000, 1000, 1000, (128, 128, 32), stages=3))


def test_lowering_is_deterministic():
    program = matmul(512, 512, 512, (128, 128, 32), stages=3, through_shared=True, out="float16")
    assert source(program) == source(program)


def test_the_whole_product_compiles_without_local_memory():
    for dtype, accumulate in (("float16", "float32"), ("int8", "int32"), ("float32", "float32")):
        binary = compile_device(source(matmul(512, 512, 512, (64, 64, 32), dtype=dtype, accumulate=accumulate)), "sm_80")
        assert binary.resources["main_kernel"].stack_bytes == 0


@pytest.mark.parametrize("dtype, block", [("int8", (32, 64, 64)), ("int8", (64, 128, 32)), ("float32", (64, 64, 16))])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_operands_of_narrow_tiles_have_no_bank_conflict(dtype, block, transpose_a, transpose_b):
    """Rows of 32 and 64 bytes, of which a transposing ldmatrix takes every second one."""
    accumulate = "int32" if dtype == "int8" else dtype
    a, b = (torch.randint(-8, 8, (128, 128)).to(getattr(torch, dtype)) for _ in range(2))
    c = torch.zeros(128, 128, dtype=getattr(torch, accumulate))
    options = {"dtype": dtype, "accumulate": accumulate, "transpose_a": transpose_a, "transpose_b": transpose_b}
    assert _totals(matmul(128, 128, 128, block, stages=2, **options), a, b, c)["bank_conflicts"] == 0
    expected = (a.T if transpose_a else a).float() @ (b.T if transpose_b else b).float()
    assert torch.equal(c.float(), expected)


@pytest.mark.parametrize("transpose_a", [False, True])
def test_bytes_contiguous_along_n_have_no_single_loads(transpose_a):
    """A (32 x 16) block of bytes is one transposing ldmatrix and four permutations."""
    program = matmul(128, 128, 128, (128, 128, 64), dtype="int8", accumulate="int32", transpose_a=transpose_a)
    a, b = (torch.randint(-8, 8, (128, 128), dtype=torch.int8) for _ in range(2))
    assert _totals(program, a, b, torch.zeros(128, 128, dtype=torch.int32))["bank_conflicts"] == 0
    counts = next(iter(functions(compile_device(source(program), "sm_80").cubin).values())).counts()
    assert counts["LDSM"] == 16 and counts["IMMA"] == 64 and counts["PRMT"] == (64 if transpose_a else 32) and counts["LDS"] < 8


@pytest.mark.parametrize(("dim", "causal", "fast_math", "most"), [
    (64, False, False, 481), (64, False, True, 369), (64, True, True, 440), (128, False, True, 545),
])  # fmt: skip
def test_the_main_loop_of_flash_attention(dim, causal, fast_math, most):
    text = source(attention(2, 1024, dim, causal=causal), "sm_80", {"tl.enable_fast_math": fast_math})
    binary = compile_device(text, "sm_80", flags=("--use_fast_math",) if fast_math else ())
    (used,) = binary.resources.values()
    assert used.stack_bytes == used.spill_store_bytes == used.spill_load_bytes == 0
    (function,) = functions(binary.cubin).values()
    counts = Counter(instruction.family for instruction in function.main_loop("HMMA"))
    assert counts["HMMA"] == dim and counts["LDGSTS"] == dim // 8 and counts["BAR"] == 1
    assert counts.total() <= budget(most)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dim", [64, 128])
def test_flash_attention_has_no_bank_conflict(dim, causal):
    tensors = [torch.randn(1, 128, 1, dim).half() for _ in range(4)]
    assert _totals(attention(1, 128, dim, causal=causal), *tensors)["bank_conflicts"] == 0


def test_gathered_rows_are_copied_by_vectors():
    """The row numbers are contiguous along another axis than the rows, but the rows are what is moved."""
    rows = T.dynamic("rows")

    @T.prim_func
    def main(X: T.Tensor((rows, 256), "float16"), table: T.Tensor((32,), "int32"), Y: T.Tensor((32, 256), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 256), "float16")
            for i, j in T.Parallel(32, 256):
                tile[i, j] = X[table[i], j]
            T.copy(tile, Y)

    assert len(re.findall(r"cp_async_16\w*\(tile.*, X ", source(main))) == 1


def test_long_loops_over_memory_are_not_unrolled():
    @T.prim_func
    def main(A: T.Tensor((8, 7168), "uint8"), B: T.Tensor((8, 7168), "int32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(8, 7168):
                B[i, j] = A[i, j // 2 + j % 2]

    assert compile_device(source(main), "sm_80").ptx.count(b"st.global") <= 64


def test_float8_widens_without_loops_where_no_instruction_does():
    program = matmul(64, 64, 64, (64, 64, 64), dtype="float8_e4m3fn", accumulate="float32")
    ptx = compile_device(source(program), "sm_80").ptx
    conversions = ptx.count(b"mul.f16")
    assert conversions and ptx.count(b"bra") < conversions / 4


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_that_is_converted_to_its_type_is_not_fused_with_a_sum(arch, dtype):
    """Its conversion rounds, which the simulator cannot tell: the assembler would make one operation of both."""

    @T.prim_func
    def main(A: T.Tensor((3, 64), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.cast(A[0, i] * A[1, i], dtype) - A[2, i]

    (kernel,) = functions(compile_device(source(main, arch), arch).cubin).values()
    # A constant is made by such an instruction of zero registers, too.
    halves = [each.text for each in kernel.instructions if each.family in ("HMUL2", "HADD2", "HFMA2")]
    arithmetic = [text for text in halves if "-RZ, RZ" not in text]
    assert len(arithmetic) == 2, arithmetic
