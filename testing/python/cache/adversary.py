"""Programs whose kernel changes although the call looks the same: each names an edit of the source and the same change
made inside a running process."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tilelang.dtypes

FACTORY = "def make(n):\n    {body}\n"


@dataclass(frozen=True)
class Case:
    """One way to change a kernel.

    Attributes:
        name: also the directory of its modules.
        prog: the module with ``make``; ``{lib}`` stands for the case's second module.
        lib: the second module.
        edit: (module, old text, new text) between two processes; None where there is nothing to edit.
        mutate: statements for the same change within a process; ``prog`` and ``lib`` are the modules.
        args: the call's arguments, as an expression over ``prog`` and ``lib``.
        args_after: the same after the change.
        environment: variables set in the second process, and by ``mutate``.
    """

    name: str
    prog: str
    edit: tuple[str, str, str] | None = None
    mutate: str = ""
    lib: str = ""
    args: str = "(64,)"
    args_after: str | None = None
    environment: tuple[tuple[str, str], ...] = ()


CASES = [
    Case("global_", "N = 4\n\ndef make(n):\n    return n + N\n", ("prog", "N = 4", "N = 5"), "prog.N = 5"),
    Case(
        "global_of_helper_of_helper",
        "from {lib} import outer\n\ndef make(n):\n    return outer(n)\n",
        ("lib", "K = 1", "K = 2"),
        "lib.K = 2",
        "K = 1\n\ndef inner(n):\n    return n + K\n\ndef outer(n):\n    return inner(n)\n",
    ),
    Case(
        "closure_cell",
        "def build(k):\n    def make(n):\n        return n + k\n    return make\n\nmake = build(1)\n",
        ("prog", "build(1)", "build(2)"),
        "prog.make.__closure__[0].cell_contents = 2",
    ),
    Case(
        "closure_cell_below",
        "def build(k):\n    def make(n):\n        def body():\n            return k\n        return body\n    return make\n\n"
        "make = build(1)\n",
        ("prog", "build(1)", "build(1.0)"),
        "prog.make.__closure__[0].cell_contents = 1.0",
    ),
    Case(
        "default_argument",
        "def make(n, k=1):\n    return n + k\n",
        ("prog", "k=1", "k=2"),
        "prog.make.__defaults__ = (2,)",
    ),
    Case(
        "keyword_default",
        "def make(n, *, k=1):\n    return n + k\n",
        ("prog", "k=1", "k=2"),
        "prog.make.__kwdefaults__['k'] = 2",
    ),
    Case("list_argument", FACTORY.format(body="return n"), None, "", args="([1, 2],)", args_after="([1, 3],)"),
    Case(
        "nested_list_argument",
        FACTORY.format(body="return n"),
        args="([[1], 2],)",
        args_after="([[True], 2],)",
    ),
    Case(
        "dataclass_argument",
        "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    m: int\n    n: int = 2\n\n"
        "def make(n):\n    return n\n",
        args="(prog.Config(1),)",
        args_after="(prog.Config(3),)",
    ),
    Case(
        "dataclass_default",
        "from dataclasses import dataclass\n\n@dataclass\nclass Config:\n    m: int\n    n: int = 2\n\n"
        "def make(n):\n    return Config(n).n\n",
        ("prog", "n: int = 2", "n: int = 3"),
        "prog.Config.__init__.__defaults__ = (3,)",
    ),
    Case(
        "body_of_imported_helper",
        "from {lib} import helper\n\ndef make(n):\n    return helper(n)\n",
        ("lib", "n + 1", "n + 2"),
        "lib.helper.__code__ = (lambda n: n + 2).__code__",
        "def helper(n):\n    return n + 1\n",
    ),
    Case(
        "helper_replaced_in_its_module",
        "import {lib}\n\ndef make(n):\n    return {lib}.helper(n)\n",
        ("lib", "n + 1", "n - 1"),
        "lib.helper = lambda n: n - 1",
        "def helper(n):\n    return n + 1\n",
    ),
    Case(
        "local_import",
        "def make(n):\n    from {lib} import WIDTH\n    return n + WIDTH\n",
        ("lib", "8", "16"),
        "lib.WIDTH = 16",
        "WIDTH = 8\n",
    ),
    Case(
        "local_import_of_module",
        "def make(n):\n    import {lib} as other\n    return n + other.WIDTH\n",
        ("lib", "8", "16"),
        "lib.WIDTH = 16",
        "WIDTH = 8\n",
    ),
    Case(
        "method",
        "class Tile:\n    def size(self, n):\n        return n * 2\n\ntile = Tile()\n\ndef make(n):\n    return tile.size(n)\n",
        ("prog", "n * 2", "n * 4"),
        "prog.Tile.size = lambda self, n: n * 4",
    ),
    Case(
        "method_of_base",
        "class Base:\n    def size(self, n):\n        return n * 2\n\nclass Tile(Base):\n    pass\n\n"
        "def make(n):\n    return Tile().size(n)\n",
        ("prog", "n * 2", "n * 4"),
        "prog.Base.size = lambda self, n: n * 4",
    ),
    Case(
        "instance_attribute",
        "class Tile:\n    def __init__(self):\n        self.n = 1\n\ntile = Tile()\n\ndef make(n):\n    return tile.n\n",
        ("prog", "self.n = 1", "self.n = 2"),
        "prog.tile.n = 2",
    ),
    Case(
        "slot",
        "class Tile:\n    __slots__ = ('n',)\n    def __init__(self):\n        self.n = 1\n\ntile = Tile()\n\n"
        "def make(n):\n    return tile.n\n",
        ("prog", "self.n = 1", "self.n = 2"),
        "prog.tile.n = 2",
    ),
    Case(
        "class_attribute",
        "class Tile:\n    N = 1\n\ndef make(n):\n    return Tile.N\n",
        ("prog", "N = 1", "N = 2"),
        "prog.Tile.N = 2",
    ),
    Case(
        "property_",
        "class Tile:\n    @property\n    def n(self):\n        return 1\n\ntile = Tile()\n\ndef make(n):\n    return tile.n\n",
        ("prog", "return 1", "return 2"),
        "prog.Tile.n = property(lambda self: 2)",
    ),
    Case(
        "environment_variable",
        "import os\n\ndef make(n):\n    return n if os.environ.get('KERNEL_MODE') else -n\n",
        None,
        "os.environ['KERNEL_MODE'] = 'fast'",
        environment=(("KERNEL_MODE", "fast"),),
    ),
    Case(
        "environment_by_getenv",
        "from os import getenv\n\ndef make(n):\n    return n + int(getenv('KERNEL_UNROLL', '1'))\n",
        None,
        "os.environ['KERNEL_UNROLL'] = '4'",
        environment=(("KERNEL_UNROLL", "4"),),
    ),
    Case(
        "environment_subscript",
        "import os\n\ndef make(n):\n    if 'KERNEL_WAYS' in os.environ:\n        return os.environ['KERNEL_WAYS']\n"
        "    return n\n",
        None,
        "os.environ['KERNEL_WAYS'] = '2'",
        environment=(("KERNEL_WAYS", "2"),),
    ),
    Case(
        "variable_of_the_compiler",
        FACTORY.format(body="return n"),
        None,
        "os.environ['TILELANG_CUDA_ARCH'] = 'sm_80'",
        environment=(("TILELANG_CUDA_ARCH", "sm_80"),),
    ),
    Case(
        "list_mutated_in_place",
        "SIZES = [1, 2]\n\ndef make(n):\n    return SIZES[0]\n",
        ("prog", "[1, 2]", "[1, 2, 3]"),
        "prog.SIZES.append(3)",
    ),
    Case(
        "dict_mutated_in_place",
        "SIZES = {'a': [1]}\n\ndef make(n):\n    return SIZES['a'][0]\n",
        ("prog", "[1]", "[7]"),
        "prog.SIZES['a'][0] = 7",
    ),
    Case(
        "set_mutated_in_place",
        "SIZES = {1, 2}\n\ndef make(n):\n    return len(SIZES)\n",
        ("prog", "{1, 2}", "{1, 2, 3}"),
        "prog.SIZES.add(3)",
    ),
    Case(
        "array_mutated_in_place",
        "import numpy\n\nTABLE = numpy.array([1, 2])\n\ndef make(n):\n    return TABLE[0]\n",
        ("prog", "[1, 2]", "[3, 2]"),
        "prog.TABLE[0] = 3",
    ),
    Case(
        "builtin_shadowed_later",
        "def make(n):\n    return max(n, 2)\n",
        ("prog", "def make", "def max(a, b):\n    return a\n\ndef make"),
        "prog.max = lambda a, b: a",
    ),
    Case(
        "partial",
        "from functools import partial\n\ndef add(a, b):\n    return a + b\n\nhelper = partial(add, 1)\n\n"
        "def make(n):\n    return helper(n)\n",
        ("prog", "add, 1", "add, 2"),
        "from functools import partial; prog.helper = partial(prog.add, 2)",
    ),
    Case(
        "lambda_",
        "double = lambda n: n * 2\n\ndef make(n):\n    return double(n)\n",
        ("prog", "n * 2", "n * 3"),
        "prog.double = lambda n: n * 3",
    ),
    Case(
        "lambda_in_dict",
        "OPS = {'relu': lambda x: max(x, 0)}\n\ndef make(n):\n    return OPS['relu'](n)\n",
        ("prog", "max(x, 0)", "min(x, 0)"),
        "prog.OPS['relu'] = lambda x: min(x, 0)",
    ),
    Case(
        "int_becomes_float",
        "N = 1\n\ndef make(n):\n    return N\n",
        ("prog", "N = 1", "N = 1.0"),
        "prog.N = 1.0",
    ),
    Case(
        "int_becomes_bool",
        "N = 1\n\ndef make(n):\n    return N\n",
        ("prog", "N = 1", "N = True"),
        "prog.N = True",
    ),
    Case(
        "zero_changes_sign",
        "N = 0.0\n\ndef make(n):\n    return N\n",
        ("prog", "0.0", "-0.0"),
        "prog.N = -0.0",
    ),
    Case("argument_one_or_true", FACTORY.format(body="return n"), args="(1,)", args_after="(True,)"),
    Case("argument_one_or_float", FACTORY.format(body="return n"), args="(1,)", args_after="(1.0,)"),
    Case("argument_zero_sign", FACTORY.format(body="return n"), args="(0.0,)", args_after="(-0.0,)"),
    Case(
        "nan_becomes_inf",
        "N = float('nan')\n\ndef make(n):\n    return N\n",
        ("prog", "nan", "inf"),
        "prog.N = 1e999",
    ),
    Case(
        "numpy_scalar",
        "import numpy\n\nN = numpy.int32(1)\n\ndef make(n):\n    return N\n",
        ("prog", "int32", "int64"),
        "prog.N = prog.numpy.int64(1)",
    ),
    Case(
        "equal_but_different",
        "class Always:\n    def __init__(self, n):\n        self.n = n\n    def __eq__(self, other):\n        return True\n"
        "    def __hash__(self):\n        return 1\n\nvalue = Always(1)\n\ndef make(n):\n    return value.n\n",
        ("prog", "Always(1)", "Always(2)"),
        "prog.value = prog.Always(2)",
    ),
    Case(
        "enum_value",
        "from enum import Enum\n\nclass Mode(Enum):\n    FAST = 1\n\ndef make(n):\n    return Mode.FAST.value\n",
        ("prog", "FAST = 1", "FAST = 2"),
        "prog.Mode.FAST._value_ = 2",
    ),
    Case(
        "named_tuple",
        "from typing import NamedTuple\n\nclass Tile(NamedTuple):\n    m: int\n    n: int\n\nTILE = Tile(1, 2)\n\n"
        "def make(n):\n    return TILE.m\n",
        ("prog", "Tile(1, 2)", "Tile(2, 1)"),
        "prog.TILE = prog.Tile(2, 1)",
    ),
    Case(
        "simple_namespace",
        "from types import SimpleNamespace\n\nCONFIG = SimpleNamespace(m=1)\n\ndef make(n):\n    return CONFIG.m\n",
        ("prog", "m=1", "m=2"),
        "prog.CONFIG.m = 2",
    ),
    Case(
        "local_annotation",
        "M = 1\n\ndef make(n):\n    def body(A):\n        A: Tensor((M,), 'float16')\n        return A\n    return body\n",
        ("prog", "float16", "float32"),
        "prog.M = 2",
    ),
    Case(
        "global_only_in_annotation",
        "import types\n\nshapes = types.SimpleNamespace(m=1)\n\ndef make(A):\n    A: (shapes.m, 1)\n    return A\n",
        ("prog", "m=1", "m=2"),
        "prog.shapes.m = 2",
    ),
    Case(
        "function_attribute",
        "def helper(n):\n    return n\n\nhelper.ways = 1\n\ndef make(n):\n    return helper.ways\n",
        ("prog", "ways = 1", "ways = 2"),
        "prog.helper.ways = 2",
    ),
    Case(
        "function_as_argument",
        "def one(n):\n    return n + 1\n\ndef make(n):\n    return n(1)\n",
        ("prog", "n + 1", "n + 2"),
        "prog.one.__code__ = (lambda n: n + 2).__code__",
        args="(prog.one,)",
    ),
    Case(
        "own_function_replaced",
        "import tilelang.dtypes as T\n\ndef make(n):\n    return T.helper_of_this_test(n)\n",
        None,
        "import tilelang.dtypes as T; T.helper_of_this_test = lambda n: n",
    ),
    Case(
        "object_that_stands_for_functions",
        "class Macro:\n    def __init__(self, f):\n        self.f = f\n    def __tilelang_fingerprint__(self):\n"
        "        return (self.f,)\n\n@Macro\ndef macro(n):\n    return n + 1\n\ndef make(n):\n    return macro.f(n)\n",
        ("prog", "n + 1", "n + 2"),
        "prog.macro.f = lambda n: n + 2",
    ),
]

REFUSED = {
    # name -> (program, what the reason says)
    "random": ("import random\n\ndef make(n):\n    return random.random()\n", "random"),
    "clock": ("import time\n\ndef make(n):\n    return time.time()\n", "time.time"),
    "cpu_count": ("import os\n\ndef make(n):\n    return os.cpu_count()\n", "os.cpu_count"),
    "environment_by_variable": (
        "import os\n\ndef make(n):\n    return os.environ[n]\n",
        "environment variable",
    ),
    "whole_environment": ("import os\n\ndef make(n):\n    return dict(os.environ)\n", "environment variable"),
    "file": ("def make(n):\n    return open('/etc/hostname').read()\n", "open"),
    "globals": ("def make(n):\n    return globals()['x']\n", "globals"),
    "eval": ("def make(n):\n    return eval('1')\n", "eval"),
    "module_passed_on": (
        "import re, sys\n\ndef make(n):\n    return getattr(sys, 'maxsize')\n",
        "module sys",
    ),
    "generator": ("numbers = iter([1, 2])\n\ndef make(n):\n    return next(numbers)\n", "list_iterator"),
    "lock": ("import threading\n\nlock = threading.Lock()\n\ndef make(n):\n    return lock\n", "lock"),
    "lru_cache": (
        "from functools import lru_cache\n\n@lru_cache\ndef helper(n):\n    return n\n\ndef make(n):\n    return helper(n)\n",
        "cache of its own",
    ),
    "numpy_random": ("import numpy\n\ndef make(n):\n    return numpy.random.rand()\n", "rand"),
    "pattern": ("import re\n\nvalue = re.compile('a')\n\ndef make(n):\n    return value\n", "re.Pattern"),
}


def write(folder: Path, case_name: str, prog: str, lib: str = "") -> None:
    """Writes the case's modules."""
    (folder / f"{case_name}_prog.py").write_text(prog.replace("{lib}", f"{case_name}_lib"))
    (folder / f"{case_name}_lib.py").write_text(lib)


