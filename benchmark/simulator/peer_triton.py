"""Runs kernels that Triton compiled on the simulator, with all checkers, and compares them with torch.

python benchmark/simulator/peer_triton.py --python PATH   # the Python of an environment that has triton
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import tilelang.simulator  # noqa: E402


def matmul(launch):
    a, b, c = torch.randn(128, 128).half(), torch.randn(128, 192).half(), torch.zeros(128, 192)
    report = launch((2, 3), [a, b, c, 128, 192, 128])
    return report, c, a.float() @ b.float()


def softmax(launch):
    x, out = torch.randn(8, 200), torch.zeros(8, 200)
    return launch((8,), [x, out, 200, 200]), out, x.softmax(-1)


def histogram(launch):
    x, out = torch.randint(0, 16, (1000,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    return launch((4,), [x, out, 1000]), out, torch.bincount(x, minlength=16).int()


CASES = {"matmul": matmul, "softmax": softmax, "histogram": histogram}


def run(folder: Path, key: str, shared: int) -> bool:
    """Runs one kernel; prints a line and returns whether it was right and clean."""
    name = key.split("_")[0]
    function = tilelang.simulator.load((folder / f"{key}.ptx").read_text()).get_function(name)
    scratch = torch.zeros(1)  # the pointers to global scratch memory that Triton appends

    def launch(grid, arguments):
        missing = len(function.parameters) - len(arguments)
        return function.launch(grid, 128, [*arguments, *[scratch] * missing], shared_bytes=shared)

    report, got, want = CASES[name](launch)
    good = torch.allclose(got.float(), want.float(), rtol=1e-3, atol=1e-3) and not report.findings
    print(f"{key}: {'ok' if good else 'WRONG'}, {report.warp_instructions} warp instructions, {report.seconds:.3f} s")
    for finding in report.findings:
        print(finding)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="Python of an environment that has triton")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([options.python, str(Path(__file__).with_name("triton_kernels.py")), name], check=True)
        folder = Path(name)
        results = [run(folder, key, shared) for key, shared in json.loads((folder / "index.json").read_text()).items()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
