"""Import time, and a new process until a cached kernel is ready, over a bare ``import torch``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import arguments, measure, run, table
from kernels import ELEMENTWISE

IMPORT = "import time, torch; t = time.perf_counter(); import {what}; print(time.perf_counter() - t)"
READY = """
import sys, time, torch
sys.path.insert(0, {folder!r})
t = time.perf_counter()
from {module} import ready
ready()
print(time.perf_counter() - t)
"""
TILE_READY = "\ndef ready():\n    return add(4096)\n"
TRITON_READY = """
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget

@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)

def ready():
    source = ASTSource(add, {"a": "*fp32", "b": "*fp32", "c": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 256})
    return triton.compile(source, target=GPUTarget("cuda", 80, 32))
"""


def main() -> None:
    """Prints both tables."""
    options = arguments(__doc__)
    peers = {"tilelang 0.1.15": (options.tilelang, "tilelang"), "triton": (options.triton, "triton")}
    peers = {label: peer for label, peer in peers.items() if peer[0]}

    imports = {"ours: tilelang, tilelang.language": (sys.executable, IMPORT.format(what="tilelang, tilelang.language"), {})}
    imports |= {label: (python, IMPORT.format(what=what), {}) for label, (python, what) in peers.items()}
    table("import, over bare import torch (s)", measure(imports, options.runs), "s", next(iter(imports)))

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ours.py").write_text(ELEMENTWISE.format(target="cpu", options="") + TILE_READY)
        Path(folder, "peer.py").write_text(ELEMENTWISE.format(target="c", options=", execution_backend='cython'") + TILE_READY)
        Path(folder, "peer_triton.py").write_text(TRITON_READY)
        cache = {"TILELANG_CACHE_DIR": f"{folder}/cache"}
        processes = {"ours": (sys.executable, "ours", cache)}
        if options.tilelang:
            processes["tilelang 0.1.15"] = (options.tilelang, "peer", cache | {"TILELANG_TMP_DIR": f"{folder}/tmp"})
        if options.triton:
            processes["triton"] = (options.triton, "peer_triton", {"TRITON_CACHE_DIR": f"{folder}/triton"})
        kinds = {
            label: (python, READY.format(folder=folder, module=module), variables)
            for label, (python, module, variables) in processes.items()
        }
        for python, code, variables in kinds.values():
            run(python, code, variables)  # the first process fills the cache
        table("new process, warm disk cache, until the kernel is ready (s)", measure(kinds, options.runs), "s", "ours")


if __name__ == "__main__":
    main()
