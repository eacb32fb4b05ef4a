"""Numbers that are formatted with the locale's separators."""

from __future__ import annotations

import locale

import pytest

from tilelang.fingerprint import Describer, Watch


def by_type(n):
    return f"{n:n}"


def by_computed_type(n, kind="n"):
    return f"{n:{kind}}"


def by_format(n):
    return format(n, "n")


def by_method(n):
    return "{:n}".format(n)  # noqa: UP032 - this is the method


METHOD = "{:n}".format


def by_bound_method(n):
    return METHOD(n)


def by_special_method(n):
    return n.__format__("n")


def by_name(n, name="for" + "mat"):
    return getattr("{:n}", name)(n)


def by_helper(n):
    return by_type(n)


def without_separators(n):
    return f"{n} {n!r} {n:>4d} {n:.3f}"


def described(function) -> tuple[str, Watch]:
    describer = Describer()
    describer.value(function, is_given=False)
    describer.finish()
    return describer.digest(), Watch(describer.records)


@pytest.fixture
def other_locale():
    """Puts another locale of numbers in force; its separators do not matter here."""
    before = locale.setlocale(locale.LC_NUMERIC)
    yield lambda: locale.setlocale(locale.LC_NUMERIC, "POSIX" if before not in ("C", "POSIX") else "C.UTF-8")
    locale.setlocale(locale.LC_NUMERIC, before)


@pytest.mark.parametrize(
    "function",
    [by_type, by_computed_type, by_format, by_method, by_bound_method, by_special_method, by_name, by_helper],
    ids=lambda function: function.__name__,
)
def test_the_locale_is_part_of_what_formats_by_it(function, other_locale):
    before, watch = described(function)
    assert watch.holds()
    other_locale()
    assert not watch.holds() and described(function)[0] != before


def test_the_locale_is_not_part_of_anything_else(other_locale):
    before, watch = described(without_separators)
    other_locale()
    assert watch.holds() and described(without_separators)[0] == before
