"""Reductions and scans of tiles against torch."""

import functools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError, ReducerError

from .support import assert_close, name_of, random, run

SCOPES = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}
REFERENCES = {
    "sum": lambda x, dim: x.sum(dim),
    "max": lambda x, dim: x.amax(dim),
    "min": lambda x, dim: x.amin(dim),
    "abssum": lambda x, dim: x.abs().sum(dim),
    "absmax": lambda x, dim: x.abs().amax(dim),
}
BITWISE = {"bitand": "__and__", "bitor": "__or__", "bitxor": "__xor__"}


def reduction(kind, shape, dim, dtype, scope="fragment", keepdim=False, start=None):
    """B = the reduction of A; with ``start``, B's old value takes part."""
    dim_ = dim % len(shape)
    kept = [1 if axis == dim_ else size for axis, size in enumerate(shape) if axis != dim_ or keepdim]

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(kept, dtype)):
        with T.Kernel(1, threads=128):
            a, b = SCOPES[scope](shape, dtype), SCOPES[scope](kept, dtype)
            T.copy(A, a)
            if start is not None:
                T.fill(b, start)
            getattr(T, f"reduce_{kind}")(a, b, dim=dim, clear=start is None)
            T.copy(b, B)

    return main


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("kind", REFERENCES)
def test_float_reductions(kind, dim, scope):
    a = random((24, 40), torch.float32)
    assert_close(run(reduction(kind, (24, 40), dim, "float32", scope), a, out_idx=-1), REFERENCES[kind](a, dim), factor=4)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.int64], ids=name_of
)
@pytest.mark.parametrize("kind", ["sum", "max", "min", "absmax"])
def test_types(kind, dtype):
    a = random((8, 32), dtype)
    if dtype == torch.int8 and kind == "sum":
        a = a // 8
    expected = REFERENCES[kind](a.double(), 1)
    assert_close(run(reduction(kind, (8, 32), 1, name_of(dtype)), a, out_idx=-1), expected.to(dtype), factor=8)