@contextmanager
def imported(folder: Path) -> Iterator[None]:
    """Modules of ``folder`` can be imported; they are forgotten at the end."""
    before = set(sys.modules)
    environment = dict(os.environ)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and str(folder) in sys.modules[name].__file__:
                del sys.modules[name]
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        vars(tilelang.dtypes).pop("helper_of_this_test", None)


def modules(name: str) -> tuple[ModuleType, ModuleType]:
    """(prog, lib) of a case."""
    return importlib.import_module(f"{name}_prog"), importlib.import_module(f"{name}_lib")


def arguments(expression: str, prog: ModuleType, lib: ModuleType) -> Any:
    """The arguments of a case's call."""
    return eval(expression, {"prog": prog, "lib": lib})


def main() -> None:
    """Prints, as JSON, the source key of every case in the folder ``argv[1]``; ``argv[2]`` is ``after`` for the changed
    arguments and environment."""
    import json

    from tilelang.cache import source_key
    from tilelang.cache.fingerprint import Fingerprint
    from tilelang.cache.source_key import FunctionTracker

    source_key.compiler_fingerprint = lambda memo_file: Fingerprint((), True)
    folder, after = Path(sys.argv[1]), sys.argv[2] == "after"
    found = {}
    with imported(folder):
        for case in CASES:
            os.environ.update(case.environment if after else ())
            prog, lib = modules(case.name)
            args = arguments(case.args_after if after and case.args_after else case.args, prog, lib)
            key = FunctionTracker(prog.make).source_key(args, {}).traced(None)
            found[case.name] = [key.digest, key.reason]
            for name, _ in case.environment:
                os.environ.pop(name, None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
