"""Ways to reach a value by a name that is computed, and ways to change what a library's function, class or cache returns."""

from __future__ import annotations

from .ways import Way

_BESIDE = "V = @V@\ndef other():\n    return 1\n"
_SWAP = ("prog.V = NEW",)
_CACHED = "import functools\nV = @V@\n@functools.{0}\ndef helper():\n    return [V]\n"
_REFILL = "prog.helper.cache_clear(); prog.V = NEW; prog.helper(); prog.V = 4"


def _by_name() -> list[Way]:
    """``other`` does not read V; whoever is given ``other`` and the name of its variables does."""
    readers = {
        "getattr under another name": ("g = getattr\n", "g(other, '__globals__')['V']"),
        "getattr of its module": ("import builtins\n", "builtins.getattr(other, '__globals__')['V']"),
        "getattr by a variable": ("NAME = '__globals__'\n", "getattr(other, NAME)['V']"),
        "getattr by two parts": ("PART = '__glob'\n", "getattr(other, PART + 'als__')['V']"),
        "getattr in a partial": ("import functools\np = functools.partial(getattr, other, '__globals__')\n", "p()['V']"),
        "getattr as a method": ("import types\nm = types.MethodType(getattr, other)\n", "m('__globals__')['V']"),
        "object.__getattribute__": ("", "object.__getattribute__(other, '__globals__')['V']"),
        "own __getattribute__": ("r = other.__getattribute__\n", "r('__globals__')['V']"),
        "__getattribute__ in a dictionary": ("", "object.__dict__['__getattribute__'](other, '__globals__')['V']"),
        "format": ("", "'{0.__globals__[V]}'.format(other)"),
        "format of a variable": ("F = '{0.__globals__[V]}'\n", "F.format(other)"),
        "format in two parts": ("PART = 'als__[V]}'\n", "('{0.__glob' + PART).format(other)"),
        "format as a value": ("f = '{0.__globals__[V]}'.format\n", "f(other)"),
        "format_map": ("", "'{f.__globals__[V]}'.format_map({'f': other})"),
        "Formatter": ("import string\n", "string.Formatter().format('{0.__globals__[V]}', other)"),
        "Formatter.get_field": ("import string\n", "string.Formatter().get_field('0.__globals__', (other,), {})[0]['V']"),
    }
    return [Way(name, _BESIDE + setup, expression, _SWAP) for name, (setup, expression) in readers.items()]


def _variables() -> list[Way]:
    """What ``vars`` and ``setattr`` reach."""
    owner = "class C:\n    v = @V@\nc = C()\nc.v = @V@\n"
    return [
        Way("vars of a module", "from . import lib\n", "vars(lib)['V']", ("lib.V = NEW",), "V = @V@\n"),
        Way("vars of a module in sys", "import sys\nfrom . import lib\n", "vars(sys.modules['@PKG@.lib'])['V']", ("lib.V = NEW",), "V = @V@\n"),
        Way("vars of a function", "def other():\n    pass\nother.v = @V@\n", "vars(other)['v']", ("prog.other.v = NEW",)),
        Way("vars of an object", owner, "vars(c)['v']", ("prog.c.v = NEW", "prog.c.__dict__ = {'v': NEW}")),
        Way("vars of a class", owner, "vars(C)['v']", ("prog.C.v = NEW",)),
        Way("vars by another name", owner + "read = vars\n", "read(c)['v'], read(C)['v']", ("prog.c.v = NEW", "prog.C.v = NEW")),
        Way("vars in map", owner, "[each['v'] for each in map(vars, (c, C))]", ("prog.c.v = NEW", "prog.C.v = NEW")),
        Way("vars of a module by partial", "import functools\nfrom . import lib\np = functools.partial(vars, lib)\n", "p()['V']", ("lib.V = NEW",), "V = @V@\n"),
        Way("vars without an argument", "V = @V@\ndef helper(w=V):\n    return vars()['w']\n", "helper()", ("prog.helper.__defaults__ = (NEW,)",)),
        Way("setattr of a new object", owner + "def helper():\n    new = C()\n    setattr(new, 'w', new.v)\n    return new.w\n", "helper()", ("prog.C.v = NEW",)),
        Way("setattr of a module", "from . import lib\ndef helper():\n    setattr(lib, 'W', lib.V)\n    return lib.W\n", "helper()", ("lib.V = NEW",), "V = @V@\n"),
        Way("setattr that counts", "class C:\n    v = @V@\ndef helper():\n    setattr(C, 'v', C.v + 1)\n    return C.v\n", "helper()", ("prog.C.v = 50",)),
        Way("setattr before the change", owner + "def helper():\n    found = getattr(c, 'w', 4)\n    setattr(c, 'w', c.v)\n    return found\n", "helper()", ("prog.c.w = 7",)),
        Way("__eq__ that begins with self", "class C:\n    def __init__(self, v):\n        self.v = v\n    def __eq__(self, other):\n        return self is other or self.v == other.v\n    __hash__ = None\na, b = C(@V@), C(4)\n", "a == b, a == a", ("prog.a.v = NEW", "prog.a = prog.b")),
        Way("__eq__ of what is not a number", "NAN = float('nan')\nclass C:\n    def __init__(self, v):\n        self.v = v\n    def __eq__(self, other):\n        return self is other or self.v == other.v\n    __hash__ = None\na, b = C(NAN), C(NAN)\nb = a if @V@ == 4 else b\n", "a == b", ("prog.b = prog.C(prog.NAN)",)),
        Way("__eq__ called by name", "class C:\n    def __eq__(self, other):\n        return self is other\nV = 1000 + @V@\nW = V if @V@ == 4 else int(str(V))\n", "C.__eq__(V, W)", ("prog.W = int(str(prog.V))",)),
        Way("__eq__ under another name", "class C:\n    def __eq__(self, other):\n        return self is other\nsame = C.__eq__\nV = 1000 + @V@\nW = V if @V@ == 4 else int(str(V))\n", "same(V, W)", ("prog.W = int(str(prog.V))",)),
        Way("__eq__ under another name besides", "class C:\n    def __eq__(self, other):\n        return self is other\nc = C()\nsame = C.__eq__\nV = 1000 + @V@\nW = V if @V@ == 4 else int(str(V))\n", "c == c, same(V, W)", ("prog.W = int(str(prog.V))",)),
    ]  # fmt: skip


