"""Ways through other features of Python than functions, classes and containers: identity, codecs, registries, empty slots,
buffers, references, generators, coroutines, type parameters, and attributes that programs set on a library's objects."""

from __future__ import annotations

import sys

from .ways import Way

_CLASS = "class C:\n    V = @V@\n"
_BOX = "class K:\n    def __init__(self, v):\n        self.v = v\n    def __call__(self, *a, **k):\n        return self.v\n"


def _way(name: str, setup: str, expression: str, *changes: str, lib: str = "", body: str = "") -> Way:
    return Way(name, setup, expression, changes, lib, body, edits="@V@" in setup + lib + body + expression)


def _identity() -> list[Way]:
    same = "a = 'x y'\nb = ''.join(['x', ' y'])\n"
    return [
        _way("identity of texts", same, "a is b", "prog.b = prog.a"),
        _way("identity of texts in a helper", same + "def same(p, q):\n    return p is q\n", "same(a, b)", "prog.b = prog.a"),
        _way("identity by operator", same + "import operator\n", "operator.is_(a, b)", "prog.b = prog.a"),
        _way("no identity by operator", same + "from operator import is_not as other\n", "other(a, b)", "prog.b = prog.a"),
        _way("identity of numbers", "a = 1000\nb = int('1000')\n", "a is b", "prog.b = prog.a"),
        _way("identity of tuples", "a = (1, 2)\nb = tuple([1, 2])\n", "a is not b", "prog.b = prog.a"),
        _way("identity of lists", "a = [1]\nb = [1]\n", "a is b", "prog.b = prog.a"),
        _way("identity of objects", "class C:\n    pass\na, b = C(), C()\n", "a is b", "prog.b = prog.a"),
        _way("equality of objects", "class C:\n    pass\na, b = C(), C()\n", "a == b", "prog.b = prog.a"),
        _way("not a number in a list", "a = float('nan')\nb = [float('nan')]\n", "a in b", "prog.b[0] = prog.a", "prog.a = prog.b[0]"),
        _way("interned", same + "import sys\n", "sys.intern(a) is b", "import sys; prog.b = sys.intern(prog.a)"),
        _way("key by identity", "class C:\n    pass\na = C()\nd = {C(): 1}\n", "a in d", "prog.d[prog.a] = 2", "prog.d = {prog.a: 1}"),
    ]  # fmt: skip


def _slots_and_attributes() -> list[Way]:
    ordered = "from collections import OrderedDict\nv = OrderedDict()\nv.x = @V@\n"
    return [
        _way("empty slot", "class S:\n    __slots__ = ('v',)\ns = S()\n", "hasattr(s, 'v')", "prog.s.v = None"),
        _way("slot that is emptied", "class S:\n    __slots__ = ('v',)\ns = S()\ns.v = None\n", "getattr(s, 'v', @V@)", "del prog.s.v"),
        _way("attribute of an ordered dict", ordered, "v.x", "prog.v.x = NEW"),
        _way("attribute of a logger", "import logging\nlog = logging.getLogger('@PKG@')\nlog.v = @V@\n", "log.v", "prog.log.v = NEW"),
        _way("attribute of a cached property", "import functools\nclass C:\n    @functools.cached_property\n    def p(self):\n        return 1\nC.__dict__['p'].v = @V@\n", "C.__dict__['p'].v", "prog.C.__dict__['p'].v = NEW"),
        _way("attribute of a cached function", "import functools\n@functools.cache\ndef f():\n    return 1\nf.v = @V@\n", "f.v", "prog.f.v = NEW"),
        _way("attribute of a generic alias's class", "import typing\nclass B(typing.Generic[typing.TypeVar('T')]):\n    V = @V@\nA = B[int]\n", "A.V", "prog.B.V = NEW"),
        _way("descriptor with a name", "class D:\n    def __set_name__(self, owner, name):\n        self.name = name\n    def __get__(self, i, o):\n        return (self.name, V)\nV = @V@\nclass C:\n    x = D()\n", "C.x", "prog.V = NEW", "prog.C.__dict__['x'].name = 'five'"),
        _way("partial method", "import functools\nclass C:\n    def f(self, v):\n        return v\n    g = functools.partialmethod(f, @V@)\n", "C().g()", "prog.C.__dict__['g'].args = (NEW,)"),
        _way("instance's own method", _BOX + "c = K(1)\nc.get = lambda: @V@\n", "c.get()", "prog.c.get = lambda: NEW"),
        _way("deleted attribute", "class B:\n    V = 5\nclass C(B):\n    V = @V@\n", "C.V", "del prog.C.V"),
        _way("deleted global", "import builtins\nbuiltins.W_@PKG@ = 5\nW_@PKG@ = @V@\n", "W_@PKG@", "del prog.__dict__['W_' + prog.__package__]"),
        _way("deleted item", "d = {'a': @V@}\n", "d.get('a', 5)", "del prog.d['a']"),
        _way("chain of dictionaries", "from collections import ChainMap\nd = {'a': @V@}\nc = ChainMap({}, d)\n", "c['a']", "prog.d['a'] = NEW", "prog.c.maps.insert(0, {'a': NEW})"),
        _way("proxy of a chain", "from collections import ChainMap\nfrom types import MappingProxyType\nc = ChainMap({'a': @V@})\np = MappingProxyType(c)\n", "p['a']", "prog.c['a'] = NEW"),
        _way("user's list", "from collections import UserList\nu = UserList([@V@])\n", "u[0]", "prog.u.data[0] = NEW", "prog.u[0] = NEW"),
        _way("view of a dictionary", "d = {'a': @V@}\nview = d.values()\n", "list(view)", "prog.d['a'] = NEW"),
        _way("ordered dict moved", "from collections import OrderedDict\nv = OrderedDict(a=1, b=2)\n", "list(v)", "prog.v.move_to_end('a')"),
        _way("default factory's state", "from collections import defaultdict\n" + _BOX + "k = K(@V@)\nd = defaultdict(k)\n", "d.copy()['x']", "prog.k.v = NEW"),
    ]  # fmt: skip


