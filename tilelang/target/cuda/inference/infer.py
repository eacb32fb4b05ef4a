"""Layout inference of one kernel: a solve, a search where that one does not suit every statement, and the proof of the result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tilelang.target.cuda.inference.layouts import Layouts, check_fragments, misplaced
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.solver import slow_nests, solve
from tilelang.target.cuda.inference.verify import verify
from tilelang.target.cuda.tile.tree import TileTree


def infer(problem: Problem, divided: Callable[[Collection[Any]], TileTree]) -> tuple[TileTree, Layouts]:
    """The layouts of a kernel, and the kernel with conversions between layouts as statements.

    Args:
        divided: gives the kernel in which groups of threads have copies of some fragments of their own, where they can.

    Raises:
        LayoutConflictError: a statement that some threads alone run needs elements in other threads.
    """
    copied: dict[Any, None] = {}
    while True:
        layouts, conflicts = solve(problem)
        tree = problem.tree
        # A group of threads that needs elements of others cannot be helped by another layout.
        needed = _spread(problem, tree, layouts)
        # A slow nest is no conflict, but distributing it first may be cheaper.
        if needed.keys() <= copied.keys() and (conflicts or slow_nests(problem, layouts)):
            from tilelang.target.cuda.inference.search import search  # most kernels have no need of it

            tree, layouts = search(problem, layouts, conflicts)
            needed = _spread(problem, tree, layouts)
        if needed.keys() <= copied.keys():
            break
        copied |= needed
        problem = problem.with_tree(divided(copied))
    layouts = layouts.frozen()
    check_fragments(tree, layouts)  # what the user's program asks for, before what only a defect of the compiler breaks
    verify(tree, layouts)
    return tree, layouts


def _spread(problem: Problem, tree: TileTree, layouts: Layouts) -> dict[Any, None]:
    """The fragments of the program of which a group of threads needs elements that lie in other threads."""
    if not problem.has_groups:
        return {}
    found = dict.fromkeys(tree.root_of(buffer) for buffer, _ in misplaced(tree, layouts))
    return {buffer: None for buffer in found if buffer in problem.kernel.allocations}
