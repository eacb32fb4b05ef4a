"""``T.PersistentTileScheduler`` deals out every tile once, in panels."""

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import every_target
from testing.python.target.every_target import run as run_on
from tilelang.errors import CompileError, OperandError

from ..frontend.support import error_at_mark
from .support import run


def visits(m, n, workers, **options):
    """A kernel whose result is for each tile: how often it came, at which iteration, by which worker."""

    @T.prim_func
    def main(B: T.Tensor((m, n, 3), "int32")):
        with T.Kernel(workers, threads=32) as block:
            tiles = T.PersistentTileScheduler(m, n, **options)
            tiles.init(block)
            while tiles.valid():
                B[tiles.m_idx, tiles.n_idx, 0] += 1
                B[tiles.m_idx, tiles.n_idx, 1] = tiles.current_iter
                B[tiles.m_idx, tiles.n_idx, 2] = block
                tiles.next_tile()

    return main


def order(found, workers):
    """The linear order of tiles that a result of :func:`visits` shows."""
    return {
        (i, j): int(found[i, j, 1]) * workers + int(found[i, j, 2]) for i in range(found.shape[0]) for j in range(found.shape[1])
    }


@pytest.mark.parametrize("m, n, workers", [(4, 2, 1), (5, 7, 3), (1, 9, 4), (3, 1, 8)])
@pytest.mark.parametrize("swizzle", [1, 2, 4])
@pytest.mark.parametrize("column_major", [True, False])
def test_every_tile_is_visited_once(m, n, workers, swizzle, column_major):
    found = torch.zeros(m, n, 3, dtype=torch.int32)
    run(visits(m, n, workers, swizzle_size=swizzle, column_major=column_major), found)
    assert torch.equal(found[..., 0], torch.ones(m, n, dtype=torch.int32))
    places = order(found, workers)
    assert sorted(places.values()) == list(range(m * n))
    slow = 1 if column_major else 0
    ordered = sorted(places, key=places.get)
    panels = [tile[slow] // swizzle for tile in ordered]
    assert panels == sorted(panels)
    if swizzle == 1:
        assert ordered == sorted(places, key=lambda tile: (tile[slow], tile[1 - slow]))


@every_target
def test_a_persistent_product(target):
    @T.prim_func
    def main(A: T.Tensor((96, 32), "float16"), B: T.Tensor((32, 80), "float16"), C: T.Tensor((96, 80), "float32")):
        with T.Kernel(4, threads=128) as (block,):
            a, b = T.alloc_shared((32, 32), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            sched = T.PersistentTileScheduler(T.ceildiv(96, 32), T.ceildiv(80, 32), swizzle_size=2, name="sched")
            sched.init(block)
            while sched.valid():
                bx, by = sched.m_idx, sched.n_idx
                T.copy(A[bx * 32, 0], a)
                T.copy(B[0, by * 32], b)
                T.gemm(a, b, c, clear_accum=True)
                T.copy(c, C[bx * 32, by * 32])
                sched.next_tile()

    a, b = torch.randn(96, 32).half(), torch.randn(32, 80).half()
    torch.testing.assert_close(run_on(main, target, a, b), a.float() @ b.float(), rtol=1e-3, atol=1e-3)


def test_clusters_and_coordinates_without_state():
    @T.prim_func
    def main(B: T.Tensor((8, 2), "int32")):
        with T.Kernel(1, threads=32):
            tiles = T.PersistentTileScheduler(5, 2, num_workers=2, cluster_size=2, stateful=False)
            for tile in T.serial(8):
                row, column = tiles.coord(tile)
                B[tile, 0] = row
                B[tile, 1] = column

    got = run(main, out_idx=-1).tolist()
    assert got[:6] == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]] and all(column >= 2 for _, column in got[6:])


def test_misuse_of_a_scheduler():
    with error_at_mark(match="has no m_idx"):

        @T.prim_func
        def stateless(B: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                tiles = T.PersistentTileScheduler(5, 2, stateful=False)
                B[0] = tiles.m_idx  # <- error

    with pytest.raises(CompileError, match="not positive"):

        @T.prim_func
        def empty(B: T.Tensor((8,), "int32")):
            with T.Kernel(1, threads=32):
                T.PersistentTileScheduler(5, 2, swizzle_size=0)


@T.meta_class
class Serpentine(T.BaseTileScheduler):
    """Every second row of tiles is walked backwards; counts the tiles that a worker meets there."""

    def __init__(self, rows, columns, workers):
        super().__init__(name="snake")
        self.columns, self.workers = columns, workers
        self._total_tiles = rows * columns
        self._backwards = T.alloc_var("int32", init=0)

    def column(self, row, place):
        return T.if_then_else(row % 2 == 0, place, self.columns - 1 - place)

    def update_current_idx(self, linear_idx):
        row = linear_idx // self.columns
        self._m_idx[0] = row
        self._n_idx[0] = self.column(row, linear_idx % self.columns)
        if row % 2 == 1:
            self._backwards[0] += 1

    @T.inline
    def step(self):
        self.next_tile(self.workers)


@every_target
def test_a_scheduler_of_the_program(target):
    @T.prim_func
    def main(B: T.Tensor((4, 3), "int32"), C: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32) as block:
            tiles = Serpentine(4, 3, 2)
            tiles.init(block)
            while tiles.valid():
                B[tiles.m_idx, tiles.n_idx] = tiles.linear_idx * 10 + tiles.current_iter
                tiles.step()
            C[block] = tiles._backwards[0]

    found = torch.zeros(4, 3, dtype=torch.int32)
    assert run_on(main, target, found).tolist() == [2, 4]
    assert found.tolist() == [[0, 10, 21], [52, 42, 31], [63, 73, 84], [115, 105, 94]]


def test_a_scheduler_without_an_order():
    with pytest.raises(CompileError, match="BaseTileScheduler has no update_current_idx"):

        @T.prim_func
        def main(B: T.Tensor((4,), "int32")):
            with T.Kernel(1) as block:
                tiles = T.BaseTileScheduler()
                tiles.init(block)


def test_a_meta_class_is_a_class():
    with pytest.raises(OperandError, match="T.meta_class decorates a class, got int"):
        T.meta_class(3)
