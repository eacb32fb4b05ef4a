"""Names of Triton's language that this one does not have, and what a program writes instead: for the error of such a name."""

from __future__ import annotations

from collections.abc import Mapping

_EXTREMES = "T.max and T.min of two values are elementwise; T.reduce_max(tile, out, dim=) and T.reduce_min reduce an axis"

INSTEAD: Mapping[str, str] = {
    "arange": "the variables of a loop index elements: for i in T.Parallel(n)",
    "atomic_cas": "the atomic operations are T.atomic_add, T.atomic_max, T.atomic_min and T.atomic_or",
    "broadcast_to": "an element is indexed with the variables that it depends on: x[i, j] - row[i]",
    "constexpr": "arguments of the function under @tilelang.jit are compile-time values",
    "debug_barrier": "the compiler places barriers; T.sync_threads() is one by hand",
    "device_print": "write T.print(value, 'text')",
    "dot": "write T.gemm(A, B, C), which adds the product of tiles A and B to C",
    "expand_dims": "an element is indexed with the variables that it depends on: x[i, j] - row[i]",
    "full": "T.alloc_fragment(shape, dtype) makes a tile, T.fill(tile, value) fills it",
    "load": "T.copy(A[i, j], tile) loads a tile, and A[i, j] is an element",
    "make_block_ptr": "tensors are indexed: T.copy(A[i, j], tile)",
    "make_tensor_descriptor": "tensors are indexed: T.copy(A[i, j], tile)",
    "maximum": _EXTREMES,
    "minimum": _EXTREMES,
    "num_programs": "the grid's sizes are the arguments of T.Kernel",
    "program_id": "T.Kernel gives the indices of the block: with T.Kernel(gx, gy) as (bx, by)",
    "static_assert": "Python's assert checks compile-time values",
    "static_range": "a loop over a Python list, or T.unroll(n), is unrolled",
    "store": "T.copy(tile, A[i, j]) stores a tile, and A[i, j] = value an element",
    "sum": "write T.reduce_sum(tile, out, dim=)",
    "trans": "elements are indexed in either order; T.gemm has transpose_A= and transpose_B=",
    "zeros": "T.alloc_fragment(shape, dtype) makes a tile, T.clear(tile) sets it to zero",
}
"""Name in ``triton.language`` -> what does it here."""
