"""Where a kernel factory uses a value: each is the text of a module's functions, with ``make(n)`` among them."""

from __future__ import annotations

_BODY, _VALUE = "@BODY@", "@VALUE@"
_USE = f"def use(n):\n    {_BODY}\n    return {_VALUE}\n"

USES = {
    # name -> text; @BODY@ and @VALUE@ are statements and an expression, in a function with the parameter n
    "directly": f"def make(n):\n    {_BODY}\n    return (n, {_VALUE})\n",
    "in a helper": _USE + "def make(n):\n    return (n, use(n))\n",
    "in a helper's helper": _USE + "def middle(n):\n    return [use(n)]\ndef make(n):\n    return (n, middle(n))\n",
    "in an inner function": f"def make(n):\n    def inner(n):\n        {_BODY.replace('@', '@@')}\n        return {_VALUE}\n    return (n, inner(n))\n",
    "in a comprehension": f"def make(n):\n    {_BODY}\n    return [{_VALUE} for _ in range(1)]\n",
    "in a generator": f"def make(n):\n    {_BODY}\n    return list({_VALUE} for _ in range(1))\n",
    "in a lambda": f"def make(n):\n    {_BODY}\n    return (lambda n: {_VALUE})(n)\n",
    "in a text": f"def make(n):\n    {_BODY}\n    value = {_VALUE}\n    return f'{{n}} {{value}}'\n",
    "in try": f"def make(n):\n    {_BODY}\n    try:\n        return (n, {_VALUE})\n    except ZeroDivisionError:\n        return 0\n",
    "in a method": f"class Maker:\n    def run(self, n):\n        {_BODY.replace('@', '@@')}\n        return {_VALUE}\n"
    "def make(n):\n    return (n, Maker().run(n))\n",
    "as a default": f"def make(n):\n    {_BODY}\n    def inner(value={_VALUE}):\n        return value\n    return (n, inner())\n",
    "behind a decorator": "import functools as tools\ndef twice(f):\n    @tools.wraps(f)\n    def again(*args):\n        return f(*args)\n"
    "    return again\n@twice\n" + _USE + "def make(n):\n    return (n, use(n))\n",
    "in a table": _USE + "TABLE = {'f': use}\ndef make(n):\n    return (n, TABLE['f'](n))\n",
    "in a context": f"class Context:\n    def __init__(self, value):\n        self.value = value\n    def __enter__(self):\n"
    f"        return self.value\n    def __exit__(self, *_):\n        pass\n"
    f"def make(n):\n    {_BODY}\n    with Context({_VALUE}) as value:\n        return (n, value)\n",
    "in a class": f"def make(n):\n    {_BODY}\n    class Local:\n        value = {_VALUE}\n    return (n, Local.value)\n",
    "in a pattern": f"def make(n):\n    {_BODY}\n    match {_VALUE}:\n        case value:\n            return (n, value)\n",
}


def program(use: str, body: str, expression: str) -> str:
    """The text of the functions that use ``expression`` after the statements ``body``."""
    text = USES[use]
    for mark, indent in (("@@BODY@@", " " * 8), ("@BODY@", " " * 4)):
        statements = (body or "pass\n").rstrip("\n").replace("\n", f"\n{indent}")
        text = text.replace(mark, statements)
    return text.replace(_VALUE, f"({expression})")
