"""A server with the documents of Kubeflow Pipelines' API of runs, tasks and artifacts.

It gives what it was filled with, in pages, and answers a wrong question as Kubeflow does. Fields
are those of `backend/api/v2beta1/artifact.proto`, and for tasks those of the generated client, as
of 2026: a document with another field is refused when the server is filled.
"""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ml_metadata.proto import metadata_store_pb2 as mlmd

ARTIFACT = "artifact_id name description type uri metadata number_value created_at namespace"
TASK = (
    "name display_name task_id run_id pods cache_fingerprint create_time end_time state "
    "status_metadata state_history type type_attributes parent_task_id child_tasks inputs outputs "
    "scope_path lifecycle_message"
)
RUN = (
    "experiment_id run_id display_name storage_state description pipeline_version_id "
    "pipeline_spec pipeline_version_reference runtime_config service_account created_at "
    "scheduled_at finished_at state error run_details recurring_run_id state_history "
    "plugins_input plugins_output pipeline_reference task_count tasks namespace"
)
PIPELINE = "pipeline_id display_name name description created_at namespace error tags"
IO_ARTIFACT = "artifacts type artifact_key producer"
IO_PARAMETER = "value type parameter_key producer"
LINK = "id artifact_id run_id task_id type producer key"
PAGING = {"page_token", "page_size", "sort_by", "filter"}
STATES = {"COMPLETE": "SUCCEEDED"}  # what Kubeflow calls a state of ML Metadata
PREFIX = "/pipeline/apis/v2beta1/"


class KubeflowServer(ThreadingHTTPServer):
    """Serves documents below `http://127.0.0.1:PORT/pipeline`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.artifacts: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.pipelines: list[dict[str, Any]] = []
        self.most_entries = 2  # of a page
        self.token = ""
        self.namespace = ""
        self.answers: dict[str, tuple[int, dict[str, str], str]] = {}  # instead, by path
        self.asked: list[str] = []
        self.given_headers: list[Mapping[str, str]] = []

    @property
    def address(self) -> str:
        return f"kfp+http://127.0.0.1:{self.server_port}/pipeline"

    def start(self) -> "KubeflowServer":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def artifact(
        self, name: str, uri: str, *, kind: str = "Dataset", **fields: Any
    ) -> dict[str, Any]:
        found = {
            "artifact_id": f"artifact-{name}",
            "name": name,
            "type": kind,
            "uri": uri,
            "created_at": f"2026-01-01T00:00:{len(self.artifacts):02}Z",
            **fields,
        }
        self.artifacts.append(checked(found, ARTIFACT))
        return found

    def task(
        self,
        run: str,
        name: str,
        inputs: Mapping[str, list[dict[str, Any]]] | None = None,
        outputs: Mapping[str, list[dict[str, Any]]] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        second = len(self.tasks)
        given = [
            checked({"parameter_key": key, "value": value, "type": "COMPONENT_INPUT"}, IO_PARAMETER)
            for key, value in (parameters or {}).items()
        ]
        found = {
            "task_id": f"task-{run}-{name}",
            "run_id": run,
            "name": name,
            "display_name": name,
            "type": "RUNTIME",
            "state": "SUCCEEDED",
            "create_time": f"2026-01-02T00:00:{second:02}.5Z",
            "end_time": f"2026-01-02T00:01:{second:02}Z",
            "inputs": {"parameters": given, "artifacts": ports(inputs, "TASK_OUTPUT_INPUT")},
            "outputs": {"artifacts": ports(outputs, "OUTPUT")},
            **fields,
        }
        self.tasks.append(checked(found, TASK))
        return found

    def run(self, run: str, **fields: Any) -> dict[str, Any]:
        found = {"run_id": run, "state": "SUCCEEDED", **fields}
        self.runs.append(checked(found, RUN))
        return found

    def links(self) -> list[dict[str, Any]]:
        return [
            checked(
                {
                    "id": f"{task['task_id']}-{side}-{group['artifact_key']}-{index}",
                    "artifact_id": artifact["artifact_id"],
                    "run_id": task["run_id"],
                    "task_id": task["task_id"],
                    "type": group["type"],
                    "key": group["artifact_key"],
                },
                LINK,
            )
            for task in self.tasks
            for side in ("inputs", "outputs")
            for group in task[side]["artifacts"]
            for index, artifact in enumerate(group["artifacts"])
        ]

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Status and document of a question."""
        parts = [unquote(part) for part in path.split("/")]
        if parts == ["artifacts"]:
            return self._page("artifacts", self.artifacts, query, {"namespace"})
        if parts == ["artifact_tasks"]:
            wanted = query.get("artifact_ids", [])
            found = [link for link in self.links() if link["artifact_id"] in wanted]
            return self._page("artifact_tasks", found, query, {"artifact_ids"}, scoped=False)
        if parts == ["runs"]:
            return self._page("runs", self.runs, query, {"namespace"})
        if len(parts) == 3 and parts[::2] == ["runs", "tasks"]:
            found = [task for task in self.tasks if task["run_id"] == parts[1]]
            return self._page("tasks", found, query, set(), scoped=False)
        one = {"runs": ("run_id", self.runs), "pipelines": ("pipeline_id", self.pipelines)}
        if len(parts) == 2 and parts[0] in one:
            key, documents = one[parts[0]]
            for document in documents:
                if document[key] == parts[1]:
                    return 200, document
        return 404, {"code": 5, "message": f"{path} not found"}

    def _page(
        self,
        name: str,
        entries: list[dict[str, Any]],
        query: dict[str, list[str]],
        known: set[str],
        *,
        scoped: bool = True,
    ) -> tuple[int, dict[str, Any]]:
        if unknown := query.keys() - known - PAGING:
            return 400, {"code": 3, "message": f"unknown query parameters {sorted(unknown)}"}
        if scoped and self.namespace and query.get("namespace", [""]) != [self.namespace]:
            return 400, {"code": 3, "message": "Invalid input error: namespace is\nempty"}
        for text in query.get("filter", ()):
            for predicate in json.loads(text)["predicates"]:
                assert predicate["operation"] == "EQUALS"
                entries = [
                    e for e in entries if e.get(predicate["key"]) == predicate["string_value"]
                ]
        start = int(query.get("page_token", ["0"])[0])
        end = start + min(int(query.get("page_size", ["20"])[0]), self.most_entries)
        page: dict[str, Any] = {"total_size": len(entries)}
        if entries[start:end]:  # an empty list is left out, as in the JSON of protobufs
            page[name] = entries[start:end]
        if end < len(entries):
            page["next_page_token"] = str(end)
        return 200, page


