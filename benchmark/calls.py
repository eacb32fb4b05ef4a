"""What a call costs: ``cached()`` in memory, a factory with the same arguments, a kernel with three torch tensors."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import arguments, measure, table
from kernels import ELEMENTWISE

TIMING = """
import statistics, sys, time, torch
torch.set_num_threads(1)
sys.path.insert(0, {folder!r})
def microseconds(call, count=20000):
    call()
    best = []
    for _ in range(5):
        t = time.perf_counter()
        for _ in range(count):
            call()
        best.append((time.perf_counter() - t) / count * 1e6)
    return statistics.median(best)
a, b, c = (torch.ones(256) for _ in range(3))
"""
CACHED = """
from {module} import add
from tilelang.cache import cached
f = {program}
print(microseconds(lambda: cached(f, [2]{options}), 2000))
"""
FACTORY = "from {module} import add\nprint(microseconds(lambda: add(256)))"
CALL = "from {module} import add\nk = add(256)\nprint(microseconds(lambda: k({tensors})))"


def main() -> None:
    """Prints the tables."""
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ours.py").write_text(ELEMENTWISE.format(target="cpu", options=""))
        Path(folder, "three.py").write_text(ELEMENTWISE.format(target="cpu", options="").replace("out_idx=[-1], ", ""))
        Path(folder, "peer.py").write_text(ELEMENTWISE.format(target="c", options=", execution_backend='cython'"))
        env = {"TILELANG_CACHE_DIR": f"{folder}/cache"}
        head = TIMING.format(folder=folder)

        def kinds(ours: str, peer: str) -> dict:
            found = {"ours": (sys.executable, head + ours, env)}
            return found | ({"tilelang 0.1.15": (options.tilelang, head + peer, env)} if options.tilelang else {})

        cached = kinds(
            CACHED.format(module="ours", program="add.get_tir(256)", options=", target='cpu'"),
            CACHED.format(module="peer", program="add.get_tir(256)", options=", target='c', execution_backend='cython'"),
        )
        table("cached() hit in memory (us)", measure(cached, min(options.runs, 5)), "us", "ours")
        factory = kinds(FACTORY.format(module="ours"), FACTORY.format(module="peer"))
        table("factory, same arguments (us)", measure(factory, min(options.runs, 5)), "us", "ours")
        calls = kinds(CALL.format(module="three", tensors="a, b, c"), CALL.format(module="peer", tensors="a, b"))
        calls["ours, output allocated"] = (sys.executable, head + CALL.format(module="ours", tensors="a, b"), env)
        calls["torch.add(a, b, out=c)"] = (sys.executable, head + "print(microseconds(lambda: torch.add(a, b, out=c)))", env)
        table(
            "a call with three torch tensors of 256 elements, one thread (us)", measure(calls, min(options.runs, 5)), "us", "ours"
        )


if __name__ == "__main__":
    main()
