"""Every kind of statement; importing this registers them."""

from testing.fuzz.statements import (  # noqa: F401
    atomics,
    by_hand,
    copies,
    loops,
    nests,
    operators,
    placed,
    products,
    scalars,
    slices,
    threads,
    vectors,
    waits,
)
