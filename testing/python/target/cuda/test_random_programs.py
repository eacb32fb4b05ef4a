"""Random programs over everything that tiles can do: Ampere and Hopper on the simulator, checkers on, and the CPU agree."""

from __future__ import annotations

import pytest
import torch

import tilelang
from testing.python.target.cuda.random_programs import RandomProgram
from testing.python.target.cuda.random_wide import WideProgram
from testing.python.target.cuda.support import simulate

SEEDS = {
    RandomProgram: {"sm_80": (0, 2, 3, 5, 28, 144), "sm_90a": (7, 8, 10, 13)},
    WideProgram: {"sm_80": (9,), "sm_90a": (2, 11)},
}


@pytest.mark.property
@pytest.mark.parametrize(
    "kind, arch, seed",
    [(kind, arch, seed) for kind, archs in SEEDS.items() for arch, seeds in archs.items() for seed in seeds],
)
def test_agrees_with_the_cpu(kind, arch, seed, tmp_path):
    random_program = kind(seed)
    expected, found = random_program.tensors(), random_program.tensors()
    tilelang.compile(random_program.build(tmp_path), target="cpu")(*expected)
    simulate(random_program.build(tmp_path, split=True), *found, arch=arch)
    for (name, _, _), ours, wanted in zip(random_program.arguments, found, expected):
        assert torch.equal(ours, wanted), f"{name}\n{random_program.source}"


def test_a_seed_is_a_program():
    assert RandomProgram(3).source == RandomProgram(3).source != RandomProgram(4).source
