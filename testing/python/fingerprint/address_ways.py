"""Ways through the address of an object, which is in the text that Python makes of it, and decides its place in a set; and through a
list that a cached function holds. Only the object changes, and not its content."""

from __future__ import annotations

from .ways import Way

_OBJECT = "class C:\n    v = 1\n    def m(self):\n        pass\n    @staticmethod\n    def s():\n        pass\nc = C()\n"
_ENUM = "import enum\nclass E(enum.Enum):\n    A = 1\ndef use():\n    return E.A\n"
_SWAP = "prog.old = prog.c; prog.c = prog.C()"
_TEXTS = {
    "repr": "repr(c)",
    "str": "str(c)",
    "ascii": "ascii(c)",
    "format": "format(c)",
    "f-string": "f'{c}'",
    "conversion in an f-string": "f'{c!r:>90}'",
    "format method": "'{}'.format(c)",
    "format of a mapping": "'{c}'.format_map({'c': c})",
    "remainder": "'%s' % c",
    "remainder of a format that is a value": "FORMAT % c",
    "remainder in place": "in_place()",
    "map": "list(map(str, [c]))",
    "key of a sort": "sorted([c], key=repr), repr(c)",
    "method": "c.__repr__()",
    "method of object": "object.__repr__(c)",
    "method under a name that is a value": "getattr(c, '__re' + 'pr__')()",
    "alias": "text(c)",
    "list": "str([c])",
    "dictionary": "str({1: (c,)})",
    "template": "string.Template('$c').substitute(c=c)",
    "bound method": "repr(c.m)",
    "method of a class": "repr(C.s)",
    "method that is an attribute": "repr(type(c).s)",
    "caught exception": "caught()",
    "result of a helper": "f'{same(c)}'",
    "attribute of a helper": "str(same.c)",
    "default": "str(default())",
    "item": "f'{TABLE[0]}'",
    "attribute of an object": "f'{holder.c}'",
    "data class": "str(data)",
    "partial": "str(part)",
    "own text": "repr(own)",
    "alias of an own text": "Own.__dict__ and show(own)",
}
_MAKERS = (
    "import dataclasses, functools, string\nFORMAT = '%s'\ntext = str\ndef same(x):\n    return x\nsame.c = c\ndef default(x=c):\n    return x\n"
    "TABLE = [c]\nclass H:\n    def __repr__(self):\n        return 'H'\nholder = H()\nholder.c = c\n@dataclasses.dataclass\nclass D:\n    c: object\n"
    "data = D(c)\npart = functools.partial(same, c)\nclass Own:\n    def __init__(self, c):\n        self.c = c\n    def __repr__(self):\n        return f'<{self.c}>'\n"
    "own = Own(c)\nshow = Own.__repr__\ndef caught():\n    try:\n        raise ValueError(f'{c}')\n    except ValueError as e:\n        return e.args[0]\n"
    "def in_place():\n    t = '%r'\n    t %= c\n    return t\n"
)
_EVERYWHERE = (
    "prog.old = prog.c; prog.c = c = prog.C(); prog.same.c = c; prog.default.__defaults__ = (c,); prog.TABLE[0] = c; prog.holder.c = c; "
    "prog.data.c = c; prog.part = prog.functools.partial(prog.same, c); prog.own.c = c; prog.C.s = staticmethod(lambda: None)"
)


def _texts() -> list[Way]:
    # The text of the object at import tells whether the present one has another address.
    return [
        Way(f"address in a text by {name}", f"{_OBJECT}{_MAKERS}FIRST = None\ndef now():\n    return {text}\nFIRST = now()\n", "now() == FIRST", (_EVERYWHERE,), edits=False)
        for name, text in _TEXTS.items()
    ]  # fmt: skip


def _functions() -> list[Way]:
    table = "def f():\n    pass\nT = {'f': f}\nFIRST = str(f)\n"
    again = "import types; f = prog.f; prog.f = types.FunctionType(f.__code__, f.__globals__, f.__name__); prog.f.__qualname__ = f.__qualname__; prog.f.__module__ = f.__module__; prog.T['f'] = prog.f"
    return [
        Way("address of a function", table, "str(f) == FIRST", (again,), edits=False),
        Way("address of a function in a table", table, "f\"{T['f']}\" == FIRST", (again,), edits=False),
        Way("address of a method that is read", "class K:\n    def __repr__(self):\n        return 'k'\n    def f(self):\n        pass\nFIRST = str(K.f)\nk = K\n", "str(k.f) == FIRST", ("import types; f = prog.K.f; prog.K.f = types.FunctionType(f.__code__, f.__globals__); prog.K.f.__qualname__ = f.__qualname__; prog.K.f.__module__ = f.__module__",), edits=False),
        Way("address of a builtin method", "L = []\nFIRST = str(L.append)\n", "str(L.append) == FIRST", ("prog.old = prog.L; prog.L = []",), edits=False),
        Way("address of a factory in a field", "import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: list = dataclasses.field(default_factory=lambda: [])\nfield = dataclasses.fields(D)[0]\nFIRST = repr(field)\n", "repr(dataclasses.fields(D)) == '(' + FIRST + ',)'", ("import types; f = prog.field.default_factory; prog.field.default_factory = types.FunctionType(f.__code__, f.__globals__)",), edits=False),
    ]  # fmt: skip