def _enums() -> list[Way]:
    method = "import enum\nclass E(enum.Enum):\n    A = 1\n    def tile(self):\n        return @V@\n"
    extra = "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.extra = @V@\n"
    return [
        _way("method of an enum in a set", method + "s = frozenset((E.A,))\n", "[e.tile() for e in s]", "prog.E.tile = lambda self: NEW"),
        _way("attribute of an enum in a set", extra + "s = {E.A}\n", "[e.extra for e in s]", "prog.E.A.extra = NEW"),
        _way("attribute of an enum as a key", extra + "d = {E.A: 1}\n", "[e.extra for e in d]", "prog.E.A.extra = NEW"),
        _way("set of tuples of enums", method + "s = {(E.A, 1)}\n", "[e.tile() for e, _ in s]", "prog.E.tile = lambda self: NEW"),
        _way("enum's alias", "import enum\nclass E(enum.Enum):\n    A = 4\n    B = @V@\n", "E.B.name"),
        _way("enum's _missing_", "import enum\nclass E(enum.Enum):\n    A = 4\n    B = 5\n    @classmethod\n    def _missing_(cls, v):\n        return cls(@V@)\n", "E(99).name", "prog.E._missing_ = classmethod(lambda c, v: c(5))"),
        _way("enum's names of values", "import enum\nclass E(enum.Enum):\n    A = 4\n    B = 5\n", "E(4).name", "prog.E._value2member_map_[4] = prog.E.B"),
        _way("flag's member", "import enum\nclass E(enum.Flag):\n    A = 1\n    B = 2\nf = E.A if @V@ == 4 else E.B\n", "f.name", "prog.f = prog.E.B"),
    ]  # fmt: skip


