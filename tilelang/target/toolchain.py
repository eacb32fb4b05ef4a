"""The system's linker and C compiler.

Linking by ``ld`` directly takes 3 ms where the compiler driver takes 10 to 30; the driver is the fallback. Nothing of the C
library is named on the command line: the process that loads a kernel has it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from tilelang import env
from tilelang.errors import ToolchainError


@lru_cache(maxsize=1)
def linker() -> tuple[str, ...]:
    """The command that makes a shared library of object files."""
    direct = shutil.which("ld")
    if direct is not None:
        return (direct,)
    driver = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if driver is None:
        without = 'without one, execution_backend="nvrtc" compiles for CUDA, and target="interpret" runs programs as they are'
        raise ToolchainError("no linker", f"install binutils (ld) or a C compiler (gcc or clang); {without}")
    return (driver,)


def c_compiler() -> str:
    """The C compiler: ``TILELANG_CC``, or where that is not set ``cc``, ``gcc`` or ``clang``.

    Raises:
        ToolchainError: there is none, or not the one that is set.
    """
    return _found_compiler(env.get("TILELANG_CC"))


@lru_cache(maxsize=4)
def _found_compiler(chosen: str | None) -> str:
    candidates = [chosen] if chosen else ["cc", "gcc", "clang"]
    found = next(filter(None, map(shutil.which, candidates)), None)
    if found is not None:
        return found
    without = 'without one, target="cpu" compiles for CPUs and execution_backend="nvrtc" for CUDA'
    if chosen:
        raise ToolchainError(f"TILELANG_CC={chosen} is no program", f"unset it, or name another; {without}")
    raise ToolchainError("no C compiler", f"install gcc or clang, or set TILELANG_CC; {without}")


AT_ONCE = ("-z", "now")
"""For the linker: a symbol that nothing defines (``T.call_extern``) is an error when the library is loaded, not at a call."""


def link_shared(objects: Sequence[Path], exported: Iterable[str], directory: Path) -> tuple[bytes, str]:
    """Links object files into a shared library.

    Args:
        objects: the files.
        exported: patterns of the symbols that it exports; all others are local.
        directory: for the linker's files.

    Returns:
        The library's bytes, and the command with the linker's output.

    Raises:
        ToolchainError: the linker failed.
    """
    script, library = directory / "exports.map", directory / "kernel.so"
    script.write_text("{ global: " + " ".join(f"{name};" for name in exported) + " local: *; };\n")
    command = [*linker(), "-shared", *AT_ONCE, "-o", str(library), *map(str, objects)]
    option = f"--version-script={script}"
    command.append(option if Path(command[0]).name == "ld" else f"-Wl,{option}")
    log = run(command)
    return library.read_bytes(), log


def run(command: list[str]) -> str:
    """Runs a tool; gives the command line (without its folder) and its output.

    Raises:
        ToolchainError: it failed.
    """
    with started(command) as result:
        return result()


@contextmanager
def started(command: list[str]) -> Iterator[Callable[[], str]]:
    """A tool that runs beside what the caller does; a call waits for it, and gives and raises what :func:`run` does."""

    def result() -> str:
        output, errors = process.communicate()
        shown = " ".join(Path(word).name if "/" in word else word for word in command)
        log = f"$ {shown}\n{output}{errors}"
        if process.returncode != 0:
            raise ToolchainError(f"{Path(command[0]).name} failed", log)
        return log

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield result
        except BaseException:
            process.terminate()  # a compiler then removes its temporary files
            raise
