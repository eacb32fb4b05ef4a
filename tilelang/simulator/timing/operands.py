"""What an instruction of PTX does to registers and to other warps, from its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

_REGISTER = re.compile(r"%(?!tid|ctaid|ntid|nctaid|laneid|warpid|clock|globaltimer|cluster|nsmid|smid|dynamic_smem|envreg)\w+")
_NUMBER = re.compile(r"(?<![%\w.])\d+\b")
_NO_RESULT = ("st.", "bar.", "barrier", "red.", "cp.", "fence", "membar", "bra", "ret", "exit", "prefetch", "trap", "stmatrix",
              "wgmma", "setmaxnreg", "griddepcontrol", "mbarrier.init", "mbarrier.inval", "nanosleep")  # fmt: skip


class Role(Enum):
    """What an instruction has to do with asynchronous work and with other warps."""

    NONE = auto()
    COPY = auto()
    COMMIT_COPIES = auto()
    AWAIT_COPIES = auto()
    COMMIT_PRODUCTS = auto()
    AWAIT_PRODUCTS = auto()
    PRODUCT = auto()
    ARRIVE_AT_PHASE = auto()
    AWAIT_PHASE = auto()
    BARRIER = auto()
    ARRIVE_AT_BARRIER = auto()


_ROLES = {
    "cp.async.commit_group": Role.COMMIT_COPIES,
    "cp.async.bulk.commit_group": Role.COMMIT_COPIES,
    "cp.async.wait_": Role.AWAIT_COPIES,
    "cp.async.bulk.wait_group": Role.AWAIT_COPIES,
    "cp.async.mbarrier": Role.NONE,
    "cp.async.bulk.prefetch": Role.NONE,
    "cp.async": Role.COPY,
    "cp.reduce": Role.COPY,
    "wgmma.commit_group": Role.COMMIT_PRODUCTS,
    "wgmma.wait_group": Role.AWAIT_PRODUCTS,
    "wgmma.mma_async": Role.PRODUCT,
    "mbarrier.arrive": Role.ARRIVE_AT_PHASE,
    "mbarrier.try_wait": Role.AWAIT_PHASE,
    "mbarrier.test_wait": Role.AWAIT_PHASE,
    "bar.arrive": Role.ARRIVE_AT_BARRIER,
    "bar.warp": Role.NONE,
    "bar.": Role.BARRIER,
    "barrier.cluster.arrive": Role.NONE,  # its wait stands for both
    "barrier.arrive": Role.ARRIVE_AT_BARRIER,
    "barrier.": Role.BARRIER,
}
"""By the opcode's beginning; the first that fits holds."""


@dataclass(frozen=True, slots=True)
class Operands:
    """Of one instruction.

    Attributes:
        opcode: with its modifiers.
        role: see :class:`Role`.
        writes, reads: registers by name.
        immediate: the first operand that is a number, 0 where there is none.
    """

    opcode: str
    role: Role
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    immediate: int = 0


def operands_of(line: str) -> Operands:
    """The operands of an instruction of PTX."""
    text = line.split("//")[0].strip().rstrip(";")
    # `@%p1 add...`: the predicate is read like an operand.
    guard: tuple[str, ...] = ()
    if text.startswith("@"):
        head, _, text = text.partition(" ")
        guard = (head.lstrip("@!"),)
    opcode, _, rest = text.strip().replace("\t", " ").partition(" ")
    if opcode.startswith(_NO_RESULT):
        number = _NUMBER.search(rest)
        return Operands(opcode, role_of(opcode), (), guard + tuple(_REGISTER.findall(rest)), int(number.group()) if number else 0)
    first, others = _split(rest.strip())
    return Operands(opcode, role_of(opcode), tuple(_REGISTER.findall(first)), guard + tuple(_REGISTER.findall(others)))


def role_of(opcode: str) -> Role:
    """What an instruction has to do with others."""
    return next((role for start, role in _ROLES.items() if opcode.startswith(start)), Role.NONE)


def _split(text: str) -> tuple[str, str]:
    """The first operand, a vector in braces among them, and the others."""
    if text.startswith("{"):
        first, _, others = text.partition("}")
        return first, others
    first, _, others = text.partition(",")
    return first, others
