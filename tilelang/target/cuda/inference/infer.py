"""Layout inference of one kernel: a solve, a search where that one does not suit every statement, and the proof of the result."""

from __future__ import annotations

from tilelang.target.cuda.inference.layouts import Layouts, check_fragments
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.solver import lopsided_nests, solve
from tilelang.target.cuda.inference.verify import verify
from tilelang.target.cuda.tile.tree import TileTree


def infer(problem: Problem) -> tuple[TileTree, Layouts]:
    """The layouts of a kernel, and the kernel with conversions between layouts as statements.

    Raises:
        LayoutConflictError: a statement that some threads alone run needs elements in other threads.
    """
    tree, (layouts, conflicts) = problem.tree, solve(problem)
    # A nest that few threads run for all is no conflict, but distributing it first may be cheaper.
    if conflicts or lopsided_nests(problem, layouts):
        from tilelang.target.cuda.inference.search import search  # most kernels have no need of it

        tree, layouts = search(problem, layouts, conflicts)
    layouts = layouts.frozen()
    check_fragments(tree, layouts)  # what the user's program asks for, before what only a defect of the compiler breaks
    verify(tree, layouts)
    return tree, layouts
