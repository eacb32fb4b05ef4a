"""Lists the public names of an installed reference package, and what they take:

python testing/python/list_peer_names.py > testing/python/peer_names.json      # with the interpreter that has tilelang 0.1.15
python testing/python/list_peer_names.py parameters > testing/python/peer_parameters.json

Public is what a module's ``__all__`` says; without one, whatever it or another module of the package defines under a name without
underscore. Only modules that programs import are listed. What a function takes is a text, ``"src dst * coalesced_width="``: a
parameter with a default ends with ``=``, those behind a ``*`` are given by name; a signature that tells nothing is left out. A
class has ``"Class()"``, the arguments that make one, and its own ``"Class.member"``, null where that is no function.
"""

import importlib
import inspect
import json
import sys
import types

MODULES = (
    "tilelang", "tilelang.autotuner", "tilelang.autotuner.capture", "tilelang.autotuner.param", "tilelang.cache",
    "tilelang.carver", "tilelang.contrib", "tilelang.contrib.cc", "tilelang.contrib.nvcc",
    "tilelang.cuda.intrinsics", "tilelang.dtypes", "tilelang.engine", "tilelang.engine.callback", "tilelang.engine.param",
    "tilelang.env", "tilelang.jit", "tilelang.language", "tilelang.layout", "tilelang.math", "tilelang.profiler",
    "tilelang.profiler.bench", "tilelang.tools", "tilelang.transform", "tilelang.utils", "tilelang.utils.device",
    "tilelang.utils.tensor",
)  # fmt: skip


def public(module):
    """The public names of a module."""
    listed = getattr(module, "__all__", None)
    return sorted(set(listed)) if listed is not None else sorted(filter(lambda name: is_own(module, name), vars(module)))


def is_own(module, name):
    """Whether a name is the package's own, not one that its source only imports."""
    value = getattr(module, name)
    if name.startswith("_") or name == "TYPE_CHECKING" or isinstance(value, types.ModuleType):
        return False
    home = getattr(value, "__module__", None)
    return home is None or home.startswith("tilelang")


def takes(function):
    """What a function takes, as a text; None where Python does not know."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    words = []
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not any(word.startswith("*") for word in words):
            words.append("*")
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        words.append(f"{stars}{each.name}{'' if each.default is each.empty else '='}")
    return None if words == ["*args", "**kwargs"] else " ".join(words)


def functions(module):
    """What the public functions and classes of a module take; of its own classes also the members."""
    found = {}
    for name in public(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            found[f"{name}()"] = takes(value)
            found.update(members(name, value))
        elif callable(value):
            found[name] = takes(value)
    return {name: text for name, text in found.items() if text is not None or "." in name}


def members(name, owner):
    """The public functions, properties and constants of a class that the package itself defines."""
    classes = [each for each in owner.__mro__ if each.__module__.startswith("tilelang")]
    names = sorted({member for each in classes for member in vars(each) if not member.startswith("_")})
    values = {member: getattr(owner, member) for member in names}
    kept = {member: value for member, value in values.items() if callable(value) or isinstance(value, (property, owner))}
    return {f"{name}.{member}": takes(value) if callable(value) else None for member, value in kept.items()}


if __name__ == "__main__":
    listed = functions if "parameters" in sys.argv[1:] else public
    json.dump({name: listed(importlib.import_module(name)) for name in MODULES}, sys.stdout, indent=1, sort_keys=True)
    print()
