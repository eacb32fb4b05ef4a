"""Long kernels are rolled: which statements become a loop, which do not, and that results stay the same."""

import pytest
import torch

import tilelang
import tilelang.language as T
from benchmark.scaling import KINDS, request
from testing.python.target.cuda.support import simulate
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cuda.compile import lower
from tilelang.transform import roll as rolling
from tilelang.transform.roll import roll


@pytest.fixture
def eager(monkeypatch):
    """Every kernel counts as long."""
    monkeypatch.setattr(rolling, "LONG", 0)


def loops(program):
    """The extents of the loops that ``roll`` makes, in order."""
    return [
        int(node.extent)
        for node in walk(roll(program, None).body)
        if isinstance(node, ir.For) and "tl" not in str(node.annotations)
    ]


ROLLED = sorted(set(KINDS) - {"buffers"})


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", ROLLED)
def test_code_size_does_not_grow_with_repetitions(kind, target):
    short, long = (lower(KINDS[kind](count), request(target)).source.splitlines() for count in (300, 1000))
    assert len(long) == len(short) < 150


@pytest.mark.parametrize("kind", ROLLED)
def test_a_short_kernel_is_left_alone(kind):
    program = KINDS[kind](40)
    assert roll(program, None) is program


def nested(T=T):
    @T.prim_func
    def main(A: T.Tensor((24, 10, 128), "float32"), B: T.Tensor((24, 128), "float32")):
        with T.Kernel(1, threads=128):
            total = T.alloc_fragment((128,), "float32")
            for i in [*range(24)]:
                T.clear(total)
                for k in [*range(10)]:
                    for j in T.Parallel(128):
                        total[j] = total[j] * 0.5 + A[i, k, j]
                T.copy(total, B[23 - i, 0])

    return main


def alternating(T=T):
    """Two tiles in turns, a condition on the number of the step."""

    @T.prim_func
    def main(A: T.Tensor((48, 64), "int32"), B: T.Tensor((48, 64), "int32"), k: T.int32):
        with T.Kernel(1, threads=64):
            tiles = T.alloc_shared((2, 64), "int32")
            total = T.alloc_fragment((64,), "int32")
            T.clear(total)
            for i in [*range(48)]:
                T.copy(A[i, :], tiles[i % 2, :])
                if k > 3 * i - 40:
                    for j in T.Parallel(64):
                        total[j] = total[j] + tiles[i % 2, 63 - j] * (i + 2)
                T.copy(total, B[47 - i, 0])

    return main


def registers(T=T):
    """Elements of registers by number."""

    @T.prim_func
    def main(A: T.Tensor((64, 16), "float32"), B: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=64):
            row = T.alloc_local((16,), "float32")
            tx = T.get_thread_binding()
            for i in [*range(16)]:
                row[i] = A[tx, i]
            for i in [*range(16)]:
                B[i, tx] = row[15 - i] * 2.0

    return main


def wide(T=T):
    """Indices of 64 bits."""

    @T.prim_func
    def main(A: T.Tensor((64, 32), "int32"), n: T.int64):
        with T.Kernel(1, threads=32):
            for i in [*range(16)]:
                for j in T.Parallel(32):
                    A[n * T.int64(2) + T.int64(3 * i), j] = i

    return main


def several(T=T):
    """The same statements on several tiles."""

    @T.prim_func
    def main(A: T.Tensor((16, 64), "int32"), B: T.Tensor((16, 64), "int32")):
        with T.Kernel(1, threads=64):
            tiles = [T.alloc_fragment((64,), "int32") for _ in range(16)]
            for i in [*range(16)]:
                T.copy(A[i, :], tiles[i])
            for i in [*range(16)]:
                for j in T.Parallel(64):
                    tiles[i][j] = tiles[i][j] * 2
            for i in [*range(16)]:
                T.copy(tiles[i], B[15 - i, :])

    return main


def tensors(*shapes, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    make = torch.rand if dtype.is_floating_point else lambda s, generator: torch.randint(-50, 50, s, generator=generator)
    return [make(shape, generator=generator).to(dtype) for shape in shapes]


def matrices(rows, depth, columns):
    """Two operands in half precision and a place for their product."""
    return [*tensors((rows, depth), (depth, columns), dtype=torch.float16), *tensors((rows, columns))]


CASES = {
    "nested": (nested, [24, 10], lambda: tensors((24, 10, 128), (24, 128))),
    "alternating": (alternating, [24], lambda: [*tensors((48, 64), (48, 64), dtype=torch.int32), 30]),
    "wide": (wide, [15], lambda: [*tensors((64, 32), dtype=torch.int32), 5]),
    "several": (several, [], lambda: tensors((16, 64), (16, 64), dtype=torch.int32)),
    "copies": (lambda: KINDS["copies"](32), [16], lambda: tensors((512, 128), (512, 128), dtype=torch.float16)),
    "products": (lambda: KINDS["products"](9), [9], lambda: matrices(64, 64, 64)),
    "branches": (lambda: KINDS["branches"](64), [16], lambda: [*tensors((128,)), 9]),
    "pipelines": (lambda: KINDS["pipelines"](36), [9, 32], lambda: matrices(64, 1024, 64)),
}


@pytest.mark.usefixtures("eager")
def test_elements_of_registers_keep_their_numbers():
    assert loops(registers()) == []


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", CASES)
def test_repetitions_become_loops(name):
    build, expected, _ = CASES[name]
    assert loops(build()) == expected


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_a_rolled_kernel_computes_what_the_program_says(name, arch):
    build, _, arguments = CASES[name]
    found, wanted = arguments(), arguments()
    tilelang.compile(build(), target="cpu")(*wanted)
    simulate(build(), *found, arch=arch)
    for ours, reference in zip(found, wanted):
        assert torch.allclose(ours, reference, rtol=1e-5) if isinstance(ours, torch.Tensor) else ours == reference