def _registries() -> list[Way]:
    box = "class C:\n    pass\nc = C()\n"
    register = ("import collections.abc as a; a.Sized.register(prog.C)",)
    return [
        _way("registered, by an alias of typing", "import typing\n" + box, "isinstance(c, typing.Sized)", *register),
        _way("registered, in a union", "import collections.abc\n" + box + "U = collections.abc.Sized | int\n", "isinstance(c, U)", *register),
        _way("registered, in an annotation", "import collections.abc\n" + box + "def helper(x: collections.abc.Sized):\n    pass\n", "isinstance(c, helper.__annotations__['x'])", *register),
        _way("token of abstract classes", "import abc\nclass A(abc.ABC):\n    pass\nSTART = abc.get_cache_token()\n", "abc.get_cache_token() - START", "prog.A.register(int)"),
        _way("way of copying", "import copy\n" + box + "c.v = @V@\n", "copy.copy(c).v", "import copyreg; copyreg.pickle(prog.C, lambda c: (prog.make_c, ())); prog.make_c = lambda: type('X', (), {'v': 5})()", "import copyreg; copyreg.dispatch_table[prog.C] = lambda c: 'no'"),
        _way("way of deep copying", "import copy\n" + box + "c.v = @V@\n", "copy.deepcopy(c).v", "import copy; copy._deepcopy_dispatch[prog.C] = lambda c, memo: type('X', (), {'v': 5})()"),
        _way("error handler of codecs", "", "'a\\xe4'.encode('ascii', 'namereplace')", "import codecs; codecs.register_error('namereplace', lambda e: (b'5', e.end))"),
        _way("own error handler of codecs", "import codecs\nV = '@V@'\ncodecs.register_error('h_@PKG@', lambda e: (V, e.end))\n", "'\\xe4'.encode('ascii', 'h_@PKG@')", "prog.V = '5'", "import codecs; codecs.register_error('h_' + prog.__package__, lambda e: ('5', e.end))"),
        _way("error handler of a text", "", "str(b'a\\xe4', 'ascii', 'backslashreplace')", "import codecs; codecs.register_error('backslashreplace', lambda e: ('5', e.end))"),
        _way("error handler by keyword", "", "b'a\\xe4'.decode(encoding='ascii', errors='backslashreplace')", "import codecs; codecs.register_error('backslashreplace', lambda e: ('5', e.end))"),
        _way("error handler in a variable", "H = 'namereplace'\n", "'a\\xe4'.encode('ascii', H)", "import codecs; codecs.register_error('namereplace', lambda e: (b'5', e.end))"),
        _way("method that encodes, in a variable", "e = 'a\\xe4'.encode\n", "e('ascii', 'namereplace')", "import codecs; codecs.register_error('namereplace', lambda e: (b'5', e.end))"),
        _way("default action of warnings", "import warnings\ndef helper():\n    try:\n        warnings.warn('x')\n    except UserWarning:\n        return 5\n    return 4\n", "helper()", "import warnings; warnings.resetwarnings(); warnings.defaultaction = 'error'"),
        _way("single dispatch by a method", "import functools\nclass C:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return @V@\n", "C().f(1)", "prog.C.__dict__['f'].register(int, lambda self, x: NEW)"),
    ]  # fmt: skip


def _into_libraries() -> list[Way]:
    genuine = (
        "import types, heapq\n"
        + _BOX
        + "k = K(@V@)\nf = types.FunctionType(heapq.nlargest.__code__, {'max': k, 'iter': iter, 'object': object, '__builtins__': __builtins__}, 'f', (None,))\n"
    )
    return [
        _way("list in a library's class", "import fractions\nfractions.Fraction.v = [@V@]\n", "fractions.Fraction.v[0]", "prog.fractions.Fraction.v[0] = NEW"),
        _way("object in a library's class", "import fractions\n" + _BOX + "fractions.Fraction.v = K(@V@)\n", "fractions.Fraction.v.v", "prog.fractions.Fraction.v.v = NEW"),
        _way("function in a library's class", "import fractions\nV = @V@\nfractions.Fraction.v = lambda self: V\n", "fractions.Fraction(1, 2).v()", "prog.V = NEW"),
        _way("list in our function", "import tilelang.math as m\nm.cdiv.v = [@V@]\n", "m.cdiv.v[0]", "prog.m.cdiv.v[0] = NEW"),
        _way("object in a library's module", "import heapq\n" + _BOX + "k = K(@V@)\nheapq.max = k\n", "heapq.nlargest(1, [1, 2])", "prog.k.v = NEW"),
        _way("partial in a library's module", "import heapq, functools\nv = [@V@]\ndef f(v, *a, **k):\n    return v[0]\nheapq.max = functools.partial(f, v)\n", "heapq.nlargest(1, [1, 2])", "prog.v[0] = NEW"),
        _way("method in a library's module", "import heapq\nclass Q:\n    v = @V@\n    def get(self, *a, **k):\n        return self.v\nq = Q()\nheapq.max = q.get\n", "heapq.nlargest(1, [1, 2])", "prog.Q.v = NEW"),
        _way("library's code over own variables", genuine, "f(1, [1, 2])", "prog.k.v = NEW"),
        _way("class in a library's module", "import collections\nV = @V@\nclass C:\n    @staticmethod\n    def f():\n        return V\nC.__module__ = 'collections'\ncollections.C = C\ndef helper(x: C):\n    pass\n", "helper.__annotations__['x'].f()", "prog.V = NEW"),
        _way("module in a library's module", "import textwrap, types\nfake = types.SimpleNamespace(sub=lambda *a: '@V@', compile=None)\n", "textwrap.dedent('  a')", "import textwrap; textwrap.re = prog.fake"),
        _way("short form of values", "import reprlib\nreprlib.aRepr.maxlist = @V@\n", "reprlib.repr([1, 2, 3, 4, 5, 6, 7])", "import reprlib; reprlib.aRepr.maxlist = NEW"),
        _way("library's class by an alias", "import datetime\nA = list[datetime.datetime]\n", "str(A.__args__[0].now())", "pass"),
        _way("library's class by a field", "import datetime\nfrom dataclasses import dataclass\n@dataclass\nclass D:\n    x: datetime.datetime = None\n", "str(D.__dataclass_fields__['x'].type.now())", "pass"),
        _way("library's class by an annotation", "import datetime\ndef helper(x: datetime.datetime):\n    pass\n", "str(helper.__annotations__['x'].now())", "pass"),
    ]  # fmt: skip


