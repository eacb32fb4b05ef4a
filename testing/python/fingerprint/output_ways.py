"""Ways in which receivers of output, limits of Python, or variables of libraries affect the result of a program."""

from __future__ import annotations

import sys

from .ways import Way

_LOG = "import logging\nlog = logging.getLogger('@PKG@')\nlog.setLevel(1)\n"
_CAUGHT = "def helper():\n    try:\n        {0}\n    except KeyError:\n        return 5\n    return 4\n"
_CHANGED = "def helper():\n    d = {'v': 4}\n    log.warning('%s', d)\n    return d['v']\n"
_RAISING = "class {0}({1}):\n    def {2}(self, *a):\n        raise KeyError\n"


def _way(name: str, setup: str, *changes: str) -> Way:
    return Way(name, setup, "helper()", changes, edits=False)


def _loggers() -> list[Way]:
    warns, add = _LOG + _CAUGHT.format("log.warning('x')"), "import logging\n" + _RAISING.format("H", "logging.Handler", "handle")
    changes = "prog.log.{0}Filter(lambda r: r.args.update(v=5) or True)"
    formatter = (
        "import logging\nclass F(logging.Formatter):\n    def format(self, r):\n        r.args['v'] = 5\n        return ''\n"
        "h = logging.StreamHandler(); h.setFormatter(F()); prog.log.addHandler(h)"
    )
    return [
        _way("handler that raises", warns, f"{add}prog.log.addHandler(H())", f"{add}logging.lastResort = H(); prog.log.propagate = False"),
        _way("handler's own method", warns, "import logging\nh = logging.NullHandler()\ndef f(r):\n    raise KeyError\nh.handle = f\nprog.log.addHandler(h)"),
        _way("handler of a logger that is looked up", _LOG + _CAUGHT.format("logging.getLogger('@PKG@').warning('x')"), f"{add}prog.log.addHandler(H())"),
        _way("handler of the logger above", _LOG + "log = logging.getLogger('@PKG@.inner')\n" + _CAUGHT.format("log.warning('x')"), f"{add}prog.log.parent.addHandler(H())"),
        _way("filter that changes what is told", _LOG + _CHANGED, changes.format("add")),
        _way("formatter that changes what is told", _LOG + _CHANGED, formatter),
        _way("record that raises", warns, "import logging\n" + _RAISING.format("R", "logging.LogRecord", "getMessage") + "class Q(R):\n    def __init__(self, *a, **k):\n        raise KeyError\nlogging.setLogRecordFactory(Q)"),
        _way("logger's method replaced", warns, "import logging\ndef f(*a):\n    raise KeyError\nlogging.Logger.handle = f"),
        _way("function of logging replaced", warns, "import logging\ndef f(*a):\n    raise KeyError\nlogging.currentframe = f"),
    ]  # fmt: skip


def _streams() -> list[Way]:
    stream = _RAISING.format("S", "", "write")
    warns = "import warnings\n" + _CAUGHT.format("warnings.warn('x')")
    return [
        _way("stream that raises", _CAUGHT.format("print('x')"), f"import io\n{stream}sys.stdout = S()", f"import io\n{_RAISING.format('S', 'io.StringIO', 'write')}sys.stdout = S()"),
        _way("stream that cannot be encoded to", "def helper():\n    try:\n        print(chr(228))\n    except UnicodeError:\n        return 5\n    return 4\n", "import io; sys.stdout = io.TextIOWrapper(io.BytesIO(), 'ascii', write_through=True)"),
        _way("stream of warnings that raises", warns, f"{stream}import warnings; warnings.simplefilter('always'); sys.stderr = S()"),
        _way("logger of warnings", "import logging\nlogging.captureWarnings(True)\n" + warns, "import logging, warnings; warnings.simplefilter('always')\n" + _RAISING.format("H", "logging.Handler", "handle") + "logging.getLogger('py.warnings').addHandler(H())"),
        _way("format of warnings that raises", warns, "import warnings; warnings.simplefilter('always')\ndef f(*a, **k):\n    raise KeyError\nwarnings.formatwarning = f"),
    ]  # fmt: skip


def _limits() -> list[Way]:
    deep = "def helper(n=0):\n    try:\n        return helper(n + 1)\n    except RecursionError:\n        return n // 500\n"
    digits = "def helper():\n    try:\n        return len(str(10 ** int('5000')))\n    except ValueError:\n        return 4\n"
    nested = "def helper():\n    v = []\n    for _ in range(2000):\n        v = [v]\n    try:\n        return len(repr(v))\n    except RecursionError:\n        return 4\n"
    raised = ("import sys; sys.setrecursionlimit(3000)",)
    ways = [_way("limit of recursion", deep, *raised), _way("limit of recursion in compiled code", nested, *raised)]
    if hasattr(sys, "set_int_max_str_digits"):
        ways.append(_way("limit of digits", digits, "import sys; sys.set_int_max_str_digits(9000)"))
    return ways


def _variables() -> list[Way]:
    dedent = "import textwrap\ndef helper():\n    return textwrap.dedent('  a')\n"
    return [
        _way("variable of a library", dedent, "import textwrap, re; textwrap._leading_whitespace_re = re.compile('(zz)')"),
        _way("function that a library uses", dedent, "import re; re.sub = lambda *a: NEW", "import re; re._compile = lambda *a: re.Pattern"),
        _way("pattern in the cache of re", "import re\ndef helper():\n    return re.sub('q', 'b', 'qq')\n", "import re; [re._cache.update({k: re.compile('zz')}) for k in list(re._cache) if 'q' in k]; getattr(re, '_cache2', {}).clear()"),
        Way("abstract class made concrete", "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def f(self):\n        pass\ndef helper():\n    try:\n        A()\n        return 5\n    except TypeError:\n        return 4\n", "helper()", ("prog.A.__abstractmethods__ = frozenset()",), edits=False),
        _way("builtin that a library uses", "import heapq\ndef helper():\n    return heapq.nlargest(1, [1, 2])\n", "import heapq; heapq.max = lambda *a, **k: 5"),
        _way("variable that a library's class uses", "import fractions\ndef helper():\n    return fractions.Fraction('1/2')\n", "import fractions, re; fractions._RATIONAL_FORMAT = re.compile('x')"),
    ]  # fmt: skip


OUTPUT_WAYS = [*_loggers(), *_streams(), *_limits(), *_variables()]
