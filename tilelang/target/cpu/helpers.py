"""Helper functions that neither a TVM operator nor plain arithmetic expresses: atomics, dot products, the run-time's own.

Each is a row of :data:`HELPERS`: its LLVM text (inlined into the kernel) and its C text. Helpers that the run-time defines
have no LLVM text.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Helper:
    """One helper function.

    Attributes:
        name: what generated code calls.
        llvm: its definition in LLVM assembly, or empty where the run-time library has it.
        c: its definition in C, or empty where the C prelude has it.
    """

    name: str
    llvm: str
    c: str


HELPERS: dict[str, Helper] = {}


def register(name: str, llvm: str = "", c: str = "") -> None:
    """Adds a helper function to :data:`HELPERS`.

    Args:
        name: the function's name.
        llvm: its definition in LLVM assembly; empty for none.
        c: its definition in C; empty for none.
    """
    HELPERS[name] = Helper(name, llvm, c)


register("tl_workspace")


def llvm_floats(values: Iterable[float]) -> str:
    """A vector constant of LLVM assembly: the float32 nearest to each value, written as LLVM writes it, by a float64's bits."""
    rounded = (struct.unpack("f", struct.pack("f", value))[0] for value in values)
    return "<" + ", ".join(f"float 0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}" for value in rounded) + ">"


def llvm_text(names: Iterable[str]) -> str:
    """The LLVM module that defines the named helpers; empty where none needs it."""
    lines = "\n".join(HELPERS[name].llvm for name in dict.fromkeys(names)).split("\n")
    # Two helpers may declare the same function of the C library; a module may do so once.
    declared = [line for line in lines if line.startswith("declare ")]
    return "\n".join([*dict.fromkeys(declared), *(line for line in lines if not line.startswith("declare "))]).strip()


def c_text(names: Iterable[str]) -> str:
    """The C definitions of the named helpers."""
    return "\n".join(HELPERS[name].c for name in dict.fromkeys(names) if HELPERS[name].c)
