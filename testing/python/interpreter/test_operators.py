"""Every tile operator beside torch."""

import math

import pytest
import torch

import tilelang
import tilelang.language as T

from .support import kinds, run


def random(*shape, dtype="float32", seed=0):
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator).to(kind)
    return torch.randint(-20, 20, shape, generator=generator).to(kind)


# Movement ------------------------------------------------------------------------------------------------------------


def copied(rows, columns, block, source, target, scope):
    @T.prim_func
    def main(A: T.Tensor((rows, columns), source), B: T.Tensor((rows, columns), target)):
        with T.Kernel(T.ceildiv(columns, block), T.ceildiv(rows, block), threads=64) as (x, y):
            tile = T.alloc_buffer((block, block), source, scope=scope)
            T.copy(A[y * block, x * block], tile)
            T.copy(tile, B[y * block, x * block])

    return main


CONVERSIONS = [("float32", "float16"), ("bfloat16", "bfloat16"), ("int8", "float32"), ("float32", "int8")]


@pytest.mark.parametrize("scope", ["shared", "local.fragment"])
@pytest.mark.parametrize(("source", "target"), CONVERSIONS)
def test_copies_convert_and_stop_at_the_edges(source, target, scope):
    a = random(37, 50, dtype=source) * (3 if source.startswith("float") else 1)
    b = torch.zeros(37, 50, dtype=getattr(torch, target))
    run(copied(37, 50, 16, source, target, scope), a, b)
    assert torch.equal(b, a.to(b.dtype))


def test_accesses_outside_of_a_tensor():
    @T.prim_func
    def main(A: T.Tensor((5, 6), "float32"), n: T.int32, B: T.Tensor((8, 8), "float32"), C: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A[n, n], B[0:8, 0:8])
            T.annotate_safe_value({A: 7.0})
            for i, j in T.Parallel(8, 8):
                C[i, j] = A[i + n, j - n]
                A[i + 5, j] = 1.0

    a, b, c = random(5, 6), torch.zeros(8, 8), torch.zeros(8, 8)
    kept = a.clone()
    run(main, a, 2, b, c)
    want_b, want_c = torch.zeros(8, 8), torch.full((8, 8), 7.0)
    want_b[:3, :4], want_c[:3, 2:8] = a[2:, 2:], a[2:]
    assert torch.equal(b, want_b) and torch.equal(c, want_c) and torch.equal(a, kept)


def test_fill_clear_transpose_and_views():
    @T.prim_func
    def main(
        A: T.Tensor((8, 6), "float32"),
        B: T.Tensor((6, 8), "float32"),
        C: T.Tensor((4, 12), "float32"),
        D: T.Tensor((8, 12), "int16"),
    ):
        with T.Kernel(1, threads=32):
            tile, turned = T.alloc_shared((8, 6), "float32"), T.alloc_shared((6, 8), "float32")
            T.copy(A, tile)
            T.transpose(tile, turned)
            T.fill(turned[0:2, :], 3)
            T.clear(turned[5, :])
            T.copy(turned, B)
            T.copy(T.reshape(tile, (4, 12)), C)
            T.copy(T.view(tile, (8, 12), dtype="int16"), D)

    a, b, c, d = random(8, 6), torch.zeros(6, 8), torch.zeros(4, 12), torch.zeros(8, 12, dtype=torch.int16)
    run(main, a, b, c, d)
    want = a.T.clone()
    want[:2], want[5] = 3, 0
    assert torch.equal(b, want) and torch.equal(c, a.reshape(4, 12)) and torch.equal(d, a.view(torch.int16))


def test_im2col():
    @T.prim_func
    def main(X: T.Tensor((1, 6, 7, 2), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64, 32), "float32")
            T.c2d_im2col(X, tile, 0, 0, kernel=3, stride=1, dilation=1, pad=1)
            T.copy(tile, B)

    x, b = random(1, 6, 7, 2), torch.zeros(64, 32)
    run(main, x, b)
    want = torch.nn.functional.unfold(x.permute(0, 3, 1, 2), 3, padding=1)[0].reshape(2, 9, 42).permute(2, 1, 0).reshape(42, 18)
    assert torch.equal(b[:42, :18], want) and not b[42:].any() and not b[:, 18:].any()


