"""Compiling an elementwise kernel for the CPU, the compiler already loaded, each time a size that was never compiled."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import arguments, measure, table
from kernels import ELEMENTWISE

COLD = """
import statistics, sys, time, torch
sys.path.insert(0, {folder!r})
from {module} import add
add(1024)
times = []
for n in range(2000, 2007):
    t = time.perf_counter()
    add(n)
    times.append(time.perf_counter() - t)
print(statistics.median(times))
"""


def main() -> None:
    """Prints the table."""
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        for module, target, more in (("llvm", "cpu", ""), ("cc", "c", ""), ("peer", "c", ", execution_backend='cython'")):
            Path(folder, f"{module}.py").write_text(ELEMENTWISE.format(target=target, options=more))
        env = {"TILELANG_DISABLE_CACHE": "1", "TILELANG_CACHE_DIR": f"{folder}/cache"}
        kinds = {
            "ours, LLVM": (sys.executable, COLD.format(folder=folder, module="llvm"), env),
            "ours, C": (sys.executable, COLD.format(folder=folder, module="cc"), env),
        }
        if options.tilelang:
            kinds["tilelang 0.1.15, C"] = (options.tilelang, COLD.format(folder=folder, module="peer"), env)
        table("cold compile, elementwise, CPU (s)", measure(kinds, min(options.runs, 5)), "s", "ours, LLVM")


if __name__ == "__main__":
    main()
