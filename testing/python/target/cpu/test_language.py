"""Constructs whose lowering is particular to a CPU: early exits, views, random numbers, printing, dot products, conditions."""

import struct
import subprocess

import pytest
import torch

import tilelang
import tilelang.language as T

from .support import build, on_both


@on_both
def test_break_and_continue(target):
    @T.prim_func
    def main(X: T.Tensor((8, 16), "int32"), Y: T.Tensor((8, 2), "int32")):
        with T.Kernel(8, threads=128) as bx:
            total = T.alloc_var("int32", init=0)
            steps = T.alloc_var("int32", init=0)
            for i in T.serial(16):
                if X[bx, i] < 0:
                    break
                if X[bx, i] % 2 == 1:
                    continue
                for j in T.serial(3):
                    if j == 2:
                        break
                    total = total + X[bx, i]
            while True:
                steps = steps + 1
                if steps % 3 != 0:
                    continue
                if steps > bx:
                    break
            Y[bx, 0] = total
            Y[bx, 1] = steps

    x = torch.randint(-1, 9, (8, 16), dtype=torch.int32)
    y = build(main, target, out_idx=-1)(x)
    for row in range(8):
        total = 0
        for value in x[row].tolist():
            if value < 0:
                break
            total += 0 if value % 2 == 1 else 2 * value
        steps = next(s for s in range(3, 100, 3) if s > row)
        assert y[row].tolist() == [total, steps]


@on_both
def test_a_view_shares_memory_with_its_source(target):
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32"), Z: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64,), "float32")
            T.copy(X, x)
            words = T.view(x, (64,), "uint32")
            square = T.reshape(x, (8, 8))
            for i in T.Parallel(64):
                words[i] = words[i] ^ T.cast(0x80000000, "uint32")
            for i in T.Parallel(64):
                Y[i] = x[i]
            for i, j in T.Parallel(8, 8):
                Z[i, j] = square[j, i]

    x = torch.randn(64)
    y, z = torch.empty(64), torch.empty(8, 8)
    build(main, target)(x, y, z)
    assert torch.equal(y, -x)
    assert torch.equal(z, -x.view(8, 8).t())


