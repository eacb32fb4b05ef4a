"""Looking at machine code: a cubin's instructions by nvdisasm, counted by opcode, and its loops."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tilelang import temporary
from tilelang.errors import DeviceCompileError, ToolchainMissingError
from tilelang.records import Record
from tilelang.target.cuda.toolchain.locate import tool

_TIMEOUT_SECONDS = 120
_FUNCTION = re.compile(r"^\.text\.(\S+):")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(.*?);")
_GUARD = re.compile(r"^@!?U?P\w+\s+")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")


class Instruction(Record):
    """One machine instruction.

    Attributes:
        address: byte offset in its function.
        opcode: with its modifiers, without the guard: ``"HMMA.16816.F32"``.
        text: as nvdisasm prints it.
        target: the label that a branch goes to.
    """

    address: int
    opcode: str
    text: str
    target: str | None = None

    @property
    def family(self) -> str:
        """The opcode before its first modifier: ``"HMMA"``."""
        return self.opcode.partition(".")[0]


class Function(Record):
    """The machine code of one kernel: its instructions, and label -> index of the instruction that it stands before."""

    name: str
    instructions: tuple[Instruction, ...]
    labels: Mapping[str, int]

    def counts(self) -> Counter[str]:
        """How often each opcode family occurs."""
        return Counter(instruction.family for instruction in self.instructions)

    def loops(self) -> list[tuple[Instruction, ...]]:
        """The bodies of backward branches, in order of their first instruction; an inner loop is part of the outer one too.

        A loop ends with a guarded branch; an unguarded one returns from code that was moved out of the way (a spinning wait).
        """
        return self._backward(guarded=True)

    def _backward(self, guarded: bool) -> list[tuple[Instruction, ...]]:
        found = set()
        for index, instruction in enumerate(self.instructions):
            # A branch to an earlier label is a loop; one without a label counts as forward.
            start = self.labels.get(instruction.target or "", index + 1)
            if start < index and instruction.text.startswith("@") == guarded:
                found.add((start, index))
        return [self.instructions[start : end + 1] for start, end in sorted(found)]

    def main_loop(self, family: str) -> tuple[Instruction, ...]:
        """The innermost loop with most instructions of ``family``; empty where none has any.

        Where no guarded branch ends such a loop, it is one that is left in its middle.
        """

        def weight(body: tuple[Instruction, ...]) -> tuple[int, int]:
            return sum(i.family == family for i in body), -len(body)

        for guarded in (True, False):
            best = max(self._backward(guarded), key=weight, default=())
            if weight(best)[0]:
                return best
        return ()


def disassemble(cubin: bytes) -> str:
    """The text that nvdisasm prints.

    Raises:
        ToolchainMissingError: nvdisasm is not installed.
        DeviceCompileError: it refuses the file.
    """
    nvdisasm = tool("nvdisasm")
    if nvdisasm is None:
        raise ToolchainMissingError("nvdisasm", "pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory(prefix="tilelang-sass-", dir=temporary.folder()) as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run(
            [str(nvdisasm), "-c", str(path)], capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    if done.returncode != 0:
        raise DeviceCompileError("nvdisasm", done.stderr.strip(), "-c")
    return done.stdout


def functions(cubin: bytes) -> Mapping[str, Function]:
    """The kernels of a cubin by symbol."""
    return parse(disassemble(cubin))


def parse(text: str) -> Mapping[str, Function]:
    """The kernels in nvdisasm's text."""
    found: dict[str, tuple[list[Instruction], dict[str, int]]] = {}
    current: tuple[list[Instruction], dict[str, int]] = ([], {})
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            current = found[match.group(1)] = ([], {})
        elif match := _LABEL.match(line):
            current[1][match.group(1)] = len(current[0])
        elif match := _INSTRUCTION.search(line):
            current[0].append(_instruction(int(match.group(1), 16), match.group(2).strip()))
    return {name: Function(name, tuple(instructions), labels) for name, (instructions, labels) in found.items()}


def _instruction(address: int, text: str) -> Instruction:
    bare = _GUARD.sub("", text)
    target = _TARGET.search(bare)
    return Instruction(address, bare.split(None, 1)[0], text, target.group(1) if target else None)