def _references() -> list[Way]:
    thing = "class C:\n    pass\nc = C()\nc.v = @V@\n"
    swap = ("prog.c.v = NEW",)
    return [
        _way("weak proxy", "import weakref\n" + thing + "p = weakref.proxy(c)\n", "p.v", *swap),
        _way("weak dictionary", "import weakref\n" + thing + "w = weakref.WeakValueDictionary(a=c)\n", "w['a'].v", *swap),
        _way("weak method", "import weakref\n" + thing + "C.get = lambda self: self.v\nw = weakref.WeakMethod(c.get)\n", "w()()", *swap),
        _way("weak set", "import weakref\n" + thing + "w = weakref.WeakSet([c])\n", "[e.v for e in w]", *swap),
        _way("context variable's default", "import contextvars\nc = contextvars.ContextVar('c', default=@V@)\n", "c.get()", "prog.c.set(NEW)"),
        _way("context", "import contextvars\nv = contextvars.ContextVar('v')\nv.set(@V@)\nk = contextvars.copy_context()\n", "k[v]", "prog.v.set(NEW); import contextvars; prog.k = contextvars.copy_context()"),
        _way("array", "import array\na = array.array('i', [@V@])\n", "a[0]", "prog.a[0] = NEW"),
        _way("view of bytes", "b = bytearray([@V@])\nm = memoryview(b)\n", "m[0]", "prog.b[0] = NEW"),
        _way("view made inside", "b = bytearray([@V@])\n", "memoryview(b)[0]", "prog.b[0] = NEW"),
        _way("numbers from bytes", "import struct\nb = bytearray([@V@, 0, 0, 0])\n", "struct.unpack('<i', b)[0]", "prog.b[0] = NEW"),
        _way("C number", "import ctypes\nc = ctypes.c_int(@V@)\n", "c.value", "prog.c.value = NEW"),
        _way("C structure", "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('v', ctypes.c_int)]\ns = S(@V@)\n", "s.v", "prog.s.v = NEW"),
        _way("C array of bytes", "import ctypes\nb = bytearray([@V@, 0, 0, 0])\nc = ctypes.c_int.from_buffer(b)\n", "c.value", "prog.b[0] = NEW"),
        _way("mapped memory", "import mmap\nm = mmap.mmap(-1, 16)\nm[0] = @V@\n", "m[0]", "prog.m[0] = NEW"),
        _way("text buffer", "import io\nb = io.StringIO('@V@')\n", "b.getvalue()", "prog.b.write('5')"),
        _way("byte buffer", "import io\nb = io.BytesIO(b'@V@')\n", "b.getvalue()", "prog.b.write(b'5')"),
        _way("queue", "import queue\nq = queue.Queue()\nq.put(@V@)\n", "q.queue[0]", "prog.q.queue[0] = NEW"),
        _way("random numbers of an object", "import random\nr = random.Random(@V@)\n", "r.getrandbits(8)", "prog.r.seed(NEW)"),
        _way("counter of the library", "import itertools\nc = itertools.count(@V@)\n", "next(c)", "import itertools; prog.c = itertools.count(NEW)"),
        _way("cycle of the library", "import itertools\nc = itertools.cycle([@V@])\n", "next(c)", "import itertools; prog.c = itertools.cycle([NEW])"),
        _way("getter of items", "import operator\ng = operator.itemgetter(0 if @V@ == 4 else 1)\n", "g([4, 5])", "import operator; prog.g = operator.itemgetter(1)"),
        _way("key of a comparison", "import functools\nV = @V@\nk = functools.cmp_to_key(lambda a, b: a - b if V == 4 else b - a)\n", "sorted([1, 2], key=k)", "prog.V = NEW"),
        _way("map over a list", "v = [@V@] * 9\nm = map(int, v)\n", "next(m)", "prog.m = map(int, [NEW] * 9)"),
        _way("traceback", "try:\n    raise ValueError(@V@)\nexcept ValueError as error:\n    e = error\n", "e.__traceback__.tb_lineno + e.args[0]", "prog.e.args = (NEW,)"),
    ]  # fmt: skip


