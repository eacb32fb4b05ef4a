"""``compile.sh`` of a CPU entry: makes its library again from the files beside it, which it names without a path."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from tilelang.target.toolchain import AT_ONCE

EXPORTS = "exports.map"
_HEAD = '#!/bin/sh\n# Rebuilds {library}.\nset -eu\ncd "$(dirname "$0")"\n'
_LLVM = "import tvm; tvm.runtime.load_module('device_kernel.ll').write_to_file('kernel.o', 'o')"


def exports(symbols: Iterable[str]) -> str:
    """The linker's version script: these symbols are visible and no other."""
    return "{ global: " + " ".join(f"{name};" for name in symbols) + " local: *; };\n"


def c_arguments(machine: Sequence[str], sources: Sequence[str], flags: Sequence[str], library: str, exported: str) -> list[str]:
    """The arguments of the C compiler.

    Args:
        machine: our own flags.
        sources: the C file, and object files.
        flags: the user's, which may name libraries: these are searched for what the files before them call.
        library: file of the shared library.
        exported: file of :func:`exports`.
    """
    return [*machine, *sources, *flags, "-shared", *AT_ONCE, "-o", library, f"-Wl,--version-script={exported}", "-lm"]


def c_files(
    library: str, machine: Sequence[str], flags: Sequence[str], symbols: Iterable[str], objects: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The script and what it needs, where the library comes from ``device_kernel.c`` and ``objects``.

    Args:
        library: file name of the shared library.
        machine, flags: as for :func:`c_arguments`.
        symbols: names that the library exports.
        objects: object files to link, by name.
    """
    words = c_arguments(machine, ["device_kernel.c", *objects], flags, library, EXPORTS)
    script = _HEAD.format(library=library) + 'exec "${CC:-cc}" ' + shlex.join(words) + "\n"
    return {"compile.sh": script.encode(), EXPORTS: exports(symbols).encode(), **objects}


def llvm_files(library: str, symbols: Iterable[str], objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """The script and what it needs, where the library comes from ``device_kernel.ll`` and ``objects``; TVM holds the LLVM.

    Args:
        library: file name of the shared library.
        symbols: names that the library exports.
        objects: object files to link, by name.
    """
    words = ["-shared", *AT_ONCE, "-o", library, "kernel.o", *objects, f"--version-script={EXPORTS}"]
    script = _HEAD.format(library=library) + f'"${{PYTHON:-python3}}" -c {shlex.quote(_LLVM)}\n'
    return {
        "compile.sh": f"{script}exec ${{LD:-ld}} {shlex.join(words)}\n".encode(),
        EXPORTS: exports(symbols).encode(),
        **objects,
    }
