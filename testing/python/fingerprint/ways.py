"""Ways in which a kernel's program can depend on a value, each with the ways to change the value."""

from __future__ import annotations

from dataclasses import dataclass

BEFORE, AFTER = "4", "5"


@dataclass(frozen=True)
class Way:
    """One way to reach a value.

    Attributes:
        name: for people.
        setup: statements of the module ``prog``; ``@V@`` stands for the value, ``@PKG@`` for the package.
        expression: gives the value, inside of a function of ``prog``.
        changes: statements that change the value within the process; ``prog`` and ``lib`` are the modules, ``NEW`` the value.
        lib: statements of the package's module ``lib``.
        body: statements at the start of the function.
        environment: variables that are set to the value.
        edits: whether another value in the text is another program.
    """

    name: str
    setup: str
    expression: str
    changes: tuple[str, ...] = ()
    lib: str = ""
    body: str = ""
    environment: tuple[str, ...] = ()
    edits: bool = True


_CLASS = "class C:\n    V = @V@\n"
_HELPER = "def helper():\n    return @V@\n"
_LIB = "V = @V@\ndef helper():\n    return V\n"
_SWAP = "lib.V = NEW"


def _plain() -> list[Way]:
    return [
        Way("global", "V = @V@\n", "V", ("prog.V = NEW", "prog.__dict__.update(V=NEW)", "prog.V = NEW + 0.0", "del prog.V; prog.V = NEW")),
        Way("global of two modules", "from .lib import V\n", "V", ("prog.V = NEW",), "V = @V@\n"),
        Way("module attribute", "from . import lib\n", "lib.V", (_SWAP,), "V = @V@\n"),
        Way("module under another name", "import @PKG@.lib as other\n", "other.V", (_SWAP,), "V = @V@\n"),
        Way("dotted module", "import @PKG@.lib\n", "@PKG@.lib.V", (_SWAP,), "V = @V@\n"),
        Way("module replaced", "from . import lib\n", "lib.V", ("import types; prog.lib = types.SimpleNamespace(V=NEW)",), "V = @V@\n"),
        Way("helper's global", "from .lib import helper\n", "helper()", (_SWAP, "prog.helper = lambda: NEW"), _LIB),
        Way("helper of a module", "from . import lib\n", "lib.helper()", (_SWAP, "lib.helper = lambda: NEW"), _LIB),
        Way(
            "helper's code", _HELPER, "helper()",
            ("prog.helper = lambda: NEW", "prog.helper.__code__ = (lambda: 5).__code__", "prog.helper = __import__('functools').partial(int, 5)"),
        ),
        Way(
            "default", "def helper(v=@V@):\n    return v\n", "helper()",
            ("prog.helper.__defaults__ = (NEW,)", "prog.helper = lambda: NEW"),
        ),
        Way(
            "keyword default", "def helper(*, v=@V@):\n    return v\n", "helper()",
            ("prog.helper.__kwdefaults__['v'] = NEW", "prog.helper.__kwdefaults__ = {'v': NEW}"),
        ),
        Way("list default", "def helper(v=[@V@]):\n    return v[0]\n", "helper()", ("prog.helper.__defaults__[0][0] = NEW",)),
        Way(
            "closure", "def build(v):\n    def helper():\n        return v\n    return helper\nhelper = build(@V@)\n", "helper()",
            ("prog.helper.__closure__[0].cell_contents = NEW", "prog.helper = prog.build(NEW)"),
        ),
        Way(
            "closure over a list", "def build(v):\n    def helper():\n        return v[0]\n    return helper\nhelper = build([@V@])\n",
            "helper()", ("prog.helper.__closure__[0].cell_contents[0] = NEW",),
        ),
        Way("lambda", "helper = lambda: @V@\n", "helper()", ("prog.helper = lambda: NEW",)),
        Way("function attribute", "def helper():\n    pass\nhelper.v = @V@\n", "helper.v", ("prog.helper.v = NEW", "prog.helper.__dict__ = {'v': NEW}", "prog.helper.__dict__.update(v=NEW)")),
        Way("attribute set later", "def helper():\n    pass\n", "getattr(helper, 'v', 4)", ("prog.helper.v = NEW",), edits=False),
        Way("function name", "def helper():\n    pass\nhelper.__name__ = 'f@V@'\n", "helper.__name__", ("prog.helper.__name__ = 'f5'",)),
        Way("qualified name", "def helper():\n    pass\nhelper.__qualname__ = 'f@V@'\n", "helper.__qualname__", ("prog.helper.__qualname__ = 'f5'",)),
        Way("builtin shadowed", "V = @V@\ndef max(a, b):\n    return V\n", "max(1, 2)", ("prog.max = lambda a, b: NEW", "prog.V = NEW")),
        Way("builtin shadowed later", "", "max(1, 2)", ("prog.max = lambda a, b: NEW", "import builtins; builtins.max = lambda a, b, _=builtins.max: NEW"), edits=False),
        Way("missing global", "", "W if 'W' in dir(object) else n", (), edits=False),
        Way("name appears later", "def helper():\n    try:\n        return W\n    except NameError:\n        return 4\n", "helper()", ("prog.W = NEW",), edits=False),
    ]  # fmt: skip


