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


def c_files(library: str, flags: Sequence[str], symbols: Iterable[str], objects: Mapping[str, bytes]) -> dict[str, bytes]:
    """The script and what it needs, where the library comes from ``device_kernel.c`` and ``objects``.

    Args:
        library: file name of the shared library.
        flags: the compiler's flags.
        symbols: names that the library exports.
        objects: object files to link, by name.
    """
    words = [*flags, "-shared", *AT_ONCE, "-o", library, "device_kernel.c", *objects, f"-Wl,--version-script={EXPORTS}", "-lm"]
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
