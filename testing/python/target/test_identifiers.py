"""Names of a program that mean something in C or CUDA C++."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.identifiers import is_taken

TARGETS = ["cpu", "c", "sm_80", "sm_90a"]


def compiled(program, target):
    return tilelang.compile(program, target={"kind": "cuda", "arch": target} if target.startswith("sm_") else target)


@pytest.mark.parametrize("target", TARGETS)
def test_names_that_generated_code_uses_itself(target):
    @T.prim_func
    def main(
        template: T.Tensor((16, 16), "float32"), signed: T.Tensor((16, 16), "float32"), operator: T.Tensor((16, 16), "float32")
    ):
        with T.Kernel(1, threads=32) as blockIdx:
            int32_t = T.alloc_shared((16, 16), "float32")
            f32x16 = T.alloc_shared((16, 16), "float32")
            max = T.alloc_fragment((16, 16), "float32")
            INFINITY = T.alloc_fragment((16, 16), "float32")
            unix = T.alloc_var("int32", init=1)
            T.copy(template, int32_t)
            T.copy(signed, f32x16)
            for size_t, wchar_t in T.Parallel(16, 16):
                INFINITY[size_t, wchar_t] = T.max(int32_t[size_t, wchar_t], f32x16[size_t, wchar_t]) + blockIdx + unix
            unix = unix + 1
            for threadIdx, expf in T.Parallel(16, 16):
                max[threadIdx, expf] = T.if_then_else(INFINITY[threadIdx, expf] > 2, T.infinity("float32"), unix)
            T.copy(max, operator)

    a, b, c = torch.randn(16, 16) * 2, torch.randn(16, 16) * 2, torch.zeros(16, 16)
    with tilelang.simulator():
        compiled(main, target)(a, b, c)
    assert torch.equal(c, torch.where(torch.maximum(a, b) + 1 > 2, torch.inf, 2.0))


@pytest.mark.parametrize("target", TARGETS)
def test_tiles_whose_names_end_in_numbers(target):
    """A product keeps its accumulator in numbered registers."""

    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32"), B: T.Tensor((32, 32), "float32"), C: T.Tensor((2, 16, 32), "float32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_shared((16, 32), "float32"), T.alloc_shared((32, 32), "float32")
            acc_0 = T.alloc_fragment((16, 32), "float32")
            acc_1 = T.alloc_fragment((16, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(acc_0)
            T.fill(acc_1, 1)
            T.gemm(a, b, acc_0)
            T.gemm(a, b, acc_1)
            T.copy(acc_0, C[0, :, :])
            T.copy(acc_1, C[1, :, :])

    a, b, c = (torch.randint(-3, 4, shape).float() for shape in ((16, 32), (32, 32), (2, 16, 32)))
    with tilelang.simulator():
        compiled(main, target)(a, b, c)
    assert torch.equal(c[0], a @ b) and torch.equal(c[1], a @ b + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_names_that_no_number_makes_free(target):
    """Identifiers with two underscores are the compilers' whatever follows, and ``_`` with a number would be one."""

    @T.prim_func
    def main(__A: T.Tensor((8,), "int32"), _B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            _Tile, atomicAdd = T.alloc_shared((8,), "int32"), T.alloc_shared((8,), "int32")
            for __ in T.Parallel(8):
                _Tile[__] = __A[__]
            for _ in T.serial(2):
                for _ in T.serial(2):
                    for __ in T.Parallel(8):
                        atomicAdd[__] = _Tile[__] + 1
                    for atomicMax in T.Parallel(8):
                        _Tile[atomicMax] = atomicAdd[atomicMax]
            T.copy(_Tile, _B)

    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    with tilelang.simulator():
        compiled(main, target)(a, b)
    assert torch.equal(b, a + 4)


def test_names_that_stay():
    assert not any(map(is_taken, ["acc", "A", "scale_t", "x0", "float_tile", "K", "sums", "e8", "index_of", "maximum"]))


@pytest.mark.parametrize(
    "names",
    [
        ("first", "last", "task", "closure"),
        ("NULL", "int64_t", "INT64_MIN", "unix"),
        ("_", "__", "__x", "atomicAdd"),
    ],
)
@pytest.mark.parametrize(("target", "backend"), [("c", "ctypes"), ("c", "tvm_ffi"), ("sm_80", "tvm_ffi"), ("sm_80", "nvrtc")])
def test_parameters_that_hosts_use_themselves(names, target, backend):
    rows, columns = T.dynamic(names[0]), T.dynamic(names[1])

    def build(given, taken):
        with T.Kernel(T.ceildiv(rows, 16), threads=32) as bx:
            for i, j in T.Parallel(16, columns):
                taken[bx * 16 + i, j] = given[bx * 16 + i, j] * 2

    source = f"def program({names[2]}: tensor, {names[3]}: tensor):\n    build({names[2]}, {names[3]})\n"
    main = T.prim_func(defined(source, tensor=T.Tensor((rows, columns), "float32"), build=T.macro(build)))
    kernel = tilelang.compile(
        main, target={"kind": "cuda", "arch": target} if target.startswith("sm_") else target, execution_backend=backend
    )
    a, b = torch.randn(20, 9), torch.zeros(20, 9)
    with tilelang.simulator():
        kernel(a, b)
    assert torch.equal(b, a * 2)


def defined(source, **names):
    exec(source, names)
    return names["program"]


@pytest.mark.parametrize(
    "target, backend", [("cpu", "tvm_ffi"), ("c", "ctypes"), ("sm_80", "ctypes"), ("sm_90a", "tvm_ffi"), ("sm_90a", "nvrtc")]
)
def test_a_size_named_like_a_tensor(target, backend):
    size = T.dynamic("B")

    @T.prim_func
    def main(A: T.Tensor((size, 64), "float32"), B: T.Tensor((size, 64), "float32"), n: T.int32):
        with T.Kernel(T.ceildiv(size, 16), threads=32) as block:
            tile = T.alloc_shared((16, 64), "float32")
            T.copy(A[block * 16, 0], tile)
            T.copy(tile, B[block * 16, 0])
            if block == 0:
                B[0, 0] = size + n

    a, b = torch.ones(20, 64), torch.zeros(20, 64)
    named = {"kind": "cuda", "arch": target} if target.startswith("sm_") else target
    with tilelang.simulator():
        tilelang.compile(main, target=named, execution_backend=backend)(a, b, 5)
    a[0, 0] = 25
    assert torch.equal(b, a)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_names_that_products_and_random_numbers_use(arch):
    """Descriptors of operands, the state of a generator and a loop over barriers have names beside the program's own."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((65, 64), "float32")):
        with T.Kernel(1, threads=128):
            b_tile, a_tile = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            rng_state, i = T.alloc_fragment((64, 64), "float32"), T.alloc_barrier([128, 128])
            tl_grid_state = T.alloc_var("float32")
            T.rng_init(7)
            tl_grid_state = T.rng_rand_float()
            if T.get_thread_binding() < 64:
                C[64, T.get_thread_binding()] = tl_grid_state
            T.copy(A, a_tile)
            T.copy(B, b_tile)
            T.mbarrier_arrive(i[1])
            T.mbarrier_wait_parity(i[1], 0)
            T.gemm(a_tile, b_tile, rng_state, clear_accum=True)
            T.copy(rng_state, C[0:64, :])

    a, b, c = torch.randint(-3, 4, (64, 64)).half(), torch.randint(-3, 4, (64, 64)).half(), torch.zeros(65, 64)
    with tilelang.simulator(strict=True):
        compiled(main, arch)(a, b, c)
    assert torch.equal(c[:64], a.float() @ b.float()) and (c[64] > 0).all()
