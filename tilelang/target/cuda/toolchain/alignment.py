"""How far addresses of tensors and pointers must be aligned: read from the PTX, which has every access that the compiler chose.

An access counts for the tensors whose addresses flow into its own; where that cannot be seen, for all of them. Addresses that are
loaded from a tensor (a table of pointers) are those of other memory, whose alignment the program that fills the table ensures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tilelang.artifact import KernelLaunch, KernelParam
from tilelang.dtypes import canonical

_FUNCTION = re.compile(r"^\s*(?:\.\w+\s+)*\.(?:entry|func)\s[^;{]*?(\w+)\s*\(\s*$", re.M)
_VECTOR = re.compile(r"\b(?:ld|st|red|atom)\.(?:\w+(?:::\w+)*\.)*global(?:\.\w+(?:::\w+)*)*?\.v([248])\.\w(\d+)\s")
_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared(?:::\w+)?\.global[^;]*?\],\s*(4|8|16)\b")
_BULK = re.compile(r"\bcp\.(?:reduce\.)?async\.bulk\.(?!tensor|commit|wait)")
_BULK_BYTES = 16
_PARAMETER = re.compile(r"\bld\.param\.[bu]64\s+(%rd\d+), \[\w+_param_(\d+)\]")
_LOADED = re.compile(r"\bld\.(?:\w+(?:::\w+)*\.)*global(?:\.\w+(?:::\w+)*)*\s+([^\[]*), \[")
_MEMORY = -1
"""The origin of an address that was loaded from global memory."""
_ASSIGNMENT = re.compile(r"^\s*(?:@!?%p\d+\s+)?(?!ld|atom)[\w.:]+\s+(%rd\d+),(.*);")
_REGISTER = re.compile(r"%rd\d+")
_ADDRESS = re.compile(r"\[[^\]]*\]")


def tensor_alignment(ptx: bytes | str, params: Sequence[KernelParam], launches: Sequence[KernelLaunch]) -> dict[str, int]:
    """Bytes that the address of each tensor or pointer parameter must be a multiple of, where that is more than an element.

    Args:
        ptx: the text of all kernels.
        params: the program's parameters.
        launches: which arguments each kernel gets, and which tensor maps.
    """
    text = ptx.decode(errors="replace") if isinstance(ptx, bytes) else ptx
    # What lies at a pointer has any type, whatever type the pointer is declared with.
    tensors = {
        param.name: canonical(param.dtype).bytes if param.kind == "tensor" else 1 for param in params if param.kind != "scalar"
    }
    arguments = {launch.symbol: [name for _, name in launch.args] for launch in launches}
    widest = dict.fromkeys(tensors, 1)
    found = [(name, _BULK_BYTES) for launch in launches for name in [spec.tensor for spec in launch.tensor_maps]]
    for symbol, body in _functions(text):
        names = arguments.get(symbol)
        for origins, width in _accesses(body):
            # In a device function, or for an address of unknown origin, every tensor may be meant.
            of = tensors if names is None or not origins else [names[position] for position in origins - {_MEMORY}]
            found += [(name, width) for name in of]
    for name, width in found:
        if name in widest:
            widest[name] = max(widest[name], width)
    return {name: width for name, width in widest.items() if width > tensors[name]}


def _functions(text: str) -> Iterator[tuple[str, str]]:
    """(name, text) of each function of a module."""
    pieces = _FUNCTION.split(text)
    yield from zip(pieces[1::2], pieces[2::2])


def _accesses(body: str) -> Iterator[tuple[frozenset[int], int]]:
    """(positions of the parameters whose addresses flow into it, bytes) of each access to global memory that is wider than an
    element may be."""
    lines = body.splitlines()
    origins: dict[str, frozenset[int]] | None = None
    for line in lines:
        width = _width(line)
        if width:
            origins = _origins(lines) if origins is None else origins
            names = _REGISTER.findall(" ".join(_ADDRESS.findall(line)))
            yield frozenset().union(*(origins.get(name, frozenset()) for name in names)), width


def _width(line: str) -> int:
    vector = _VECTOR.search(line)
    if vector:
        return int(vector[1]) * int(vector[2]) // 8
    copy = _COPY.search(line)
    return int(copy[1]) if copy else _BULK_BYTES if _BULK.search(line) else 0


def _origins(lines: Sequence[str]) -> dict[str, frozenset[int]]:
    """The parameters from whose values each 64-bit register is computed, through copies and arithmetic but no memory."""
    found: dict[str, frozenset[int]] = {}
    steps: list[tuple[str, list[str]]] = []
    for line in lines:
        parameter, assignment, loaded = _PARAMETER.search(line), _ASSIGNMENT.match(line), _LOADED.search(line)
        for name in _REGISTER.findall(loaded[1]) if loaded else ():
            found[name] = found.get(name, frozenset()) | {_MEMORY}
        if parameter:
            found[parameter[1]] = found.get(parameter[1], frozenset()) | {int(parameter[2])}
        elif assignment:
            steps.append((assignment[1], _REGISTER.findall(assignment[2])))
    changed = True
    # An address that a loop advances flows back to lines above: one pass over the text does not find all.
    while changed:
        changed = False
        for target, sources in steps:
            # Sets of origins only grow, so this ends.
            union = found.get(target, frozenset()).union(*(found.get(source, frozenset()) for source in sources))
            if union and union != found.get(target):
                found[target] = union
                changed = True
    return found