def _annotations() -> list[Way]:
    spec = (
        "class Spec:\n    def __init__(self, v):\n        self.v = v\n    def __repr__(self):\n        return f'Spec({self.v})'\n"
    )
    return [
        Way("annotation's object", spec + "V = Spec(@V@)\ndef helper(a: V):\n    return helper.__annotations__['a'].v\n", "helper(1)", ("prog.helper.__annotations__['a'].v = NEW", "prog.helper.__annotations__['a'] = prog.Spec(NEW)", "prog.helper.__annotations__ = {'a': prog.Spec(NEW)}")),
        Way("captured annotation", spec + "def build(k):\n    def helper(a: Spec(k)):\n        return helper.__annotations__['a'].v\n    return helper\nhelper = build(@V@)\n", "helper(1)", ("prog.helper = prog.build(NEW)", "prog.helper.__annotations__['a'].v = NEW")),
        Way("return annotation", "def helper() -> @V@:\n    return helper.__annotations__['return']\n", "helper()", ("prog.helper.__annotations__['return'] = NEW",)),
        Way("annotation as text", "def helper(a: 'v@V@'):\n    return helper.__annotations__['a']\n", "helper(1)", ("prog.helper.__annotations__['a'] = 'v5'",)),
        Way("class annotation", "class C:\n    x: @V@\n", "C.__annotations__['x']", ("prog.C.__annotations__['x'] = NEW", "prog.C.__annotations__ = {'x': NEW}")),
        Way("generic alias of a class", _CLASS + "A = list[C]\n", "A.__args__[0].V", ("prog.C.V = NEW", "prog.A = list[type('C', (), {'V': NEW})]")),
        Way("TypeVar bound", "import typing\n" + _CLASS + "T = typing.TypeVar('T', bound=C)\n", "T.__bound__.V", ("prog.C.V = NEW",)),
    ]  # fmt: skip


def _classes() -> list[Way]:
    meta = "class M(type):\n    @property\n    def v(cls):\n        return @V@\nclass C(metaclass=M):\n    pass\n"
    return [
        Way("class attribute", _CLASS, "C.V", ("prog.C.V = NEW", "setattr(prog.C, 'V', NEW)", "prog.C = type('C', (), {'V': NEW})")),
        Way("base's attribute", _CLASS + "class D(C):\n    pass\n", "D.V", ("prog.C.V = NEW", "prog.D.V = NEW", "prog.D.__bases__ = (type('E', (), {'V': NEW}),)")),
        Way("method", "class C:\n    def f(self):\n        return @V@\n", "C().f()", ("prog.C.f = lambda self: NEW", "prog.C.f.__code__ = (lambda self: 5).__code__")),
        Way("static method", "class C:\n    @staticmethod\n    def f():\n        return @V@\n", "C.f()", ("prog.C.f = staticmethod(lambda: NEW)", "prog.C.f.__code__ = (lambda: 5).__code__")),
        Way("class method", "class C:\n    @classmethod\n    def f(cls):\n        return @V@\n", "C.f()", ("prog.C.f = classmethod(lambda cls: NEW)",)),
        Way("property", "class C:\n    @property\n    def f(self):\n        return @V@\n", "C().f", ("prog.C.f = property(lambda self: NEW)", "prog.C.f = NEW")),
        Way("descriptor", "class D:\n    def __init__(self, v):\n        self.v = v\n    def __get__(self, i, o):\n        return self.v\nclass C:\n    f = D(@V@)\n", "C().f", ("prog.C.__dict__['f'].v = NEW", "prog.D.__get__ = lambda s, i, o: NEW")),
        Way("__getattr__", "class C:\n    def __getattr__(self, name):\n        return @V@\n", "C().anything", ("prog.C.__getattr__ = lambda s, n: NEW", "prog.C.anything = NEW")),
        Way("__getattribute__", "class C:\n    def __getattribute__(self, name):\n        return @V@\nc = C()\n", "c.anything", ("prog.C.__getattribute__ = lambda s, n: NEW",)),
        Way("__class_getitem__", "class C:\n    def __class_getitem__(cls, i):\n        return @V@\n", "C[0]", ("prog.C.__class_getitem__ = classmethod(lambda c, i: NEW)",)),
        Way("__subclasshook__", "import abc\nclass C(abc.ABC):\n    @classmethod\n    def __subclasshook__(cls, other):\n        return @V@ == 4\n", "isinstance(n, C)", ()),
        Way("registered subclass", "import abc\nclass C(abc.ABC):\n    pass\nif @V@ == 5:\n    C.register(int)\n", "isinstance(n, C)", ("prog.C.register(int)",)),
        Way("registered with the library's", "import collections.abc\nclass C:\n    pass\nc = C()\nif @V@ == 5:\n    collections.abc.Sized.register(C)\n", "isinstance(c, collections.abc.Sized)", ("import collections.abc as a; a.Sized.register(prog.C)",)),
        Way("__subclasses__", "class B:\n    pass\n", "len(B.__subclasses__())", ("prog.X = type('X', (prog.B,), {})",), edits=False),
        Way("__instancecheck__", "class M(type):\n    def __instancecheck__(cls, i):\n        return @V@ == 4\nclass C(metaclass=M):\n    pass\n", "isinstance(n, C)", ("prog.M.__instancecheck__ = lambda c, i: False",)),
        Way("metaclass property", meta, "C.v", ("prog.M.v = property(lambda c: NEW)",)),
        Way("__init_subclass__", "class B:\n    def __init_subclass__(cls, v):\n        cls.v = v\nclass C(B, v=@V@):\n    pass\n", "C.v", ("prog.C.v = NEW",)),
        Way("class doc", "class C:\n    'd@V@'\n", "C.__doc__", ("prog.C.__doc__ = 'd5'",)),
        Way("function doc", "def helper():\n    'd@V@'\n", "helper.__doc__", ("prog.helper.__doc__ = 'd5'",)),
        Way("class module", "class C:\n    __module__ = 'm@V@'\n", "C.__module__", ("prog.C.__module__ = 'm5'",)),
        Way("class name", "class C:\n    pass\nC.__name__ = 'C@V@'\n", "C.__name__", ("prog.C.__name__ = 'C5'",)),
        Way("name of a type", "class C:\n    pass\nC.__name__ = 'C@V@'\nc = C()\n", "type(c).__name__", ("prog.C.__name__ = 'C5'",)),
        Way("__slots__", "class C:\n    __slots__ = ('v@V@',)\n", "C.__slots__", ("prog.C.__slots__ = ('v5',)",)),
        Way("__match_args__", "class C:\n    a, b = 4, 5\n    __match_args__ = ('a' if @V@ == 4 else 'b',)\n", "matched(C())", ("prog.C.__match_args__ = ('b',)",), body="def matched(c):\n    match c:\n        case C(v):\n            return v\n"),
        Way("method of exec", "scope = {}\nexec('def f(self): return @V@', scope)\nclass C:\n    f = scope['f']\n", "C().f()", ("prog.C.f = lambda s: NEW",)),
        Way("function of exec", "exec('def helper(): return @V@')\n", "helper()", ("exec('def helper(): return 5', prog.__dict__)",)),
        Way("operator", "class C:\n    def __add__(self, other):\n        return @V@\nc = C()\n", "c + 1", ("prog.C.__add__ = lambda s, o: NEW",)),
        Way("__call__", "class C:\n    def __call__(self):\n        return @V@\nc = C()\n", "c()", ("prog.C.__call__ = lambda s: NEW",)),
        Way("__iter__", "class C:\n    def __iter__(self):\n        yield @V@\nc = C()\n", "list(c)", ("prog.C.__iter__ = lambda s: iter([NEW])",)),
        Way("__bool__", "class C:\n    def __bool__(self):\n        return @V@ == 4\nc = C()\n", "(1 if c else 2)", ("prog.C.__bool__ = lambda s: False",)),
        Way("__new__", "class C:\n    def __new__(cls):\n        return @V@\n", "C()", ("prog.C.__new__ = staticmethod(lambda cls: NEW)",)),
        Way("class in a class", "class C:\n    class D:\n        V = @V@\n", "C.D.V", ("prog.C.D.V = NEW", "prog.C.D = type('D', (), {'V': NEW})")),
    ]  # fmt: skip


