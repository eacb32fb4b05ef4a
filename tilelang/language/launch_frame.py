"""The open kernel as an object, for macros that are called in kernels of different shapes."""

from __future__ import annotations

import math
from typing import Any

from tilelang.frontend.builder import active_builder
from tilelang.language import kernel

_QUERIES = frozenset({
    "get_thread_binding", "get_thread_bindings", "get_thread_extent", "get_thread_extents",
    "get_block_binding", "get_block_bindings", "get_block_extent", "get_block_extents",
    "get_cluster_dims", "get_cluster_size", "get_cluster_id", "get_cluster_ids", "get_cluster_extent", "get_cluster_extents",
})  # fmt: skip
"""Functions of the language about the open kernel."""


class KernelLaunchFrame:
    """What ``T.get_thread_extents()`` and its like say of the open kernel, as methods of ``KernelLaunchFrame.Current()``."""

    @staticmethod
    def Current() -> KernelLaunchFrame | None:
        """The open kernel; None outside of kernels."""
        builder = active_builder()
        return None if builder is None or builder.kernel is None else KernelLaunchFrame()

    def __getattr__(self, name: str) -> Any:
        if name in _QUERIES:
            return getattr(kernel, name)
        raise AttributeError(f"KernelLaunchFrame has no {name}")

    def get_num_threads(self) -> int:
        """Threads a block, along all axes."""
        return math.prod(self.get_thread_extents())

    @property
    def num_threads(self) -> int:
        """Threads a block, along all axes."""
        return self.get_num_threads()

    @property
    def threads(self) -> list[Any]:
        """The thread's indices along x, y and z."""
        return self.get_thread_bindings()

    @property
    def blocks(self) -> list[Any]:
        """The block's indices, one for each grid axis."""
        return self.get_block_bindings()

    @property
    def thread_extents(self) -> list[int]:
        """Threads a block along x, y and z."""
        return self.get_thread_extents()

    @property
    def grid_extents(self) -> list[Any]:
        """Blocks of the grid along each axis."""
        return self.get_block_extents()

    thread_vars, grid_vars = threads, blocks