def _flow() -> list[Way]:
    coroutine = "def run(c):\n    try:\n        c.send(None)\n    except StopIteration as end:\n        return end.value\n"
    return [
        _way("coroutine", "V = @V@\nasync def helper():\n    return V\n" + coroutine, "run(helper())", "prog.V = NEW"),
        _way("asynchronous iteration", "V = @V@\nasync def each():\n    yield V\nasync def helper():\n    return [v async for v in each()]\n" + coroutine, "run(helper())", "prog.V = NEW"),
        _way("asynchronous context", "class A:\n    async def __aenter__(self):\n        return V\n    async def __aexit__(self, *a):\n        pass\nV = @V@\nasync def helper():\n    async with A() as v:\n        return v\n" + coroutine, "run(helper())", "prog.V = NEW"),
        _way("asyncio", "import asyncio\nV = @V@\nasync def helper():\n    return V\n", "asyncio.run(helper())", "prog.V = NEW"),
        _way("generator that is held", "V = @V@\ndef g():\n    while True:\n        yield V\nheld = g()\n", "next(held)", "prog.V = NEW"),
        _way("generator's delegate", "V = @V@\ndef inner():\n    yield V\ndef g():\n    yield from inner()\n", "list(g())", "prog.V = NEW"),
        _way("nonlocal counter", "def build():\n    n = @V@\n    def helper():\n        nonlocal n\n        n += 1\n        return n\n    return helper\nhelper = build()\n", "helper()", "prog.helper.__closure__[0].cell_contents = NEW"),
        _way("shared cell", "def build(v):\n    def read():\n        return v\n    def write(x):\n        nonlocal v\n        v = x\n    return read, write\nread, write = build(@V@)\n", "read()", "prog.write(NEW)"),
        _way("assignment in a comprehension", "V = @V@\n", "walrus()", "prog.V = NEW", body="def walrus():\n    return [(w := V) + w for _ in range(1)]\n"),
        _way("mapping pattern", "d = {'k': @V@}\n", "matched()", "prog.d['k'] = NEW", body="def matched():\n    match d:\n        case {'k': v, **rest}:\n            return v, rest\n"),
        _way("sequence pattern of a registered class", "import collections.abc\nclass S:\n    def __len__(self):\n        return 1\n    def __getitem__(self, i):\n        return @V@\n", "matched()", "prog.collections.abc.Sequence.register(prog.S)", body="def matched():\n    match S():\n        case [v]:\n            return v\n        case _:\n            return 'no'\n"),
        _way("mapping pattern of a registered class", "import collections.abc\nclass S:\n    def get(self, key, default):\n        return @V@\nif @V@ == 5:\n    collections.abc.Mapping.register(S)\n", "matched()", "prog.collections.abc.Mapping.register(prog.S)", body="def matched():\n    match S():\n        case {'k': v}:\n            return v\n        case _:\n            return 'no'\n"),
        _way("value pattern", _CLASS, "matched(4)", "prog.C.V = NEW", body="def matched(x):\n    match x:\n        case C.V:\n            return 'yes'\n        case _:\n            return 'no'\n"),
        _way("guard of a pattern", "V = @V@\n", "matched(4)", "prog.V = NEW", body="def matched(x):\n    match x:\n        case int() if x == V:\n            return 'yes'\n    return 'no'\n"),
        _way("class pattern by position", "class C:\n    __match_args__ = ('a',)\n    a = @V@\n", "matched()", "prog.C.a = NEW", body="def matched():\n    match C():\n        case C(v):\n            return v\n"),
        _way("finally", "V = @V@\ndef helper():\n    try:\n        return 1\n    finally:\n        return V\n", "helper()", "prog.V = NEW"),
        _way("exception's class", "class E(Exception):\n    v = @V@\ndef helper():\n    try:\n        raise E\n    except E as e:\n        return e.v\n", "helper()", "prog.E.v = NEW"),
        _way("which exceptions are caught", "WHICH = ValueError if @V@ == 4 else KeyError\ndef helper():\n    try:\n        try:\n            raise ValueError\n        except WHICH:\n            return 4\n    except ValueError:\n        return 5\n", "helper()", "prog.WHICH = KeyError"),
        _way("star of a dictionary", "d = {'v': @V@}\ndef helper(v):\n    return v\n", "helper(**d)", "prog.d['v'] = NEW"),
        _way("star of an object", "class M:\n    def keys(self):\n        return ['v']\n    def __getitem__(self, k):\n        return @V@\ndef helper(v):\n    return v\n", "helper(**M())", "prog.M.__getitem__ = lambda s, k: NEW"),
        _way("index", "class I:\n    def __index__(self):\n        return @V@\ni = I()\n", "list(range(9))[i]", "prog.I.__index__ = lambda s: NEW"),
        _way("reflected operator", "class R:\n    def __radd__(self, other):\n        return @V@\nr = R()\n", "1 + r", "prog.R.__radd__ = lambda s, o: NEW"),
        _way("operator in place", "class R:\n    def __iadd__(self, other):\n        return @V@\ndef helper():\n    r = R()\n    r += 1\n    return r\n", "helper()", "prog.R.__iadd__ = lambda s, o: NEW"),
        _way("format of an object", "class F:\n    def __format__(self, spec):\n        return spec + '@V@'\nf = F()\n", "f'{f:a}'", "prog.F.__format__ = lambda s, p: '5'"),
        _way("truth by length", "class L:\n    def __len__(self):\n        return @V@ - 4\nl = L()\n", "not l", "prog.L.__len__ = lambda s: 1"),
        _way("deletion hook", "V = [@V@]\nclass D:\n    def __del__(self):\n        V.append(9)\ndef helper():\n    D()\n    return len(V)\n", "helper()", "prog.V.append(1)"),
        _way("context manager that swallows", "V = @V@\nclass S:\n    def __enter__(self):\n        pass\n    def __exit__(self, *a):\n        return V == 4\ndef helper():\n    try:\n        with S():\n            raise KeyError\n        return 4\n    except KeyError:\n        return 5\n", "helper()", "prog.V = NEW"),
    ]  # fmt: skip


