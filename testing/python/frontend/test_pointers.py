"""A tensor at a pointer argument that has a size which no other argument has: the tensor that a call passes gives the size."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from testing.python.target.every_target import every_target
from tilelang import interpreter
from tilelang.errors import ArgumentValueError, DeclarationError


def increments():
    count = T.dynamic("count")

    @T.prim_func
    def main(p: T.Ptr[float]):
        x = T.make_tensor(p, (count,), "float")
        with T.Kernel(count, threads=32) as i:
            x[i] = x[i] + 1

    return main


def sums():
    rows, pairs = T.dynamic("rows pairs")

    @T.prim_func
    def main(p: T.ptr("float16"), q: T.ptr, sums: T.Tensor((rows,), "float32")):
        a = T.make_tensor(p, (rows, pairs * 2), "float16")
        same = T.make_tensor(p, (rows, pairs), "int32")
        b = T.make_tensor(q, (pairs,), "float32")
        with T.Kernel(rows, threads=32) as i:
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for j in T.serial(pairs):
                total[0] += T.cast(a[i, j * 2], "float32") + b[j]
                if same[i, j] == 0:
                    total[0] += 100
            sums[i] = total[0]

    return main


@every_target
def test_the_size_comes_from_the_tensor(target):
    kernel = tilelang.compile(increments(), target=target)
    for count in (1, 100):
        x = torch.randn(count)
        want = x + 1
        with tilelang.simulator(strict=True):
            kernel(x)
        assert torch.equal(x, want)


@every_target
def test_sizes_in_arithmetic_a_second_tensor_at_the_pointer_and_another_pointer(target):
    kernel = tilelang.compile(sums(), target=target)
    a, b, found = torch.randn(5, 6).half(), torch.randn(3), torch.zeros(5)
    a[2, 2:4] = 0
    want = a[:, ::2].float().sum(1) + b.sum() + torch.tensor([0, 0, 100, 0, 0])
    with tilelang.simulator(strict=True):
        kernel(a, b, found)
    torch.testing.assert_close(found, want)
    assert interpreter.run(sums(), a, b, found.zero_()) == []
    torch.testing.assert_close(found, want)


def test_an_address_gives_no_size():
    kernel = tilelang.compile(increments(), target="cpu")
    with pytest.raises(ArgumentValueError, match=r"argument p \(position 0\): expected a torch tensor, got int"):
        kernel(torch.zeros(4).data_ptr())


def test_a_pointer_stays_one_where_its_sizes_are_known():
    @T.prim_func
    def main(p: T.ptr, n: T.int32):
        x = T.make_tensor(p, (n, 4))
        with T.Kernel(1, threads=32):
            x[0, 0] = 1

    a = torch.zeros(4)
    tilelang.compile(main, target="cpu")(a.data_ptr(), 1)
    assert a[0] == 1


def test_an_address_in_a_table_gives_no_size():
    with pytest.raises(DeclarationError, match="the dynamic size 'many' is in the shape of no argument"):

        @T.prim_func
        def main(table: T.Tensor((2,), "int64")):
            with T.Kernel(T.dynamic("many"), threads=32) as i:
                x = T.make_tensor(table[0], (T.dynamic("many"),), "float32")
                x[i] = 1
