"""The tensor maps of a kernel, which describe the tensors that the tensor memory accelerator moves (sm_90a).

Copies of tiles describe their own; ``T.create_tma_descriptor`` makes one by hand, for ``T.tma_load`` and ``T.tma_store``. Its
numbers are those of the driver's ``cuTensorMapEncodeTiled``, axes from the innermost on:

    type, rank, tensor, sizes…, byte strides…, box…, element steps…, interleave, swizzle, L2 promotion, fill

The host encodes it at each launch, so its tensor is a parameter of the kernel; the first byte stride is the element's size. The
program's own barriers say when the accelerator is done.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.artifact import TensorMapSpec
from tilelang.dtypes import canonical
from tilelang.errors import OperandError, OptionError, RunTimeValueError, ShapeError
from tilelang.identifiers import numbered
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.dim import to_dim
from tilelang.ir.expr import as_int, constant
from tilelang.target.cuda.intrinsics.values import place_of
from tilelang.target.cuda.ir.access import Agent
from tilelang.target.cuda.ir.values import Call, Name, Pointer, Value
from tilelang.tensor_maps import DATA_TYPES, FILLS, INTERLEAVES, L2_PROMOTIONS, OUTSIDE, SWIZZLES, TRANSPORTS

MAX_RANK, MAX_BOX, ALIGNMENT = 5, 256, 16
"""Axes of a tensor map, elements of a box along one of them, and bytes that strides are multiples of."""


@dataclass(eq=False)
class TensorMaps:
    """The tensor maps of a kernel, without duplicates."""

    specs: list[TensorMapSpec] = field(default_factory=list)

    def take(self, spec: TensorMapSpec) -> TensorMapSpec:
        """The kernel's tensor map with the contents of ``spec``: an existing one, or a new one with a unique name."""
        for known in self.specs:
            if replace(spec, name=known.name) == known:
                return known
        taken = {known.name for known in self.specs}
        name = next(name for name in numbered(f"{spec.tensor}_map", first=2) if name not in taken)
        self.specs.append(replace(spec, name=name))
        return self.specs[-1]


def coordinates_in(sizes: Sequence[Any], coordinates: Sequence[Any]) -> list[Any]:
    """The coordinates of a copy, outermost axis first, as the tensor map takes them, which has one element where the tensor
    has none."""
    unknown = [constant(size) for size in sizes if not isinstance(as_int(size), int)]
    if not unknown:
        return list(coordinates)
    is_empty = functools.reduce(ir.Or, [size == 0 for size in unknown])
    outermost, *inner = map(constant, coordinates)
    return [ir.Select(is_empty, constant(OUTSIDE, str(outermost.ty)), outermost), *inner]


def descriptor(call: Any, emitter: Any) -> Value:
    """The kernel's parameter that holds the descriptor."""
    return Name(emitter.output.tensor_maps.take(_spec(list(call.args), emitter)).name)


def load(call: Any, emitter: Any) -> Value:
    """``T.tma_load(descriptor, barrier, destination, coordinates…)``."""
    coordinates = _coordinates(call, 3, emitter)
    places = (_in_bulk(call, 2, emitter, WRITE), emitter.value(call.args[0]), place_of(call, 1, emitter, READ))
    return Call(f"tl::tma_load_{len(coordinates)}d", (*places, *coordinates))


def store(call: Any, emitter: Any) -> Value:
    """``T.tma_store(descriptor, source, coordinates…)``."""
    coordinates = _coordinates(call, 2, emitter)
    places = (emitter.value(call.args[0]), _in_bulk(call, 1, emitter, READ))
    return Call(f"tl::tma_store_{len(coordinates)}d", (*places, *coordinates))


def moved_tensor(call: Any) -> tuple[Any, str] | None:
    """The tensor of a ``T.tma_load`` or ``T.tma_store``, and what is done to it; None where none is described."""
    described = call.args[0].args[2:3] if isinstance(call.args[0], ir.Call) else ()
    tensors = [place.source for place in described if isinstance(place, ir.TensorLoad)]
    return (tensors[0], READ if str(call.op.name).endswith("load") else WRITE) if tensors else None


def _in_bulk(call: Any, at: int, emitter: Any, kind: str) -> Value:
    """A pointer to what the accelerator reads or writes in shared memory."""
    place = place_of(call, at, emitter, kind)
    return replace(place, agent=Agent.BULK) if isinstance(place, Pointer) else place


