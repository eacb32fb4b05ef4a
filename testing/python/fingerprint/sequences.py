"""Sequences of calls whose arguments are equal and not the same, the same and not equal, or changed in between.

Each runs on the function itself and through the cache, in several orders; the keys of each order are there for the next one.
"""

from __future__ import annotations

import importlib
import importlib.util
import linecache
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .process_state import preserved

Call = Callable[[Callable, tuple, dict], str]


@dataclass(frozen=True)
class Sequence:
    """A module with ``make``, and calls of it.

    Attributes:
        name: for people.
        setup: text of the module.
        calls: arguments of each call, as they are written; ``!`` begins a statement instead.
        remembers: whether results depend on earlier calls: then that of a call alone is right, too.
    """

    name: str
    setup: str
    calls: tuple[str, ...]
    remembers: bool = False

    @property
    def is_runnable(self) -> bool:
        """Whether the packages that it needs are installed."""
        return all(f"import {name}" not in self.setup or importlib.util.find_spec(name) for name in ("numpy", "torch"))


def run(sequence: Sequence, calls: tuple[str, ...], call: Call) -> list[str]:
    """What some calls of a sequence give in a module of their own."""
    with tempfile.TemporaryDirectory() as folder, preserved():
        (Path(folder) / "arguments.py").write_text(sequence.setup)
        sys.path.insert(0, folder)
        sys.modules.pop("arguments", None)
        importlib.invalidate_caches()
        linecache.clearcache()
        module = importlib.import_module("arguments")
        return [found for text in calls for found in _step(module.__dict__, text, call)]


def _step(scope: dict[str, Any], text: str, call: Call) -> list[str]:
    if text.startswith("!"):
        exec(text[1:], scope)
        return []
    args, kwargs = eval(f"_pack({text})", {**scope, "_pack": _pack})
    return [call(scope["make"], args, kwargs)]


def _pack(*args: Any, **kwargs: Any) -> tuple[tuple, dict]:
    return args, kwargs


def stale(sequence: Sequence, cached: Callable[[], Call], uncached: Call) -> list[str]:
    """The calls that the cache answers wrongly.

    Args:
        sequence: the calls.
        cached: gives the cached call of a new process, over one store.
        uncached: the call without a cache.
    """
    calls, wrong = sequence.calls, []
    is_fixed = any(text.startswith("!") for text in calls)
    for order in (calls, calls) if is_fixed else (calls, calls[1:] + calls[:1], calls[::-1], calls):
        twice = tuple(text for text in order for _ in range(1 if text.startswith("!") else 2))
        made = [text for text in twice if not text.startswith("!")]
        for text, right, found in zip(made, run(sequence, twice, uncached), run(sequence, twice, cached()), strict=True):
            alone = sequence.remembers and run(sequence, (text,), uncached) == [found]
            if found != right and not alone:
                wrong.append(f"make({text}) gave {found} where {right} is right")
    return wrong


