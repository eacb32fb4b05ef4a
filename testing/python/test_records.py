"""Records behave like frozen dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from dataclasses import dataclass, field

import pytest

from tilelang.records import Record


class Point(Record):
    """A record with all kinds of fields."""

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list[str])
    note: str = field(default="none", repr=False, compare=False)

    @functools.cached_property
    def norm(self) -> float:
        """Kept with the object."""
        return self.x * self.x + self.y * self.y


@dataclass(frozen=True)
class Standard:
    """The same, as Python has it."""

    x: int
    y: float = 0.5
    tags: list[str] = field(default_factory=list[str])
    note: str = field(default="none", repr=False, compare=False)


class Place(Record, eq=False):
    """Compared by identity."""

    name: str


@pytest.mark.parametrize("kind", [Point, Standard])
def test_fields(kind):
    point = kind(3, note="here")
    assert (point.x, point.y, point.tags, point.note) == (3, 0.5, [], "here")
    assert repr(point) == f"{kind.__name__}(x=3, y=0.5, tags=[])"
    assert point == kind(x=3) != kind(4) and point != (3, 0.5, [])
    assert kind(3).tags is not kind(3).tags
    assert dataclasses.replace(point, x=4) == kind(4, 0.5, []) and dataclasses.replace(point, x=4).note == "here"
    assert dataclasses.astuple(point) == (3, 0.5, [], "here")
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point
    match point:
        case kind(3, y, tags=[]):
            assert y == 0.5
        case _:
            pytest.fail("not matched by position")


@pytest.mark.parametrize("kind", [Point, Standard])
def test_hashes_are_those_of_what_is_compared(kind):
    assert len({kind(1, tags=()), kind(1, tags=(), note="other"), kind(2, tags=())}) == 2
    with pytest.raises(TypeError):
        hash(kind(1))


@pytest.mark.parametrize("kind", [Point, Standard])
@pytest.mark.parametrize("given, named", [((), {}), ((1, 2, [], "", 5), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_wrong_arguments(kind, given, named):
    with pytest.raises(TypeError):
        kind(*given, **named)


@pytest.mark.parametrize("kind", [Point, Standard])
def test_fields_cannot_be_changed(kind):
    point = kind(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x


def test_a_record_may_keep_what_it_computes():
    point = Point(2)
    assert point.norm == 4.25 == point.norm
    assert point == Point(2)


def test_records_of_different_classes_differ():
    class Other(Record):
        """Another one."""

        x: int

    class More(Other):
        """With a field more."""

        y: int

    assert Other(1) != Point(1) and More(1, 2) != Other(1) and [each.name for each in dataclasses.fields(More)] == ["x", "y"]


def test_identity():
    assert Place("a") != Place("a") and len({Place("a"), Place("a")}) == 2
