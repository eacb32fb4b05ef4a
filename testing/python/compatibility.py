"""Where each public name of the reference package stands here: the rows of docs/compatibility.md.

python -m testing.python.compatibility > docs/compatibility.md
"""

from __future__ import annotations

import importlib
import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

from testing.python.peer_members import MEMBERS
from tilelang import refusals
from tilelang.refusals import Refused

PEER = "0.1.15"
NAMES: Mapping[str, list[str]] = json.loads((Path(__file__).parent / "peer_names.json").read_text())

DIFFERS = {
    **{
        f"tilelang{module}.register_{kind}_postproc{suffix}": "kernels under it are compiled anew in each process; None ends it"
        for module in ("", ".engine", ".engine.callback")
        for kind in ("cuda", "c")
        for suffix in ("", "_callback")
    },
    **{
        f"tilelang.layout.make_{kind}swizzled_layout": "the same addresses in a panel, as one number instead of three"
        for kind in ("", "wgmma_", "full_bank_", "half_bank_", "quarter_bank_")
    },
    "tilelang.language.max_value": "gives a Python number, not a constant of the IR",
    "tilelang.language.min_value": "gives a Python number, not a constant of the IR",
    "tilelang.language.cast": 'rounds floats to nearest even by default; `round="rs"` is refused',
    "tilelang.language.ceildiv": "rounds up for negative divisors too",
    "tilelang.lower": "gives an artifact of plain data: sources and binaries, no TVM module",
    "tilelang.env": "a module; the settings are `tilelang.env.env`",
    "tilelang.engine.lower": "a module, which can be called as `tilelang.lower`",
    "tilelang.env.CUDA_HOME": "the variable, None where it is unset; the toolkit need not be there",
    "tilelang.env.env": "has the variables of docs/environment.md",
    "tilelang.jit.JITFunc": "the class of decorated functions",
    "tilelang.language.JITFunc": "the class of traced programs",
    "tilelang.language.alloc_tmem": "of sm_100: runs in the interpreter, refused by every target",
    "tilelang.language.tcgen05_gemm": "of sm_100: runs in the interpreter, refused by every target",
    "tilelang.language.wgmma_gemm_sp": "as `T.gemm_sp`, which is complete at its end",
    "tilelang.language.tma_gather4": "of sm_100: refused when it is called",
    "tilelang.language.tma_scatter4": "of sm_100: refused when it is called",
    "tilelang.language.sblock": "a block is run as written; `reads` and `writes` have no effect",
    "tilelang.language.call_extern": "the result type comes first or is left out",
    "tilelang.language.type_annotation": "gives the dtype itself",
    "tilelang.language.float8_e8m0fnu": "stored and converted, by software",
    "tilelang.language.tfloat32": "is float32, whose operands tensor cores read as tf32",
    "tilelang.contrib.cc.get_cc": "asks `TILELANG_CC`, not `CXX` and `CC`",
    "tilelang.contrib.cc.get_cplus_compiler": "asks `TILELANG_CC`, not `CXX` and `CC`",
    "tilelang.utils.is_shared": "all shared memory is dynamic",
    "tilelang.jit.Kernel": "is `JITKernel`",
    "tilelang.language.handle": "is the type of an address; `T.ptr(dtype)` declares one of elements",
    "tilelang.language.print": "takes any number of values and texts by position",
    "tilelang.language.where": "chooses elementwise, as `T.if_then_else`",
    "tilelang.language.Cast": "is the function `T.cast` with the type first",
    **{
        f"tilelang.language.{name}": "TVM's class, as TVM 0.27 has it"
        for name in ("BufferLoad", "Call", "Let", "PrimFunc", "PrimExpr")
    },
    **{
        f"tilelang.language.{name}": "converts a value that is given by position"
        for name in ("bfloat16x4", "bfloat16x8", "bfloat16x16", "bfloat16x32", "bfloat16x64", "boolean")
    },
}
"""Names that are there and do something else, and what."""

ABSENT = {
    "tilelang.autotuner.capture": refusals.LOADING,
    "tilelang.env": refusals.INSTALLATION,
    "tilelang.cache": refusals.LOADING,
    "tilelang.contrib.nvcc": refusals.TOOLCHAIN,
    "tilelang.profiler": refusals.PASSES,
}
"""Why names of a module are not even importable."""


def state(module: str, name: str) -> tuple[str, str]:
    """``same``, ``differs`` or ``refused``, and how or why."""
    told = DIFFERS.get(f"{module}.{name}")
    if told:
        return "differs", told
    try:
        value = getattr(importlib.import_module(module), name)
    except AttributeError:
        return "refused", ABSENT[module]
    return ("refused", value.reason) if isinstance(value, Refused) else ("same", "")


def _section(module: str) -> str:
    groups: dict[tuple[str, str], list[str]] = {}
    for name in NAMES[module]:
        groups.setdefault(state(module, name), []).append(f"`{name}`")
    lines = []
    for (kind, why), names in sorted(groups.items(), key=lambda group: ("same", "differs", "refused").index(group[0][0])):
        lines.append(_paragraph(f"**{kind}**{f' ({why})' if why else ''}: {' '.join(names)}"))
    return f"## {module}\n\n" + "\n\n".join(lines)


def _members() -> str:
    """The section of the members that are not the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, told in MEMBERS.items():
        groups.setdefault(told, []).append(f"`{name}`")
    lines = [_paragraph(f"**{kind}** ({why}): {' '.join(names)}") for (kind, why), names in groups.items()]
    return "## Members of classes\n\nThose of the classes above that are the same are not listed.\n\n" + "\n\n".join(lines)


def _paragraph(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 130, break_long_words=False, break_on_hyphens=False))


def page() -> str:
    """The whole page."""
    head = f"""# Names of tilelang {PEER}

Programs written for the public package `tilelang=={PEER}` import these names. **same**: it is here under this name, with this
meaning; its parameters have the same names and places (but for TVM's `span`, a position in the source). **differs**: it is here,
but differs as its note says. **refused**: it can be imported where this package has its module, and using it raises an error that
names it and says why. The modules of other vendors and of other architectures
(`tilelang.rocm`, `tilelang.metal`, `tilelang.webgpu`, …: `tilelang/moved.py` lists them) can be imported too, and all that they
have is refused. Other modules that are not listed are that package's own parts.

This page is generated by `python -m testing.python.compatibility` from `testing/python/peer_names.json` and
`peer_parameters.json`, which `testing/python/list_peer_names.py` makes with an interpreter that has the package;
`tilelang/refusals.py` has the reasons.
"""
    return head + "\n" + "\n\n".join((*map(_section, NAMES), _members())) + "\n"


if __name__ == "__main__":
    print(page(), end="")