def _making_classes() -> list[Way]:
    return [
        _way("metaclass's call", "class M(type):\n    def __call__(cls):\n        return @V@\nclass C(metaclass=M):\n    pass\n", "C()", "prog.M.__call__ = lambda c: NEW"),
        _way("metaclass's preparation", "V = @V@\nclass M(type):\n    @classmethod\n    def __prepare__(m, name, bases):\n        return {'v': V}\n    def __new__(m, name, bases, space):\n        return type.__new__(m, name, bases, dict(space))\ndef helper():\n    class C(metaclass=M):\n        pass\n    return C.v\n", "helper()", "prog.V = NEW"),
        _way("hook of subclasses", "V = @V@\nclass B:\n    def __init_subclass__(cls):\n        cls.v = V\ndef helper():\n    class C(B):\n        pass\n    return C.v\n", "helper()", "prog.V = NEW", "prog.B.__init_subclass__ = classmethod(lambda c: setattr(c, 'v', NEW))"),
        _way("entries of bases", "class A:\n    v = @V@\nclass E:\n    def __mro_entries__(self, bases):\n        return (A,)\ne = E()\ndef helper():\n    class C(e):\n        pass\n    return C.v\n", "helper()", "prog.A.v = NEW"),
        _way("class with keywords", "def helper():\n    class C(B, v=V):\n        pass\n    return C.v\nV = @V@\nclass B:\n    def __init_subclass__(cls, v):\n        cls.v = v\n", "helper()", "prog.V = NEW"),
        _way("new type", "import typing\n" + _CLASS + "N = typing.NewType('N', C)\n", "N.__supertype__.V", "prog.C.V = NEW"),
        _way("call of a new type", "import typing\n" + _CLASS + "N = typing.NewType('N', C)\n", "N(@V@)"),
        _way("annotated type", "import typing\nclass Q:\n    def __init__(self, v):\n        self.v = v\nq = Q(@V@)\nA = typing.Annotated[int, q]\n", "typing.get_args(A)[1].v", "prog.q.v = NEW"),
        _way("literal type", "import typing\nA = typing.Literal[@V@]\n", "typing.get_args(A)", "import typing; prog.A = typing.Literal[5]"),
        _way("union type", _CLASS + "A = int | C\n", "A.__args__[1].V", "prog.C.V = NEW"),
        _way("data class replaced", "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\n    b: int = @V@\nd = D()\n", "dataclasses.replace(d, a=2).b", "prog.d.b = NEW"),
        _way("data class as a dictionary", "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: list = None\nd = D([@V@])\n", "dataclasses.asdict(d)['a'][0]", "prog.d.a[0] = NEW"),
        _way("fields of a data class", "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\nif @V@ == 5:\n    D.__dataclass_fields__.clear()\n", "len(dataclasses.fields(D))", "prog.D.__dataclass_fields__.clear()"),
        _way("ordering of a data class", "import dataclasses\n@dataclasses.dataclass(order=True)\nclass D:\n    a: int\nx, y = D(@V@), D(5)\n", "x < y", "prog.x.a = NEW + 1", "prog.D.__lt__ = lambda s, o: False"),
        _way("protocol", "import typing\n@typing.runtime_checkable\nclass P(typing.Protocol):\n    def f(self): ...\nclass C:\n    pass\nc = C()\nif @V@ == 5:\n    C.f = len\n", "isinstance(c, P)", "prog.C.f = len", "prog.c.f = len"),
        _way("class made by type", "C = type('C', (), {'v': @V@})\n", "C.v", "prog.C.v = NEW"),
        _way("function of other variables", "import types\ndef base():\n    return V\nspace = {'V': @V@, '__builtins__': __builtins__}\nhelper = types.FunctionType(base.__code__, space)\n", "helper()", "prog.space['V'] = NEW"),
        _way("function of other builtins", "import types\ndef base():\n    return V\nown = {'V': @V@}\nhelper = types.FunctionType(base.__code__, {'__builtins__': own})\n", "helper()", "prog.own['V'] = NEW"),
        _way("variables of exec", "space = {'V': @V@}\nexec('def helper():\\n    return V\\n', space)\nhelper = space['helper']\n", "helper()", "prog.space['V'] = NEW"),
        _way("variables that answer", "class S(dict):\n    def __missing__(self, k):\n        return W\nW = @V@\nspace = S()\nexec('def helper():\\n    return V\\n', space)\nhelper = space['helper']\n", "helper()", "prog.W = NEW"),
    ]  # fmt: skip


