"""What a solve to a fixed point has still to look at."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any


class Worklist:
    """Items of which some are marked to be visited, in their order; at first all are.

    A solve that visits only what may have changed takes the same decisions as one that visits everything each time, as long as
    visiting an item twice without a mark in between gives the same.
    """

    def __init__(self, items: Iterable[Any]):
        self.items = list(items)
        self.places = {item: place for place, item in enumerate(self.items)}
        self.due = list(range(len(self.items)))
        self.marked = set(self.due)

    def mark(self, items: Iterable[Any]) -> None:
        """Items to visit (again)."""
        for item in items:
            place = self.places[item]
            if place not in self.marked:
                self.marked.add(place)
                heapq.heappush(self.due, place)

    def sweep(self) -> Iterator[Any]:
        """The marked items; one that is marked meanwhile comes in this sweep if it lies ahead, in the next one if behind."""
        behind, last = [], -1
        while self.due:
            place = heapq.heappop(self.due)
            if place <= last:
                behind.append(place)
                continue
            last = place
            self.marked.discard(place)
            yield self.items[place]
        self.due = behind
