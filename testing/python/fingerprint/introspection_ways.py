"""Ways through what Python tells of a program that runs: stack frames, tracebacks, code, statistics of caches, the parts of
aliases, warnings that the interpreter raises."""

from __future__ import annotations

from .ways import Way

_MANAGER = (
    "class M:\n    def __enter__(self):\n        return self\n    def __exit__(self, kind, error, tb):\n"
    "        self.v = {}\n        return True\ndef caught():\n    m = M()\n    with m:\n        raise ValueError\n    return m.v\n"
)
_GENERATOR = "V = @V@\ndef gen():\n    yield 1\n"
_COROUTINE = "V = @V@\nasync def co():\n    return 1\ndef peek():\n    c = co()\n    v = c.cr_frame.f_globals['V']\n    c.close()\n    return v\n"
_STACK = "from contextlib import ExitStack\ndef caught():\n    found = []\n    def callback(kind, error, tb):\n        found.append(tb.tb_frame.f_globals['V'])\n        return True\n    with ExitStack() as stack:\n        stack.push(callback)\n        raise ValueError\n    return found\nV = @V@\n"
_MATCHED = "from types import GeneratorType\nV = @V@\ndef matched():\n    match (i for i in (1,)):\n        case GeneratorType(gi_frame=frame):\n            match frame:\n                case object(f_globals=table):\n                    return table['V']\n"
_CACHED = "import functools\n@functools.{}\ndef f(n):\n    return n\n"
_ALIAS = "import typing\nclass Q:\n    pass\nA = typing.{}\n"
_CAUGHT = "def caught():\n    try:\n        return {}\n    except {}:\n        return @V@\n"
_ERRORS = "import warnings; warnings.simplefilter('error')"
_SWAP = ("prog.V = NEW",)


def _frames() -> list[Way]:
    return [
        Way("globals of a generator's frame", _GENERATOR, "gen().gi_frame.f_globals['V']", _SWAP),
        Way("globals of a generator expression", "V = @V@\n", "(i for i in (1,)).gi_frame.f_globals.get('V')", _SWAP),
        Way("frame by a format text", _GENERATOR, "'{0.gi_frame.f_globals[V]}'.format(gen())", _SWAP),
        Way("frame by getattr", _GENERATOR, "getattr(getattr(gen(), 'gi_frame'), 'f_globals')['V']", _SWAP),
        Way("frame by a computed name", _GENERATOR + "P = 'gi_'\n", "getattr(getattr(gen(), P + 'frame'), 'f_' + 'globals')['V']", _SWAP),
        Way("frame by a pattern", _MATCHED, "matched()", _SWAP),
        Way("frame of a coroutine", _COROUTINE, "peek()", _SWAP),
        Way("frame of a traceback", "V = @V@\n" + _MANAGER.format("tb.tb_frame.f_globals['V']"), "caught()", _SWAP),
        Way("frame of an exit stack's traceback", _STACK, "caught()", _SWAP),
        Way("builtins of a frame", "import builtins\nbuiltins.V_@PKG@ = @V@\n" + _GENERATOR.replace("@V@", "1"), "gen().gi_frame.f_builtins['V_@PKG@']", ("import builtins; setattr(builtins, 'V_' + prog.__package__, NEW)",)),
        Way("variables of a frame", "def gen(v=@V@):\n    yield v\n", "gen().gi_frame.f_locals['v']", ("prog.gen.__defaults__ = (NEW,)",)),
    ]  # fmt: skip


def _lines() -> list[Way]:
    lines = "\n" * 3 + "V = @V@\n"
    return [
        Way("line of a traceback", lines + _MANAGER.format("tb.tb_lineno + V"), "caught()", _SWAP),
        Way("line of a generator's code", lines + _GENERATOR, "gen().gi_code.co_firstlineno + V", _SWAP),
    ]


def _parts_that_change() -> list[Way]:
    return [
        Way("arguments of an alias", _ALIAS.format("List[Q]"), "[a is str for a in typing.get_args(A)]", ("prog.A.__args__ = (str,)",), edits=False),
        Way("metadata of an alias", _ALIAS.format("Annotated[Q, @V@]"), "typing.get_args(A)[1]", ("prog.A.__metadata__ = (NEW,)",)),
        Way("name in a forward reference", "import typing\nR = typing.ForwardRef('v@V@')\n", "repr(R)", ("prog.R.__forward_arg__ = 'other'",)),
        Way("hits of a cached function", _CACHED.format("cache"), "f.cache_info().currsize", ("prog.f(1); prog.f(2)",), edits=False),
        Way("misses of a bounded cache", _CACHED.format("lru_cache(4)"), "f.cache_info().misses", ("prog.f(7)",), edits=False),
        Way("not a number as a default and in a list", "n = float('nan')\ndef find(x=n):\n    return x in L\nL = [n]\n", "find()", ("prog.L[0] = float('nan')",), edits=False),
    ]  # fmt: skip


def _warnings() -> list[Way]:
    is_true = "bool(NotImplemented)"
    return [
        Way("warning that the interpreter raises", _CAUGHT.format(is_true, "DeprecationWarning"), "caught()", (_ERRORS,)),
        Way("warning under any exception", _CAUGHT.format(is_true, "Exception"), "caught()", (_ERRORS,)),
        Way("warning under a final return", f"def caught():\n    r = @V@\n    try:\n        r = {is_true}\n    finally:\n        return r\n", "caught()", (_ERRORS,)),
        Way("suppressed warning", f"import contextlib\ndef caught():\n    with contextlib.suppress(Warning):\n        return {is_true}\n    return @V@\n", "caught()", (_ERRORS,)),
    ]  # fmt: skip


def _facts() -> list[Way]:
    return [
        Way("version of Python", "import sys\n", "@V@ if sys.version_info >= (3, 8) else 0", ("import sys; prog.sys = type('S', (), {'version_info': (3, 0)})",)),
        Way("item getter", "import operator\nget = operator.itemgetter(@V@)\n", "get(range(9))", ("prog.get = prog.operator.itemgetter(NEW)",)),
        Way("object of a generic class", "from typing import Generic, TypeVar\nX = TypeVar('X')\nclass Box(Generic[X]):\n    def __init__(self, v):\n        self.v = v\nB = Box[int](@V@)\n", "B.v", ("prog.B.v = NEW",)),
        Way("functions of re", "import re\nP = 'a{@V@}'\n", "re.sub(P, 'b', 'a' * 9), re.findall(P, 'a' * 9, re.I)", ("prog.P = 'a{%d}' % NEW", "prog.re = type('R', (), {'sub': str, 'findall': str, 'I': 0})")),
    ]  # fmt: skip


INTROSPECTION_WAYS = [*_frames(), *_lines(), *_parts_that_change(), *_warnings(), *_facts()]