def _macros() -> list[Way]:
    """Those of a macro, and of the function that it has."""
    setup = (
        "import tilelang.language as TL\ndef f(x):\n    return x\nm = TL.macro(f)\nclass H:\n    pass\nh = H()\nh.m = m\n"
        "def show(x):\n    return str(x.function)\n"
    )
    again = (
        "import types; f = prog.f; prog.f = types.FunctionType(f.__code__, f.__globals__, f.__name__); prog.f.__module__ = f.__module__; "
        "prog.f.__qualname__ = f.__qualname__; prog.m = prog.h.m = prog.TL.macro(prog.f)"
    )
    texts = {
        "itself": "str(m)",
        "its function": "str(m.function)",
        "what it wraps": "f'{m.__wrapped__}'",
        "an item": "str([m.function])",
        "a helper": "show(m)",
        "an attribute of another object": "str(h.m.function)",
        "a name that is a value": "str(getattr(m, 'func' + 'tion'))",
        "its attributes": "str(vars(m)['function'])",
    }
    return [
        Way(f"address of a macro by {name}", f"{setup}def now():\n    return {text}\nFIRST = now()\n", "now() == FIRST", (again,), edits=False)
        for name, text in texts.items()
    ]  # fmt: skip


def _sets() -> list[Way]:
    pair = "class C:\n    def __init__(self, v):\n        self.v = v\na, b = C(1), C(2)\nORDER = [x.v for x in {a, b}]\n"
    swap = "ones, twos = [prog.C(1) for _ in range(99)], [prog.C(2) for _ in range(99)]; pool = [(a, b) for a in ones for b in twos]; prog.a, prog.b = next(p for p in pool if [x.v for x in set(p)] != [x.v for x in {prog.a, prog.b}]); prog.pool = pool"
    return [
        Way("place in a set", pair, "[x.v for x in {a, b}] == ORDER", (swap,), edits=False),
        Way("place in a set that a call makes", pair, "[x.v for x in frozenset((a, b))] == ORDER", (swap,), edits=False),
        Way("place in a set of functions", "def build(v):\n    def f():\n        return v\n    return f\nC = build\na, b = build(1), build(2)\nORDER = [f() for f in {a, b}]\n", "[f() for f in {a, b}] == ORDER", ("ones, twos = [prog.C(1) for _ in range(99)], [prog.C(2) for _ in range(99)]; pool = [(a, b) for a in ones for b in twos]; prog.a, prog.b = next(p for p in pool if [f() for f in set(p)] != [f() for f in {prog.a, prog.b}]); prog.pool = pool",), edits=False),
        Way("address of an object of a class in a function", "def build(v=[]):\n    class L:\n        pass\n    v.append(L())\n    return str(v[-1])\n", "build()", ("pass",), edits=False),
        Way("address of an object of an enumeration's class", _ENUM + "def build(v=[]):\n    v.append(E._member_type_())\n    return str(v[-1])\n", "build()", ("pass",), edits=False),
        Way("address of an object of an enumeration's class by name", _ENUM + "def build(v=[]):\n    v.append(getattr(E, '_member' + '_type_')())\n    return str(v[-1])\n", "build()", ("pass",), edits=False),
        Way("address as a hash", _OBJECT + "FIRST = hash(c)\n", "hash(c) == FIRST", (_SWAP,), edits=False),
        Way("address as an identity", _OBJECT + "FIRST = id(c)\n", "id(c) == FIRST", (_SWAP,), edits=False),
        Way("address by the method of a hash", _OBJECT + "FIRST = hash(c)\n", "c.__hash__() == FIRST", (_SWAP,), edits=False),
    ]  # fmt: skip


def _cached() -> list[Way]:
    cached = "import functools\n@functools.{}\ndef g():\n    return [@V@]\nL = [@V@]\nclass H:\n    pass\nh = H()\nh.l = L\ndef through(x):\n    x[0] += 1\n    r = g()[0]\n    x[0] -= 1\n    return r\n"
    return [
        Way(f"list of a function with {kind} in {place}", cached.format(kind), f"through({read})", (change,), edits=False)
        for kind in ("cache", "lru_cache(4)")
        for place, read, change in (("a variable", "L", "prog.L = prog.g()"), ("an attribute", "h.l", "prog.h.l = prog.g()"))
    ]


ADDRESS_WAYS = [*_texts(), *_functions(), *_macros(), *_sets(), *_cached()]
