"""Costs of programs: products and copies, times the loops and blocks around them."""

import pytest

import tilelang.language as T
from tilelang.errors import CompileError
from tilelang.tools import Analyzer


class Device:
    compute_capability = "80"
    bandwidth = (1000, 4000)


def gemm(size, causal=False):
    @T.prim_func
    def main(A: T.Tensor((size, size), "float16"), B: T.Tensor((size, size), "float16"), C: T.Tensor((size, size), "float16")):
        with T.Kernel(T.ceildiv(size, 32), T.ceildiv(size, 32), 3, threads=128) as (bx, by, bz):
            a, b, c = (
                T.alloc_shared((32, 32), "float16"),
                T.alloc_shared((32, 32), "float16"),
                T.alloc_fragment((32, 32), "float32"),
            )
            T.clear(c)
            for k in T.Pipelined(by + 1 if causal else T.ceildiv(size, 32), num_stages=2):
                T.copy(A[by * 32, k * 32], a)
                T.copy(B[k * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return main


@pytest.mark.parametrize("causal", [False, True])
def test_flops_and_bytes(causal):
    found = Analyzer.analysis(gemm(64, causal), Device())
    assert found.total_flops == 3 * 2 * 64**3
    assert found.total_global_bytes == 3 * 40960
    assert found.estimated_time == pytest.approx(found.total_global_bytes / 1e12)
    assert (found.expected_tflops, found.expected_bandwidth_GBps) == (312.0, 1000.0)


def test_a_second_pass_starts_afresh():
    analyzer = Analyzer(gemm(64), Device())
    assert analyzer.ir_pass().calculate() == analyzer.ir_pass().calculate()
    assert analyzer.block_counts == {"blockIdx.x": 2, "blockIdx.y": 2, "blockIdx.z": 3}


def test_sizes_must_be_known():
    with pytest.raises(CompileError, match="run time only"):
        Analyzer.analysis(gemm(T.dynamic("n")), Device())


def test_a_while_loop_has_no_known_length():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            step = T.alloc_var("int32", init=0)
            while step < 64:
                A[step] = 0
                step += 1

    with pytest.raises(CompileError, match="while loop is known at run time only"):
        Analyzer.analysis(main, Device())
