"""Keys and artifacts for tests of the cache, which never looks inside an artifact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tilelang.artifact import KernelArtifact, KernelLaunch, KernelParam
from tilelang.cache.keys.fingerprint import Fingerprint
from tilelang.cache.keys.key import KernelKey

REPOSITORY = Path(__file__).resolve().parents[3]
FINGERPRINT = Fingerprint((("python", "0" * 64),), True)
TARGET = '{"kind": "llvm", "mcpu": "test"}'


def key(name: str = "add", program: str = "C = A + B", **changes) -> KernelKey:
    """A key with a fixed compiler; ``changes`` replace its fields."""
    fields = {"name": name, "program": program, "target": TARGET, "backend": "ctypes", "out_idx": (2,)}
    return KernelKey(**{**fields, "fingerprint": FINGERPRINT, **changes})


def artifact(name: str = "add", size: int = 64, **files: bytes) -> KernelArtifact:
    """An artifact with a device source, a library of ``size`` bytes and whatever ``files`` add (``__`` for a dot)."""
    content = {
        "device_kernel.cu": b"// " + name.encode(),
        "kernel_lib.so": bytes(i % 251 for i in range(size)),
    }
    content |= {file.replace("__", "."): data for file, data in files.items()}
    params = tuple(KernelParam(n, "tensor", "float32", ("n",)) for n in "ABC")
    launch = KernelLaunch("main", (("tensor", "A"),), ("handle",), (("ceildiv", "n", 128), 1, 1), (128, 1, 1))
    return KernelArtifact(name, TARGET, "ctypes", params, (2,), content, (launch,), {"seconds": 0.5})


def freeze_compiler() -> None:
    """Fixes the compiler's fingerprint in this process, as in the tests' own process."""
    from tilelang.cache.keys import key, source_key

    for module in (key, source_key):
        module.compiler_fingerprint = lambda memo_file: FINGERPRINT


def run_python(code: str, *arguments: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess:
    """Runs ``code`` in a new process that can import the package and these fakes."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",  # the working directory comes first on the path of `python -c`
        env={**os.environ, "PYTHONPATH": python_path(), **environment},
    )
    assert not check or result.returncode == 0, result.stderr
    return result


def python_path() -> str:
    """Where new processes find the package and the tests."""
    return os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "testing" / "python")))


def never():
    """A compilation that must not happen."""
    raise AssertionError("compiled although the entry is there")
