"""Where workloads are measured: a scratch database, emptied before each measurement, and a crew that fits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from django.core.management.base import CommandError

from orchestrator.bench.crew import Crew, Shape
from orchestrator.bench.meters import SQL, Figures, Meter
from orchestrator.bench.profile import Profile, ProfiledMeter
from orchestrator.conf import conf
from workflows.services.starting import StartRequest, start

_MOST_SECONDS = 900.0
_GLANCE_SECONDS = 0.01


class Stage:
    """The database of a bench and the crew on it; `scale` multiplies every size."""

    def __init__(self, url: str, scale: float = 1.0, *, profiled: bool = False) -> None:
        self.url = url
        self.scale = scale
        self.profiles: list[Profile] | None = [] if profiled else None
        """What the meters of a profiled stage found, the latest last."""
        self.admin = psycopg.connect(url, autocommit=True)
        self._crew: Crew | None = None
        self._warm: set[str] = set()
        """Workflows that this crew has run: what it remembers of a definition is there already."""

    def close(self) -> None:
        self._dismiss()
        self.admin.close()

    def size(self, full: int, least: int = 1) -> int:
        """A size at this scale."""
        return max(least, round(full * self.scale))

    def crew(self, shape: Shape) -> Crew:
        """The crew of a shape on empty tables; another one is dismissed."""
        if self._crew is None or self._crew.shape != shape:
            self._dismiss()
            self.empty()
            self._warm = set()
            self._crew = Crew(shape).__enter__()
        return self._crew

    def _dismiss(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.__exit__()

    def empty(self) -> None:
        """Remove all runs; definitions stay."""
        self.admin.execute(SQL["empty"])

    def analyze(self) -> None:
        """What a server that has been up for a minute knows of its tables."""
        self.admin.execute(SQL["analyze"])

    def meter(self, roles: Mapping[str, Sequence[int]]) -> Meter:
        """A meter of these processes."""
        if self.profiles is None:
            return Meter(self.admin, roles)
        return ProfiledMeter(self.admin, roles, self.profiles)

    def drive(self, shape: Shape, name: str, inputs: Sequence[dict[str, Any]]) -> Figures:
        """Start a run for each input, then let the crew work them off; the figures are for each task."""
        crew = self.crew(shape)
        if len(inputs) > 1 and name not in self._warm:
            self._warm.add(name)
            self._load(name, inputs[: 4 * shape.deciders])
            with crew.working():
                self.wait_for_ends(crew)
        self._load(name, inputs)
        with self.meter(crew.pids()) as meter, crew.working():
            self.wait_for_ends(crew)
        return meter.figures(self.finished())

    def _load(self, name: str, inputs: Sequence[dict[str, Any]]) -> None:
        self.empty()
        for given in inputs:
            self.start(name, given)
        self.analyze()

    def start(self, name: str, given: dict[str, Any] | None = None) -> None:
        """Start a run."""
        start(StartRequest(name, namespace=conf().DEFAULT_NAMESPACE, input=given or {}))

    def wait_for_ends(self, crew: Crew) -> None:
        """Until every run has ended; raises CommandError when the crew died or time is over."""
        deadline = time.monotonic() + _MOST_SECONDS
        while self.unended():
            crew.check()
            if time.monotonic() > deadline:
                raise CommandError(f"bench: not done after {_MOST_SECONDS:.0f} s")
            time.sleep(_GLANCE_SECONDS)

    def unended(self) -> bool:
        """Whether a run goes on."""
        return self.admin.execute(SQL["unended"]).fetchone() != (False,)

    def finished(self) -> int:
        """The number of tasks; raises CommandError unless every run is COMPLETED: other figures would mean nothing."""
        bad, tasks = (self._number(name) for name in ("not_completed", "tasks"))
        if bad:
            raise CommandError(f"bench: {bad} runs did not complete")
        return tasks

    def _number(self, name: str) -> int:
        row = self.admin.execute(SQL[name]).fetchone()
        assert row is not None
        return int(row[0])