def _spec(arguments: list[Any], emitter: Any) -> TensorMapSpec:
    kind, rank, place, *rest = arguments
    kind, rank = _known(kind, "type"), _known(rank, "rank")
    if not 1 <= rank <= MAX_RANK or len(rest) != 4 * rank + 4:
        raise OptionError(
            "T.create_tma_descriptor: numbers that do not fit together",
            hint="type, rank, tensor; of each axis size, byte stride, box, step; interleave, swizzle, promotion, fill",
        )
    dtype = _named({name: DATA_TYPES[name] for name in TRANSPORTS if name in DATA_TYPES}, kind, "type")
    sizes, strides = rest[:rank], rest[rank : 2 * rank]
    box, steps, modes = (
        [_known(value, what) for value in rest[first : first + count]]
        for what, first, count in (("box", 2 * rank, rank), ("step", 3 * rank, rank), ("mode", 4 * rank, 4))
    )
    swizzle = _named(SWIZZLES, modes[1], "swizzle")
    _check(canonical(dtype).bytes, strides, box, swizzle)
    return TensorMapSpec(
        name="",
        tensor=_tensor(place, emitter),
        dtype=dtype,
        shape=tuple(to_dim(as_int(size)) for size in sizes),
        # The driver's call has no stride for the innermost axis, whose elements are neighbours.
        strides=tuple(to_dim(as_int(stride)) for stride in strides[1:]),
        box=tuple(box),
        element_strides=tuple(steps),
        swizzle=swizzle,
        interleave=_named(INTERLEAVES, modes[0], "interleave"),
        l2_promotion=_named(L2_PROMOTIONS, modes[2], "promotion"),
        oob_fill=_named(FILLS, modes[3], "fill"),
    )


def _check(element: int, strides: list[Any], box: list[int], swizzle: int) -> None:
    """Refuses what the driver would refuse at every launch; it checks itself the strides that only a call gives."""
    row = box[0] * element
    problem = None
    # Not an argument of the driver's call. Programs give the bytes of an element or, as for a tensor, one element.
    if as_int(strides[0]) not in (1, element):
        problem = f"the innermost stride must be {element} bytes"
    elif any(isinstance(stride, int) and stride % ALIGNMENT for stride in map(as_int, strides[1:])):
        problem = f"strides must be multiples of {ALIGNMENT} bytes"
    elif not all(1 <= extent <= MAX_BOX for extent in box):
        problem = f"extents of the box are 1 to {MAX_BOX}"
    elif row % ALIGNMENT or (swizzle and row > swizzle):
        limit = f" and at most {swizzle}" if swizzle else ""
        problem = f"rows of the box are {row} bytes; they must be multiples of {ALIGNMENT}{limit}"
    if problem is not None:
        raise OptionError(f"T.create_tma_descriptor: {problem}")


def _tensor(place: Any, emitter: Any) -> str:
    if isinstance(place, ir.TensorLoad) and all(as_int(index) == 0 for index in place.indices):
        root = emitter.root(place.source)
        if root in emitter.kernel.func.params:
            return str(root.name)
    raise OperandError(
        "T.create_tma_descriptor describes a whole tensor that is a parameter",
        hint="give the tensor itself; coordinates of T.tma_load choose the place in it",
    )


def _coordinates(call: Any, first: int, emitter: Any) -> list[Value]:
    """The coordinates of a copy, its arguments from ``first`` on."""
    given = list(call.args[first:])
    if not 1 <= len(given) <= MAX_RANK:
        raise ShapeError(f"a TMA copy has 1 to {MAX_RANK} coordinates, not {len(given)}")
    # Arguments of a descriptor: type, rank, tensor, and the sizes.
    rank, sizes = as_int(call.args[0].args[1]), call.args[0].args[3:]
    return [emitter.value(at) for at in reversed(coordinates_in(sizes[:rank], given[::-1]))]


def _known(value: Any, what: str) -> int:
    number = as_int(value)
    if not isinstance(number, int):
        raise RunTimeValueError(f"T.create_tma_descriptor: the {what} must be known at compile time")
    return number


def _named(numbers: Mapping[Any, int], number: int, what: str) -> Any:
    """What the driver calls ``number``."""
    names = {known: name for name, known in numbers.items()}
    if number not in names:
        known = ", ".join(f"{number} ({name})" for number, name in sorted(names.items()))
        raise OptionError(f"T.create_tma_descriptor: no {what} {number}", hint=f"there are {known}")
    return names[number]
