"""``T.PersistentTileScheduler``: which tile of a grid a block of a persistent kernel computes next.

with T.Kernel(workers, threads=128) as (block,):
    tiles = T.PersistentTileScheduler(T.ceildiv(M, 128), T.ceildiv(N, 128), swizzle_size=8)
    tiles.init(block)
    while tiles.valid():
        T.copy(A[tiles.m_idx * 128, 0], ...)
        tiles.next_tile()
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import OptionError
from tilelang.frontend.access import assign_subscript
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.values import LocalVar, as_expr
from tilelang.ir.expr import as_int
from tilelang.language.integers import ceildiv
from tilelang.language.kernel import get_block_extent
from tilelang.language.math import max as maximum
from tilelang.language.math import min as minimum
from tilelang.language.memory import alloc_var

_STATE = ("linear_idx", "m_idx", "n_idx", "current_iter")


class BaseTileScheduler:
    """The state of a scheduler; a subclass under ``T.meta_class`` decodes it in ``update_current_idx(linear_idx)``.

    That method stores ``self._m_idx[0]`` and ``self._n_idx[0]``; ``self._total_tiles`` is what :meth:`valid` compares with.

    Args:
        stateful: whether the scheduler keeps a worker's place.
        name: prefix of its variables' names.
    """

    def __init__(self, stateful: bool = True, name: str | None = None):
        builder = require_kernel(f"T.{type(self).__name__}")
        prefix = name or builder.pending_name or "tiles"
        self._stateful = stateful
        self._total_tiles: Any = 0
        for each in _STATE if stateful else ():
            builder.pending_name = f"{prefix}_{each}"
            setattr(self, f"_{each}", alloc_var("int32"))
        builder.pending_name = None

    def update_current_idx(self, linear_idx: Any) -> None:
        """Stores the row and the column of a tile of the linear order.

        Raises:
            OptionError: the subclass has no such method.
        """
        hint = "it stores self._m_idx[0] and self._n_idx[0]"
        raise OptionError(f"{type(self).__name__} has no update_current_idx(linear_idx)", hint=hint)

    def init(self, linear_init: Any) -> None:
        """Starts at a tile of the linear order."""
        self._move(linear_init, 0)

    def next_tile(self, step: Any) -> None:
        """Goes on by ``step`` tiles."""
        self._move(self.linear_idx + step, self.current_iter + 1)

    def valid(self) -> Any:
        """Whether there is a tile left."""
        return self.linear_idx < self._total_tiles

    def _move(self, linear: Any, iteration: Any) -> None:
        self._store("linear_idx", linear)
        self._store("current_iter", iteration)
        self.update_current_idx(self.linear_idx)

    def _variable(self, name: str) -> LocalVar:
        if not self._stateful:
            hint = "leave stateful=False out, or decode tiles by coord(tile_id)"
            raise OptionError(f"a T.{type(self).__name__} with stateful=False has no {name}", hint=hint)
        return getattr(self, f"_{name}")

    def _store(self, name: str, value: Any) -> None:
        assign_subscript(self._variable(name).buffer, 0, value)

    @property
    def linear_idx(self) -> Any:
        """The tile's place in the linear order."""
        return self._variable("linear_idx").expr()

    @property
    def m_idx(self) -> Any:
        """The tile's row."""
        return self._variable("m_idx").expr()

    @property
    def n_idx(self) -> Any:
        """The tile's column."""
        return self._variable("n_idx").expr()

    @property
    def current_iter(self) -> Any:
        """How many tiles the worker had before this one."""
        return self._variable("current_iter").expr()


class PersistentTileScheduler(BaseTileScheduler):
    """The tiles of a grid of ``num_m_tiles`` by ``num_n_tiles``, dealt out in turn to the workers of a persistent kernel.

    Worker ``w`` gets tiles ``w``, ``w + num_workers``, ... of a linear order. In it the fast axis varies first, within panels of
    ``swizzle_size`` tiles of the other axis, whose operands then stay in the L2 cache; the last panel may be narrower.

    Args:
        num_m_tiles, num_n_tiles: of the grid; integers or expressions.
        num_workers: blocks (clusters, where they have several blocks) that share the tiles; by default those of the kernel's grid
            along x.
        swizzle_size: width of a panel.
        column_major: whether m is the fast axis, else n.
        cluster_size: blocks of a cluster, all along m: ``m_idx`` then counts rows of clusters, and the block's own row is
            ``m_idx * cluster_size + T.block_rank_in_cluster()``.
        stateful: whether the scheduler keeps a worker's place; else only :meth:`coord` may be used.
        name: prefix of its variables' names.

    Raises:
        CompileError: a size or width that is not positive.
    """

    def __init__(
        self, num_m_tiles: Any, num_n_tiles: Any, num_workers: Any = None, swizzle_size: int = 1, column_major: bool = True,
        cluster_size: int = 1, stateful: bool = True, name: str | None = None,
    ):  # fmt: skip
        super().__init__(stateful, name)
        for given in (num_m_tiles, num_n_tiles, 1 if num_workers is None else num_workers, swizzle_size, cluster_size):
            known = as_int(as_expr(given))
            if isinstance(known, int) and known < 1:
                raise OptionError(f"T.PersistentTileScheduler: {known} is not positive")
        rows = ceildiv(num_m_tiles, cluster_size)
        self.num_workers = get_block_extent(0) // cluster_size if num_workers is None else num_workers
        self.swizzle_size, self.column_major = swizzle_size, column_major
        self._fast, self._slow = (rows, num_n_tiles) if column_major else (num_n_tiles, rows)
        self._total_tiles = self._fast * self._slow

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """The row and column of a tile of the linear order; beyond the last tile one of them is outside of the grid."""
        strip = self._fast * self.swizzle_size
        first = tile_id // strip * self.swizzle_size
        # The last panel may be narrower; beyond it any width will do but zero.
        width = 1 if self.swizzle_size == 1 else maximum(1, minimum(self.swizzle_size, self._slow - first))
        inside = tile_id % strip
        fast, slow = inside // width, first + inside % width
        return (fast, slow) if self.column_major else (slow, fast)

    def next_tile(self, step: Any = None) -> None:
        """Goes on to the worker's next tile, or by ``step`` tiles."""
        super().next_tile(self.num_workers if step is None else step)

    def update_current_idx(self, linear_idx: Any) -> None:
        """Stores the row and the column of a tile of the linear order."""
        row, column = self.coord(linear_idx)
        self._store("m_idx", row)
        self._store("n_idx", column)