def _aliases() -> list[Sequence]:
    return [
        Sequence('one list twice', 'def make(a, b):\n    a.append(1)\n    n = len(b)\n    a.pop()\n    return n\nx, y = [], []\n', ('x, x', 'x, y', 'y, x', '[], []')),
        Sequence('nested in tuples', 'def make(a, b):\n    a[0].append(1)\n    n = len(b[0])\n    a[0].pop()\n    return n\nx, y = [], []\n', ('(x,), (x,)', '(x,), (y,)', '[x], [x]', '[x], [y]')),
        Sequence('nested in dicts', "def make(a, b):\n    a['k'].append(1)\n    n = len(b['k'])\n    a['k'].pop()\n    return n\nx, y = [], []\n", ("{'k': x}, {'k': x}", "{'k': x}, {'k': y}")),
        Sequence('star args', "def make(*args, **kw):\n    kw['a'].append(1)\n    n = [len(v) for v in args]\n    kw['a'].pop()\n    return n\nx, y = [], []\n", ('x, y, a=x', 'x, y, a=y', 'x, y, a=[]', 'x, x, a=x', 'y, a=x')),
        Sequence('default', 'z = []\ndef make(a, b=z):\n    a.append(1)\n    n = len(b)\n    a.pop()\n    return n\nx = []\n', ('z', 'x', 'z, z', 'z, x', 'x, x')),
        Sequence('numpy views', 'import numpy as np\nb1, b2 = np.zeros(4), np.zeros(4)\nu, v, w = b1[:], b1[:], b2[:]\ndef make(a, b):\n    a[0] += 1\n    n = float(b[0])\n    a[0] -= 1\n    return n\n', ('u, v', 'u, w', 'u, u')),
        Sequence('numpy view and global', 'import numpy as np\nG = np.zeros(4)\nu, w = G[:], np.zeros(8)[:4]\nH = G[:]\ndef make(a):\n    a[0] += 1\n    n = float(H[0])\n    a[0] -= 1\n    return n\n', ('u', 'w')),
        Sequence('numpy view global in place', 'import numpy as np\nG = np.zeros(4)\nH = G[:]\ndef make(a):\n    H[0] += 1\n    n = float(G[0])\n    H[0] -= 1\n    return n\n', ('1', '!H = np.zeros(8)[:4]', '1')),
        Sequence('numpy overlapping', 'import numpy as np\nb1, b2 = np.zeros(4), np.zeros(4)\nu, v, w = b1[:2], b1[1:3], b1[2:]\ndef make(a, b):\n    a[1] += 1\n    n = b.tolist()\n    a[1] -= 1\n    return n\n', ('u, v', 'u, w')),
        Sequence('ordered dict', "import collections\no = collections.OrderedDict(a=1, b=2)\np = collections.OrderedDict(b=2, a=1)\np.move_to_end('b')\ndef make(a):\n    return list(dict.keys(a)), list(a), list(dict.__iter__(a))\n", ('o', 'p')),
        Sequence('partial', 'import functools\nx, y = [], []\ndef g(a, b):\n    a.append(1)\n    n = len(b)\n    a.pop()\n    return n\np, q = functools.partial(g, x), functools.partial(g, y)\ndef make(f, b):\n    return f(b)\n', ('p, x', 'p, y', 'q, x', 'q, y')),
        Sequence('function dict', "def g():\n    return g.v\ng.v = 1\ndef make(d):\n    d['v'] = 9\n    r = g()\n    d['v'] = 1\n    return r\n", ('g.__dict__', "{'v': 1}")),
        Sequence('object dict', "class C:\n    pass\nc = C()\nc.v = 1\ndef make(d):\n    d['v'] = 9\n    r = c.v\n    d['v'] = 1\n    return r\n", ('c.__dict__', "{'v': 1}")),
        Sequence('module dict', "import types\nm = types.ModuleType('m')\nm.V = 1\ndef make(d):\n    d['V'] = 9\n    r = m.V\n    d['V'] = 1\n    return r\n", ('vars(m)', 'dict(vars(m))')),
        Sequence('namespace dict', "import types\nm = types.SimpleNamespace(V=1)\ndef make(d):\n    d['V'] = 9\n    r = m.V\n    d['V'] = 1\n    return r\n", ('vars(m)', 'dict(vars(m))')),
        Sequence('globals dict', "V = 1\ndef make(d):\n    d['V'] = 9\n    r = V\n    d['V'] = 1\n    return r\n", ('globals()', 'dict(globals())', "{'V': 1}")),
        Sequence('annotations dict', "def g(a: int):\n    return g.__annotations__['a']\ndef make(d):\n    d['a'] = str\n    r = g(1)\n    d['a'] = int\n    return r\n", ('g.__annotations__', "{'a': int}")),
        Sequence('enum map', "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ndef make(d):\n    d['A'], d['B'] = d['B'], d['A']\n    r = repr(E['A'])\n    d['A'], d['B'] = d['B'], d['A']\n    return r\n", ('E._member_map_', 'dict(E._member_map_)')),
        Sequence('argv', "import sys\ndef make(d):\n    d.append('z')\n    r = len(sys.argv)\n    d.pop()\n    return r\n", ('sys.argv', 'list(sys.argv)')),
        Sequence('bound list method', 'x, y = [], []\ndef make(f, b):\n    f(1)\n    n = len(b)\n    x.clear()\n    y.clear()\n    return n\n', ('x.append, x', 'x.append, y', 'y.append, x')),
        Sequence('property restored', 'L = [0]\nclass C:\n    @property\n    def v(self):\n        L[0] += 1\n        r = len(self.x) + self.x[0]\n        L[0] -= 1\n        return r\nc, d = C(), C()\nc.x = L\nd.x = [0]\ndef make(o):\n    return o.v\n', ('c', 'd')),
        Sequence('weak dict', 'import weakref\nclass C:\n    pass\nc = C()\nw = weakref.WeakValueDictionary(a=c)\ndef make(o):\n    return len(o)\n', ('w', '!del c', 'w')),
        Sequence('chain map alias', "import collections\na, b = {'k': 1}, {'k': 1}\ndef make(o, d):\n    d['k'] = 3\n    r = o['k']\n    d['k'] = 1\n    return r\n", ('collections.ChainMap(a), a', 'collections.ChainMap(a), b')),
        Sequence('proxy', "import types\na, b = {'k': 1}, {'k': 1}\np = types.MappingProxyType(a)\ndef make(o, d):\n    d['k'] = 3\n    r = o['k']\n    d['k'] = 1\n    return r\n", ('p, a', 'p, b', "!a['k'] = 4", 'p, b')),
        Sequence('proxy of global', "import types\na, b = {'k': 1}, {'k': 1}\ndef make(o):\n    a['k'] = 3\n    r = o['k']\n    a['k'] = 1\n    return r\n", ('types.MappingProxyType(a)', 'types.MappingProxyType(b)')),
        Sequence('frozen hash in dict', 'from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    v: int\n    def __eq__(self, o):\n        return True\n    def __hash__(self):\n        return 1\ndef make(o):\n    return [k.v for k in o]\n', ('{P(1): 0}', '{P(2): 0}')),
        Sequence('cached list result', 'import functools\n@functools.cache\ndef g():\n    return [0]\ndef make(a):\n    a[0] = 5\n    r = g()[0]\n    a[0] = 0\n    return r\n', ('g()', '[0]')),
        Sequence('cached list in a variable', 'import functools\n@functools.cache\ndef g():\n    return [0]\nL = [0]\ndef make(n):\n    L[0] = 5\n    r = g()[0]\n    L[0] = 0\n    return r\n', ('1', '!L = g()', '1', '!g.cache_clear()', '1')),
        Sequence('cached list by its argument', 'import functools\nL = [0]\n@functools.cache\ndef g(n):\n    return L\ndef make(n):\n    L[0] = n\n    r = g(n)[0]\n    L[0] = 0\n    return r\n', ('1', '2', '1')),
        Sequence('text of an argument', 'class C:\n    pass\nc, d = C(), C()\nFIRST = repr(c)\ndef make(o):\n    return repr(o) == FIRST\n', ('c', 'd', '[c]')),
        Sequence('array alias', "import array\nx, y = array.array('i', [1]), array.array('i', [1])\ndef make(a, b):\n    a[0] = 2\n    r = b[0]\n    a[0] = 1\n    return r\n", ('x, x', 'x, y')),
        Sequence('memoryview', "x, y = bytearray(b'a'), bytearray(b'a')\ndef make(a, b):\n    a[0] = 66\n    r = b[0]\n    a[0] = 97\n    return r\n", ('memoryview(x), x', 'memoryview(x), y', 'x, x', 'x, y')),
        Sequence('bytearray', "x, y = bytearray(b'a'), bytearray(b'a')\ndef make(a, b):\n    a[0] = 66\n    r = b[0]\n    a[0] = 97\n    return r\n", ('x, x', 'x, y')),
        Sequence('closure argument', 'def mk(v):\n    return lambda: v\ndef mk2(l):\n    def f():\n        l[0] += 1\n        r = M[0]\n        l[0] -= 1\n        return r\n    return f\nM = [0]\ndef make(o):\n    return o()\n', ('mk(1)', 'mk(2)', 'mk(True)', 'mk2(M)', 'mk2([0])')),
        Sequence('default shared', 'M = [0]\ndef mk(l):\n    def f(x=l):\n        x[0] += 1\n        r = M[0]\n        x[0] -= 1\n        return r\n    return f\ndef make(o):\n    return o()\n', ('mk(M)', 'mk([0])')),
        Sequence('shared sub-objects', 'class N:\n    def __init__(self, a, b):\n        self.a, self.b = a, b\nx = [0]\ndef make(o):\n    o.a[0] += 1\n    r = o.b[0]\n    o.a[0] -= 1\n    return r\n', ('N(x, x)', 'N(x, [0])', 'N([0], [0])')),
        Sequence('slots alias', "class C:\n    __slots__ = ('a', 'b')\n    def __init__(self, a, b):\n        self.a, self.b = a, b\nx = []\ndef make(o):\n    o.a.append(1)\n    r = len(o.b)\n    o.a.pop()\n    return r\n", ('C(x, x)', 'C(x, [])')),
        Sequence('named tuple', "import collections\nP = collections.namedtuple('P', 'a b')\nQ = collections.namedtuple('Q', 'b a')\nx = []\ndef make(o):\n    o.a.append(1)\n    r = len(o.b)\n    o.a.pop()\n    return r, type(o).__name__\n", ('P(x, x)', 'P(x, [])', 'Q(x, [])')),
        Sequence('user list', 'import collections\nx = [0]\ndef make(o, l):\n    l[0] = 1\n    r = o[0]\n    l[0] = 0\n    return r\ndef ul(v):\n    u = collections.UserList()\n    u.data = v\n    return u\n', ('ul(x), x', 'ul(x), [0]')),
        Sequence('heap/deque', 'import collections\nx = collections.deque([1, 2])\ny = collections.deque([1, 2])\ndef make(a, b):\n    a.rotate()\n    r = list(b)\n    a.rotate(-1)\n    return r\n', ('x, x', 'x, y')),
        Sequence('numpy same buffer readonly', 'import numpy as np\nx = np.zeros(2)\nv = x[:]\nv.flags.writeable = False\nw = np.zeros(2)[:]\nw.flags.writeable = False\ndef make(a, b):\n    a[0] = 1\n    r = float(b[0])\n    a[0] = 0\n    return r\n', ('x, v', 'x, w')),
        Sequence('frombuffer', "import numpy as np\nraw = bytearray(8)\nx = np.frombuffer(raw, 'u1')\ny = np.frombuffer(bytearray(8), 'u1')\ndef make(a):\n    raw[0] = 1\n    r = int(a[0])\n    raw[0] = 0\n    return r\n", ('x', 'y')),
        Sequence('frombuffer arg', "import numpy as np\nraw = bytearray(8)\nx = np.frombuffer(raw, 'u1')\ny = np.frombuffer(bytearray(8), 'u1')\ndef make(a, b):\n    b[0] = 1\n    r = int(a[0])\n    b[0] = 0\n    return r\n", ('x, raw', 'y, raw')),
        Sequence('reshape', 'import numpy as np\nX = np.arange(6).reshape(2, 3)\nY = X.T\ndef make(a):\n    return X[1].tolist(), Y[1].tolist(), a.tolist()\n', ('X[0]', 'X[:, 0]', 'np.arange(3)')),
        Sequence('dict view of module', "import types\nm = types.ModuleType('m')\nm.V = 1\nD = vars(m)\ndef make(a):\n    D['V'] = 9\n    r = m.V\n    D['V'] = 1\n    return r\n", ('1', '!D = dict(D)', '1')),
    ]  # fmt: skip


