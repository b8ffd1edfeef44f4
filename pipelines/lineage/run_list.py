"""The runs of all pipelines in a store of ML Metadata, or those that datasets tell of.

print(Runs(metadata="runs/metadata.sqlite", executions=executions))
"""

import dataclasses
import functools
from collections.abc import Sequence

from pipelines.lineage.datasets import RUN_UNKNOWN
from pipelines.lineage.graph import Execution
from trainer_utils.format.json_text import JsonObject
from trainer_utils.text_output import as_text

__all__ = ["Run", "Runs"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a pipeline; without a name, executions that belong to none."""

    name: str | None
    pipeline: str | None
    executions: Sequence[Execution]

    @property
    def state(self) -> str:
        """`FAILED`, `RUNNING`, `CANCELED` or `COMPLETE`; `UNKNOWN` where nothing says."""
        states = {execution.state for execution in self.executions} - {"SKIPPED"}  # a branch
        for state in ("FAILED", "RUNNING", "CANCELED"):
            if state in states:
                return state
        if "NEW" in states:
            return "RUNNING"
        return "COMPLETE" if states and states <= {"COMPLETE", "CACHED"} else "UNKNOWN"

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {
            "run": self.name,
            "pipeline": self.pipeline,
            "state": self.state,
            "started": min((e.started for e in self.executions if e.started), default=None),
            "ended": max((e.ended for e in self.executions if e.ended), default=None),
            "components": [
                {
                    "component": execution.component,
                    "type": execution.type,
                    "execution": execution.id,
                    "state": execution.state,
                    "outputs": {name: list(ids) for name, ids in execution.outputs.items()},
                }
                for execution in self.executions
            ],
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Runs:
    """All runs of a store, or what datasets tell of, the latest first."""

    metadata: str
    executions: Sequence[Execution]
    knows_runs: bool = True

    @functools.cached_property
    def runs(self) -> list[Run]:
        """Those of pipelines, then executions that belong to none."""
        grouped: dict[tuple[str | None, str | None], list[Execution]] = {}
        for execution in self.executions:
            pipeline = execution.pipeline if execution.run else None
            grouped.setdefault((execution.run, pipeline), []).append(execution)
        runs = [Run(name=n, pipeline=p, executions=some) for (n, p), some in grouped.items()]
        return sorted(reversed(runs), key=lambda run: run.name is None)

    def to_json(self) -> JsonObject:
        """Plain JSON types."""
        return {"metadata": self.metadata, "runs": [run.to_json() for run in self.runs]}

    def __str__(self) -> str:
        lines = [] if self.runs else [f"{self.metadata}: no run"]
        without_run = "(of no run)" if self.knows_runs else f"(run {RUN_UNKNOWN})"
        for run in self.runs:
            told = run.to_json()
            pipeline = f" of {run.pipeline}" if run.pipeline else ""
            times = f", {told['started']} to {told['ended']}" if told["started"] else ""
            lines.append(f"{run.name or without_run}{pipeline}: {run.state}{times}")
            for each in run.executions:
                number = f" (execution {each.id})" if self.knows_runs else ""
                lines.append(f"  {each.component}{number}: {each.state}")
        return as_text(lines)