def _objects() -> list[Way]:
    tile = "class Tile:\n    def __init__(self, v):\n        self.v = v\ntile = Tile(@V@)\n"
    data = "from dataclasses import dataclass, field\n"
    return [
        Way("instance", tile, "tile.v", ("prog.tile.v = NEW", "prog.tile.__dict__ = {'v': NEW}", "prog.tile.__dict__['v'] = NEW", "prog.tile = prog.Tile(NEW)", "vars(prog.tile).update(v=NEW)", "object.__setattr__(prog.tile, 'v', NEW)")),
        Way("class of an instance", tile + "class Other:\n    v = property(lambda self: 5)\n", "tile.v", ("prog.tile.__class__ = prog.Other",), edits=False),
        Way("instance in an instance", tile + "class Outer:\n    pass\nouter = Outer()\nouter.tile = tile\n", "outer.tile.v", ("prog.outer.tile.v = NEW", "prog.outer.tile = prog.Tile(NEW)")),
        Way("slots", "class Tile:\n    __slots__ = ('v',)\ntile = Tile()\ntile.v = @V@\n", "tile.v", ("prog.tile.v = NEW",)),
        Way("private slot", "class Tile:\n    __slots__ = ('__v',)\n    def __init__(self, v):\n        self.__v = v\n    def get(self):\n        return self.__v\ntile = Tile(@V@)\n", "tile.get()", ("prog.tile._Tile__v = NEW",)),
        Way("dataclass", data + "@dataclass\nclass Config:\n    v: int\nconfig = Config(@V@)\n", "config.v", ("prog.config.v = NEW", "prog.config = prog.Config(NEW)")),
        Way("frozen dataclass", data + "@dataclass(frozen=True)\nclass Config:\n    v: int\nconfig = Config(@V@)\n", "config.v", ("object.__setattr__(prog.config, 'v', NEW)",)),
        Way("dataclass with slots", data + "@dataclass(slots=True)\nclass Config:\n    v: int\nconfig = Config(@V@)\n", "config.v", ("prog.config.v = NEW",)),
        Way("dataclass default", data + "@dataclass\nclass Config:\n    v: int = @V@\n", "Config().v", ("prog.Config.__init__.__defaults__ = (NEW,)",)),
        Way("dataclass factory", data + "@dataclass\nclass Config:\n    v: list = field(default_factory=lambda: [@V@])\n", "Config().v", ()),
        Way("field metadata", data + "@dataclass\nclass Config:\n    v: int = field(default=1, metadata={'m': @V@})\n", "Config.__dataclass_fields__['v'].metadata['m']", ("prog.Config.__dataclass_fields__['v'].metadata = {'m': NEW}",)),
        Way("__post_init__", data + "@dataclass\nclass Config:\n    v: int = 1\n    def __post_init__(self):\n        self.v = @V@\n", "Config().v", ("prog.Config.__post_init__ = lambda s: setattr(s, 'v', NEW)",)),
        Way("named tuple", "from typing import NamedTuple\nclass P(NamedTuple):\n    v: int\np = P(@V@)\n", "p.v", ("prog.p = prog.P(NEW)", "prog.P.v = property(lambda s: NEW)")),
        Way("collections' named tuple", "from collections import namedtuple\nP = namedtuple('P', 'v')\np = P(@V@)\n", "p.v", ("prog.p = prog.P(NEW)",)),
        Way("enum", "import enum\nclass E(enum.Enum):\n    A = @V@\n", "E.A.value", ("prog.E.A._value_ = NEW",)),
        Way("enum's attribute", "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.extra = @V@\n", "E.A.extra", ("prog.E.A.extra = NEW",)),
        Way("int enum", "import enum\nclass E(enum.IntEnum):\n    A = @V@\n", "E.A + 1", ()),
        Way("flags", "import enum\nclass E(enum.Flag):\n    A = @V@\n    B = 8\n", "(E.A | E.B).value", ()),
        Way("namespace", "from types import SimpleNamespace\nspace = SimpleNamespace(v=@V@)\n", "space.v", ("prog.space.v = NEW", "prog.space.__dict__['v'] = NEW")),
        Way("int with attributes", "class I(int):\n    pass\ni = I(1)\ni.v = @V@\n", "i.v", ("prog.i.v = NEW",)),
        Way("int subclass", "class I(int):\n    pass\ni = I(@V@)\n", "i + 0", ("prog.i = prog.I(NEW)", "prog.I.__add__ = lambda a, b: NEW")),
        Way("str subclass", "class S(str):\n    pass\ns = S('@V@')\n", "s + ''", ("prog.s = prog.S('5')",)),
        Way("list subclass", "class L(list):\n    pass\nl = L([@V@])\n", "l[0]", ("prog.l[0] = NEW", "prog.l[:] = [NEW]")),
        Way("dict subclass", "class D(dict):\n    def __missing__(self, k):\n        return @V@\nd = D()\n", "d['x']", ("prog.d['x'] = NEW", "prog.D.__missing__ = lambda s, k: NEW")),
        Way("hostile equality", "class C:\n    def __init__(self, v):\n        self.v = v\n    def __eq__(self, other):\n        return True\n    def __hash__(self):\n        return 1\nc = C(@V@)\n", "c.v", ("prog.c = prog.C(NEW)", "prog.c.v = NEW")),
        Way("fingerprint method", "class C:\n    def __init__(self, v):\n        self.v = v\n    def __tilelang_fingerprint__(self):\n        return ()\nc = C(@V@)\n", "c.v", ("prog.c.v = NEW", "prog.c = prog.C(NEW)")),
        Way("__class__ property", "class C:\n    def __init__(self, v):\n        self.v = v\n    @property\n    def __class__(self):\n        return int\nc = C(@V@)\n", "c.v", ("prog.c.v = NEW",)),
        Way("__dict__ property", "class C:\n    __slots__ = ('v',)\n    @property\n    def __dict__(self):\n        return {}\nc = C()\nc.v = @V@\n", "c.v", ("prog.c.v = NEW",)),
        Way("cycle", "class N:\n    pass\na, b = N(), N()\na.b, b.a, b.v = b, a, @V@\n", "a.b.a.b.v", ("prog.b.v = NEW",)),
        Way("bound method", tile + "class K:\n    def __init__(self):\n        self.v = @V@\n    def get(self):\n        return self.v\nget = K().get\n", "get()", ("prog.get.__self__.v = NEW",)),
        Way("dynamic size", "import tilelang.language as T\ns = T.dynamic('s@V@')\ntry:\n    T.ceildiv(s, 2)\nexcept ImportError:\n    pass\n", "s.name", ("prog.s.name = f's{NEW}'", "prog.s = type(prog.s)(f's{NEW}', prog.s.dtype)")),
        Way("exception", "e = ValueError(@V@)\n", "e.args[0]", ("prog.e.args = (NEW,)",)),
    ]  # fmt: skip


