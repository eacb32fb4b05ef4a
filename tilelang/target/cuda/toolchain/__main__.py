"""``python -m tilelang.target.cuda.toolchain --arch sm_90a device_kernel.cu``: writes kernel.cubin and kernel.ptx beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilelang.errors import TileLangError
from tilelang.target.cuda.toolchain.compile import COMPILERS, compile_device


def main(arguments: list[str] | None = None) -> int:
    """Compiles one file; prints registers and spills of each kernel; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tilelang.target.cuda.toolchain")
    parser.add_argument("source", type=Path)
    parser.add_argument("--arch", required=True, help="for example sm_90a")
    parser.add_argument("--compiler", choices=sorted(COMPILERS))
    parser.add_argument("--flag", action="append", default=[], help="passed to the compiler as it is")
    options = parser.parse_args(arguments)
    try:
        text = options.source.read_text(encoding="utf-8")
        binary = compile_device(text, options.arch, compiler=options.compiler, flags=options.flag)
    except (OSError, TileLangError) as error:
        print(error, file=sys.stderr)
        return 1
    options.source.with_name("kernel.cubin").write_bytes(binary.cubin)
    options.source.with_name("kernel.ptx").write_bytes(binary.ptx)
    for name, used in binary.resources.items():
        spilled = used.spill_store_bytes + used.spill_load_bytes
        print(f"{name}: {used.registers} registers, {used.shared_bytes} bytes static shared, {spilled} bytes spilled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
