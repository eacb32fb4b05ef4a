"""Whether public functions take what those of the reference package take: names, places and defaults of their parameters.

``peer_parameters.json`` has that package's, as :func:`testing.python.list_peer_names.takes` writes them.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.layout.fragment import FragmentLayout
from tilelang.layout.memory import IndexLayout

PARAMETERS: Mapping[str, Mapping[str, str | None]] = json.loads((Path(__file__).parent / "peer_parameters.json").read_text())

NOT_PASSED = frozenset(("self", "cls", "span"))
"""Parameters that programs do not give: what a method belongs to, and TVM's positions in a source, which tracing finds itself."""

NEEDED = frozenset(
    (("tilelang", "compile", "func"), ("tilelang.jit", "compile", "func"), ("tilelang.language", "assume", "cond"))
)
"""Parameters with a default there, without which a call is an error there too."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function takes.

    Attributes:
        places: names of the arguments that may be given by position, in order.
        optional: every argument by name, and whether it may be left out.
        any_number: whether it takes any number more by position.
        any_name: whether it takes any other name.
    """

    places: list[str]
    optional: dict[str, bool]
    any_number: bool
    any_name: bool

    @classmethod
    def of_text(cls, text: str) -> Arguments:
        """What a text of ``peer_parameters.json`` says."""
        words = [word for word in text.split() if word.rstrip("=") not in NOT_PASSED]
        stars = [word for word in words if word.startswith("*")]
        ends = words.index(stars[0]) if stars else len(words)
        named = {word.rstrip("="): word.endswith("=") for word in words if word not in stars}
        any_name = any(word.startswith("**") for word in stars)
        return cls([word.rstrip("=") for word in words[:ends]], named, any(word[1:2].isalpha() for word in stars), any_name)

    @classmethod
    def of_function(cls, function: Any) -> Arguments:
        """What a function of this package takes."""
        given = [each for each in inspect.signature(function).parameters.values() if each.name not in NOT_PASSED]
        kinds = {each.kind for each in given}
        named = [each for each in given if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        return cls(
            [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD],
            {each.name: each.default is not each.empty for each in named},
            inspect.Parameter.VAR_POSITIONAL in kinds,
            inspect.Parameter.VAR_KEYWORD in kinds,
        )

    def refusal(self, calls: Arguments) -> str:
        """Why a function that takes this does not take what ``calls`` may give; empty where it does."""
        if self.places[: len(calls.places)] != calls.places:
            return f"takes {self.places} by position, not {calls.places}"
        if (calls.any_number and not self.any_number) or (calls.any_name and not self.any_name):
            return "does not take any number of arguments"
        unknown = calls.optional.keys() - self.optional.keys()
        if unknown:
            return f"does not take {sorted(unknown)}"
        needed = [name for name, optional in self.optional.items() if not optional and calls.optional.get(name, True)]
        return f"needs {needed}" if needed and not calls.any_number else ""


MADE = {"Layout": IndexLayout, "Fragment": FragmentLayout}
"""The classes of what functions make that are classes in the reference package."""


def unlike(module: str, name: str) -> str:
    """How ``name`` (``"copy"``, ``"Layout()"``, ``"Layout.inverse"``) takes other arguments than the reference package's; empty
    where a call that is written for that package says the same here."""
    owner, _, member = name.removesuffix("()").partition(".")
    try:
        value = getattr(importlib.import_module(module), owner)
        value = getattr(MADE.get(owner, value), member) if member else value
    except AttributeError:
        return "is not there"
    text = PARAMETERS[module][name]
    if isinstance(value, type) and issubclass(value, enum.Enum):
        return ""  # its members are compared; how Python calls an enumeration depends on its version
    if text is None:
        return "is a function" if inspect.isfunction(value) else ""
    calls = Arguments.of_text(text)
    optional = {each: may and (module, name, each) not in NEEDED for each, may in calls.optional.items()}
    return Arguments.of_function(value).refusal(Arguments(calls.places, optional, calls.any_number, calls.any_name))
