"""Reads the roles of docstrings (``:class:`~a.b.C```) as plain code, for the API reference."""

import re

import griffe

_ROLE = re.compile(r":(?:py:)?\w+:`~?\.?(?:[\w.]*\.)?(\w+)`")


class PlainRoles(griffe.Extension):
    """Replaces each role by the last part of the name in it."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Called for every object that is read."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)