def _equal() -> list[Sequence]:
    return [
        Sequence('name 0', 'def make(*args, **kw):\n    return args, kw\n', ('1', "**{'0': 1}", 'a=1', '1, 2', "1, **{'1': 2}", "**{'0': 1, '1': 2}")),
        Sequence('name 0 objects', 'def make(*args, **kw):\n    return len(args), len(kw)\nclass C:\n    pass\n', ('C()', "**{'0': C()}")),
        Sequence('kw order', 'def make(**kw):\n    return list(kw)\n', ('a=1, b=2', 'b=2, a=1')),
        Sequence('kw order objects', 'import fractions\nF = fractions.Fraction(1, 2)\ndef make(**kw):\n    return list(kw)\n', ('a=F, b=F', 'b=F, a=F')),
        Sequence('one true', 'def make(a):\n    return repr(a)\n', ('1', 'True', '1.0', '1 + 0j', "'1'", '(1,)', '(True,)', '(1.0,)', '[1]', '[True]', '{1: 0}', '{True: 0}', '{1.0: 0}', '{1}', '{True}', 'frozenset((1.0,))', "b'1'", "bytearray(b'1')")),
        Sequence('zeros', 'def make(a):\n    return repr(a)\n', ('0.0', '-0.0', '0', 'False', '(-0.0,)', '(0.0,)', 'complex(0, -0.0)', 'complex(0, 0.0)', 'complex(-0.0, 0.0)')),
        Sequence('nan', "n1, n2 = float('nan'), float('nan')\ndef make(a, b):\n    return a in b\n", ('n1, [n1]', 'n1, [n2]', 'n2, [n2]', 'n1, (n1,)', 'n1, (n2,)', 'n1, {n1: 1}', 'n1, {n2: 1}')),
        Sequence('nan global', "n1, n2 = float('nan'), float('nan')\ndef make(a):\n    return a in [n1]\n", ('n1', 'n2')),
        Sequence('nan numpy', "import numpy as np\nn1, n2 = np.float64('nan'), np.float64('nan')\ndef make(a, b):\n    return a in b\n", ('n1, [n1]', 'n1, [n2]')),
        Sequence('complex nan', "n1, n2 = complex('nan'), complex('nan')\ndef make(a, b):\n    return a in b\n", ('n1, [n1]', 'n1, [n2]')),
        Sequence('nan sub', "class F(float):\n    pass\nn1, n2 = F('nan'), F('nan')\ndef make(a, b):\n    return a in b\n", ('n1, [n1]', 'n1, [n2]')),
        Sequence('str subclass', "class S(str):\n    def upper(self):\n        return 'other'\nclass R(str):\n    pass\ndef make(a):\n    return a.upper(), type(a).__name__\n", ("'x'", "S('x')", "R('x')")),
        Sequence('str subclass attrs', "class S(str):\n    pass\ns = S('x')\ns.k = 1\nt = S('x')\nt.k = 2\ndef make(a):\n    return a.k\n", ('s', 't', '!s.k = 3', 's')),
        Sequence('int subclass', 'class I(int):\n    def __add__(self, o):\n        return 99\ndef make(a):\n    return a + 1\n', ('1', 'I(1)', 'True')),
        Sequence('numpy scalar', 'import numpy as np\ndef make(a):\n    return repr(a), str(type(a))\n', ('1.0', 'np.float64(1)', 'np.float32(1)', 'np.int64(1)', '1', 'np.int32(1)', 'np.bool_(True)', 'True', "np.str_('x')", "'x'", 'np.longlong(1)')),
        Sequence('dtypes', 'import numpy as np\ndef make(a):\n    return repr(a)\n', ("'float32'", "np.dtype('float32')", 'np.float32', "np.dtype('>f4')", 'float')),
        Sequence('torch dtypes', 'import torch\ndef make(a):\n    return repr(a)\n', ("'float16'", 'torch.float16', 'torch.half', "'torch.float16'", 'torch.bfloat16', "torch.device('cpu')", 'torch.Size((1, 2))', '(1, 2)')),
        Sequence('T dtypes', 'import tilelang.language as d\ndef make(a):\n    return repr(a), type(a).__name__\n', ("'float16'", 'd.float16', 'd.half', 'str(d.float16)')),
        Sequence('enum', 'import enum\nclass E(enum.Enum):\n    A = 1\n    B = 1\n    C = 2\nclass I(enum.IntEnum):\n    A = 1\nclass F(enum.Flag):\n    A = 1\n    B = 2\ndef make(a):\n    return repr(a)\n', ('E.A', 'E.B', 'E.C', 'I.A', '1', 'F.A', 'F.A | F.B', 'F(0)')),
        Sequence('enum attr', 'import enum\nclass E(enum.Enum):\n    A = 1\n    C = 2\ndef make(a):\n    return a.w\nE.A.w = 1\n', ('E.A', '!E.A.w = 2', 'E.A')),
        Sequence('frozen hash', 'from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    v: int\n    w: int = 0\n    def __eq__(self, o):\n        return True\n    def __hash__(self):\n        return 1\ndef make(o):\n    return o.v, o.w\n', ('P(1)', 'P(2)', 'P(1, 0)', 'P(True)')),
        Sequence('cached by equality', 'import functools\n@functools.cache\ndef g(x):\n    return repr(x)\ndef make(x):\n    return g(x)\n', ('1', 'True', '1.0'), True),
        Sequence('lru by equality', 'import functools\n@functools.lru_cache(maxsize=1)\ndef g(x):\n    return repr(x)\ndef make(x):\n    return g(x)\n', ('1', 'True', '2', '1.0'), True),
        Sequence('fractions', 'import fractions, decimal\ndef make(a):\n    return repr(a)\n', ('fractions.Fraction(1)', "decimal.Decimal('1.0')", "decimal.Decimal('1.00')", '1', "decimal.Decimal('-0')", 'decimal.Decimal(0)')),
        Sequence('datetime', 'import datetime\ndef make(a):\n    return repr(a)\n', ('datetime.datetime(2020, 1, 1)', 'datetime.datetime(2020, 1, 1, fold=1)', 'datetime.date(2020, 1, 1)', 'datetime.timedelta(1)')),
        Sequence('range', 'def make(a):\n    return a.stop, repr(a)\n', ('range(0, 3, 2)', 'range(0, 4, 2)', 'slice(1, 2)', 'slice(True, 2)')),
        Sequence('array', 'import array\ndef make(a):\n    return list(a), a.typecode\n', ("array.array('i', [1])", "array.array('l', [1])")),
        Sequence('is objects', 'class N:\n    pass\na, b = N(), N()\ndef make(p, q):\n    return p is q\n', ('a, a', 'a, b', 'b, b')),
        Sequence('is lists', 'a, b = [], []\ndef make(p, q):\n    return p is q\n', ('a, a', 'a, b', 'b, b')),
        Sequence('is strings', "a, b = 'ab c', ''.join(['ab', ' c'])\ndef make(p, q):\n    return p is q\n", ('a, a', 'a, b', 'b, b')),
        Sequence('is tuples', 'a, b = (1, 2), tuple([1, 2])\ndef make(p, q):\n    return p is q\n', ('a, a', 'a, b')),
        Sequence('ids', 'a, b = [1], [1]\ndef make(p, q):\n    return id(p) == id(q)\n', ('a, a', 'a, b')),
        Sequence('in by identity', 'class N:\n    pass\na, b = N(), N()\ndef make(p, q):\n    return p in q, q.index(a) if a in q else -1, q.count(p)\n', ('a, [a]', 'a, [b]', 'b, [b]', 'b, [a, b]')),
        Sequence('deque maxlen', 'import collections\ndef make(a):\n    return a.maxlen\n', ('collections.deque([1], 1)', 'collections.deque([1], 2)', 'collections.deque([1])')),
        Sequence('generic alias', 'import typing\ndef make(a):\n    return repr(a)\n', ('list[1]', 'list[True]', 'typing.Literal[1]', 'typing.Literal[True]', 'typing.Optional[int]', 'int | None')),
        Sequence('exception args', 'def make(a):\n    return a.args\n', ('ValueError(1)', 'ValueError(2)', 'ValueError(True)')),
        Sequence('string template', 'import string\ndef make(a):\n    return a.template\n', ("string.Template('a')", "string.Template('b')")),
        Sequence('struct', 'import struct\ndef make(a):\n    return a.format\n', ("struct.Struct('i')", "struct.Struct('q')")),
        Sequence('match', 'import re\ndef make(a):\n    return a.group()\n', ("re.match('.', 'a')", "re.match('.', 'b')")),
        Sequence('path', 'import pathlib\ndef make(a):\n    return str(a)\n', ("pathlib.Path('a')", "pathlib.PurePath('a')", "'a'", "pathlib.PureWindowsPath('a')")),
        Sequence('uuid', 'import uuid\ndef make(a):\n    return str(a), a.is_safe\n', ('uuid.UUID(int=1)', 'uuid.UUID(int=2)', 'uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe)')),
        Sequence('numpy random', 'import numpy as np\nr = np.random.default_rng(1)\ndef make(a):\n    return a.integers(1 << 40)\n', ('r', 'r')),
        Sequence('numpy subclass', 'import numpy as np\nclass A(np.ndarray):\n    pass\ndef mk(v):\n    return np.array([v]).view(A)\ndef make(a):\n    return int(a[0])\n', ('mk(1)', 'mk(2)')),
        Sequence('numpy masked', 'import numpy as np\ndef make(a):\n    return a.sum()\n', ('np.ma.array([1, 2], mask=[0, 1])', 'np.ma.array([1, 2], mask=[1, 0])')),
        Sequence('numpy writeable', "import numpy as np\nx = np.zeros(2)\ny = np.zeros(2)\ny.flags.writeable = False\ndef make(a):\n    try:\n        a[0] = 0\n    except ValueError:\n        return 'no'\n    return 'yes'\n", ('x', 'y')),
        Sequence('cached cleared', 'import functools\n@functools.cache\ndef g(x):\n    return repr(x)\ndef make(x):\n    return g(x)\n', ('1', 'True', '!g.cache_clear()', 'True', '1')),
        Sequence('lru evicted', 'import functools\n@functools.lru_cache(maxsize=1)\ndef g(x):\n    return repr(x)\ndef make(x):\n    return g(x)\n', ('1', 'True', '2', 'True', '1.0', '2.0', '1'), True),
    ]  # fmt: skip