def _containers() -> list[Way]:
    return [
        Way("list", "v = [@V@]\n", "v[0]", ("prog.v[0] = NEW", "prog.v[:] = [NEW]", "prog.v = [NEW]")),
        Way("length of a list", "v = [0] * @V@\n", "len(v)", ("prog.v.append(1)",)),
        Way("nested list", "v = [[@V@]]\n", "v[0][0]", ("prog.v[0][0] = NEW",)),
        Way("dict", "v = {'a': @V@}\n", "v['a']", ("prog.v['a'] = NEW", "prog.v.update(a=NEW)")),
        Way("order of a dict", "v = {'a': 1, 'b': 2} if @V@ == 4 else {'b': 2, 'a': 1}\n", "list(v)", ("prog.v['a'] = prog.v.pop('a')",)),
        Way("dict of functions", "v = {'f': lambda: @V@}\n", "v['f']()", ("prog.v['f'] = lambda: NEW",)),
        Way("tuple", "v = (@V@,)\n", "v[0]", ("prog.v = (NEW,)",)),
        Way("list in a tuple", "v = ([@V@],)\n", "v[0][0]", ("prog.v[0][0] = NEW",)),
        Way("set", "v = {@V@, 1}\n", "sorted(v)", ("prog.v.add(NEW)",)),
        Way("membership", "v = {'a@V@'}\n", "'a4' in v", ("prog.v.clear()", "prog.v = set()")),
        Way("order of a set", "v = {8, @V@ * 8}\n", "list(v)", ("prog.v.discard(8); prog.v.add(16)",)),
        Way("frozen set", "v = frozenset((@V@,))\n", "sorted(v)", ("prog.v = frozenset((NEW,))",)),
        Way("bytes", "v = b'@V@'\n", "v[0]", ("prog.v = b'5'",)),
        Way("byte array", "v = bytearray(b'@V@')\n", "v[0]", ("prog.v[0] = 53",)),
        Way("ordered dict", "from collections import OrderedDict\nv = OrderedDict(a=@V@)\n", "v['a']", ("prog.v['a'] = NEW",)),
        Way("default dict", "from collections import defaultdict\nv = defaultdict(lambda: @V@)\n", "v['a']", ("prog.v.default_factory = lambda: NEW", "prog.v['a'] = NEW")),
        Way("deque", "from collections import deque\nv = deque([@V@])\n", "v[0]", ("prog.v[0] = NEW", "prog.v.appendleft(NEW)")),
        Way("counter", "from collections import Counter\nv = Counter(a=@V@)\n", "v['a']", ("prog.v['a'] = NEW",)),
        Way("mapping proxy", "from types import MappingProxyType\nd = {'a': @V@}\nv = MappingProxyType(d)\n", "v['a']", ("prog.d['a'] = NEW",)),
        Way("range", "v = range(@V@)\n", "len(v)", ("prog.v = range(NEW)",)),
        Way("pattern", "import re\nv = re.compile('a@V@')\n", "v.pattern", ("import re; prog.v = re.compile('a5')",)),
        Way("partial", "from functools import partial\nv = partial(max, @V@)\n", "v(1)", ("v = __import__('functools').partial; prog.v = v(max, NEW)", "prog.v.__setstate__((max, (NEW,), {}, {}))")),
        Way("keywords of a partial", "from functools import partial\ndef f(k):\n    return k\nv = partial(f, k=@V@)\n", "v()", ("prog.v.keywords['k'] = NEW",)),
        Way("attribute of a partial", "from functools import partial\nv = partial(max, 1)\nv.extra = @V@\n", "v.extra", ("prog.v.extra = NEW",)),
        Way("method of a list", "v = [@V@]\nget = v.copy\n", "get()", ("prog.v[0] = NEW",)),
        Way("iterator", "v = iter([@V@, @V@, @V@, 9])\n", "next(v)", ("prog.v = iter([NEW] * 9)",)),
        Way("float sign", "v = 0.0 if @V@ == 4 else -0.0\n", "v", ("prog.v = -0.0",)),
        Way("int or bool", "v = 1 if @V@ == 4 else True\n", "v", ("prog.v = True",)),
        Way("int or float", "v = 1 if @V@ == 4 else 1.0\n", "v", ("prog.v = 1.0",)),
        Way("not a number", "v = float('nan' if @V@ == 4 else 'inf')\n", "v", ("prog.v = float('inf')",)),
        Way("complex", "v = complex(0, @V@)\n", "v", ("prog.v = 5j",)),
        Way("surrogates", "v = '\\ud80@V@'\n", "ord(v)", ("prog.v = '\\ud805'",)),
    ]  # fmt: skip