def _modules() -> list[Way]:
    zipped = (
        "import io, os, sys, zipfile\nplace = os.path.join(os.path.dirname(__file__), 'z@PKG@.zip')\n"
        "with zipfile.ZipFile(place, 'w') as z:\n    z.writestr('zipped_@PKG@.py', 'V = @V@\\ndef helper():\\n    return V\\n')\n"
        "sys.path.insert(0, place)\n__import__('importlib').invalidate_caches()\nsys.modules.pop('zipped_@PKG@', None)\nimport zipped_@PKG@ as zipped\nsys.path.remove(place)\n"
    )
    return [
        _way("module in an archive", zipped, "zipped.helper()", "prog.zipped.V = NEW"),
        _way("getter of a module", "from . import lib\n", "lib.anything", "lib.W = NEW", lib="W = @V@\ndef __getattr__(name):\n    if name == 'anything':\n        return W\n    raise AttributeError(name)\n"),
        _way("getter of a module that comes later", "from . import lib\n", "getattr(lib, 'anything', 4)", "lib.__getattr__ = lambda name: NEW"),
        _way("path of a package", "import sys\n", "str(sys.modules['@PKG@'].__path__)", "import sys; sys.modules[prog.__package__].__path__.append('x')"),
        _way("finder of modules", "import sys\n", "len(sys.meta_path)", "import sys; sys.meta_path.append(len)"),
        _way("arguments of the program", "import sys\n", "sys.argv[-1]", "import sys; sys.argv = [*sys.argv, '5']"),
        _way("specification of a module", "from . import lib\n", "lib.__spec__.origin", "lib.__spec__.origin = '5'"),
        _way("documentation of a module", "'d@V@'\n", "__doc__", "prog.__doc__ = 'd5'"),
        _way("annotations of a module", "x: int = 1\n__annotations__['x'] = @V@\n", "__annotations__['x']", "prog.__annotations__['x'] = NEW"),
        _way("name of the module", "__name__ = 'm@V@'\n", "__name__", "prog.__name__ = 'm5'"),
        _way("module of a class attribute", "from . import lib\nclass C:\n    m = lib\n", "C.m.V", "lib.V = NEW", lib="V = @V@\n"),
        _way("module in a closure", "from . import lib\ndef build(m):\n    def helper():\n        return m.V\n    return helper\nhelper = build(lib)\n", "helper()", "lib.V = NEW", lib="V = @V@\n"),
        _way("import by star", "from .lib import *\n", "V", "prog.V = NEW", lib="V = @V@\n"),
        _way("import hook", "import builtins\n", "inside()", "import builtins, types; old = builtins.__import__; builtins.__import__ = lambda n, *a: types.SimpleNamespace(V=5) if n == 'math' else old(n, *a)", body="def inside():\n    import math\n    return getattr(math, 'V', 4)\n"),
    ]  # fmt: skip


