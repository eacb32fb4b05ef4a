"""Every kind of statement; importing this registers them."""

from testing.fuzz.statements import (  # noqa: F401
    atomics,
    by_hand,
    copies,
    loops,
    macros,
    nests,
    operators,
    placed,
    products,
    scalars,
    schedules,
    slices,
    sparse,
    threads,
    tile_layouts,
    vectors,
    waits,
)