def _imports() -> list[Way]:
    lib = "V = @V@\n"
    return [
        Way("import in the function", "", "lib.V", (_SWAP,), lib, "from . import lib\n"),
        Way("name imported in the function", "", "V", (_SWAP,), lib, "from .lib import V\n"),
        Way("renamed import", "", "w", (_SWAP,), lib, "from .lib import V as w\n"),
        Way("absolute import", "", "other.V", (_SWAP,), lib, "import @PKG@.lib as other\n"),
        Way("dotted import", "", "@PKG@.lib.V", (_SWAP,), lib, "import @PKG@.lib\n"),
        Way("absolute name", "", "V", (_SWAP,), lib, "from @PKG@.lib import V\n"),
        Way("import in try", "", "V", (_SWAP,), lib, "try:\n    from .lib import V\nexcept ImportError:\n    V = 0\n"),
        Way("missing import", "", "V", ("import types; m = types.ModuleType(prog.__package__ + '.gone'); m.V = NEW; sys.modules[m.__name__] = m",), "", "try:\n    from .gone import V\nexcept ImportError:\n    V = 0\n", edits=False),
        Way("module replaced in sys.modules", "", "V", ("import types; m = types.ModuleType(lib.__name__); m.V = NEW; sys.modules[lib.__name__] = m",), lib, "from .lib import V\n"),
        Way("attribute replaced in the package", "", "lib.V", ("import types; sys.modules[prog.__package__].lib = types.SimpleNamespace(V=NEW)",), lib, "from . import lib\n"),
        Way("import passed on", "def get(m):\n    return m.V\n", "get(lib)", (_SWAP,), lib, "from . import lib\n"),
        Way("import assigned", "", "again.V", (_SWAP,), lib, "from . import lib\nagain = lib\n"),
        Way("import in a nested function", "", "inner()", (_SWAP,), lib, "def inner():\n    from . import lib\n    return lib.V\n"),
        Way("import for a nested function", "", "inner()", (_SWAP,), lib, "from . import lib\ndef inner():\n    return lib.V\n"),
        Way("two imports at once", "import math\n", "(V, W)", (_SWAP,), lib + "W = 1\n", "from .lib import V, W\n"),
        Way("import of a helper", "", "helper()", (_SWAP, "lib.helper = lambda: NEW"), _LIB, "from .lib import helper\n"),
        Way("importlib", "import importlib\n", "importlib.import_module('@PKG@.lib').V", (_SWAP,), lib),
        Way("__import__", "", "__import__('@PKG@.lib').lib.V", (_SWAP,), lib),
        Way("sys.modules", "import sys\nfrom . import lib\n", "sys.modules['@PKG@.lib'].V", (_SWAP,), lib),
        Way("module passed to getattr", "from . import lib\n", "getattr(lib, 'V')", (_SWAP,), lib),
        Way("module in a list", "from . import lib\nall = [lib]\n", "all[0].V", (_SWAP,), lib),
        Way("module's dictionary", "from . import lib\n", "lib.__dict__['V']", (_SWAP,), lib),
        Way("lazy module", "from . import lib\n", "lib.V", ("lib.W = NEW",), "W = @V@\ndef __getattr__(name):\n    return W\n"),
        Way("special module", "from . import lib\n", "lib.V", ("lib.W = NEW",), "import sys, types\nW = @V@\nclass M(types.ModuleType):\n    @property\n    def V(self):\n        return W\nsys.modules[__name__].__class__ = M\n"),
    ]  # fmt: skip


