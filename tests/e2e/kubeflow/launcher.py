"""Run a compiled pipeline as open-source Kubeflow Pipelines does, without a cluster.

A driver resolves the inputs of each task. A launcher copies artifacts from the store to the pod,
fills placeholders, runs the command of the container, reads its output file and copies outputs to
the store.

Source, reproduced branch by branch: `backend/src/v2/driver/{driver,container}.go`,
`component/launcher_v2.go`, `objectstore/object_store.go`, `metadata/{client,converter}.go` and
`cacheutils/cache.go` of Kubeflow Pipelines 2. The store keeps objects by key, like a bucket, and
has no folders.
"""

import copy
import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

REPOSITORY = Path(__file__).parents[3]
LOGS = "executor-logs"
_EXECUTOR = "kfp.dsl.executor_main"
_MOUNTS = {"gs://": "gcs/", "minio://": "minio/", "s3://": "s3/"}


class StepFailed(Exception):
    """The command of a container failed; the message is its log."""


class WarmPython:
    """A process of `warm_python.py`, with the environment variables of the image."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm_python.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **environment, "PYTHONPATH": str(REPOSITORY)},
        )

    def run(self, command: Sequence[str], environment: Mapping[str, str], pod: "Pod") -> int:
        assert self._process.stdin
        assert self._process.stdout
        _, _, module, *arguments = command  # `python -m`
        request = {
            "module": module,
            "arguments": arguments,
            "environment": dict(environment),
            "folder": str(pod.folder),
            "log": str(pod.log),
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


@dataclasses.dataclass
class Pod:
    """A pod: an empty disk, with `/minio`, `/gcs`, `/s3` and `/tmp` stored in `folder`."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def local_path(self, uri: str) -> Path | None:
        """Return the local path of a uri, or None for an unknown scheme (`LocalPathForURI`)."""
        for scheme, mount in _MOUNTS.items():
            if uri.startswith(scheme):
                return self.folder / mount / uri.removeprefix(scheme)
        return None


class Cluster:
    """A store, a metadata store, and the pods.

    Args:
        folder: the folder for the disks of the pods.
        python: the process that runs the commands of containers.
        generation: `mlmd`: input artifacts have no type; `api`: they have only the title, as in
            versions without ML Metadata.
    """

    def __init__(self, folder: Path, python: WarmPython, *, generation: str = "mlmd") -> None:
        self.folder = folder
        self.python = python
        self.generation = generation
        self.objects: dict[str, bytes] = {}
        self.pods = itertools.count()
        self.numbers = itertools.count(1)  # ids of artifacts, as in ML Metadata
        self.cache: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def run(self, package: Path, parameters: Mapping[str, Any]) -> "Run":
        """Run a package to its end.

        Args:
            package: the compiled package.
            parameters: values of the parameters of the run.

        Raises:
            StepFailed: a step failed.
        """
        spec = pipeline_spec_pb2.PipelineSpec()
        document = next(yaml.safe_load_all(package.read_text()))
        json_format.ParseDict(document, spec)  # the first check of Kubeflow's API server
        run = Run(self, json_format.MessageToDict(spec), document["defaultPipelineRoot"])
        run.run_root(parameters)
        return run

    # objectstore.UploadBlob, DownloadBlob

    def upload(self, local: Path, uri: str) -> None:
        if not local.exists():
            return
        for path in [local] if local.is_file() else sorted(local.rglob("*")):
            if path.is_file():
                key = uri if path == local else f"{uri}/{path.relative_to(local)}"
                self.objects[key] = path.read_bytes()

    def download(self, uri: str, local: Path) -> None:
        for key in sorted(self.objects):
            if key == uri or key.startswith(uri.rstrip("/") + "/"):
                target = Path(os.path.normpath(f"{local}{key.removeprefix(uri)}"))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self.objects[key])

    def below(self, uri: str) -> dict[str, bytes]:
        """Return the files of an artifact by relative path."""
        return {
            key.removeprefix(f"{uri}/"): data
            for key, data in self.objects.items()
            if key.startswith(f"{uri}/")
        }