def _order() -> list[Sequence]:
    return [
        Sequence('set order', 'def make(a):\n    return list(a)\n', ('{0, 8}', '{8, 0}', 'frozenset((8, 0))', 'frozenset((0, 8))')),
        Sequence('set table', 's1 = {1, 2}\ns2 = set(range(40))\nfor i in range(40):\n    if i not in (1, 2):\n        s2.discard(i)\ndef make(a):\n    a.add(8)\n    r = list(a)\n    a.discard(8)\n    return r\n', ('s1', 's2')),
        Sequence('set pop', 's1 = {1, 2, 3}\ns2 = {0, 1, 2, 3}\ns2.pop()\ndef make(a):\n    x = a.pop()\n    a.add(x)\n    return x\n', ('s1', 's2')),
        Sequence('set table global', 'S = {1, 2}\ns2 = set(range(40))\nfor i in range(40):\n    if i not in (1, 2):\n        s2.discard(i)\ndef make(a):\n    return list(S | {8}), list(S ^ {8}), list(S.union((8,)))\n', ('1', '!S = s2', '1')),
        Sequence('dict order', 'def make(a):\n    return list(a)\n', ('{1: 0, 2: 0}', '{2: 0, 1: 0}')),
        Sequence('set update in place', 's1 = {1, 2}\ns2 = set(range(40))\nfor i in range(40):\n    if i not in (1, 2):\n        s2.discard(i)\ndef make(a):\n    a |= {8}\n    r = list(a)\n    a.discard(8)\n    return r\n', ('s1', 's2')),
    ]  # fmt: skip


