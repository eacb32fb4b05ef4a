"""Builds the simulator with sanitizers and runs the fuzz driver over PTX of the test kernels.

    python testing/native/simulator_fuzz.py [--iterations 2000] [--seed 1] [--build-dir build/simulator-sanitized]

Exit status 0: nothing crashed and no sanitizer complained.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


def write_corpus(folder: Path) -> list[Path]:
    """PTX of kernels that between them use most instruction families."""
    from testing.python.simulator.models import cuda, tiles

    sources = {
        "gemm_mma": (tiles.GEMM_MMA, "sm_80"),
        "gemm_wgmma": (tiles.GEMM_WGMMA, "sm_90a"),
        "flash": (tiles.FLASH, "sm_80"),
        "mixed": (Path(__file__).with_name("simulator_fuzz_kernel.cu").read_text(), "sm_90a"),
    }
    paths = []
    for name, (source, arch) in sources.items():
        path = folder / f"{name}.ptx"
        path.write_text(cuda.compile_ptx(source, arch))
        paths.append(path)
    return paths


def build(folder: Path) -> Path:
    """The fuzz driver, built with AddressSanitizer and UndefinedBehaviorSanitizer."""
    configure = ["cmake", "-S", str(ROOT / "src" / "simulator"), "-B", str(folder), "-G", "Ninja",
                 "-DTILELANG_SIMULATOR_SANITIZE=ON", f"-DPython_EXECUTABLE={sys.executable}",
                 f"-DTILELANG_LIBRARY_DIR={folder / 'lib'}"]  # fmt: skip
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", str(folder), "-j2", "--target", "simulator_fuzz"], check=True, stdout=subprocess.DEVNULL)
    return folder / "simulator_fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build" / "simulator-sanitized")
    options = parser.parse_args()
    driver = build(options.build_dir)
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_corpus(Path(folder))
        command = [str(driver), str(options.seed), str(options.iterations), *map(str, corpus)]
        return subprocess.run(command, env={"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
