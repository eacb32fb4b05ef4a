"""The kernels that several benchmarks compile; their text is also what the peers run (the language is the same)."""

ELEMENTWISE = """
import tilelang, tilelang.language as T

@tilelang.jit(out_idx=[-1], target={target!r}{options})
def add(n, block=256):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return main
"""