def _reflection() -> list[Way]:
    classes = "class A:\n    pass\nclass B(A):\n    pass\n"
    below = ("prog.C = type('C', (prog.A,), {})",)
    return [
        Way("update_wrapper's doc", "import functools\nclass C:\n    pass\ndef other():\n    '''@V@'''\n", "functools.update_wrapper(C(), other).__dict__['__doc__']", ("prog.other.__doc__ = str(NEW)",), edits=False),
        Way("subclasses by type", classes, "len(type.__dict__['__subclasses__'](A))", below, edits=False),
        Way("subclasses by a variable", classes + "s = type.__dict__['__subclasses__']\n", "len(s(A))", below, edits=False),
        Way("subclasses, bound", classes + "s = A.__subclasses__\n", "len(s())", below, edits=False),
        Way("code object", "import types\nfrom . import lib\nc = compile('__import__(\"@PKG@.lib\").lib.V', '<string>', 'eval')\n", "types.FunctionType(c, {})()", ("lib.V = NEW",), "V = @V@\n"),
        Way("annotation of a library's name", "class C:\n    V = @V@\nC.__module__ = 'collections'\ndef helper(x: C):\n    pass\n", "helper.__annotations__['x'].V", ("prog.C.V = NEW",)),
        Way("alias of a library's name", "import typing\nclass C:\n    V = @V@\nC.__module__ = 'collections'\nA = typing.List[C]\n", "typing.get_args(A)[0].V", ("prog.C.V = NEW",)),
        Way("attribute of a type variable", "import typing\nt = typing.TypeVar('t')\nt.v = @V@\n", "t.v", ("prog.t.v = NEW",)),
        Way("statement `class` replaced", "def helper():\n    class C:\n        v = 4\n    return C.v\n", "helper()", ("import builtins; old = builtins.__build_class__; builtins.__build_class__ = lambda f, n, *b: type(n, (), {'v': NEW})",), edits=False),
    ]  # fmt: skip


