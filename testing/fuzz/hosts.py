"""Host code around the kernels of a program: loops and branches, integer arguments, named values."""

from __future__ import annotations

from dataclasses import dataclass

from testing.fuzz.draw import Draw
from testing.fuzz.scope import Axis
from testing.fuzz.tree import Host


@dataclass(frozen=True)
class Surroundings:
    """Host code around one kernel.

    Attributes:
        lines: the enclosing loops and branches, outermost first.
        axes: the variables of the enclosing loops.
        values: names of small integers that are in scope.
        trips: an upper bound on how often the kernel runs.
    """

    lines: tuple[Host, ...] = ()
    axes: tuple[Axis, ...] = ()
    values: tuple[str, ...] = ()
    trips: int = 1


def surroundings(draw: Draw, kernels: int) -> list[Surroundings]:
    """Host code around each of ``kernels`` kernels; often none."""
    if not draw.chance(0.3):
        return [Surroundings()] * kernels
    for _ in range(draw.pick([0, 1, 1, 2])):
        draw.argument()
    loop = _loop(draw) if draw.chance(0.65) else Surroundings()
    first = draw.random.randrange(kernels)
    found = [loop if number >= first else Surroundings() for number in range(kernels)]
    if draw.chance(0.6) or not loop.lines:
        found = _with_branch(draw, found, draw.random.randrange(kernels))
    return found


def _loop(draw: Draw) -> Surroundings:
    """A loop with a small trip count, which may be known only when the program is called."""
    name = draw.name("k")
    bounds = {"T.serial(2)": "2", "range(3)": "3", "range(2, -1, -1)": "3", "T.serial(1, G + 1)": "4", "range(G)": "G"}
    bounds |= {f"T.serial({scalar})": "4" for scalar in draw.whole}
    text = draw.pick(list(bounds))
    lines = (Host(f"for {name} in {text}:", without=f"{name} = 0"),)
    if not draw.chance(0.3):
        return Surroundings(lines, (Axis(name, bounds[text]),), trips=4)
    value = draw.name("h")
    line = f"{value} = ({name} + {draw.pick([*draw.whole, '2'])}) % 4"
    return Surroundings((*lines, Host(line, without=line)), (Axis(name, bounds[text]),), (value,), 4)


def _with_branch(draw: Draw, around: list[Surroundings], number: int) -> list[Surroundings]:
    """Puts one kernel, and perhaps the next one, into the branches of an ``if``."""
    chosen = around[number]
    branch = Host(f"if {_condition(draw, chosen)}:")
    found = list(around)
    found[number] = _inside(chosen, branch)
    if number + 1 < len(around) and around[number + 1] == chosen and draw.chance(0.6):
        found[number + 1] = _inside(chosen, Host(branch.line, draw.chance(0.7)))
    return found


def _inside(chosen: Surroundings, branch: Host) -> Surroundings:
    return Surroundings((*chosen.lines, branch), chosen.axes, chosen.values, chosen.trips)


def _condition(draw: Draw, chosen: Surroundings) -> str:
    """A condition that the host evaluates or, if it reads an element of an input, each kernel."""
    numbers = [*["G"] * draw.dynamic, *draw.whole, *chosen.values, *(axis.name for axis in chosen.axes)] * 2
    texts = []
    for _ in range(draw.pick([1, 1, 2])):
        number = draw.pick([*numbers, _element(draw)])
        texts.append(draw.pick(["{} > 1", "{} % 2 == 0", "{} != 2", "{} <= 1", "not {} >= 1"]).format(number))
    return draw.pick([" and ", " or "]).join(texts)


def _element(draw: Draw) -> str:
    tensor = draw.input(("G",), draw.pick(["int32", "int32", "int8"]))
    return f"{tensor.name}[{draw.pick(['0', 'G - 1'])}]"
