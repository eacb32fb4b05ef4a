"""A CUDA driver for tests: ``libcuda.so.1`` made of the PTX simulator, found through the loader's path of a new process.

``testing/native/driver`` has its C++ text, :mod:`testing.driver.torch_device` puts torch's device "cuda" on top of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tilelang.execution.native import LIBRARY

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "testing" / "native" / "driver"
SIMULATOR = ROOT / "src" / "simulator"


def build() -> Path:
    """The directory with the library; built where its sources or the simulator have changed."""
    library = LIBRARY / "libtilelang_simulator.so"
    digest = hashlib.sha256(library.read_bytes())
    for path in sorted([*SOURCES.iterdir(), *SIMULATOR.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    directory = ROOT / "build" / "driver" / digest.hexdigest()[:16]
    if not (directory / "libcuda.so.1").exists():
        _compile(directory, library)
    return directory


def _compile(directory: Path, simulator: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    made = directory / f"made-by-{os.getpid()}"
    command = [
        "c++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-isystem", str(SIMULATOR),
        *map(str, sorted(SOURCES.glob("*.cc"))), str(simulator), f"-Wl,-rpath,{simulator.parent}", "-ldl", "-o", str(made),
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=600)
    made.rename(directory / "libcuda.so.1")  # whole or not there, also where two processes build at once


def run(program: str, *arguments: str, devices: str = "9.0", kernels: str | Path = "", checks: str = "") -> str:
    """What a new Python process with this driver prints.

    Args:
        program: Python text.
        arguments: its ``sys.argv[1:]``.
        devices: compute capabilities of the devices, with commas.
        kernels: directory below which the driver finds the PTX of machine code; default the kernel cache.
        checks: ``"all"`` for the simulator's checkers.

    Raises:
        AssertionError: the process failed; has what it printed.
    """
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(build()),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
        "TEST_DRIVER_DEVICES": devices,
        "TEST_DRIVER_KERNELS": str(kernels or os.environ["TILELANG_CACHE_DIR"]),
        "TEST_DRIVER_CHECKS": checks,
    }
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