def philox(seed: int, sequence: int, position: int) -> int:
    """One number of Philox4x32-10, from its definition (Salmon et al., 2011)."""
    counter = [position >> 2 & 0xFFFFFFFF, position >> 34, sequence & 0xFFFFFFFF, sequence >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[position & 3]


@on_both
def test_random_numbers_are_philox(target):
    @T.prim_func
    def main(Y: T.Tensor((4, 10), "uint32"), U: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=128) as bx:
            T.rng_init(1234, off=3)
            for i in T.serial(10):
                Y[bx, i] = T.rng_rand()
            for i in T.serial(8):
                U[bx, i] = T.rng_rand_float()

    y, u = torch.zeros(4, 10, dtype=torch.uint32), torch.zeros(4, 8)
    build(main, target)(y, u)
    expected = [[philox(1234, block, 3 + i) for i in range(10)] for block in range(4)]
    assert y.tolist() == expected
    assert ((u > 0) & (u <= 1)).all()
    assert u.unique().numel() == 32


@on_both
def test_normal_numbers(target):
    @T.prim_func
    def main(Y: T.Tensor((64, 256), "float32")):
        with T.Kernel(64, threads=128) as bx:
            T.rng_init(7)
            for i in T.serial(256):
                Y[bx, i] = T.rng_rand_float(dist="normal")

    y = torch.zeros(64, 256)
    build(main, target)(y)
    assert abs(y.mean()) < 0.03
    assert abs(y.std() - 1) < 0.03


@on_both
def test_print(target, capfd):
    @T.prim_func
    def main(X: T.Tensor((2,), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((2,), "int32")
            for i in T.Parallel(2):
                x[i] = i + 40
            T.print(x, msg="100% of")
            T.print(X[1], msg="value")
            T.print("done")

    build(main, target)(torch.tensor([1.0, 2.5]))
    out = capfd.readouterr().out
    assert "100% of x[0] = 40\n" in out
    assert "x[1] = 41\n" in out
    assert "value 2.5\n" in out
    assert "done\n" in out


@on_both
def test_dp4a(target):
    @T.prim_func
    def main(A: T.Tensor((16,), "int8"), B: T.Tensor((16,), "int8"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.serial(4):
                C[i] = 5
                T.dp4a(A[i * 4], B[i * 4], C[i])

    a, b = torch.randint(-128, 128, (2, 16), dtype=torch.int8)
    c = build(main, target, out_idx=-1)(a, b)
    assert torch.equal(c, (a.int() * b.int()).view(4, 4).sum(1, dtype=torch.int32) + 5)


@on_both
@pytest.mark.parametrize("value", [0.1, 1 / 3, 3.4028234e38, 1.17549435e-38, 1e-45, 16777217.0, 2.718281828459045])
def test_constants_keep_every_digit(value, target):
    @T.prim_func
    def main(Y: T.Tensor((1,), "float32"), Z: T.Tensor((1,), "float64")):
        with T.Kernel(1, threads=128):
            Y[0] = T.float32(value)
            Z[0] = T.float64(value)

    y, z = torch.empty(1), torch.empty(1, dtype=torch.float64)
    build(main, target)(y, z)
    assert y.item() == struct.unpack("f", struct.pack("f", value))[0]
    assert z.item() == value


@on_both
def test_guarded_gather_and_scatter(target):
    """Indices that come from memory may point anywhere: loads give zero, stores are dropped."""

    @T.prim_func
    def main(
        At: T.Tensor((64,), "int32"), X: T.Tensor((16,), "float32"), Y: T.Tensor((64,), "float32"), Z: T.Tensor((16,), "float32")
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            for i in T.Parallel(64):
                Y[i] = X[At[i]]
            for i in T.serial(64):
                Z[At[i]] = 1.0

    index = torch.randint(-20, 36, (64,), dtype=torch.int32)
    x, y, z = torch.randn(16), torch.empty(64), torch.zeros(16)
    build(main, target)(index, x, y, z)
    inside = (index >= 0) & (index < 16)
    assert torch.equal(y, torch.where(inside, x[index.clamp(0, 15).long()], torch.tensor(0.0)))
    expected = torch.zeros(16)
    expected[index[inside].long()] = 1.0
    assert torch.equal(z, expected)


def test_c_source_is_readable():
    @T.prim_func
    def main(X: T.Tensor((100, 64), "float32"), Y: T.Tensor((100, 64), "float32")):
        with T.Kernel(T.ceildiv(100, 32), threads=128) as bx:
            tile = T.alloc_shared((32, 64), "float32")
            T.copy(X[bx * 32, 0], tile)
            for i, j in T.Parallel(32, 64):
                Y[bx * 32 + i, j] = T.exp(tile[i, j]) * 0.1

    source = build(main, "c").get_kernel_source()
    assert "float tile[32][64]" in source
    assert "tl_expf(tile[i_2][j_2]) * 0.1f" in source
    assert "int32_t main_call(float* X_ptr, float* Y_ptr, void* stream)" in source


@on_both
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "bool", "int8", "float64"])
def test_pointers_to_elements_of_every_width(target, dtype):
    @T.prim_func
    def main(P: T.ptr(dtype), B: T.Tensor((64,), dtype)):
        A = T.make_tensor(P, (2, 64), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[1, i]

    a = torch.arange(128).reshape(2, 64).remainder(2).to(getattr(torch, dtype))
    b = torch.zeros(64, dtype=a.dtype)
    build(main, target)(a.data_ptr(), b)
    assert torch.equal(b.view(torch.uint8), a[1].contiguous().view(torch.uint8))


@pytest.mark.parametrize("library", ["file.o", "libfile.a", "libfile.so"])
@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
def test_flags_may_name_libraries_that_define_what_the_kernel_calls(tmp_path, library, backend):
    made = {"file.o": "true", "libfile.a": "ar cr libfile.a file.o", "libfile.so": "cc -shared -o libfile.so file.o"}
    (tmp_path / "file.c").write_text("float seven(void) { return 7; }\n")
    subprocess.run(f"cc -c -fPIC file.c && {made[library]}", shell=True, cwd=tmp_path, check=True)
    named = [str(tmp_path / library)] if library == "file.o" else [f"-L{tmp_path}", "-lfile", f"-Wl,-rpath,{tmp_path}"]

    @tilelang.jit(out_idx=[-1], target="c", execution_backend=backend, compile_flags=named)
    def fill():
        @T.prim_func
        def main(B: T.Tensor((4,), "float32")):
            T.import_source("float seven(void);\n")
            with T.Kernel(1, threads=1):
                for i in T.serial(4):
                    B[i] = T.call_extern("float32", "seven")

        return main

    assert fill()().tolist() == [7] * 4