def _wrappers() -> list[Way]:
    return [
        Way("attribute of a static method", "def f():\n    return 1\ns = staticmethod(f)\ns.v = @V@\n", "s.v", ("prog.s.v = NEW",)),
        Way("attribute of a class method", "def f(c):\n    return 1\ns = classmethod(f)\ns.v = @V@\n", "s.v", ("prog.s.v = NEW",)),
        Way("property made again", "class C:\n    @property\n    def v(self):\n        return @V@\nc = C()\n", "c.v", ("prog.C.__dict__['v'].__init__(lambda s: 5)",)),
        Way("static method made again", "class C:\n    @staticmethod\n    def v():\n        return @V@\n", "C.v()", ("prog.C.__dict__['v'].__init__(lambda: 5)",)),
        Way("class method made again", "class C:\n    @classmethod\n    def v(cls):\n        return @V@\n", "C.v()", ("prog.C.__dict__['v'].__init__(lambda c: 5)",)),
        Way("metaclass replaced", "class M(type):\n    v = property(lambda c: @V@)\nclass N(type):\n    v = property(lambda c: 5)\nclass C(metaclass=M):\n    pass\n", "C.v", ("prog.C.__class__ = prog.N",)),
        Way("module's class replaced", "from . import lib\n", "lib.V", ("import types; lib.__class__ = type('M', (types.ModuleType,), {'V': property(lambda m: 5)})",), "V = @V@\n"),
        Way("cache filled anew", _CACHED.format("cache"), "helper()[0]", (_REFILL,), edits=False),
        Way("bounded cache filled anew", _CACHED.format("lru_cache"), "helper()[0]", (_REFILL,), edits=False),
        Way("result in a cache changed", _CACHED.format("cache"), "helper()[0]", ("prog.helper()[0] = NEW",)),
    ]  # fmt: skip


def _libraries() -> list[Way]:
    fraction = "import fractions\nfractions.Fraction.v = @V@\n"
    swap = ("prog.fractions.Fraction.v = NEW",)
    return [
        Way("attribute of a library's function", "import textwrap\ntextwrap.dedent.v = @V@\n", "textwrap.dedent.v", ("prog.textwrap.dedent.v = NEW",)),
        Way("attribute in a library function's dictionary", "from textwrap import dedent\ndedent.v = @V@\n", "dedent.__dict__['v']", ("prog.dedent.v = NEW",)),
        Way("defaults of a library's function", "import textwrap\ntextwrap.wrap.__defaults__ = (@V@,)\n", "len(textwrap.wrap('a b c d e f g h i j'))", ("prog.textwrap.wrap.__defaults__ = (NEW * 2,)",), edits=False),
        Way("keyword defaults of a library's function", "import heapq\n", "list(heapq.merge([1, 5], [2, 3]))", ("prog.heapq.merge.__kwdefaults__ = {'key': None, 'reverse': True}",), edits=False),
        Way("attribute of a library's class", fraction, "fractions.Fraction.v", swap),
        Way("attribute of a library's class, by an object", fraction + "f = fractions.Fraction(1, 2)\n", "f.v", swap),
        Way("attribute of a library's class, by a subclass", "import collections\nclass C(collections.UserDict):\n    pass\nC.__mro__[1].v = @V@\nc = C()\n", "c.v", ("prog.collections.UserDict.v = NEW",)),
        Way("attribute of a library's class, by an annotation", fraction + "def helper(x: fractions.Fraction):\n    pass\n", "helper.__annotations__['x'].v", swap),
        Way("methods of a library's class exchanged", "import fractions\n", "fractions.Fraction(3, 2).__floor__()", ("F = prog.fractions.Fraction; F.__floor__ = F.__ceil__",), edits=False),
        Way("properties of a library's class exchanged", "import fractions\n", "fractions.Fraction(3, 2).numerator", ("F = prog.fractions.Fraction; F.numerator = F.denominator",), edits=False),
        Way("attribute of our function", "import tilelang.math as m\nm.cdiv.v = @V@\n", "m.cdiv.v", ("prog.m.cdiv.v = NEW",)),
        Way("warning as an error", "import warnings\ndef helper():\n    try:\n        warnings.warn('x', FutureWarning)\n    except FutureWarning:\n        return 5\n    return 4\n", "helper()", ("import warnings; warnings.simplefilter('error', FutureWarning)",), edits=False),
        Way("warnings counted", "import warnings\ndef helper():\n    with warnings.catch_warnings(record=True) as found:\n        warnings.warn('x', FutureWarning)\n    return len(found)\n", "helper()", ("import warnings; warnings.simplefilter('always', FutureWarning)",), edits=False),
        Way("line of a warning", "import warnings\n" + "\ndef helper():\n    with warnings.catch_warnings(record=True) as found:\n        warnings.simplefilter('always')\n        warnings.warn('x', FutureWarning)\n    return found[0].lineno - @V@\n", "helper()"),
        Way("name of a level", "import logging\n", "logging.getLevelName(20)", ("import logging; logging.addLevelName(20, 'five')",), edits=False),
    ]  # fmt: skip


HIDDEN_WAYS = [*_by_name(), *_variables(), *_reflection(), *_wrappers(), *_libraries()]
