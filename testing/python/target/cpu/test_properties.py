"""Drawn shapes, types and tiles against torch: whatever does not divide, transposes, overlaps an edge or has one element."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T

from .support import build

EXAMPLES = settings(max_examples=12)
SIZES = st.integers(1, 70)
TARGETS = st.sampled_from(["cpu", "cpu", "c"])


@EXAMPLES
@given(
    st.tuples(SIZES, SIZES, SIZES),
    st.tuples(*[st.sampled_from([1, 3, 8, 16, 20, 33, 64])] * 3),
    st.tuples(st.booleans(), st.booleans()),
    st.sampled_from([("float32", "float32"), ("bfloat16", "float32"), ("float16", "float32"), ("float16", "float16"),
                     ("int8", "int32"), ("float64", "float64"), ("float8_e5m2", "float32")]),
    TARGETS,
)  # fmt: skip
def test_gemm(shape, tile, transposed, types, target):
    (M, N, K), (bm, bn, bk), (ta, tb), (dtype, accumulator) = shape, tile, transposed, types

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if ta else (M, K), dtype),
        B: T.Tensor((N, K) if tb else (K, N), dtype),
        C: T.Tensor((M, N), accumulator),
    ):
        with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=128) as (bx, by):
            a = T.alloc_shared((bk, bm) if ta else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if tb else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), accumulator)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                if ta:
                    T.copy(A[k * bk, by * bm], a)
                else:
                    T.copy(A[by * bm, k * bk], a)
                if tb:
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(B[k * bk, bx * bn], b)
                T.gemm(a, b, c, transpose_A=ta, transpose_B=tb)
            T.copy(c, C[by * bm, bx * bn])

    a = torch.randint(-2, 3, (M, K)).to(getattr(torch, dtype))
    b = torch.randint(-2, 3, (K, N)).to(getattr(torch, dtype))
    given_a, given_b = a.t().contiguous() if ta else a, b.t().contiguous() if tb else b
    c = build(main, target, out_idx=-1)(given_a, given_b)
    assert torch.equal(c.double(), a.double() @ b.double())


@EXAMPLES
@given(
    st.tuples(SIZES, SIZES), st.tuples(st.sampled_from([1, 5, 16, 64]), st.sampled_from([1, 7, 16, 40, 128])),
    st.sampled_from(["float32", "float16", "int8", "bool", "int64", "float8_e4m3fn"]),
    st.integers(0, 9), st.integers(0, 9), TARGETS,
)  # fmt: skip
def test_copy_through_tiles_pads_with_zero(shape, tile, dtype, row, column, target):
    """A tile at any offset reads zero outside; elements outside are not written."""
    (M, N), (bm, bn) = shape, tile
    row, column = row % M, column % N  # a tile that lies outside altogether is refused

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), whole: T.Tensor((bm, bn), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((bm, bn), dtype)
            T.copy(X[row, column], tile)
            T.copy(tile, whole)
            T.copy(tile, Y[row, column])

    kind = getattr(torch, dtype)
    x = torch.randint(0, 2, (M, N)).to(kind)
    whole, y = torch.ones(bm, bn).to(kind), torch.zeros(M, N).to(kind)
    build(main, target)(x, whole, y)
    expected = torch.zeros(bm, bn)
    inside = x.float()[row : row + bm, column : column + bn]
    expected[: inside.shape[0], : inside.shape[1]] = inside
    assert torch.equal(whole.float(), expected)
    copied = torch.zeros(M, N)
    copied[row : row + bm, column : column + bn] = inside
    assert torch.equal(y.float(), copied)


@EXAMPLES
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3), st.integers(0, 2),
    st.sampled_from(["sum", "max", "min", "abssum", "absmax"]),
    st.sampled_from(["float32", "int32", "float16", "bfloat16"]), st.booleans(), TARGETS,
)  # fmt: skip
def test_reduce(shape, axis, kind, dtype, clear, target):
    dim = axis % len(shape)
    kept = [extent for position, extent in enumerate(shape) if position != dim] or [1]

    @T.prim_func
    def main(X: T.Tensor(shape, dtype), Y: T.Tensor(kept, dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment(shape, dtype)
            y = T.alloc_fragment(kept, dtype)
            T.copy(X, x)
            T.copy(Y, y)
            getattr(T, f"reduce_{kind}")(x, y, dim=dim, clear=clear)
            T.copy(y, Y)

    x = torch.randint(-4, 5, shape).to(getattr(torch, dtype))
    y = torch.full(kept, 3).to(x.dtype)
    values = x.double().abs() if kind.startswith("abs") else x.double()
    plain = kind.removeprefix("abs")
    expected = values.sum(dim) if plain == "sum" else getattr(values, f"a{plain}")(dim)
    expected = expected.reshape(kept)
    if not clear:
        expected = expected + 3 if plain == "sum" else getattr(torch, f"{plain}imum")(expected, torch.tensor(3.0).double())
    build(main, target)(x, y)
    assert torch.equal(y.double(), expected)


@EXAMPLES
@given(st.tuples(SIZES, SIZES), st.integers(0, 1), st.booleans(), st.sampled_from(["sum", "max"]), TARGETS)
def test_scan(shape, dim, reverse, kind, target):
    @T.prim_func
    def main(X: T.Tensor(shape, "float32"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared(shape, "float32")
            T.copy(X, x)
            getattr(T, f"cum{kind}")(x, dim=dim, reverse=reverse)
            T.copy(x, Y)

    x = torch.randint(-4, 5, shape).float()
    flipped = x.flip(dim) if reverse else x
    expected = flipped.cumsum(dim) if kind == "sum" else flipped.cummax(dim).values
    expected = expected.flip(dim) if reverse else expected
    assert torch.equal(build(main, target, out_idx=-1)(x), expected)


@settings(max_examples=20)
@given(st.integers(1, 300), st.integers(1, 40), st.booleans())
def test_one_kernel_for_every_size(m, n, strided):
    """Dynamic sizes and strides: the kernel is compiled once."""
    kernel = _dynamic_kernel()
    base = torch.randn(m, n * 2 + 1)
    x = base[:, : n + 1] if strided else base[:, : n + 1].contiguous()
    y = torch.empty(m, n + 1)
    kernel(x, y)
    assert torch.equal(y, x * 2)


_KERNELS: dict = {}


def _dynamic_kernel():
    if not _KERNELS:
        m, n, stride = T.dynamic("m"), T.dynamic("n"), T.dynamic("stride")

        @T.prim_func
        def main(X: T.StridedTensor((m, n), (stride, 1), "float32"), Y: T.Tensor((m, n), "float32")):
            with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 32), threads=128) as (bx, by):
                x = T.alloc_fragment((32, 16), "float32")
                T.copy(X[by * 32, bx * 16], x)
                for i, j in T.Parallel(32, 16):
                    Y[by * 32 + i, bx * 16 + j] = x[i, j] * 2.0

        _KERNELS["dynamic"] = build(main)
    return _KERNELS["dynamic"]
