"""Fixtures: stores of ML Metadata filled by its own client, and datasets of several steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

metadata_store = pytest.importorskip("ml_metadata.metadata_store")

import grpc  # noqa: E402
from ml_metadata import errors  # noqa: E402
from ml_metadata.proto import metadata_store_pb2 as mlmd  # noqa: E402
from ml_metadata.proto import metadata_store_service_pb2 as messages  # noqa: E402
from ml_metadata.proto import metadata_store_service_pb2_grpc as service  # noqa: E402

from trainer_utils.dataset import open_dataset  # noqa: E402
from trainer_utils.format.lineage import (  # noqa: E402
    Ancestor,
    DatasetInput,
    DatasetSummary,
    Origin,
    Step,
)
from trainer_utils.format.manifest import Manifest  # noqa: E402

Event = mlmd.Event
BALANCED = "ShardBalancer/balanced_examples/2"


class StoreMaker:
    """A helper that adds nodes to a store with ML Metadata's client."""

    def __init__(self, path: Path) -> None:
        config = mlmd.ConnectionConfig()
        config.sqlite.filename_uri = str(path)
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self.store = metadata_store.MetadataStore(config)

    def artifact(self, kind: str, uri: str = "", *, state: str = "LIVE", **properties: Any) -> int:
        type_id = self.store.put_artifact_type(mlmd.ArtifactType(name=kind))
        state = mlmd.Artifact.State.Value(state)
        node = mlmd.Artifact(type_id=type_id, uri=uri, state=state)
        fill(node.custom_properties, properties)
        return self.store.put_artifacts([node])[0]

    def context(self, kind: str, name: str) -> int:
        type_id = self.store.put_context_type(mlmd.ContextType(name=kind))
        return self.store.put_contexts([mlmd.Context(type_id=type_id, name=name)])[0]

    def execution(
        self,
        kind: str,
        inputs: Mapping[str, Sequence[int]] | None = None,
        outputs: Mapping[str, Sequence[int]] | None = None,
        *,
        contexts: Sequence[int] = (),
        state: str = "COMPLETE",
        output_event: int = Event.OUTPUT,
        **properties: Any,
    ) -> int:
        type_id = self.store.put_execution_type(mlmd.ExecutionType(name=kind))
        state = mlmd.Execution.State.Value(state)
        node = mlmd.Execution(type_id=type_id, last_known_state=state)
        fill(node.custom_properties, properties)
        execution = self.store.put_executions([node])[0]
        for ports, event_type in ((inputs or {}, Event.INPUT), (outputs or {}, output_event)):
            for port, artifacts in ports.items():
                for index, artifact in enumerate(artifacts):
                    event = Event(artifact_id=artifact, execution_id=execution, type=event_type)
                    event.path.steps.add(key=port)
                    event.path.steps.add(index=index)
                    self.store.put_events([event])
        associations = [mlmd.Association(execution_id=execution, context_id=c) for c in contexts]
        self.store.put_attributions_and_associations([], associations)
        return execution


