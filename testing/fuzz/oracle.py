"""What a program means: by the interpreter of the language, or, where it has none, by what most targets agree on."""

from __future__ import annotations

import torch

from testing.fuzz.outcome import Outcome


def majority(results: dict[str, tuple[Outcome, list[torch.Tensor]]]) -> list[torch.Tensor] | None:
    """The tensors that most targets have."""
    groups: list[list[list[torch.Tensor]]] = []
    for _, tensors in results.values():
        if not tensors:
            continue
        for group in groups:
            if all(torch.equal(a, b) for a, b in zip(group[0], tensors)):
                group.append(tensors)
                break
        else:
            groups.append([tensors])
    return max(groups, key=len)[0] if groups else None