def _environment() -> list[Way]:
    key = "KERNEL_@PKG@"
    set_it = ("os.environ[KEY] = '5'", "os.putenv(KEY, '5'); os.environ[KEY] = '5'")
    start = "import os\n"

    def way(name: str, expression: str, setup: str = start, body: str = "") -> Way:
        return Way(name, setup, expression, set_it, body=body, environment=(key,), edits=False)

    return [
        way("os.environ[]", f"os.environ['{key}']"),
        way("os.environ.get", f"os.environ.get('{key}')"),
        way("os.environ.get with default", f"os.environ.get('{key}', '1')"),
        way("os.getenv", f"os.getenv('{key}')"),
        way("getenv", f"getenv('{key}', '1')", "from os import getenv\n"),
        way("environ", f"environ['{key}']", "from os import environ\n"),
        way("getenv under another name", f"g('{key}')", "from os import getenv as g\n"),
        way("in os.environ", f"os.environ.get('{key}') if '{key}' in os.environ else 0"),
        way("keyword", f"os.getenv(key='{key}')"),
        way("keywords out of order", f"os.getenv(default='1', key='{key}')"),
        way("f-string", "os.environ[f'KERNEL_{p}']", start + "p = '@PKG@'\n"),
        way("concatenation", "os.environ['KERNEL_' + p]", start + "p = '@PKG@'\n"),
        way("format", "os.getenv('KERNEL_{}'.format(p))", start + "p = '@PKG@'\n"),
        way("percent", "os.getenv('KERNEL_%s' % p)", start + "p = '@PKG@'\n"),
        way("upper", f"os.getenv('{key}'.lower().replace('kernel', 'KERNEL'))"),
        way("conditional name", f"os.environ['HOME' if n == 99 else '{key}']"),
        way("or", f"os.environ[('' or '{key}')]"),
        way("name in a variable", "os.environ.get(name)", start + f"name = '{key}'\n"),
        way("name as an argument", f"flag('{key}')", start + "def flag(name):\n    return os.environ.get(name, '1')\n"),
        way("copied", f"e['{key}']", body="e = os.environ\n"),
        way("copy", f"os.environ.copy()['{key}']"),
        way("dict", f"dict(os.environ)['{key}']"),
        way("items", f"[v for k, v in os.environ.items() if k == '{key}']"),
        way("environb", f"os.environb[b'{key}']"),
        way("expandvars", f"os.path.expandvars('${key}')"),
        way("setdefault", f"os.environ.setdefault('{key}', '9')"),
        way("in a helper's default", "flag()", start + f"def flag(get=os.environ.get):\n    return get('{key}')\n"),
        way("environ in a class", f"C.e['{key}']", start + "class C:\n    e = os.environ\n"),
        way("environ imported inside", f"environ['{key}']", "", "from os import environ\n"),
        way("os imported inside", f"os.environ['{key}']", "", "import os\n"),
        way("os imported inside as", f"o.environ['{key}']", "", "import os as o\n"),
        Way("environ replaced", start, "os.environ.get('V_@PKG@')", ("os.environ = {**os.environ, 'V_' + prog.__package__: '5'}",), edits=False),
    ]  # fmt: skip


