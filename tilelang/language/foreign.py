"""``T.CUDASourceCodeKernel``: a kernel written in CUDA C++ among those of a program."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tilelang.errors import OptionError
from tilelang.frontend.builder import current
from tilelang.ir import nodes as ir
from tilelang.language import calls
from tilelang.language.kernel import Kernel, import_source

_ENTRY = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")


def CUDASourceCodeKernel(
    *blocks: Any, threads: Any = None, source_code_or_path: str | os.PathLike[str], entry_name: str | None = None,
    cluster_dims: Any = None, prelude: str | None = None,
) -> None:  # fmt: skip
    """Launches a kernel of CUDA source, outside of any ``with T.Kernel(...)``.

    It gets the program's arguments in order, tensors as pointers, then the dynamic sizes (``T.dynamic``) in order.

    Args:
        blocks, threads, cluster_dims: as for ``T.Kernel``.
        source_code_or_path: the source, or a file that has it; the entry must be ``extern "C" __global__ void``.
        entry_name: the kernel's name; needed where the source has several.
        prelude: CUDA source before that of the kernel.

    Raises:
        OptionError: no such entry, or the file cannot be read.
    """
    source = "\n".join(filter(None, (prelude, _text(source_code_or_path))))
    entries = list(dict.fromkeys(_ENTRY.findall(source)))
    name = entry_name or (entries[0] if len(entries) == 1 else None)
    if name not in entries:
        known = f"Available entries: {', '.join(entries) or 'none'}"
        raise OptionError(f"T.CUDASourceCodeKernel: {'no' if name else 'give'} entry_name {name or ''}".rstrip(), hint=known)
    builder = current("T.CUDASourceCodeKernel")
    import_source(source if source.endswith("\n") else source + "\n")
    with Kernel(*blocks, threads=threads, cluster_dims=cluster_dims):
        params = builder.eager.params.values() if builder.eager is not None else ()
        uses = [ir.buffer_data(param) if ir.is_buffer_var(param) else param for param in params]
        calls.effect("source_kernel", name, *uses)


def _text(source_code_or_path: str | os.PathLike[str]) -> str:
    if isinstance(source_code_or_path, str) and ("\n" in source_code_or_path or "__global__" in source_code_or_path):
        return source_code_or_path
    try:
        return Path(source_code_or_path).read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"T.CUDASourceCodeKernel: cannot read {source_code_or_path}: {error.strerror}") from None
