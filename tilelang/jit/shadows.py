"""Headers and libraries that every compilation reads: a file of such a name in a directory of the user takes its place.

Generated code includes headers of the C library or the CUDA toolkit, and these include others. Compilers look for all of them in
the directories of ``-I`` and ``CPATH`` first.
"""

from __future__ import annotations

import functools
import os
import platform
from pathlib import Path

from tilelang.cache.keys import header_watch, tool_files
from tilelang.cache.keys.versions import files_of, version_of
from tilelang.errors import ToolchainError
from tilelang.target.toolchain import c_compiler

_HEADERS = "dlfcn.h fenv.h math.h pthread.h stdarg.h stdbool.h stdint.h stdio.h stdlib.h string.h".split()
_INTRINSICS = {"x86_64": ["immintrin.h"], "aarch64": ["arm_neon.h"]}
_LIBRARIES = tuple(f"lib{name}.{end}" for name in "c dl gcc gcc_s m pthread".split() for end in ("so", "a"))
_STARTUP = ("crti.o", "crtn.o", "crtbeginS.o", "crtendS.o")
_DEEPEST = 3
"""Directories and file in the names of headers of the C library, such as ``x86_64-linux-gnu/bits/types.h``."""


def watched_names(kind: str, folders: list[str]) -> list[str]:
    """The names of headers and libraries that compilations for a kind of target read, whatever the program is.

    Args:
        kind: of the target.
        folders: directories of the user, which are watched for files of these names from now on.
    """
    names = [*_of_c(), *(_of_cuda() if kind == "cuda" else ())]
    header_watch.also([os.path.join(folder, name) for folder in folders for name in names])
    header_watch.also([each for folder in folders for each in tool_files.missing(os.path.abspath(folder))])
    return names


def _of_c() -> list[str]:
    """The headers and libraries of C that host code needs."""
    asked = [*_HEADERS, *_INTRINSICS.get(platform.machine(), ())]
    try:
        included = (part for name in asked for part in ("-include", name))
        answer = version_of(files_of(c_compiler()), "-M", "-xc", *included, os.devnull)
    except ToolchainError:  # said by the compilation
        answer = ""
    paths = [word.split("/") for word in answer.split() if "/" in word]
    found = dict.fromkeys("/".join(path[-count:]) for path in paths for count in range(1, _DEEPEST + 1))
    return [*dict.fromkeys((*asked, *found)), *_LIBRARIES, *_STARTUP]


@functools.cache
def _of_cuda() -> list[str]:
    """Our device headers and those of the toolkit."""
    from tilelang.target.cuda.toolchain import locate  # no other target needs these

    own = locate.template_directory()
    names = [str(path.relative_to(own)) for path in (own / "tl_templates").rglob("*") if path.is_file()]
    names += [path.name for path in (own / "tl_templates" / "nvrtc").iterdir()]
    toolkit = locate.cuda_include_directory() or Path("/nowhere")
    return [*names, *(str(path.relative_to(toolkit)) for each in ("*.h*", "crt/*.h*") for path in toolkit.glob(each))]
