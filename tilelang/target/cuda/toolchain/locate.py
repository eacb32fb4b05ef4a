"""Where the tools and headers are: NVIDIA's Python wheels first, then a toolkit (``CUDA_HOME``, the PATH, /usr/local/cuda).

Wheels come first because they are installed together with this package and so have a known version; a toolkit on the machine may
be any. Every function returns a path or None and remembers it for the process.
"""

from __future__ import annotations

import functools
import re
import shutil
import sys
from pathlib import Path

from tilelang import env

_PACKAGE = Path(__file__).resolve().parents[3]


@functools.cache
def template_directory() -> Path:
    """The directory that holds ``tl_templates``: inside the installed package, or ``src/`` of a source tree."""
    candidates = (_PACKAGE / "include", _PACKAGE.parent / "src")
    return next((path for path in candidates if (path / "tl_templates").is_dir()), candidates[-1])


@functools.cache
def _wheel_roots() -> tuple[Path, ...]:
    """Directories of NVIDIA's wheels: ``nvidia/cu13`` holds everything, ``nvidia/cuda_nvrtc`` … (CUDA 12) a part each."""
    found: list[Path] = []
    # NVIDIA's wheels share the folder `nvidia` without being one package: an import would find a part of it only.
    for entry in dict.fromkeys(sys.path):
        base = Path(entry or ".") / "nvidia"
        if base.is_dir():
            found += sorted(base.glob("cu[0-9]*"), reverse=True)
            found += [base / part for part in ("cuda_nvrtc", "cuda_runtime", "cuda_nvcc") if (base / part).is_dir()]
    return tuple(found)


@functools.cache
def _toolkit_roots() -> tuple[Path, ...]:
    nvcc = shutil.which("nvcc")
    candidates = [env.get("CUDA_HOME"), Path(nvcc).resolve().parent.parent if nvcc else None, "/usr/local/cuda"]
    return tuple(dict.fromkeys(Path(root) for root in candidates if root and Path(root).is_dir()))


def _version_key(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", path.name))


def _newest(pattern: str) -> Path | None:
    for root in (*_wheel_roots(), *_toolkit_roots()):
        for folder in ("lib", "lib64", "bin"):
            # By numbers: as text, version 9 would be newer than 13.
            found = sorted((root / folder).glob(pattern), key=_version_key, reverse=True)
            if found:
                return found[0]
    return None


@functools.cache
def nvrtc_library() -> Path | None:
    """The NVRTC shared library."""
    return next(filter(None, map(_newest, ("libnvrtc.so.[0-9]*", "libnvrtc.so", "nvrtc64_*.dll"))), None)


@functools.cache
def cuda_include_directory() -> Path | None:
    """The directory of ``cuda_fp16.h``, from the same root as NVRTC where that has one."""
    library = nvrtc_library()
    roots = ([library.parent.parent] if library else []) + [*_wheel_roots(), *_toolkit_roots()]
    candidates = (root / "include" for root in roots)
    return next((path for path in candidates if (path / "cuda_fp16.h").is_file()), None)


@functools.cache
def tool(name: str) -> Path | None:
    """An executable: ``nvcc``, ``ptxas``, ``nvdisasm``, ``cuobjdump``."""
    for root in (*_wheel_roots(), *_toolkit_roots()):
        path = root / "bin" / name
        if path.is_file():
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def ptxas() -> Path | None:
    """ptxas of the same toolkit as nvcc: PTX of a newer nvcc is refused by an older ptxas."""
    nvcc = tool("nvcc")
    if nvcc is None:
        return None
    beside = nvcc.resolve().parent / "ptxas"
    return beside if beside.is_file() else tool("ptxas")


def is_of_wheel(path: Path) -> bool:
    """Whether a file belongs to one of NVIDIA's wheels, whose versions are known."""
    return any(path.is_relative_to(root) for root in _wheel_roots())
