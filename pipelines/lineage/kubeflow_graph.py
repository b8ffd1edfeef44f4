"""Artifacts and tasks of Kubeflow's own API as a graph, numbered as ML Metadata numbers its own.

known = KubeflowArtifacts(api)                 # what `locate` asks
graph, numbers = load_graph(api, artifacts)     # what came before and after the first of them
executions = read_tasks(api)               # of all runs

The API has names for things where a store has numbers; these are given in the order of time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipelines.lineage.graph import Artifact, Execution, Graph
from pipelines.lineage.kubeflow_api import KubeflowApi
from pipelines.lineage.location import KnownArtifact
from pipelines.lineage.values import parsed, time_of_text
from trainer_utils.format.json_text import JsonObject

__all__ = ["KubeflowArtifacts", "load_graph", "read_tasks"]

_RUNS_SOMETHING = ("RUNTIME", "IMPORTER", "TASK_TYPE_UNSPECIFIED")  # others group these
_OUTPUTS = ("OUTPUT", "ITERATOR_OUTPUT", "ONE_OF_OUTPUT")
_STATES = {"SUCCEEDED": "COMPLETE", "RUNTIME_STATE_UNSPECIFIED": "UNKNOWN"}  # else alike
_DATASET_URI = "dataset_uri"  # metadata of our steps: where the files are, if not at the uri


class KubeflowArtifacts:
    """The artifacts of a namespace, as `locate` asks for them.

    Args:
        api: to be asked.
    """

    def __init__(self, api: KubeflowApi) -> None:
        self._api = api
        self._documents: dict[str, JsonObject] = {}
        self._numbers: dict[str, int] = {}

    def at(self, uri: str) -> Sequence[KnownArtifact]:
        """The artifacts of exactly this uri, as Kubeflow has it."""
        return self._numbered(self._api.artifacts(uri))

    def everything(self) -> Sequence[KnownArtifact]:
        """All artifacts."""
        return self._numbered(self._api.artifacts())

    def made(self, artifacts: Sequence[KnownArtifact]) -> set[int]:
        """The numbers of those that a task made."""
        names = {number: name for name, number in self._numbers.items()}
        links = self._api.links([names[one.id] for one in artifacts])
        return {self._numbers[link["artifact_id"]] for link in links if link["type"] in _OUTPUTS}

    def documents(self, numbers: Iterable[int]) -> list[JsonObject]:
        """What the API says of artifacts."""
        names = {number: name for name, number in self._numbers.items()}
        return [self._documents[names[number]] for number in numbers]

    def _numbered(self, documents: Iterable[JsonObject]) -> list[Artifact]:
        found = sorted(documents, key=_age_of_artifact)
        self._documents = {one["artifact_id"]: one for one in found}
        self._numbers = {name: number for number, name in enumerate(self._documents, start=1)}
        return [_artifact(one, self._numbers[one["artifact_id"]]) for one in found]


def load_graph(api: KubeflowApi, artifacts: Sequence[JsonObject]) -> tuple[Graph, list[int]]:
    """What came before and after an artifact, over any number of steps and runs.

    Args:
        api: to be asked.
        artifacts: it, then others that are to be numbered with what is found.

    Returns:
        The graph, and the numbers in it of `artifacts`.
    """
    book = _Book(api)
    for document in artifacts:
        book.note(document)
    asked = artifacts[0]["artifact_id"]
    book.follow(asked, towards="outputs", back="inputs")
    book.follow(asked, towards="inputs", back="outputs")
    numbers = _numbers(book.artifacts)
    found = {numbers[name]: _artifact(one, numbers[name]) for name, one in book.artifacts.items()}
    executions = book.executions(book.visited, numbers)
    graph = Graph(found, {execution.id: execution for execution in executions})
    return graph, [numbers[one["artifact_id"]] for one in artifacts]


def read_tasks(api: KubeflowApi) -> list[Execution]:
    """What ran in all runs of the namespace, in the order of time."""
    book = _Book(api)
    tasks = [task for run in api.runs() for task in book.tasks(run["run_id"], run)]
    for document in (one for task in tasks for one in _artifacts(task)):
        book.note(document)
    return book.executions([task["task_id"] for task in tasks], _numbers(book.artifacts))


class _Book:
    """What is known so far, by the API's own names; each run is asked for once."""

    def __init__(self, api: KubeflowApi) -> None:
        self.artifacts: dict[str, JsonObject] = {}
        self.visited: dict[str, None] = {}
        self._api = api
        self._tasks: dict[str, JsonObject] = {}
        self._by_run: dict[str, list[str]] = {}
        self._runs: dict[str, JsonObject] = {}
        self._pipelines: dict[str, str | None] = {}

    def note(self, artifact: JsonObject) -> None:
        """Takes note of an artifact."""
        self.artifacts.setdefault(artifact["artifact_id"], artifact)

    def tasks(self, run: str, document: JsonObject | None = None) -> list[JsonObject]:
        """The tasks of a run that run something themselves."""
        if run not in self._by_run:
            self._runs[run] = document or self._api.run(run) or {"run_id": run}
            tasks = [one for one in self._api.tasks(run) if _runs_something(one)]
            self._tasks |= {one["task_id"]: one for one in tasks}
            self._by_run[run] = [one["task_id"] for one in tasks]
        return [self._tasks[name] for name in self._by_run[run]]

    def follow(self, artifact: str, *, towards: str, back: str) -> None:
        """Visits tasks that have an artifact on one side, and so on with those on the other."""
        frontier, seen = {artifact}, {artifact}
        visited = set[str]()
        while frontier:
            links = self._api.links(sorted(frontier))
            around = [
                t for run in sorted({link["run_id"] for link in links}) for t in self.tasks(run)
            ]
            found = [
                task
                for task in around
                if task["task_id"] not in visited and frontier & _names(task, towards)
            ]
            visited |= {task["task_id"] for task in found}
            for task in found:
                self.visited[task["task_id"]] = None
                for document in _artifacts(task):
                    self.note(document)
            frontier = {name for task in found for name in _names(task, back)} - seen
            seen |= frontier

    def executions(self, tasks: Iterable[str], numbers: Mapping[str, int]) -> list[Execution]:
        """Tasks as executions, in the order of time."""
        ordered = sorted((self._tasks[name] for name in dict.fromkeys(tasks)), key=_age_of_task)
        return [
            self._execution(task, number, numbers) for number, task in enumerate(ordered, start=1)
        ]

    def _execution(self, task: JsonObject, number: int, numbers: Mapping[str, int]) -> Execution:
        run = self._runs[task["run_id"]]
        state = task.get("state") or "UNKNOWN"
        return Execution(
            id=number,
            type=task.get("type") or "RUNTIME",
            component=task.get("display_name") or task.get("name") or task["task_id"],
            pipeline=self._pipeline(run),
            run=_run_name(run),
            state=_STATES.get(state, state),
            started=time_of_text(task.get("create_time")),
            ended=time_of_text(task.get("end_time")),
            settings=_settings(task),
            inputs=_ports(task, "inputs", numbers),
            outputs=_ports(task, "outputs", numbers),
        )

    def _pipeline(self, run: JsonObject) -> str | None:
        """The name of a run's pipeline, by what it was compiled as, or was uploaded as."""
        spec = run.get("pipeline_spec") or {}
        spec = spec.get("pipeline_spec") or spec  # where a part for Kubernetes is beside it
        if name := (spec.get("pipelineInfo") or {}).get("name"):
            return str(name)
        key = (run.get("pipeline_version_reference") or {}).get("pipeline_id")
        if not key:
            return None
        if key not in self._pipelines:
            found = self._api.pipeline(key) or {}
            self._pipelines[key] = found.get("display_name") or found.get("name")
        return self._pipelines[key]


