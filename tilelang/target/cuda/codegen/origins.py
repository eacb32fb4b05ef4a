"""What a kernel's text comes from: the program's line of each line, and what lies in shared memory and in registers, and how.

It is kept beside the text, so that what a debugger or a simulator says of the text can be said of the program.
"""

from __future__ import annotations

import json
import linecache
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilelang.errors import Location
from tilelang.ir.span import location_of, portable
from tilelang.records import Record
from tilelang.target.cuda.ir.code import Leaf, owner
from tilelang.target.cuda.ir.instructions import Instruction
from tilelang.target.cuda.ir.printer import Line


class Origins(Record):
    """Of one kernel; lines are counted from 1 in its own text.

    Attributes:
        lines: line -> file and line of the statement in the program.
        shared: each buffer in shared memory: name, dtype, shape, offset and bytes, layout, first and last line that touches it.
        fragments: each tile in registers: name, dtype, shape, layout.
    """

    lines: Mapping[int, tuple[str, int]]
    shared: Sequence[Mapping[str, Any]]
    fragments: Sequence[Mapping[str, Any]]


def origins_of(kernel: Any, body: Sequence[str], first: int) -> Origins:
    """The origins of a kernel of planned code whose text has ``body`` from line ``first`` on."""
    coded = [(number, line.code) for number, line in enumerate(body, first) if isinstance(line, Line)]
    found = ((number, location_of(code.span)) for number, code in coded)
    lines = {number: (place.file, place.line) for number, place in found if place is not None}
    layouts = kernel.layouts
    uses = _uses(coded, kernel.tree.root_of)
    shared = [
        {**_described(buffer, layouts.memory), "offset": offset, "bytes": size, "lines": uses.get(buffer)}
        for buffer, (offset, size) in sorted(kernel.plan.places.items(), key=lambda item: item[1])
    ]
    return Origins(lines, shared, [_described(buffer, layouts.fragments) for buffer in layouts.fragments])


def _uses(coded: Iterable[tuple[int, Any]], root_of: Any) -> dict[Any, tuple[int, int]]:
    """First and last line of the code that touches each buffer."""
    found: dict[Any, tuple[int, int]] = {}
    for number, code in coded:
        touched = code.accesses if isinstance(code, Leaf) else code.accesses() if isinstance(code, Instruction) else ()
        for access in touched:
            buffer = root_of(owner(access.buffer))
            found[buffer] = (found.get(buffer, (number,))[0], number)
    return found


def _described(buffer: Any, layouts: Mapping[Any, Any]) -> dict[str, Any]:
    layout = layouts.get(buffer)
    shape = [str(extent) for extent in buffer.shape]
    return {"name": buffer.name, "dtype": str(buffer.dtype), "shape": shape, "layout": layout.to_text() if layout else None}


def origins_file(source: str, texts: Iterable[Any]) -> bytes:
    """The origins of all kernels of a text, as JSON; each line of the program comes with its own text, as files change."""
    numbers: dict[tuple[str, int], int] = {}
    kernels = []
    for kernel in texts:
        if kernel.origins is None:
            continue
        above = source[: source.index(kernel.text)].count("\n")
        lines = {number + above: numbers.setdefault(place, len(numbers)) for number, place in kernel.origins.lines.items()}
        shared = [{**item, "lines": item["lines"] and [line + above for line in item["lines"]]} for item in kernel.origins.shared]
        kernels.append({"symbol": kernel.launch.symbol, "lines": lines, "shared": shared, "fragments": kernel.origins.fragments})
    places = [(portable(file), line, linecache.getline(file, line).strip()) for file, line in numbers]
    return json.dumps({"places": places, "kernels": kernels}).encode()


def place_in(origins: bytes, line: int) -> Location | None:
    """The statement of the program from which a line of the text comes, counted from 1, by what :func:`origins_file` gave."""
    known = json.loads(origins)
    found = (kernel["lines"].get(str(line)) for kernel in known["kernels"])
    place = next((number for number in found if number is not None), None)
    return None if place is None else Location(*known["places"][place][:2])
