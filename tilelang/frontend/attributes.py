"""Attributes that the arms of a run-time condition give objects from before it.

They are like names: an arm does not find what the other one has assigned, and afterwards an attribute is one value only if both
arms have assigned that. A :class:`~tilelang.frontend.containers.State` refuses what replaces an attribute from before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilelang.errors import StaleValueError
from tilelang.frontend.builder import current
from tilelang.frontend.containers import State, is_known_by_value, is_same
from tilelang.frontend.values import Unusable


class Attribute(NamedTuple):
    """A number, text or expression that an arm has assigned."""

    holder: Any
    name: str
    value: Any


Arm = dict[tuple[int, str], Attribute]


def is_missing(holder: Any, name: str) -> bool:
    """Whether an object has no attribute of a name, or one that holds no value on some path of the kernel; not of a property."""
    is_computed = isinstance(getattr(type(holder), name, None), property)
    return not is_computed and isinstance(getattr(holder, name, _NOTHING), Unusable)


_NOTHING = Unusable(AttributeError())


def taken_from(state: State, since: int) -> Arm:
    """Takes away what statements have assigned to new attributes of objects in ``state``.

    Args:
        state: before the condition.
        since: how many changes of objects the program had made before the arm.
    """
    changes = ((each.holder, each.name) for each in current().stored[since:] if each.is_new and state.title_of(each.holder))
    made = {(id(holder), name): Attribute(holder, name, getattr(holder, name, None)) for holder, name in changes}
    made = {key: attribute for key, attribute in made.items() if is_known_by_value(attribute.value)}
    for holder, name, _ in made.values():
        delattr(holder, name)
    return made


def give_back(state: State, arms: Sequence[Arm]) -> None:
    """Gives objects what the arms of a condition have assigned; what depends on the path becomes unusable.

    Args:
        state: before the condition.
        arms: what was taken at the end of each.
    """
    for key, (holder, name, value) in {key: attribute for arm in arms for key, attribute in arm.items()}.items():
        values = [arm[key].value for arm in arms if key in arm]
        if len(values) != 2 or not is_same(*values):
            value = Unusable(StaleValueError(f"{state.title_of(holder)}.{name}", "condition"), value)
        setattr(holder, name, value)
