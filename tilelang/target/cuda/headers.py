"""Which device headers a generated kernel includes.

Every header costs NVRTC a millisecond or ten, so a kernel includes only the families that it calls. The table from function to
header is read from the headers themselves (one definition pattern), so a new device function needs no second entry.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping

from tilelang.target.cuda.ir import wgmma
from tilelang.target.cuda.toolchain.locate import template_directory

_FOLDER = "tl_templates/cuda"
_CALLED = re.compile(r"\btl::(\w+)")
_PRINTED = re.compile(
    r"\b(half[24]?|nv_bfloat16\w*|__nv_fp8\w*|fp8_e[458]\w*_t|__pack_\w+|make_half\w*|make_nv_\w+|make___nv_\w+)\b"
)
_DEFINED = re.compile(
    r"^TL_DEVICE [^\n(]*?\b(\w+)\(|^struct (?:__align__\(\d+\) )?(\w+)(?= [{])|^constexpr int (.*);$", re.MULTILINE
)
_CONSTANT = re.compile(r"(\w+) = ")
_GENERATED_FAMILIES = (
    # names that macros paste together, and so no definition spells out
    (re.compile(r"(ldmatrix|stmatrix)_x\d(_trans)?"), "ldmatrix.h"),
    (re.compile(r"mma_sp_\w+"), "mma_sparse.h"),
    (re.compile(r"mma_m\w+"), "mma.h"),
    (re.compile(r"cp_async_\w+"), "cp_async.h"),
    (re.compile(r"(tma|bulk|cache_policy)_\w+"), "tma.h"),
    (re.compile(r"(wgmma)_\w+"), "wgmma.h"),
    (re.compile(r"atomic_\w+"), "atomic.h"),
    (re.compile(r"ieee_\w+"), "math.h"),
)
_ORDER = ("common.h", "half.h", "bf16.h", "fp8.h")
"""Types come before the templates that are specialised for them; all other headers follow by name."""


@functools.cache
def defined_names() -> Mapping[str, str]:
    """Device function or type -> the header that defines it."""
    table: dict[str, str] = {}
    for path in sorted((template_directory() / _FOLDER).glob("*.h")):
        for function, record, constants in _DEFINED.findall(path.read_text(encoding="utf-8")):
            names = [function or record] if function or record else _CONSTANT.findall(constants)
            for name in names:
                table.setdefault(name, path.name)
    return table


def header_of(name: str) -> str | None:
    """The header of ``tl::<name>``; None where no header has it (the kernel's own text may)."""
    for pattern, header in _GENERATED_FAMILIES:
        if pattern.fullmatch(name):
            return header
    return defined_names().get(name)


def headers_of(body: str) -> list[str]:
    """The headers that the CUDA text ``body`` needs, in an order in which they may be included."""
    needed = {"common.h"}
    needed.update(filter(None, map(header_of, dict.fromkeys(_CALLED.findall(body)))))
    needed.update(map(_type_header, dict.fromkeys(_PRINTED.findall(body))))
    return [name for name in _ORDER if name in needed] + sorted(needed.difference(_ORDER))


def _type_header(name: str) -> str:
    found = defined_names().get(name)
    if found is not None:
        return found
    if "fp8" in name:
        return "fp8.h"
    return "bf16.h" if "bfloat16" in name else "half.h"


def include_lines(headers: Iterable[str]) -> str:
    """One ``#include`` line a header."""
    return "".join(f"#include <{_FOLDER}/{header}>\n" for header in headers)


def prelude(body: str) -> str:
    """What must stand before the generated CUDA text ``body``: includes, and the wgmma instructions that it uses."""
    return include_lines(headers_of(body)) + wgmma.definitions(_CALLED.findall(body))
