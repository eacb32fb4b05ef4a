"""What the API reference shows of docstrings and modules: roles as plain code, and of the language only what programs call."""

import logging
import re

import griffe

import tilelang.language

_ROLE = re.compile(r":(?:py:)?\w+:`~?\.?(?:[\w.]*\.)?(\w+)`")

# griffe reads __all__ without running it, and warns of one that takes names from a table, as the element types' does.
logging.getLogger("mkdocs.plugins.griffe").addFilter(lambda record: "__all__: all_names" not in record.getMessage())


class PlainRoles(griffe.Extension):
    """Replaces each role (``:class:`~a.b.C```) by the last part of the name in it."""

    def on_instance(self, *, obj: griffe.Object, **_: object) -> None:
        """Called for every object that is read."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)


class NamesOfPrograms(griffe.Extension):
    """Leaves out what a module of the language has for other modules of the package."""

    def on_module(self, *, mod: griffe.Module, **_: object) -> None:
        """Called for every module that was read."""
        public = mod.members.keys() & set(tilelang.language.__all__)
        if mod.path.startswith("tilelang.language.") and public:
            for name in mod.members.keys() - public - mod.modules.keys():
                mod.del_member(name)
