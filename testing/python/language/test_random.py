"""Random numbers: reproducible, independent between blocks, of the right distribution."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import CompileError

from .support import run

BLOCKS, DRAWS = 64, 256


@T.prim_func
def draw(bits: T.Tensor((BLOCKS, DRAWS), "uint32"), seed: T.int32):
    with T.Kernel(BLOCKS, threads=1) as bx:
        T.rng_init(seed)
        for i in T.serial(DRAWS):
            bits[bx, i] = T.rng_rand()


def bits_of(seed):
    bits = torch.zeros(BLOCKS, DRAWS, dtype=torch.uint32)
    run(draw, bits, seed)
    return bits.to(torch.int64)


def test_integers_are_reproducible_and_independent():
    first, again, other = bits_of(1), bits_of(1), bits_of(2)
    assert torch.equal(first, again)
    assert (first != other).float().mean() > 0.99
    assert len(set(map(tuple, first.tolist()))) == BLOCKS
    assert abs(first.double().mean() / 2**32 - 0.5) < 0.01


@pytest.mark.parametrize("bit", [32, 64])
@pytest.mark.parametrize("dist", ["uniform", "normal"])
def test_floats(dist, bit):
    @T.prim_func
    def main(out: T.Tensor((BLOCKS, DRAWS), f"float{bit}")):
        with T.Kernel(BLOCKS, threads=1) as bx:
            T.rng_init(7, seq=bx, off=3)
            for i in T.serial(DRAWS):
                out[bx, i] = T.rng_rand_float(bit, dist)

    out = torch.zeros(BLOCKS, DRAWS, dtype=torch.float32 if bit == 32 else torch.float64)
    run(main, out)
    mean, deviation = (0.5, 12**-0.5) if dist == "uniform" else (0.0, 1.0)
    assert abs(out.mean() - mean) < 0.03 and abs(out.std() - deviation) < 0.03
    if dist == "uniform":
        assert out.min() > 0 and out.max() <= 1


SM_80 = {"kind": "cuda", "arch": "sm_80"}


@pytest.mark.parametrize("target", ["interpret", "cpu", "c", SM_80], ids=str)
def test_each_iteration_draws_one_random_number(target):
    @T.prim_func
    def main(out: T.Tensor((64, 128), "uint32")):
        with T.Kernel(2, threads=32) as bx:
            rows = T.alloc_fragment((32,), "uint32")
            T.rng_init(7)
            for i in T.Parallel(32):
                rows[i] = T.rng_rand()
            for i, j in T.Parallel(32, 128):
                out[bx * 32 + i, j] = rows[i]

    out = torch.zeros(64, 128, dtype=torch.uint32)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=target)(out)
    numbers = out.long()
    assert (numbers == numbers[:, :1]).all() and len(set(numbers[:, 0].tolist())) == 64


def test_outside_of_parallel_each_thread_draws():
    @T.prim_func
    def main(out: T.Tensor((2, 64), "uint32")):
        with T.Kernel(2, threads=64) as bx:
            T.rng_init(7)
            number = T.rng_rand()
            out[bx, T.get_thread_binding()] = number

    interpreted, simulated = torch.zeros(2, 2, 64, dtype=torch.uint32)
    tilelang.compile(main, target="interpret")(interpreted)
    with tilelang.simulator(strict=True):
        tilelang.compile(main, target=SM_80)(simulated)
    assert torch.equal(interpreted.long(), simulated.long()) and len(set(interpreted.flatten().tolist())) == 128


def test_mistakes():
    for call, message in (
        (lambda: T.rng_init(1, generator="mersenne"), "generator='mersenne' is none of"),
        (lambda: T.rng_rand_float(16), "bit=16 is neither 32 nor 64"),
        (lambda: T.rng_rand_float(32, "poisson"), "dist='poisson' is neither"),
    ):
        with pytest.raises(CompileError, match=message):
            call()


@pytest.mark.parametrize("draw", [T.rng_rand, T.rng_rand_float])
def test_nothing_is_drawn_before_the_generator_starts(draw):
    with pytest.raises(CompileError, match=rf"T.{draw.__name__} draws before T.rng_init"):

        @T.prim_func
        def main(out: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64):
                T.rng_init(7)
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    out[i] = draw()


def test_an_axis_may_be_launched_after_the_generator_has_started():
    @T.prim_func
    def main(out: T.Tensor((64,), "uint32")):
        T.launch_thread("blockIdx.x", 1)
        T.rng_init(7)
        tx = T.launch_thread("threadIdx.x", 64)
        out[tx] = T.rng_rand()

    numbers = torch.zeros(64, dtype=torch.uint32)
    tilelang.compile(main, target="interpret")(numbers)
    assert len(set(numbers.tolist())) == 64