@pytest.mark.parametrize("kind", BITWISE)
def test_bitwise_reductions(kind):
    a = torch.randint(0, 2**20, (8, 16), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    b = run(reduction(kind, (8, 16), 1, "int32"), a, out_idx=-1)
    expected = []
    for row in a.tolist():
        value = row[0]
        for item in row[1:]:
            value = getattr(value, BITWISE[kind])(item)
        expected.append(value)
    assert b.tolist() == expected


@pytest.mark.parametrize("kind,start", [("sum", 3.0), ("max", 1.0), ("min", -1.0), ("absmax", 2.5), ("abssum", 2.0)])
def test_without_clear_the_old_value_takes_part(kind, start):
    a = random((8, 16), torch.float32)
    combine = {"sum": torch.add, "abssum": torch.add, "max": torch.maximum, "absmax": torch.maximum, "min": torch.minimum}[kind]
    b = run(reduction(kind, (8, 16), 1, "float32", start=start), a, out_idx=-1)
    assert_close(b, combine(REFERENCES[kind](a, 1), torch.tensor(start)), factor=4)


def test_kept_axis_and_one_dimension():
    a = random((8, 16), torch.float32)
    assert_close(run(reduction("sum", (8, 16), 1, "float32", keepdim=True), a, out_idx=-1), a.sum(1, keepdim=True), factor=4)
    vector = random((64,), torch.float32)
    assert_close(run(reduction("max", (64,), 0, "float32", keepdim=True), vector, out_idx=-1), vector.amax(0, keepdim=True))


@pytest.mark.property
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=2, max_size=4), st.data())
def test_any_shape(shape, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    a = random(tuple(shape), torch.int32)
    expected = a.sum(dim, dtype=torch.int32)
    assert torch.equal(run(reduction("sum", tuple(shape), dim, "int32"), a, out_idx=-1), expected)


def test_nan_is_ignored_unless_it_should_win():
    def program(propagate):
        @T.prim_func
        def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                a, b = T.alloc_fragment((4, 8), "float32"), T.alloc_fragment((4,), "float32")
                T.copy(A, a)
                T.reduce_max(a, b, dim=1, nan_propagate=propagate)
                T.copy(b, B)

        return main

    a = random((4, 8), torch.float32)
    a[1, 3] = a[2, 0] = torch.nan
    expected = a.nan_to_num(-100).amax(1)
    assert torch.equal(run(program(False), a, out_idx=-1), expected)
    assert torch.equal(run(program(True), a, out_idx=-1).isnan(), torch.tensor([False, True, True, False]))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", ["cumsum", "cummax"])
def test_scans(kind, dim, reverse, scope):
    @T.prim_func
    def main(A: T.Tensor((12, 20), "float32"), B: T.Tensor((12, 20), "float32"), C: T.Tensor((12, 20), "float32")):
        with T.Kernel(1, threads=128):
            a, b = SCOPES[scope]((12, 20), "float32"), SCOPES[scope]((12, 20), "float32")
            T.copy(A, a)
            getattr(T, kind)(a, b, dim=dim, reverse=reverse)
            T.copy(b, B)
            getattr(T, kind)(a, dim=dim, reverse=reverse)
            T.copy(a, C)

    a = random((12, 20), torch.float32)
    ordered = a.flip(dim) if reverse else a
    scanned = ordered.cumsum(dim) if kind == "cumsum" else ordered.cummax(dim).values
    expected = scanned.flip(dim) if reverse else scanned
    for result in run(main, a, out_idx=[1, 2]):
        assert_close(result, expected, factor=8)


@pytest.mark.parametrize("op", ["sum", "max", "min"])
def test_reducer(op):
    @T.prim_func
    def main(A: T.Tensor((32, 24), "float32"), B: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((32, 24), "float32")
            total = T.alloc_reducer((24,), "float32", op=op, replication="all")
            T.copy(A, a)
            T.fill(total, {"sum": 0.0, "max": -T.infinity("float32"), "min": T.infinity("float32")}[op])
            for i, j in T.Parallel(32, 24):
                total[j] = {"sum": lambda x, y: x + y, "max": T.max, "min": T.min}[op](total[j], a[i, j])
            T.finalize_reducer(total)
            T.copy(total, B)

    a = random((32, 24), torch.float32)
    assert_close(run(main, a, out_idx=-1), REFERENCES[op](a, 0), factor=4)


@pytest.mark.parametrize("dim", [2, -3])
def test_axis_out_of_range(dim):
    with pytest.raises(CompileError, match=f"dim={dim} is out of range for 2 axes"):
        _reduce_axis(dim)


@pytest.mark.parametrize("keyword, meant", [("axis", "dim"), ("cler", "clear")])
def test_a_wrong_keyword_is_told_the_right_one(keyword, meant):
    with pytest.raises(CompileError, match=f"unexpected keyword argument '{keyword}'(?s:.)*did you mean '{meant}'"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float32")):
            with T.Kernel(1):
                T.reduce_sum(T.alloc_fragment((4, 4), "float32"), T.alloc_fragment((4,), "float32"), **{keyword: 1})


def _reduce_axis(dim):
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32")):
        with T.Kernel(1):
            T.reduce_sum(T.alloc_fragment((4, 4), "float32"), T.alloc_fragment((4,), "float32"), dim=dim)


def test_unknown_reducer():
    with pytest.raises(CompileError, match="op='mean' is none of sum, max, min"):

        @T.prim_func
        def main(A: T.Tensor((4, 4), "float32")):
            with T.Kernel(1):
                T.alloc_reducer((4,), "float32", op="mean")


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90a"}], ids=str)
@pytest.mark.parametrize("op, dtype, seed", [
    ("sum", "float32", None), ("sum", "float32", 100.0), ("max", "float16", None), ("min", "int32", 3), ("bitxor", "uint8", None),
    ("bitand", "int32", None),
])  # fmt: skip
def test_reducer_updates_count_once(op, dtype, seed, target):
    @T.prim_func
    def main(A: T.Tensor((16, 64), dtype), B: T.Tensor((16,), dtype), C: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=128):
            rows = T.alloc_reducer((16,), dtype, op=op)
            T.reducer_init(rows, seed)
            for half in T.serial(2):
                for i, j in T.Parallel(16, 32):
                    T.reducer_update(rows[i], A[i, half * 32 + j])
            result = T.alloc_fragment((16,), dtype)
            T.finalize_reducer(rows, result)
            T.copy(result, B)
            # fewer iterations than threads: some threads have nothing to add
            few = T.alloc_reducer((1,), dtype, op=op)
            T.reducer_init(few)
            for i in T.Parallel(8):
                T.reducer_update(few[0], A[0, i])
            T.finalize_reducer(few, result[0:1])
            C[0] = result[0]

    combine = {
        "sum": torch.add, "max": torch.maximum, "min": torch.minimum, "bitand": torch.bitwise_and, "bitxor": torch.bitwise_xor,
    }[op]  # fmt: skip
    kind = getattr(torch, dtype)
    a = random((16, 64), kind) if kind.is_floating_point else torch.randint(0, 200, (16, 64)).to(kind) | 5
    b, c = torch.zeros(16, dtype=kind), torch.zeros(1, dtype=kind)
    with tilelang.simulator():
        tilelang.compile(main, target=target)(a, b, c)
    want = functools.reduce(combine, a.unbind(1))
    want = want if seed is None else combine(want, torch.full_like(want, seed))
    torch.testing.assert_close(b, want, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(c, functools.reduce(combine, a[0, :8].unbind(0)).reshape(1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_80"}, {"kind": "cuda", "arch": "sm_90a"}], ids=str)
def test_the_first_value_of_a_reducer_is_that_of_the_last_beginning_on_the_path(target):
    @T.prim_func
    def main(A: T.Tensor((4, 32), "int32"), B: T.Tensor((4, 2, 4), "int32")):
        with T.Kernel(4, threads=128) as b:
            r = T.alloc_reducer((2, 4), "int32", op="sum")
            result = T.alloc_fragment((2, 4), "int32")
            T.reducer_init(r, init=1000)
            if A[b, 0] == 1:
                T.reducer_init(r)
            elif A[b, 0] == 2:
                T.clear(r)
            elif A[b, 0] == 3:
                T.reducer_init(r, init=A[b, 1])
            for i, j, k in T.Parallel(2, 4, 4):
                T.reducer_update(r[i, j], A[b, i * 16 + j * 4 + k])
            T.finalize_reducer(r)
            T.copy(r, result)
            T.clear(r)
            for i, j in T.Parallel(2, 4):
                T.reducer_update(r[i, j], result[i, j])
            T.finalize_reducer(r, result)
            T.copy(result, B[b, :, :])

    a = torch.randint(0, 90, (4, 32), dtype=torch.int32)
    a[:, 0] = torch.arange(4)
    found = torch.zeros(4, 2, 4, dtype=torch.int32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(a, found)
    first = torch.tensor([1000, 0, 0, int(a[3, 1])]).reshape(4, 1, 1)
    assert torch.equal(found, (a.reshape(4, 2, 4, 4).sum(3) + first).int())


def test_a_large_reducer_needs_little_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((4, 512), "float32"), B: T.Tensor((512,), "float32")):
        with T.Kernel(1, threads=128):
            columns = T.alloc_reducer((512,), "float32", op="sum")
            T.reducer_init(columns)
            for i, j in T.Parallel(4, 512):
                T.reducer_update(columns[j], A[i, j])
            result = T.alloc_fragment((512,), "float32")
            T.finalize_reducer(columns, result)
            T.copy(result, B)

    a, b = random((4, 512), torch.float32), torch.zeros(512)
    kernel = tilelang.compile(main, target={"kind": "cuda", "arch": "sm_80"})
    with tilelang.simulator():
        kernel(a, b)
    torch.testing.assert_close(b, a.sum(0), rtol=1e-5, atol=1e-5)
    assert kernel.entry.artifact.launches[0].shared_bytes == 512 * 4 * 4  # one part of each element a warp


def _misused(op, body, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((16, 8), dtype), B: T.Tensor((16,), dtype)):
        with T.Kernel(1, threads=128):
            r = T.alloc_reducer((16,), dtype, op=op)
            result = T.alloc_fragment((16,), dtype)
            body(A, B, r, result)

    return main


@T.macro
def _update(A, r):
    for i, j in T.Parallel(16, 8):
        T.reducer_update(r[i], A[i, j])


@T.macro
def _other_operation(A, B, r, result):
    T.clear(r)
    for i, j in T.Parallel(16, 8):
        r[i] = T.max(r[i], A[i, j])
    T.finalize_reducer(r, result)


@T.macro
def _scaled(A, B, r, result):
    T.clear(r)
    for i, j in T.Parallel(16, 8):
        r[i] = A[i, j] - r[i]
    T.finalize_reducer(r, result)


@T.macro
def _never_finalized(A, B, r, result):
    T.reducer_init(r)
    _update(A, r)


@T.macro
def _read_early(A, B, r, result):
    T.reducer_init(r)
    _update(A, r)
    T.copy(r, B)
    T.finalize_reducer(r, result)


@T.macro
def _read_while_updated(A, B, r, result):
    T.reducer_init(r)
    for i, j in T.Parallel(16, 8):
        r[i] += A[i, j]
        B[i] = r[i]
    T.finalize_reducer(r, result)


@T.macro
def _read_where_a_branch_may_have_updated(A, B, r, result):
    T.reducer_init(r)
    if A[0, 0] > 0:
        _update(A, r)
    T.copy(r, B)
    T.finalize_reducer(r, result)


@T.macro
def _not_begun(A, B, r, result):
    _update(A, r)
    T.finalize_reducer(r, result)


@T.macro
def _begun_once_for_all_iterations(A, B, r, result):
    T.reducer_init(r)
    for _ in T.serial(2):
        _update(A, r)
        T.finalize_reducer(r, result)


@T.macro
def _every_thread_from_one(A, B, r, result):
    T.fill(r, 1.0)
    _update(A, r)
    T.finalize_reducer(r, result)


@T.macro
def _copied_into(A, B, r, result):
    T.copy(B, r)
    _update(A, r)
    T.finalize_reducer(r, result)


MISUSE = {
    _other_operation: "is updated by the operation of 'max'",
    _scaled: "is updated by something else than its operation",
    _never_finalized: "is never finalized",
    _read_early: "is read before T.finalize_reducer",
    _read_while_updated: "is read before T.finalize_reducer",
    _read_where_a_branch_may_have_updated: "is read before T.finalize_reducer",
    _not_begun: "is updated before T.reducer_init",
    _begun_once_for_all_iterations: "is updated after T.finalize_reducer",
    _every_thread_from_one: "is set to a value, which every thread would count",
    _copied_into: "is set to a value, which every thread would count",
}


@pytest.mark.parametrize("body, message", MISUSE.items(), ids=lambda value: getattr(value, "__name__", ""))
def test_misuse_of_a_reducer(body, message):
    with pytest.raises(ReducerError, match=message) as caught:
        _misused("sum", body)
    assert caught.value.location.file == __file__ and "reducer r (op='sum')" in str(caught.value)


@T.macro
def _a_branch(A, B, r, result):
    T.clear(r)
    if A[0, 0] > 0:
        _update(A, r)
        T.finalize_reducer(r)
        T.copy(r, B)
    else:
        T.copy(B, result)


@T.macro
def _an_epoch_for_each_iteration(A, B, r, result):
    for _ in T.serial(2):
        T.fill(r, 0)
        _update(A, r)
        T.finalize_reducer(r)
        T.copy(r, B)


@T.macro
def _many_terms(A, B, r, result):
    T.clear(r)
    for i, j in T.Parallel(16, 8):
        r[i] = r[i] + A[i, j] * A[i, j] - B[i]
    T.finalize_reducer(r, result)


@T.macro
def _a_serial_loop_of_updates(A, B, r, result):
    T.reducer_init(r, 3)
    for _ in T.serial(4):
        _update(A, r)
    T.finalize_reducer(r, result)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("body", [_a_branch, _an_epoch_for_each_iteration, _many_terms, _a_serial_loop_of_updates])
def test_right_uses_of_a_reducer(body, dtype):
    _misused("sum", body, dtype)


def test_a_maximum_accumulates_into_a_used_fragment():
    @T.macro
    def body(A, B, r, result):
        T.copy(B, r)
        for _ in T.serial(2):
            for i, j in T.Parallel(16, 8):
                r[i] = T.max(A[i, j], r[i])
            T.finalize_reducer(r)

    _misused("max", body)


def index_of(kind, shape, dim, dtype, index_dtype="int32", scope="fragment", keepdim=False):
    """B = the indices of the largest or smallest elements of A."""
    dim_ = dim % len(shape)
    kept = [1 if axis == dim_ else size for axis, size in enumerate(shape) if axis != dim_ or keepdim]

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(kept, index_dtype)):
        with T.Kernel(1, threads=128):
            a, b = SCOPES[scope](shape, dtype), SCOPES[scope](kept, index_dtype)
            T.copy(A, a)
            getattr(T, f"reduce_{kind}")(a, b, dim=dim)
            T.copy(b, B)

    return main


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize(
    ("shape", "dim", "scope", "keepdim"),
    [((4, 33), 1, "fragment", False), ((33, 4), 0, "shared", False), ((2, 7, 8), 1, "fragment", True), ((8,), 0, "shared", True)],
)
def test_index_of_the_first_extreme(kind, shape, dim, scope, keepdim):
    a = torch.randint(-4, 5, shape).float()
    b = run(index_of(kind, shape, dim, "float32", "int64", scope, keepdim), a, out_idx=-1)
    assert torch.equal(b, getattr(torch, kind)(a, dim, keepdim=keepdim))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_index_of_the_first_nan(kind, dtype):
    inf, nan = float("inf"), float("nan")
    rows = [[1, inf, -inf, 2], [inf, nan, nan, -inf], [nan] * 4, [inf] * 4, [-inf] * 4, [0.0, -0.0, 0.0, -0.0], [1, 1, 1, nan]]
    a = torch.tensor(rows, dtype=getattr(torch, dtype))
    b = run(index_of(kind, (7, 4), 1, dtype), a, out_idx=-1)
    assert torch.equal(b, getattr(torch, kind)(a, 1).int())


def test_index_within_a_slice():
    @T.prim_func
    def main(A: T.Tensor((3, 4, 16), "int32"), B: T.Tensor((3, 4), "int32")):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((3, 4, 16), "int32"), T.alloc_shared((3, 4), "int32")
            T.copy(A, a)
            for k in T.serial(3):
                T.reduce_argmax(a[k, :, 4:12], b[k, :], dim=2)
            T.copy(b, B)

    a = torch.randint(-9, 10, (3, 4, 16), dtype=torch.int32)
    assert torch.equal(run(main, a, out_idx=-1), a[:, :, 4:12].argmax(2).int())


@pytest.mark.parametrize(
    ("scope", "shape", "dtype", "message"),
    [
        (T.alloc_fragment, (4,), "float32", "T.reduce_argmax gives indices, b is float32"),
        (T.alloc_fragment, (5,), "int32", r"T.reduce_argmax: source .4, 8. and destination .5,. do not fit for dim=1"),
        (T.alloc_local, (4,), "int32", "T.reduce_argmax takes fragments and shared tiles; b is neither"),
    ],
)
def test_index_that_has_no_place(scope, shape, dtype, message):
    with pytest.raises(CompileError, match=message):

        @T.prim_func
        def main(A: T.Tensor((4, 8), "float32")):
            with T.Kernel(1, threads=32):
                a, b = T.alloc_fragment((4, 8), "float32"), scope(shape, dtype)
                T.copy(A, a)
                T.reduce_argmax(a, b)