# Products ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "accumulator"), [
    ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int8", "int32"),
    ("float8_e4m3fn", "float32"), ("float16", "float16"),
])  # fmt: skip
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
def test_products(dtype, accumulator, turned):
    a_shape, b_shape = (24, 16) if turned[0] else (16, 24), (20, 24) if turned[1] else (24, 20)

    @T.prim_func
    def main(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((16, 20), accumulator)):
        with T.Kernel(1, threads=32):
            left, right = T.alloc_shared(a_shape, dtype), T.alloc_shared(b_shape, dtype)
            total = T.alloc_fragment((16, 20), accumulator)
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, total, transpose_A=turned[0], transpose_B=turned[1], clear_accum=True)
            T.gemm(left, right, total, transpose_A=turned[0], transpose_B=turned[1])
            T.copy(total, C)

    a, b = random(*a_shape).to(getattr(torch, dtype)), random(*b_shape, seed=1).to(getattr(torch, dtype))
    c = torch.zeros(16, 20, dtype=getattr(torch, accumulator))
    run(main, a, b, c)
    product = (a.double().T if turned[0] else a.double()) @ (b.double().T if turned[1] else b.double())
    exact = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}.get(accumulator, 0)
    torch.testing.assert_close(c.double(), 2 * product, rtol=exact, atol=10 * exact)


def test_whether_a_product_begins_anew_is_told_by_a_value_of_each_thread():
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), C: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            tile, total = T.alloc_shared((8, 8), "float32"), T.alloc_fragment((8, 8), "float32")
            step = T.get_thread_binding() // 32
            T.copy(A, tile)
            T.gemm(tile, tile, total, clear_accum=step == 0)
            T.gemm(tile, tile, total, clear_accum=step == 1)
            T.copy(total, C)

    a, c = random(8, 8), torch.zeros(8, 8)
    run(main, a, c)
    torch.testing.assert_close(c, 2 * a @ a)


