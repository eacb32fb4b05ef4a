"""A CUDA program as a shared library that needs nothing but the driver: host, machine code and launcher in one file.

The host is the one of the execution backends (:mod:`tilelang.target.hosts.c`) with both its entries; ``launcher.c`` of the
device headers' folder gives it the driver, and the cubin (with the PTX, for newer GPUs) is part of the library.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilelang import temporary
from tilelang.records import Record
from tilelang.target.cuda.toolchain.locate import template_directory
from tilelang.target.hosts.c import c_source
from tilelang.target.hosts.text import HostProgram
from tilelang.target.toolchain import c_compiler, run

_LAUNCHER = "tl_templates/host/launcher.c"

_IMAGES = """\
__asm__(".section .rodata, \\"a\\", @progbits\\n"
        ".balign 64\\ntl_cubin: .incbin \\"kernel.cubin\\"\\n.byte 0\\n"
        ".balign 64\\ntl_ptx: .incbin \\"kernel.ptx\\"\\n.byte 0\\n"
        ".previous\\n");
"""


class DeviceImage(Record):
    """Machine code, and what the driver can translate for other GPUs."""

    cubin: bytes
    ptx: bytes


def standalone_library(program: HostProgram, image: DeviceImage, rows: Sequence[Sequence[Any]]) -> bytes:
    """The library of a program; it exports ``<name>_call``, ``__tvm_ffi_<name>`` and ``tilelang_last_error``.

    Args:
        program: what its host does.
        image: the device code.
        rows: of each kernel its symbol, the bytes of its arguments, and its tensor maps in the driver's numbers.

    Raises:
        ToolchainError: the system's C compiler is missing or fails.
    """
    with tempfile.TemporaryDirectory(prefix="tilelang-library-", dir=temporary.folder()) as folder:
        directory = Path(folder)
        (directory / "library.c").write_text(_text(program, rows))
        (directory / "kernel.cubin").write_bytes(image.cubin)
        (directory / "kernel.ptx").write_bytes(image.ptx)
        library = directory / "library.so"
        words = ["-std=gnu11", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", f"-Wa,-I,{folder}"]
        run([c_compiler(), *words, str(directory / "library.c"), "-o", str(library), "-ldl", "-lpthread"])
        return library.read_bytes()


def _text(program: HostProgram, rows: Sequence[Sequence[Any]]) -> str:
    launcher = (template_directory() / _LAUNCHER).read_text()
    attached = f"__attribute__((constructor)) static void tl_attach(void) {{ {program.name}_bind(&tl_on_driver, 0); }}\n"
    parts = [c_source(program, packed=True), f"#define TL_KERNEL_COUNT {len(rows)}", launcher, _table(rows), _IMAGES, attached]
    return "\n".join(parts)


def _table(rows: Sequence[Sequence[Any]]) -> str:
    """The records that the launcher reads."""
    lines, kernels = [], []
    for index, (symbol, _, maps) in enumerate(rows):
        lines += [f"static const tl_map_row tl_maps{index}[] = {{{', '.join(map(_map, maps))}}};"] if maps else []
        kernels.append(f'{{"{symbol}", {f"tl_maps{index}" if maps else 0}}}')
    return "\n".join([*lines, f"static const tl_kernel_row tl_kernels[] = {{{', '.join(kernels)}}};", ""])


def _map(row: Sequence[Any]) -> str:
    data_type, interleave, swizzle, l2_promotion, fill, box, steps = row
    numbers = f"{data_type}, {interleave}, {swizzle}, {l2_promotion}, {fill}, {len(box)}"
    return f"{{{numbers}, {{{', '.join(map(str, box))}}}, {{{', '.join(map(str, steps))}}}}}"