def fill(properties: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        kind = "int_value" if isinstance(value, int) else "string_value"
        setattr(properties[name], kind, value)


@pytest.fixture
def make_store(tmp_path) -> Callable[..., StoreMaker]:
    """Return a function that creates `metadata.sqlite`, or another file, in the test's folder."""
    return lambda path=tmp_path / "metadata.sqlite": StoreMaker(path)


@pytest.fixture
def like_tfx(make_store, tmp_path) -> dict[str, int]:
    """Write two runs to `metadata.sqlite` as TFX does, and return ids by name.

    In the second run all but the Trainer is cached. The artifacts are in the test's folder.
    """
    maker, made = make_store(), dict[str, int]()
    pipeline = maker.context("pipeline", "photos")
    nodes = ("ImageExampleGen", "ShardBalancer", "Trainer")
    own = {node: maker.context("node", f"photos.{node}") for node in nodes}
    for name, kind, place, properties in (
        ("raw", "Examples", "ImageExampleGen/examples/1", {"input_fingerprint": "abc", "span": 0}),
        ("balanced", "Examples", BALANCED, {"tfx_version": "1.16.0"}),
        ("model", "Model", "Trainer/model/3", {}),
        ("model_run", "ModelRun", "Trainer/model_run/3", {}),
        ("second_model", "Model", "Trainer/model/6", {}),
    ):
        made[name] = maker.artifact(kind, f"{tmp_path}/{place}", **properties)
    raw, balanced = {"examples": [made["raw"]]}, {"balanced_examples": [made["balanced"]]}
    models = {"model": [made["model"]], "model_run": [made["model_run"]]}
    gen = {"input_base": "photos/", "seed": 7, "output_config": '{"a": [1]}'}
    balancing = {"num_shards": '{"train": 8}', "__internal__": "x"}
    for month, state, trained in (
        (1, "COMPLETE", models),
        (2, "CACHED", {"model": [made["second_model"]]}),
    ):
        run = maker.context("pipeline_run", f"2026-0{month}-01")
        for node, inputs, outputs, settings in (
            ("ImageExampleGen", {}, raw, gen),
            ("ShardBalancer", raw, balanced, balancing),
            ("Trainer", {"examples": balanced["balanced_examples"]}, trained, {}),
        ):
            made[f"{node} {state}"] = maker.execution(
                f"components.{node}",
                inputs,
                outputs,
                contexts=[pipeline, run, own[node]],
                state="COMPLETE" if node == "Trainer" else state,
                **settings,
            )
    return made


class Servicer(service.MetadataStoreServiceServicer):
    """A server that answers calls with the library of the store, like ML Metadata's server."""

    def __init__(self, store: Any) -> None:
        for name in dir(service.MetadataStoreServiceServicer):
            if name.startswith(("Get", "Put")):
                setattr(self, name, self._answer(store, name))

    @staticmethod
    def _answer(store: Any, name: str) -> Any:
        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            response = getattr(messages, f"{name}Response")()
            try:
                store._call(name, request, response)
            except errors.StatusError as error:
                codes = {code.value[0]: code for code in grpc.StatusCode}
                context.abort(codes[error.error_code], str(error))
            return response

        return answer


@pytest.fixture
def serve_store() -> Iterator[Callable[[Any], str]]:
    """Yield a function that serves a store by gRPC and returns the address."""
    servers = []

    def serve(store: Any) -> str:
        server = grpc.server(futures.ThreadPoolExecutor(1))
        servers.append(server)
        service.add_MetadataStoreServiceServicer_to_server(Servicer(store), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        return f"grpc://127.0.0.1:{port}"

    yield serve
    for server in servers:
        server.stop(None)


@pytest.fixture
def write_step(write_dataset) -> Callable[..., Path]:
    """Return a function that writes a dataset with the lineage of a step."""

    def write(uri: Path, count: int, parents: Sequence[Path] = (), **settings: object) -> Path:
        write_dataset(uri, {"train": [[{"label": [number]} for number in range(count)]]}, {})
        given, ancestors = [], {}
        for parent in parents:
            digest = open_dataset(str(parent)).digest
            given.append(DatasetInput(name="examples", digest=digest))
            manifest = Manifest.from_json((parent / "manifest.json").read_text(), path="m")
            before = Origin.from_json((parent / "lineage.json").read_text(), path="l")
            summary = DatasetSummary.of(manifest)
            own = Ancestor(digest=digest, summary=summary, made_by=before.made_by)
            ancestors |= {each.digest: each for each in (*before.ancestors, own)}
        *_, component, output, _ = uri.parts
        step = Step(component=component, settings=settings, inputs=tuple(given), output=output)
        origin = Origin(made_by=step, ancestors=tuple(ancestors.values()))
        (uri / "lineage.json").write_text(origin.to_json())
        return uri

    return write