class Run:
    """A run: the output artifacts and parameters of each task."""

    def __init__(self, cluster: Cluster, spec: Mapping[str, Any], root: str) -> None:
        self.cluster = cluster
        self.spec = spec
        self.root = f"{root}/{spec['pipelineInfo']['name']}/{uuid.uuid4()}"
        self.artifacts: dict[tuple[str, str], dict[str, Any]] = {}
        self.parameters: dict[tuple[str, str], Any] = {}
        self.pods: dict[str, Pod] = {}

    def run_root(self, parameters: Mapping[str, Any]) -> None:
        defined = self.spec["root"].get("inputDefinitions", {}).get("parameters", {})
        assert set(parameters) <= set(defined), sorted(set(parameters) - set(defined))
        given = {
            name: parameters.get(name, definition.get("defaultValue"))
            for name, definition in defined.items()
        }
        missing = [name for name, value in given.items() if value is None]
        assert not missing, f"parameters without a value: {missing}"
        tasks = self.spec["root"]["dag"]["tasks"]
        for name in _in_order(tasks):
            self._run_task(name, tasks[name], given)

    def uri(self, task: str, output: str) -> str:
        return str(self.artifacts[task, output]["uri"])

    def metadata(self, task: str, output: str) -> dict[str, Any]:
        return dict(self.artifacts[task, output]["metadata"])

    # driver.Container: resolveInputs, provisionOutputs

    def _run_task(self, name: str, task: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        component = self.spec["components"][task["componentRef"]["name"]]
        executor = self.spec["deploymentSpec"]["executors"][component["executorLabel"]]
        if "importer" in executor:
            self._import(name, component, executor["importer"], task, given)
            return
        inputs = {
            "parameterValues": self._parameters(component, task, given),
            "artifacts": self._artifacts(task),
        }
        key = _cache_key(component, executor["container"], inputs)
        is_cached = task.get("cachingOptions", {}).get("enableCache", False)
        if is_cached and key in self.cluster.cache:
            self._take(name, *self.cluster.cache[key])
            return
        pod = Pod(self.cluster.folder / f"{next(self.cluster.pods)}-{name}")
        pod.folder.mkdir(parents=True)
        self.pods[name] = pod
        outputs = self._outputs(name, component, pod)
        self._launch(name, executor["container"], {"inputs": inputs, "outputs": outputs}, pod)
        if is_cached:
            self.cluster.cache[key] = self._given(name)

    def _given(self, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
        artifacts = {
            output: kept for (task, output), kept in self.artifacts.items() if task == name
        }
        values = {output: kept for (task, output), kept in self.parameters.items() if task == name}
        return copy.deepcopy((artifacts, values))

    def _take(self, name: str, artifacts: dict[str, Any], values: dict[str, Any]) -> None:
        """Reuse cached outputs without checking that their files exist (`reuseCachedOutputs`)."""
        self.artifacts |= {(name, output): kept for output, kept in artifacts.items()}
        self.parameters |= {(name, output): kept for output, kept in values.items()}

    def _import(
        self,
        name: str,
        component: Mapping[str, Any],
        importer: Mapping[str, Any],
        task: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> None:
        """Create an artifact for a uri without reading it (`ImporterLauncher`)."""
        (output,) = component["outputDefinitions"]["artifacts"]
        uri = importer["artifactUri"].get("constant")
        if uri is None:
            parameter = importer["artifactUri"]["runtimeParameter"]
            uri = self._parameters(component, task, given)[parameter]
        self.artifacts[name, output] = {
            "name": str(next(self.cluster.numbers)),
            "uri": uri,
            "title": importer["typeSchema"]["schemaTitle"],
            "metadata": dict(importer.get("metadata", {})),
        }

    def _parameters(
        self, component: Mapping[str, Any], task: Mapping[str, Any], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        defined = component.get("inputDefinitions", {}).get("parameters", {})
        values = {n: d["defaultValue"] for n, d in defined.items() if "defaultValue" in d}
        for name, source in task.get("inputs", {}).get("parameters", {}).items():
            assert name in defined, f"{name}: not defined by the component"
            if "componentInputParameter" in source:
                values[name] = given[source["componentInputParameter"]]
            elif "taskOutputParameter" in source:
                produced = source["taskOutputParameter"]
                key = produced["producerTask"], produced["outputParameterKey"]
                values[name] = self.parameters[key]
            else:
                values[name] = source["runtimeValue"]["constant"]
        return {name: _as_go_writes(value) for name, value in values.items()}

    def _artifacts(self, task: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, source in task.get("inputs", {}).get("artifacts", {}).items():
            produced = source["taskOutputArtifact"]
            kept = self.artifacts[produced["producerTask"], produced["outputArtifactKey"]]
            kind = {"instanceSchema": ""}
            if self.cluster.generation == "api":
                kind = {"schemaTitle": kept["title"].removeprefix("system.")}
            artifact = {key: kept[key] for key in ("name", "uri", "metadata")}
            found[name] = {"artifacts": [{**artifact, "type": kind}]}
        return found

    def _outputs(self, name: str, component: Mapping[str, Any], pod: Pod) -> dict[str, Any]:
        defined = component.get("outputDefinitions", {})
        salt = uuid.uuid4()
        artifacts = {}
        for output, definition in defined.get("artifacts", {}).items():
            artifact = {
                "uri": f"{self.root}/{name}/{salt}/{output}",
                "type": definition["artifactType"],
                "metadata": definition.get("metadata", {}),
                "name": output,
            }
            artifacts[output] = {"artifacts": [artifact]}
        log = {"schemaTitle": "system.Artifact"}  # exists if Kubeflow is set to publish logs
        uri = f"{self.root}/{name}/{salt}/{LOGS}"
        artifacts[LOGS] = {"artifacts": [{"uri": uri, "type": log, "metadata": {}, "name": LOGS}]}
        parameters = {
            output: {"outputFile": str(pod.folder / "tmp/kfp/outputs" / output)}
            for output in defined.get("parameters", {})
        }
        output_file = str(pod.folder / "tmp/kfp_outputs/output_metadata.json")
        return {"artifacts": artifacts, "parameters": parameters, "outputFile": output_file}

    # LauncherV2.Execute

    def _launch(
        self, name: str, container: Mapping[str, Any], executor_input: dict[str, Any], pod: Pod
    ) -> None:
        outputs = executor_input["outputs"]
        for group in executor_input["inputs"]["artifacts"].values():
            artifact = group["artifacts"][0]
            if path := pod.local_path(artifact["uri"]):
                self.cluster.download(artifact["uri"], path)
        for group in outputs["artifacts"].values():
            pod.local_path(group["artifacts"][0]["uri"]).parent.mkdir(parents=True, exist_ok=True)
        for parameter in outputs["parameters"].values():
            Path(parameter["outputFile"]).parent.mkdir(parents=True, exist_ok=True)
        filled = placeholders(executor_input, pod)
        command = [
            _fill(part, filled) for part in [*container["command"], *container.get("args", [])]
        ]
        if command[0] == "sh" and _EXECUTOR in command[2]:  # a component of kfp
            program = pod.folder / "ephemeral_component.py"
            program.write_text(command[3])
            path = ["--component_module_path", str(program)]
            command = ["python", "-m", _EXECUTOR, *path, *command[4:]]
        environment = {e["name"]: e["value"] for e in container.get("env", [])}
        if status := self.cluster.python.run(command, environment, pod):
            raise StepFailed(f"{name}: exit status {status}\n{pod.log.read_text()}")
        self._publish(name, executor_input, pod)

    # getExecutorOutputFile, uploadOutputArtifacts, RecordArtifact

    def _publish(self, name: str, executor_input: Mapping[str, Any], pod: Pod) -> None:
        outputs = executor_input["outputs"]
        given = pipeline_spec_pb2.ExecutorOutput()
        if os.path.exists(outputs["outputFile"]):  # unknown fields are errors, as in protojson
            json_format.Parse(Path(outputs["outputFile"]).read_text(), given)
        document = json_format.MessageToDict(given)
        for output, group in outputs["artifacts"].items():
            artifact = dict(group["artifacts"][0])
            listed = document.get("artifacts", {}).get(output, {}).get("artifacts", [])
            if listed:
                artifact["uri"] = listed[0].get("uri") or artifact["uri"]
                artifact["metadata"] = {**artifact["metadata"], **listed[0].get("metadata", {})}
            if output == LOGS:
                shutil.copy(pod.log, pod.local_path(artifact["uri"]))
            if path := pod.local_path(artifact["uri"]):
                self.cluster.upload(path, artifact["uri"])
            self.artifacts[name, output] = {
                "name": str(next(self.cluster.numbers)),
                "uri": artifact["uri"],
                "title": artifact["type"]["schemaTitle"],
                "metadata": {
                    **{
                        key: _as_go_writes(_kept(value))
                        for key, value in artifact["metadata"].items()
                    },
                    "display_name": output,
                    "store_session_info": "{}",
                },
            }
        for output, parameter in outputs["parameters"].items():
            values = document.get("parameterValues", {})
            text = "" if output in values else Path(parameter["outputFile"]).read_text()
            self.parameters[name, output] = values.get(output, text)


def _cache_key(
    component: Mapping[str, Any], container: Mapping[str, Any], inputs: Mapping[str, Any]
) -> str:
    """Return the cache key of a task, without variables, volumes and uris (`GenerateCacheKey`)."""
    names = {
        name: [one["name"] for one in g["artifacts"]] for name, g in inputs["artifacts"].items()
    }
    command = [*container["command"], *container.get("args", [])]
    outputs = component.get("outputDefinitions", {})
    return json.dumps(
        [inputs["parameterValues"], names, container["image"], command, outputs], sort_keys=True
    )


def placeholders(executor_input: Mapping[str, Any], pod: Pod) -> dict[str, str]:
    """Return the values of placeholders (`getPlaceholders`)."""
    filled = {"{{$}}": json.dumps(executor_input)}
    for side in ("inputs", "outputs"):
        for name, group in executor_input[side]["artifacts"].items():
            uri = group["artifacts"][0]["uri"]
            filled[f"{{{{$.{side}.artifacts['{name}'].uri}}}}"] = uri
            if path := pod.local_path(uri):
                filled[f"{{{{$.{side}.artifacts['{name}'].path}}}}"] = str(path)
    for name, value in executor_input["inputs"]["parameterValues"].items():
        text = value if isinstance(value, str) else json.dumps(value)
        filled[f"{{{{$.inputs.parameters['{name}']}}}}"] = text
    for name, parameter in executor_input["outputs"]["parameters"].items():
        filled[f"{{{{$.outputs.parameters['{name}'].output_file}}}}"] = parameter["outputFile"]
    return filled


def _fill(text: str, filled: Mapping[str, str]) -> str:
    for placeholder, value in filled.items():
        text = text.replace(placeholder, value)
    return text


def _kept(value: Any) -> Any:
    """Return a metadata value as ML Metadata returns it (`structValueToMLMDValue`)."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        return {"list": value}
    return {"struct": value} if isinstance(value, dict) else value


def _as_go_writes(value: Any) -> Any:
    """Return a value after protobuf's Struct, with all numbers float64, and Go's JSON: 1000."""
    if isinstance(value, dict):
        return {key: _as_go_writes(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return [_as_go_writes(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return int(float(value)) if float(value).is_integer() else float(value)


def _in_order(tasks: Mapping[str, Any]) -> list[str]:
    """Return the tasks in topological order."""
    done: list[str] = []
    while len(done) < len(tasks):
        ready = [
            name
            for name, task in tasks.items()
            if name not in done and set(task.get("dependentTasks", ())) <= set(done)
        ]
        assert ready, "tasks depend on each other in a circle"
        done.append(ready[0])
    return done
