"""Which device headers a generated kernel includes, by the device functions and types that its printer has written.

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
_TYPE = re.compile(
    r"\b(half[24]?|nv_bfloat16\w*|__nv_fp8\w*|fp8_e[458]\w*_t|__pack_\w+|make_half\w*|make_nv_\w+|make___nv_\w+)\b"
)
_TOOLKIT = re.compile(
    r"\b(__\w*(?:half|bfloat16|fp8)\w*|__h\w+"
    r"|h2?(?:exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|rcp|sin|cos|tanh|ceil|floor|trunc|rint))\b"
)
"""CUDA's own functions and types of small floats, which a program may name (``T.call_extern``)."""
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


def names_in(text: str) -> set[str]:
    """The device functions and types in CUDA text that a program brings: of that the compiler knows no more."""
    return {f"tl::{name}" for name in _CALLED.findall(text)} | set(_TYPE.findall(text)) | set(_TOOLKIT.findall(text))


def headers_of(names: Iterable[str]) -> list[str]:
    """The headers of some device functions (``tl::…``) and types, in an order in which they may be included."""
    needed = {"common.h"}
    for name in names:
        if name.startswith("tl::"):
            header = header_of(name.split("::")[1])
            needed |= {header} if header is not None else set()
        elif _TYPE.fullmatch(name) or _TOOLKIT.fullmatch(name):
            needed.add(_type_header(name))
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


def prelude(names: Iterable[str]) -> str:
    """What must stand before CUDA text with these device functions and types: includes, and definitions of wgmma instructions."""
    names = sorted(names)
    return include_lines(headers_of(names)) + wgmma.definitions(name.removeprefix("tl::") for name in names)
