"""The switchable checkers. Out-of-bounds, misaligned and deadlock findings are always reported."""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.errors import SimulatorArgumentError

#: name -> (bit of the native library, what it finds)
CHECKS: dict[str, tuple[int, str]] = {
    "init": (1, "reads of shared or local memory that nothing has written"),
    "race": (2, "conflicting accesses to shared or global memory that nothing orders"),
    "barrier": (4, "barriers that not all threads of a warp or block reach"),
    "descriptor": (8, "matrix descriptors, swizzles and alignments that break the rules"),
    "async": (16, "asynchronous operations without the fence, commit or wait they need"),
}


TRACES: dict[str, int] = {"off": 0, "on": 256, "only": 256 + 512}
"""What is recorded for the model of time -> bits of the native library."""


def trace_bits(trace: str) -> int:
    """The bits of a name of :data:`TRACES`."""
    if trace not in TRACES:
        raise SimulatorArgumentError(f"unknown trace {trace!r}", f"known: {', '.join(TRACES)}")
    return TRACES[trace]


def check_bits(checks: str | Iterable[str]) -> int:
    """``"all"``, ``"none"``, a name, a comma-separated list of names, or an iterable of names."""
    if checks == "all":
        return sum(bit for bit, _ in CHECKS.values())
    if checks == "none" or not checks:
        return 0
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    bits = 0
    for name in names:
        if name not in CHECKS:
            raise SimulatorArgumentError(f"unknown check {name!r}", f"known: all, none, {', '.join(CHECKS)}")
        bits |= CHECKS[name][0]
    return bits