def test_sparse_products():
    @T.prim_func
    def main(
        A: T.Tensor((4, 8), "float16"),
        E: T.Tensor((4, 1), "int16"),
        B: T.Tensor((16, 8), "float16"),
        C: T.Tensor((4, 8), "float32"),
    ):
        with T.Kernel(1, threads=32):
            kept, places = T.alloc_shared((4, 8), "float16"), T.alloc_shared((4, 1), "int16")
            right, total = T.alloc_shared((16, 8), "float16"), T.alloc_fragment((4, 8), "float32")
            T.copy(A, kept)
            T.copy(E, places)
            T.copy(B, right)
            T.clear(total)
            T.gemm_sp(kept, places, right, total)
            T.copy(total, C)

    a, b, c = random(4, 8).half(), random(16, 8, seed=1).half(), torch.zeros(4, 8)
    pairs = [(0, 1), (0, 2), (1, 3), (2, 3)]
    code = [first | second << 2 for first, second in pairs]
    e = torch.tensor([[sum(code[(row + group) % 4] << 4 * group for group in range(4))] for row in range(4)])
    run(main, a, e.to(torch.int16), b, c)
    dense = torch.zeros(4, 16)
    for row in range(4):
        for group in range(4):
            for which, place in enumerate(pairs[(row + group) % 4]):
                dense[row, 4 * group + place] = a[row, 2 * group + which]
    torch.testing.assert_close(c, dense @ b.float(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("a", "word", "found"), [(1, 0, ["metadata"]), (0, 0, []), (1, 0b0001, ["metadata"]), (1, 0x4444, [])])
def test_metadata_of_sparse_products(a, word, found):
    """Rows beyond a tensor have metadata 0, no positions, and elements that are zero: these do not matter."""

    @T.prim_func
    def main(A: T.Tensor((4, 8), "float16"), E: T.Tensor((4, 1), "int16"), C: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            kept, places = T.alloc_shared((4, 8), "float16"), T.alloc_shared((4, 1), "int16")
            right, total = T.alloc_shared((16, 8), "float16"), T.alloc_fragment((4, 8), "float32")
            T.copy(A, kept)
            T.copy(E, places)
            T.fill(right, 1)
            T.clear(total)
            T.gemm_sp(kept, places, right, total)
            T.copy(total, C)

    assert kinds(main, torch.full((4, 8), a).half(), torch.full((4, 1), word, dtype=torch.int16), torch.zeros(4, 8)) == found


# Reductions ----------------------------------------------------------------------------------------------------------

FOLDS = {
    "sum": lambda x, dim: x.sum(dim),
    "max": lambda x, dim: x.amax(dim),
    "min": lambda x, dim: x.amin(dim),
    "abssum": lambda x, dim: x.abs().sum(dim),
    "absmax": lambda x, dim: x.abs().amax(dim),
}


def reduced(kind, dim, dtype, clear=True):
    @T.prim_func
    def main(A: T.Tensor((6, 5, 4), dtype), B: T.Tensor((6, 4) if dim == 1 else (6, 5), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((6, 5, 4), dtype)
            result = T.alloc_fragment((6, 4) if dim == 1 else (6, 5), dtype)
            T.copy(A, tile)
            T.fill(result, 3)
            T.reduce(tile, result, kind, dim, clear)
            T.copy(result, B)

    return main


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("kind", FOLDS)
def test_reductions(kind, dim, dtype):
    a = random(6, 5, 4, dtype=dtype)
    b = torch.zeros((6, 4) if dim == 1 else (6, 5), dtype=a.dtype)
    run(reduced(kind, dim, dtype), a, b)
    torch.testing.assert_close(b, FOLDS[kind](a, dim).to(b.dtype), rtol=1e-6, atol=1e-6)


def test_tiles_without_axes():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((), "float32"), C: T.Tensor((), "float32")):
        with T.Kernel(1, threads=32):
            a, total = T.alloc_fragment((8,), "float32"), T.alloc_shared((), "float32")
            T.copy(A, a)
            T.reduce_sum(a, total)
            T.copy(total, B)
            T.copy(total[()], C[()])

    b, c = torch.zeros(()), torch.zeros(())
    run(main, torch.arange(8).float(), b, c)
    assert (b.item(), c.item()) == (28, 28)


def test_a_reduction_goes_on_from_the_old_value_and_ignores_nan():
    a, b = random(6, 5, 4), torch.zeros(6, 4)
    a[:, 0] = torch.nan
    run(reduced("max", 1, "float32", clear=False), a, b)
    assert torch.equal(b, a[:, 1:].amax(1).clamp(min=3))


@pytest.mark.parametrize("kind, want", [("max", -math.inf), ("min", math.inf), ("absmax", 0.0)])
def test_reducing_only_nan_gives_the_identity(kind, want):
    @T.prim_func
    def main(A: T.Tensor((2, 40), "float32"), B: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=32):
            rows, result = T.alloc_fragment((2, 40), "float32"), T.alloc_fragment((2,), "float32")
            T.copy(A, rows)
            T.reduce(rows, result, kind, 1, True)
            T.copy(result, B)

    a = torch.full((2, 40), torch.nan)
    a[1, 3] = 1
    for target in ("interpret", "cpu", "c"):
        b = torch.zeros(2)
        tilelang.compile(main, target=target)(a, b)
        assert b.tolist() == [want, 1]


@pytest.mark.parametrize(("name", "fold"), [("bitand", int.__and__), ("bitor", int.__or__), ("bitxor", int.__xor__)])
def test_reductions_of_bits(name, fold):
    a, b = random(6, 5, 4, dtype="int32"), torch.zeros(6, 4, dtype=torch.int32)
    run(reduced(name, 1, "int32"), a, b)
    want = a[:, 0].clone()
    for step in range(1, 5):
        want = torch.tensor([fold(p, q) for p, q in zip(want.flatten().tolist(), a[:, step].flatten().tolist())]).reshape(6, 4)
    assert torch.equal(b, want.int())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("scan", "want"), [(T.cumsum, lambda x: x.cumsum(1)), (T.cummax, lambda x: x.cummax(1).values)])
def test_scans(scan, want, reverse):
    @T.prim_func
    def main(A: T.Tensor((4, 9), "float32"), B: T.Tensor((4, 9), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4, 9), "float32")
            T.copy(A, tile)
            scan(tile, dim=1, reverse=reverse)
            T.copy(tile, B)

    a, b = random(4, 9), torch.zeros(4, 9)
    run(main, a, b)
    torch.testing.assert_close(b, want(a.flip(1)).flip(1) if reverse else want(a), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("op", "want"), [("sum", 2 + 3.0), ("max", 2.0), ("min", -3.0)])
def test_reducers(op, want):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            part, result = T.alloc_reducer((4,), "float32", op=op), T.alloc_fragment((4,), "float32")
            T.reducer_init(part)
            for i, j in T.Parallel(4, 8):
                T.reducer_update(part[i], A[i, j])
            T.finalize_reducer(part, result)
            T.copy(result, B)

    a, b = random(4, 8), torch.zeros(4)
    run(main, a, b)
    torch.testing.assert_close(b, {"sum": a.sum(1), "max": a.amax(1), "min": a.amin(1)}[op], rtol=1e-6, atol=1e-6)


# Atomics, the rest ---------------------------------------------------------------------------------------------------


def test_atomics():
    @T.prim_func
    def main(
        A: T.Tensor((64,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((3, 8), "float32"), D: T.Tensor((64,), "int32")
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 2)
            for i in T.Parallel(64):
                T.atomic_add(B[A[i]], 1)
                T.atomic_max(B[7], A[i])
                T.atomic_min(B[6], -A[i])
                T.atomic_or(B[5], 1 << A[i])
                D[i] = T.atomic_add(B[4], 10, return_prev=True)
            T.atomic_add(C[0, 0:8], tile)
            T.atomic_max(C[1, 0:8], tile)
            T.atomic_add(C[2, 0], 1.5)
            T.atomic_addx2(C[2, 2], tile[0])
            T.atomic_addx4(C[2, 4], tile[4])
            T.atomic_store(C[2, 1], T.atomic_load(C[2, 0]) * 2)

    a, b, c, d = (torch.arange(64) % 4).int(), torch.zeros(8).int(), torch.zeros(3, 8), torch.zeros(64).int()
    run(main, a, b, c, d)
    assert b.tolist() == [16, 16, 16, 16, 640, 15, -3, 3]
    assert sorted(d.tolist()) == list(range(0, 640, 10))
    assert c.tolist() == [[2.0] * 8, [2.0] * 8, [1.5, 3.0, 2, 2, 2, 2, 2, 2]]


def test_dp4a_and_quantifiers():
    @T.prim_func
    def main(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "int8"), C: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            left, right, total = T.alloc_local((4,), "int8"), T.alloc_local((4,), "int8"), T.alloc_local((1,), "int32")
            T.copy(A, left)
            T.copy(B, right)
            total[0] = 5
            T.dp4a(left, right, total)
            C[0] = total[0]
            C[1] = T.any_of(left)
            C[2] = T.all_of(left)

    a, b, c = torch.tensor([1, -2, 0, 4]).char(), torch.tensor([10, 20, 30, -40]).char(), torch.zeros(3).int()
    run(main, a, b, c)
    assert c.tolist() == [5 + 10 - 40 - 160, 1, 0]


def test_printing(capsys):
    @T.prim_func
    def main(A: T.Tensor((2,), "float32"), n: T.int32):
        with T.Kernel(2, threads=32) as b:
            tile = T.alloc_fragment((2,), "float32")
            T.copy(A, tile)
            if b == n:
                T.print(tile, "tile")
                T.print(b + 10, "sum")

    run(main, torch.tensor([1.5, 2.0]), 1)
    assert capsys.readouterr().out.splitlines() == ["tile tile[0] = 1.5", "tile tile[1] = 2", "sum 11"]


def test_assertions_stop_the_call():
    from tilelang.errors import KernelFailedError

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                T.device_assert(A[i] < 3, "too large")

    run(main, torch.arange(3).repeat(2)[:4].int())
    with pytest.raises(KernelFailedError, match=r"test_operators.py:\d+: T.device_assert failed: too large"):
        run(main, torch.arange(4).int())


def test_memory_of_iterations():
    """Each has its own; afterwards an element holds what one iteration gave it, or several alike."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            local, last = T.alloc_local((8,), "float32"), T.alloc_var("float32", init=0.0)
            for i in T.Parallel(8):
                last = A[i]
                local[i] = last * 2
            for i in T.Parallel(8):
                B[i] = local[7 - i]
            if n > 0:
                B[0] = last

    a, b = random(8), torch.zeros(8)
    run(main, a, b, 0)
    assert torch.equal(b, a.flip(0) * 2)
    assert kinds(main, a, b, 1) == ["uninitialised"]
    assert kinds(main, torch.ones(8), b, 1) == []


def test_control_flow_of_iterations():
    @T.prim_func
    def main(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                n = T.alloc_var("int32", init=0)
                if A[i] % 5 == 4:
                    continue
                for k in T.serial(A[i]):
                    if k % 3 == 1:
                        continue
                    if k > 8:
                        break
                    n += k
                while n > 10:
                    n -= 7
                B[i] = n

    a, b = torch.arange(16, dtype=torch.int32), torch.full((16,), -1, dtype=torch.int32)
    run(main, a, b)

    def want(value):
        if value % 5 == 4:
            return -1
        n = 0
        for k in range(value):
            if k % 3 == 1:
                continue
            if k > 8:
                break
            n += k
        while n > 10:
            n -= 7
        return n

    assert b.tolist() == [want(value) for value in a.tolist()]
