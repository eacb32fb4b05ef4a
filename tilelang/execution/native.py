"""Native libraries that kernels depend on, found without importing the packages that hold them."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import tempfile
from functools import lru_cache
from pathlib import Path

from tilelang import temporary
from tilelang.artifact import KernelArtifact
from tilelang.errors import ExecutionError

LIBRARY = Path(__file__).resolve().parents[1] / "lib"
"""Where the build puts our native libraries."""

_UNDEFINED = re.compile(r"undefined symbol: (\w+)")


@lru_cache(maxsize=1)
def open_tvm_runtime() -> None:
    """Opens TVM's runtime library for kernels with parallel loops; its Python package stays unloaded.

    Raises:
        ExecutionError: TVM is not installed.
    """
    spec = importlib.util.find_spec("tvm")
    if spec is None or not spec.submodule_search_locations:
        raise ExecutionError("apache-tvm is not installed", hint="pip install 'apache-tvm==0.27.*'")
    import tvm_ffi as tvm_ffi  # the runtime library needs libtvm_ffi.so in the process

    path = Path(next(iter(spec.submodule_search_locations))) / "lib" / "libtvm_runtime.so"
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ExecutionError(f"cannot load {path}: {error}") from None


def not_loaded(artifact: KernelArtifact, path: Path, error: BaseException) -> ExecutionError:
    """The error of a kernel's library that the loader refuses.

    Args:
        artifact: the kernel.
        path: of the library.
        error: the loader's; an undefined symbol in its text gets a hint.
    """
    missing = _UNDEFINED.search(str(error))
    if missing:
        return ExecutionError(
            f"{artifact.name}: nothing defines {missing[1]}, which the kernel calls",
            hint="T.call_extern names a function of the C library, or one that T.import_source or compile_flags bring",
        )
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return ExecutionError(f"{artifact.name}: cannot load {path}: {reason}")


def is_device_artifact(artifact: KernelArtifact) -> bool:
    """Whether an artifact's kernels run on a CUDA device."""
    return bool(artifact.launches) or json.loads(artifact.target).get("kind") == "cuda"


def open_private_library(artifact: KernelArtifact, path: Path) -> ctypes.CDLL:
    """Loads a copy of a library: its global variables hold the device that it is bound to, and must not be shared between loads.

    Raises:
        ExecutionError: it cannot be loaded.
    """
    try:
        with tempfile.NamedTemporaryFile(suffix=".so", dir=temporary.folder()) as copy:
            copy.write(path.read_bytes())
            copy.flush()
            return ctypes.CDLL(copy.name)
    except OSError as error:
        raise not_loaded(artifact, path, error) from None