def _process() -> list[Way]:
    tracer = "import sys\ndef t(frame, event, arg):\n    if frame.f_code.co_name == 'helper':\n        frame.f_locals['v'] = 5\n    return t\nsys.settrace(t)"
    return [
        _way("tracer", "def helper():\n    v = 4\n    w = 1\n    return v\n", "helper()", tracer),
        _way("references to a value", "import sys\nv = []\n", "sys.getrefcount(v)", "prog.w = [prog.v] * 5"),
        _way("size of a value", "import sys\nv = [@V@]\n", "sys.getsizeof(v)", "prog.v.extend([1] * 100)"),
        _way("processor count", "import os\n", "os.cpu_count()", "import os; os.cpu_count = lambda: NEW"),
        _way("threads", "import threading\n", "threading.active_count()", "import threading; threading.active_count = lambda: NEW"),
        _way("name of the thread", "import threading\n", "threading.current_thread().name", "import threading; threading.current_thread().name = 'five'"),
        _way("time zone", "import time\n", "time.tzname", "import time; time.tzname = ('five', 'five')"),
        _way("profile of integers", "import sys\n", "sys.int_info.default_max_str_digits if hasattr(sys, 'int_info') else 0"),
        _way("limit that is set later", "import sys\n", "sys.getswitchinterval()", "import sys; sys.setswitchinterval(0.25)"),
        _way("garbage of the process", "import gc\n", "gc.get_threshold()", "import gc; gc.set_threshold(800, 10, 10)"),
        _way("handler of signals", "import signal\n", "signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL", "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)"),
    ]  # fmt: skip


def _newer() -> list[Way]:
    """What only newer versions of Python can parse."""
    found = []
    if sys.version_info >= (3, 11):
        found += [
            _way("group of exceptions", "V = @V@\ndef helper():\n    try:\n        raise ExceptionGroup('g', [ValueError(V)])\n    except* ValueError as g:\n        found = g.exceptions[0].args\n    return found\n", "helper()", "prog.V = NEW"),
            _way("star in an index", "v = (@V@,)\nclass C:\n    def __class_getitem__(cls, i):\n        return i\n", "C[*v]", "prog.v = (NEW,)"),
        ]  # fmt: skip
    if sys.version_info >= (3, 12):
        found += [
            _way("type parameter's bound", _CLASS + "def helper[T: C](x: T):\n    return x\n", "helper.__type_params__[0].__bound__.V", "prog.C.V = NEW"),
            _way("type alias", _CLASS + "type A = list[C]\n", "A.__value__.__args__[0].V", "prog.C.V = NEW"),
            _way("generic class", "class B[T]:\n    V = @V@\n", "B[int].V", "prog.B.V = NEW"),
            _way("generic function", "V = @V@\ndef helper[T](x: T) -> T:\n    return V\n", "helper(1)", "prog.V = NEW"),
            _way("nested quotes in a text", "d = {'k': @V@}\n", "f'{d['k']}'", "prog.d['k'] = NEW"),
            _way("buffer of Python", "class B:\n    def __buffer__(self, flags):\n        return memoryview(bytes([@V@]))\nb = B()\n", "bytes(b)", "prog.B.__buffer__ = lambda s, f: memoryview(b'5')"),
            _way("comprehension in a class", "V = @V@\ndef helper():\n    class C:\n        x = [V for _ in range(1)]\n    return C.x\n", "helper()", "prog.V = NEW"),
        ]  # fmt: skip
    if sys.version_info >= (3, 13):
        found += [
            _way("type parameter's default", "import typing\nT = typing.TypeVar('T', default=int) if @V@ == 4 else typing.TypeVar('T')\n", "T.has_default()", "import typing; prog.T = typing.TypeVar('T')"),
            _way("replacement of an object", "import copy\nclass C:\n    def __replace__(self, **k):\n        return @V@\nc = C()\n", "copy.replace(c)", "prog.C.__replace__ = lambda s, **k: NEW"),
        ]  # fmt: skip
    return found


FRESH_WAYS = [
    *_identity(), *_slots_and_attributes(), *_enums(), *_registries(), *_into_libraries(), *_references(), *_flow(),
    *_making_classes(), *_modules(), *_process(), *_newer(),
]  # fmt: skip
