"""Random numbers in kernels: one counter-based generator a thread (a block, on the CPU)."""

from __future__ import annotations

from typing import Any

from tilelang.errors import MisplacedError, OptionError
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr
from tilelang.language import calls

_GENERATORS = ("curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t", "curandStateXORWOW_t")
_DISTRIBUTIONS = ("uniform", "normal")


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = _GENERATORS[0]) -> None:
    """Starts the generator; call it once, before the first number is drawn.

    Args:
        seed: selects the sequence of numbers.
        seq: selects an independent part of it; the index of the thread in the grid by default.
        off: how many numbers to skip.
        generator: accepted by name; every one gives Philox4x32-10 numbers.

    Raises:
        OptionError: unknown generator.
    """
    if generator not in _GENERATORS:
        raise OptionError(f"T.rng_init: generator={generator!r} is none of {', '.join(_GENERATORS)}")
    numbers = [convert(as_expr(value), "uint64") for value in (seed, -1 if seq is None else seq, off)]
    calls.effect("rng_init", *numbers, attrs={"own_sequence": seq is None})
    require_kernel("T.rng_init").has_generator = True


def rng_rand() -> Any:
    """The next number: 32 random bits, uint32.

    Raises:
        MisplacedError: no generator was started in the kernel.
    """
    _expect_generator("T.rng_rand")
    return calls.value("rng_rand")


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Any:
    """The next number as a float.

    Args:
        bit: 32 or 64, the size of the result.
        dist: ``"uniform"`` in (0, 1], or ``"normal"`` (mean 0, variance 1).

    Raises:
        OptionError: another size or distribution.
        MisplacedError: no generator was started in the kernel.
    """
    if bit not in (32, 64):
        raise OptionError(f"T.rng_rand_float: bit={bit} is neither 32 nor 64")
    if dist not in _DISTRIBUTIONS:
        raise OptionError(f"T.rng_rand_float: dist={dist!r} is neither 'uniform' nor 'normal'")
    _expect_generator("T.rng_rand_float")
    return calls.value("rng_rand_float", attrs={"dist": dist}, dtype=f"float{bit}")


def _expect_generator(what: str) -> None:
    """Refuses to draw from generators that no seed started: every thread would get the same numbers."""
    if not require_kernel(what).has_generator:
        raise MisplacedError(f"{what} draws before T.rng_init", hint="T.rng_init(seed) at the beginning of the kernel")
