"""Every kind of statement; importing this registers them."""

from testing.fuzz.statements import (  # noqa: F401
    atomics,
    copies,
    loops,
    nests,
    operators,
    products,
    scalars,
    threads,
    waits,
)