def _runs_something(task: JsonObject) -> bool:
    return (task.get("type") or "RUNTIME") in _RUNS_SOMETHING


def _run_name(run: JsonObject) -> str:
    """Name and id: runs may share a name."""
    key, name = str(run["run_id"]), run.get("display_name")
    return f"{name} ({key})" if name and name != key else key


def _settings(task: JsonObject) -> JsonObject:
    """A task's parameters, and by what it is known to Kubeflow."""
    given = (task.get("inputs") or {}).get("parameters") or ()
    found = {one["parameter_key"]: parsed(one.get("value")) for one in given}
    return {name: found[name] for name in sorted(found)} | {"task_id": task["task_id"]}


def _groups(task: JsonObject, side: str) -> Iterator[tuple[str, list[JsonObject]]]:
    for group in (task.get(side) or {}).get("artifacts") or ():
        yield group.get("artifact_key") or "", group.get("artifacts") or []


def _artifacts(task: JsonObject) -> Iterator[JsonObject]:
    for side in ("inputs", "outputs"):
        for _, documents in _groups(task, side):
            yield from documents


def _names(task: JsonObject, side: str) -> set[str]:
    return {one["artifact_id"] for _, documents in _groups(task, side) for one in documents}


def _ports(task: JsonObject, side: str, numbers: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    found: dict[str, dict[int, None]] = {}
    for name, documents in _groups(task, side):
        found.setdefault(name, {}).update({numbers[one["artifact_id"]]: None for one in documents})
    return {name: tuple(found[name]) for name in sorted(found)}


def _artifact(document: JsonObject, number: int) -> Artifact:
    metadata = document.get("metadata") or {}
    uri = document.get("uri") or ""
    own = {"artifact_id": document["artifact_id"]}
    if metadata.get(_DATASET_URI):
        own["artifact_uri"], uri = uri, str(metadata[_DATASET_URI])
    return Artifact(
        id=number,
        type=document.get("type") or "Artifact",
        uri=uri,
        name=document.get("name") or "",
        state="UNKNOWN",
        created=time_of_text(document.get("created_at")),
        properties={name: parsed(metadata[name]) for name in sorted(metadata)} | own,
    )


def _numbers(artifacts: Mapping[str, JsonObject]) -> dict[str, int]:
    ordered = sorted(artifacts.values(), key=_age_of_artifact)
    return {one["artifact_id"]: number for number, one in enumerate(ordered, start=1)}


def _age_of_artifact(document: JsonObject) -> tuple[str, str]:
    return time_of_text(document.get("created_at")) or "", document["artifact_id"]


def _age_of_task(document: JsonObject) -> tuple[str, str]:
    return time_of_text(document.get("create_time")) or "", document["task_id"]
