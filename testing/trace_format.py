"""Says what breaks the trace event format, as Chrome and Perfetto read it: complete events (``X``) and metadata (``M``)."""

from __future__ import annotations

import math
from typing import Any

_METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def problems(trace: dict[str, Any]) -> list[str]:
    """What is wrong with a trace (a JSON object); empty where nothing is."""
    events = trace["traceEvents"]
    return [*filter(None, map(_of_event, events)), *_of_names(events), *_of_nesting(events)]


def _of_event(event: dict[str, Any]) -> str:
    if not (isinstance(event.get("name"), str) and isinstance(event.get("pid"), int) and isinstance(event.get("tid"), int)):
        return f"an event without a name, a process or a thread: {event}"
    if event["ph"] == "M":
        return "" if _METADATA.get(event["name"]) in event["args"] else f"unknown metadata: {event}"
    if event["ph"] != "X":
        return f"an event of another phase: {event}"
    times = (event.get("ts"), event.get("dur"))
    good = all(isinstance(time, (int, float)) and math.isfinite(time) and time >= 0 for time in times)
    return "" if good else f"no times: {event}"


def _of_names(events: list[dict[str, Any]]) -> list[str]:
    named = [(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"]
    unnamed = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"} - set(named)
    return [f"a thread without a name: {thread}" for thread in unnamed] + ["a name twice"] * (len(named) - len(set(named)))


def _of_nesting(events: list[dict[str, Any]], slack: float = 1e-6) -> list[str]:
    """Slices of one thread that overlap without one being inside of the other."""
    found: list[str] = []
    threads: dict[tuple[int, int], list[tuple[float, float, str]]] = {}
    for event in (event for event in events if event["ph"] == "X"):
        slices = threads.setdefault((event["pid"], event["tid"]), [])
        slices.append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for slices in threads.values():
        around: list[float] = []
        for start, end, name in sorted(slices, key=lambda item: (item[0], -item[1])):
            while around and around[-1] <= start + slack:
                around.pop()
            if around and end > around[-1] + slack:
                found.append(f"{name} at {start} ends after the slice around it")
            around.append(end)
    return found