class _Handler(BaseHTTPRequestHandler):
    server: KubeflowServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.server.asked.append(parts.path)
        self.server.given_headers.append(dict(self.headers))
        path = parts.path.removeprefix(PREFIX)
        if path in self.server.answers:
            status, headers, text = self.server.answers[path]
        else:
            headers = {}
            wanted = f"Bearer {self.server.token}"
            if not parts.path.startswith(PREFIX):
                status, document = 404, {"code": 5, "message": "Not Found"}
            elif self.server.token and self.headers.get("Authorization") != wanted:
                status, document = 401, {"error_message": "User identity is empty"}
            else:
                status, document = self.server.answer(path, parse_qs(parts.query))
            text = json.dumps(document)
        body = text.encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def ports(given: Mapping[str, list[dict[str, Any]]] | None, kind: str) -> list[dict[str, Any]]:
    return [
        checked({"artifact_key": key, "artifacts": artifacts, "type": kind}, IO_ARTIFACT)
        for key, artifacts in (given or {}).items()
    ]


def checked(document: dict[str, Any], fields: str) -> dict[str, Any]:
    assert not document.keys() - set(fields.split()), "a field that Kubeflow's API has not"
    return document


def copy_store(store: Any, server: KubeflowServer) -> None:
    """Puts the runs of a store into the server, as Kubeflow would have them."""
    artifacts = {
        node.id: server.artifact(
            str(node.id),
            node.uri,
            kind=node.type if node.type == "Model" else "Artifact",
            metadata={n: v.string_value or v.int_value for n, v in node.custom_properties.items()},
        )
        for node in store.get_artifacts()
    }
    for node in store.get_executions():
        contexts = {one.type: one.name for one in store.get_contexts_by_execution(node.id)}
        ports: tuple[dict[str, list[Any]], ...] = ({}, {})
        for event in store.get_events_by_execution_ids([node.id]):
            side = ports[event.type == mlmd.Event.OUTPUT]
            side.setdefault(event.path.steps[0].key, []).append(artifacts[event.artifact_id])
        run = contexts["pipeline_run"]
        if run not in [one["run_id"] for one in server.runs]:
            spec = {"pipelineInfo": {"name": contexts["pipeline"]}}
            server.run(run, display_name=run, pipeline_spec=spec)
            server.task(run, "root", outputs=ports[1], type="ROOT")
        state = mlmd.Execution.State.Name(node.last_known_state)
        server.task(
            run,
            contexts["node"].partition(".")[2],
            *ports,
            parameters={
                n: v.string_value or v.int_value
                for n, v in node.custom_properties.items()
                if not n.startswith("__")
            },
            state=STATES.get(state, state),
        )