def _files() -> list[Way]:
    start = "import os, pathlib\nplace = os.path.join(os.path.dirname(__file__), 'v.txt')\npath = pathlib.Path(place)\n"
    write = "open(prog.place, 'w').write('5' * 4)"
    keep = "s = os.stat(prog.place); open(prog.place, 'w').write('5555'); os.utime(prog.place, ns=(s.st_atime_ns, s.st_mtime_ns))"

    def way(name: str, expression: str, changes: tuple[str, ...] = (write, keep), setup: str = start) -> Way:
        return Way(name, setup, expression, changes, edits=False)

    return [
        way("open", "open(place).read()"),
        way("open under another name", "o(place).read()", setup=start + "o = open\n"),
        way("io.open", "io.open(place).read()", setup=start + "import io\n"),
        way("os.open", "os.read(os.open(place, 0), 9)"),
        way("read_text", "path.read_text()"),
        way("read_bytes", "pathlib.Path(place).read_bytes()"),
        way("path.open", "path.open().read()"),
        way("method in a variable", "read()", setup=start + "read = path.read_text\n"),
        way("linecache", "linecache.getline(place, 1)", setup=start + "import linecache\n"),
        way("json", "json.load(open(place))", setup=start + "import json\n"),
        way("size", "os.path.getsize(place)", ("open(prog.place, 'w').write('55555')",)),
        way("stat", "path.stat().st_size", ("open(prog.place, 'w').write('55555')",)),
        way("exists", "os.path.exists(place + 'x')", ("open(prog.place + 'x', 'w').close()",)),
        way("path.exists", "(path.parent / 'y').exists()", ("open(prog.path.parent / 'y', 'w').close()",)),
        way("listdir", "len(os.listdir(os.path.dirname(place)))", ("open(prog.path.parent / 'z', 'w').close()",)),
        way("glob", "len(list(path.parent.glob('*.txt')))", ("open(prog.path.parent / 'w.txt', 'w').close()",)),
        way("open file", "f.seek(0) or f.read()", setup=start + "f = open(place)\n"),
        way("working directory", "os.getcwd()", ("os.chdir(os.path.dirname(prog.place))",)),
        way("path of the working directory", "str(pathlib.Path.cwd())", ("os.chdir(os.path.dirname(prog.place))",)),
        way("absolute", "os.path.abspath('x')", ("os.chdir(os.path.dirname(prog.place))",)),
        way("resolve", "str(pathlib.Path('x').resolve())", ("os.chdir(os.path.dirname(prog.place))",)),
        way("home", "str(pathlib.Path.home())", ("os.environ['HOME'] = '/nowhere'",)),
        way("expanduser", "os.path.expanduser('~')", ("os.environ['HOME'] = '/nowhere'",)),
    ]  # fmt: skip


def _posers() -> list[Way]:
    wraps = "import math, functools\nV = @V@\n@functools.wraps(math.ceil)\ndef helper(x):\n    return V\n"
    return [
        Way("wraps a library's function", wraps, "helper(1)", ("prog.V = NEW",)),
        Way("library's module name", "V = @V@\ndef helper():\n    return V\nhelper.__module__ = 'math'\nhelper.__qualname__ = 'ceil'\n", "helper()", ("prog.V = NEW",)),
        Way("library's file name", "V = @V@\nimport textwrap\nexec(compile('def helper():\\n    return V\\n', textwrap.__file__, 'exec'))\n", "helper()", ("prog.V = NEW",)),
        Way("our file name", "V = @V@\nimport tilelang.dtypes as t\nexec(compile('def helper():\\n    return V\\n', t.__file__, 'exec'))\n", "helper()", ("prog.V = NEW",)),
        Way("our module name", "V = @V@\ndef helper():\n    return V\nhelper.__module__ = 'tilelang.language'\n", "helper()", ("prog.V = NEW",)),
        Way("class of a library's name", "class C:\n    __module__ = 'math'\n    __qualname__ = 'ceil'\n    V = @V@\n", "C.V", ("prog.C.V = NEW",)),
        Way("class of our name", "class DType(str):\n    __module__ = 'tilelang.dtypes'\n    __qualname__ = 'DType'\n    V = @V@\nd = DType('x')\n", "d.V", ("prog.DType.V = NEW",)),
        Way("class of torch's name", "class dtype:\n    __module__ = 'torch'\n    __qualname__ = 'dtype'\n    def __init__(self, v):\n        self.v = v\n    def __str__(self):\n        return 'x'\nd = dtype(@V@)\n", "d.v", ("prog.d.v = NEW",)),
        Way("logger's name", "class Logger:\n    __module__ = 'logging'\n    __qualname__ = 'Logger'\n    name = 'x'\n    def __init__(self, v):\n        self.v = v\nlog = Logger(@V@)\n", "log.v", ("prog.log.v = NEW",)),
        Way("module of a library's name", "import types\nmath = types.ModuleType('math')\nmath.pi = @V@\n", "math.pi", ("prog.math.pi = NEW",)),
        Way("module of our name", "import types\nT = types.ModuleType('tilelang.language')\nT.pi = @V@\n", "T.pi", ("prog.T.pi = NEW",)),
        Way("lazy module of our name", "import types\nW = @V@\nT = types.ModuleType('tilelang.language')\nT.__getattr__ = lambda name: W\n", "T.exp", ("prog.W = NEW",)),
        Way("library patched", "import math\n", "math.ceil(1.5)", ("prog.math.ceil = lambda x: NEW",), edits=False),
        Way("library's class patched", "import fractions\nF = fractions.Fraction(1, 2)\n", "F.limit_denominator(3)", ("prog.fractions.Fraction.limit_denominator = lambda s, m: NEW",), edits=False),
        Way("our function patched", "import tilelang.math as m\n", "m.cdiv(9, 2)", ("prog.m.cdiv = lambda a, b: NEW",), edits=False),
        Way("our function's code patched", "import tilelang.math as m\n", "m.cdiv(9, 2)", ("prog.m.cdiv.__code__ = (lambda a, b: 5 + a * b).__code__",), edits=False),
        Way("our language patched", "import tilelang.dtypes as T\n", "str(T.float16)", ("T = prog.T; T.float16 = 'x5'",), edits=False),
    ]  # fmt: skip