def _state() -> list[Sequence]:
    return [
        Sequence('iterators', 'import itertools\ndef make(a):\n    return next(a)\n', ('iter([1, 2])', 'iter((1, 2))', 'iter(range(3))', 'itertools.count()', 'zip([1], [2])', 'map(str, [1])', 'enumerate([5])', 'reversed([1, 2])', '(i for i in [1, 2])', 'iter({1: 2})', "iter('ab')", 'itertools.cycle([1, 2])', 'itertools.chain([1], [2])', 'iter(int, 1)')),
        Sequence('shared iterator', 'it = iter([1, 2, 3, 4, 5, 6, 7, 8, 9])\ndef make(a):\n    return next(a)\n', ('it', 'it')),
        Sequence('shared count', 'import itertools\nit = itertools.count()\ndef make(a):\n    return next(a)\n', ('it', 'it')),
        Sequence('global count', 'import itertools\nit = itertools.count()\ndef make(a):\n    return next(it)\n', ('1', '2')),
        Sequence('global iter', 'it = iter(range(99))\ndef make(a):\n    return next(it)\n', ('1', '2')),
        Sequence('partial keywords', "import functools\ndef g(v):\n    return v\np = functools.partial(g, v=1)\ndef make(d):\n    d['v'] = 9\n    r = p()\n    d['v'] = 1\n    return r\n", ('p.keywords', "{'v': 1}")),
        Sequence('kwdefaults', "def g(*, v=1):\n    return v\ndef make(d):\n    d['v'] = 9\n    r = g()\n    d['v'] = 1\n    return r\n", ('g.__kwdefaults__', "{'v': 1}")),
        Sequence('bound method', 'class C:\n    def __init__(self, v):\n        self.v = v\n    def m(self):\n        return self.v\na, b = C(1), C(2)\ndef make(f):\n    return f()\n', ('a.m', 'b.m', '!a.v = 7', 'a.m', '!C.m = lambda self: 5', 'a.m')),
        Sequence('callable object', 'class C:\n    def __init__(self, v):\n        self.v = v\n    def __call__(self):\n        return self.v\na, b = C(1), C(2)\ndef make(f):\n    return f()\n', ('a', 'b', '!a.v = 7', 'a', '!C.__call__ = lambda self: 5', 'a')),
        Sequence('property side effect', 'class C:\n    n = 0\n    @property\n    def v(self):\n        C.n += 1\n        return C.n\nc = C()\ndef make(o):\n    return o.v\n', ('c', 'c')),
        Sequence('weak proxy', 'import weakref\nclass C:\n    pass\nc = C()\nc.v = 1\np = weakref.proxy(c)\ndef make(o):\n    return o.v\n', ('p', '!c.v = 2', 'p')),
        Sequence('weak set global', 'import weakref\nclass C:\n    pass\nc = C()\nw = weakref.WeakSet([c])\ndef make(o):\n    return len(w)\n', ('1', '!del c', '1')),
        Sequence('missing', "class D(dict):\n    d = 3\n    def __missing__(self, k):\n        return self.d\nx, y = D(), D()\ny.d = 4\ndef make(o):\n    return o['q']\n", ('x', 'y', '!D.d = 5', 'x', '!D.__missing__ = lambda s, k: 6', 'x', "{'q': 3}")),
        Sequence('index', 'class I:\n    def __init__(self, v):\n        self.v = v\n    def __index__(self):\n        return self.v\ndef make(o):\n    return [1, 2, 3][o]\n', ('I(0)', 'I(1)', '0', '!I.__index__ = lambda s: 2', 'I(0)')),
        Sequence('format', "class I:\n    def __init__(self, v):\n        self.v = v\n    def __format__(self, s):\n        return f'{self.v}{s}'\ndef make(o):\n    return f'{o:3}'\n", ('I(0)', 'I(1)', '0', "!I.__format__ = lambda s, x: 'z'", 'I(0)')),
        Sequence('chain map', "import collections\na, b = {'k': 1}, {'k': 2}\nc = collections.ChainMap(a, b)\ndef make(o):\n    return o['k']\n", ('c', "!del a['k']", 'c', "!b['k'] = 5", 'c')),
        Sequence('module argument', "import types\nm, k = types.ModuleType('m'), types.ModuleType('m')\nm.V, k.V = 1, 2\ndef make(o):\n    return o.V\n", ('m', 'k', '!m.V = 3', 'm')),
        Sequence('class argument', 'class A:\n    V = 1\nclass B:\n    V = 2\ndef make(o):\n    return o.V\n', ('A', 'B', '!A.V = 3', 'A')),
        Sequence('lambda argument', 'v = 1\ndef make(o):\n    return o()\n', ('lambda: 1', 'lambda: 2', 'lambda: v', '!v = 3', 'lambda: v')),
        Sequence('getsizeof', 'import sys\na = [1, 2]\nb = []\nb.append(1)\nb.append(2)\ndef make(p):\n    return sys.getsizeof(p)\n', ('a', 'b')),
        Sequence('sizeof', 'a = [1, 2]\nb = []\nb.append(1)\nb.append(2)\ndef make(p):\n    return p.__sizeof__()\n', ('a', 'b')),
        Sequence('descriptor', 'import weakref\nD = weakref.WeakKeyDictionary()\nclass V:\n    def __get__(self, i, o):\n        return D.get(i, 0)\nclass C:\n    v = V()\nc = C()\ndef make(o):\n    return o.v\n', ('c', '!D[c] = 3', 'c')),
        Sequence('simple queue', 'import queue\nq = queue.SimpleQueue()\nq.put(1)\nq.put(2)\nq.put(3)\nq.put(4)\ndef make(a):\n    return a.get()\n', ('q', 'q')),
        Sequence('ctypes', 'import ctypes\nx = ctypes.c_int(3)\ndef make(a):\n    return a.value\n', ('x', '!x.value = 4', 'x')),
    ]  # fmt: skip


SEQUENCES = [*_aliases(), *_equal(), *_order(), *_state()]
