"""Writes the CUDA text of a fixed set of kernels, so that a change that should not touch any can be checked with diff.

    python -m testing.kernel_texts /tmp/before       # on the old revision
    python -m testing.kernel_texts /tmp/after        # on the new one
    diff -r /tmp/before /tmp/after

The set is the first kernel of every example, for each architecture. Nothing is executed and no device compiler runs.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from unittest import mock

import tilelang
from testing.python.examples.test_examples import SMALL, load
from tilelang.target.cuda import compile as cuda

ARCHITECTURES = ("sm_80", "sm_89", "sm_90a")


class _Seen(BaseException):
    """Raised once the kernel's text is recorded, to end the example."""


def text_of(name: str, arch: str) -> str:
    """The CUDA text of an example's first kernel, or the error that there is instead."""
    texts: list[str] = []
    lower = cuda.lower

    def record(func: object, request: object) -> None:
        texts.append(lower(func, request).source)
        raise _Seen

    with mock.patch.dict(os.environ, {"TILELANG_CUDA_ARCH": arch}), mock.patch.object(cuda, "lower", record):
        with tilelang.simulator(), contextlib.redirect_stdout(io.StringIO()):
            try:
                load(name).main(**SMALL[name])
            except _Seen:
                return texts[0]
            except Exception as error:  # noqa: BLE001  (a refusal is part of what must not change)
                return f"{type(error).__name__}: {error}\n"
    return ""


def main() -> None:
    """Writes one file an example and architecture."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    tilelang.disable_cache()
    for name in SMALL:
        for arch in ARCHITECTURES:
            (folder / f"{name}.{arch}.cu").write_text(text_of(name, arch))


if __name__ == "__main__":
    main()