def _ambient() -> list[Way]:
    return [
        Way("time", "import time\n", "time.time()", ("pass",), edits=False),
        Way("random", "import random\nrandom.seed(@V@)\n", "random.random()", ("import random; random.seed(NEW)",)),
        Way("logger's level", "import logging\nlog = logging.getLogger('@PKG@')\nlog.setLevel(@V@)\n", "log.level", ("prog.log.setLevel(NEW)",)),
        Way("logger enabled", "import logging\nlog = logging.getLogger('@PKG@')\nlog.setLevel(@V@)\n", "log.isEnabledFor(4)", ("prog.log.setLevel(NEW)", "import logging; logging.disable(50)")),
        Way("logger looked up", "import logging\nlogging.getLogger('@PKG@').setLevel(@V@)\n", "logging.getLogger('@PKG@').level", ("import logging; logging.getLogger(prog.__package__).setLevel(NEW)",)),
        Way("logger's handlers", "import logging\nlog = logging.getLogger('@PKG@')\n", "len(log.handlers)", ("import logging; prog.log.addHandler(logging.NullHandler())",), edits=False),
        Way("decimal context", "import decimal\nd = decimal.Decimal(1)\n", "str(d / 3)", ("import decimal; decimal.getcontext().prec = NEW",), edits=False),
        Way("decimal", "import decimal\nd = decimal.Decimal(@V@)\n", "str(d)", ("import decimal; prog.d = decimal.Decimal(NEW)",)),
        Way("globals()", "V = @V@\n", "globals()['V']", ("prog.V = NEW",)),
        Way("f.__globals__", "V = @V@\ndef helper():\n    pass\n", "helper.__globals__['V']", ("prog.V = NEW",)),
        Way("getattr __globals__", "V = @V@\ndef helper():\n    pass\n", "getattr(helper, '__globals__')['V']", ("prog.V = NEW",)),
        Way("getattr computed", "V = @V@\ndef helper():\n    pass\n", "getattr(helper, '__glo' + 'bals__')['V']", ("prog.V = NEW",)),
        Way("attrgetter", "import operator\nclass C:\n    V = @V@\n", "operator.attrgetter('V')(C)", ("prog.C.V = NEW",)),
        Way("frames", "import sys\nV = @V@\n", "sys._getframe().f_globals['V']", ("prog.V = NEW",)),
        Way("eval", "V = @V@\n", "eval('V')", ("prog.V = NEW",)),
        Way("exec", "V = @V@\n", "run()", ("prog.V = NEW",), body="def run():\n    scope = {}\n    exec('from @PKG@.prog import V', scope)\n    return scope['V']\n"),
        Way("inspect", "import inspect\nV = @V@\ndef helper():\n    return V\n", "inspect.getclosurevars(helper).globals['V']", ("prog.V = NEW",)),
        Way("gc", "import gc\nv = [@V@]\n", "len(gc.get_objects()) and v[0]", ("prog.v[0] = NEW",)),
        Way("weak reference", "import weakref\nclass C:\n    pass\nc = C()\nc.v = @V@\nr = weakref.ref(c)\n", "r().v", ("prog.c.v = NEW",)),
        Way("thread-local", "import threading\nlocal = threading.local()\nlocal.v = @V@\n", "local.v", ("prog.local.v = NEW",)),
        Way("context variable", "import contextvars\nc = contextvars.ContextVar('c')\nc.set(@V@)\n", "c.get()", ("prog.c.set(NEW)",)),
        Way("recursion limit", "import sys\n", "sys.getrecursionlimit()", ("import sys; sys.setrecursionlimit(sys.getrecursionlimit() + NEW)",), edits=False),
        Way("cached helper", "import functools\nV = @V@\n@functools.cache\ndef helper():\n    return V\n", "helper()", ("prog.V = NEW", "prog.V = NEW; prog.helper.cache_clear()")),
        Way("cached helper with arguments", "import functools\nV = @V@\n@functools.lru_cache(maxsize=8)\ndef helper(n):\n    return V + n\n", "helper(n)", ("prog.V = NEW", "prog.V = NEW; prog.helper(77)")),
        Way("cached property", "import functools\nV = @V@\nclass C:\n    @functools.cached_property\n    def v(self):\n        return V\nc = C()\n", "c.v", ("prog.V = NEW", "prog.c = prog.C(); prog.V = NEW")),
        Way("dispatch", "import functools\n@functools.singledispatch\ndef helper(x):\n    return @V@\n", "helper(1)", ("prog.helper.register(int)(lambda x: NEW)",)),
        Way("counting", "seen = []\ndef helper():\n    seen.append(1)\n    return len(seen)\n", "helper()", ("prog.seen.clear()",), edits=False),
        Way("global counter", "count = 0\ndef helper():\n    global count\n    count += 1\n    return count\n", "helper()", ("prog.count = 10",), edits=False),
        Way("generator", "def g():\n    while True:\n        yield @V@\nv = g()\n", "next(v)", ("prog.v = iter([NEW] * 9)",)),
    ]  # fmt: skip


WAYS = [
    *_plain(), *_annotations(), *_classes(), *_objects(), *_containers(), *_imports(), *_environment(), *_files(), *_posers(),
    *_ambient(),
]  # fmt: skip
