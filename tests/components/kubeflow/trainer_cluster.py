"""Kubernetes' API with Kubeflow Trainer behind it, whose pods are processes of this machine.

    with TrainerCluster(folder, runtime) as cluster:
        subprocess.run(command, env={**os.environ, **cluster.environment})
        cluster.jobs, cluster.deleted

It follows `plugins/torch/torch.go` and `plugins/jobset/builder.go` of Kubeflow Trainer 2.0 for what
a pod is given. Of a cluster's name server there is the variable TEST_HOSTS: addresses by pod.
"""

import datetime
import functools
import http.server
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.trainer_utils.processes import REPOSITORY, free_ports

MODULE = "github.com/kubeflow/trainer/v2@v2.0.0"
NAMESPACE = "me"
_JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{NAMESPACE}/trainjobs"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def schema_errors(crds: Path, manifest: dict[str, Any]) -> list[str]:
    """What the published definition has against a manifest; fields that it does not know, too."""
    plural = manifest["kind"].lower() + "s"
    text = (crds / f"trainer.kubeflow.org_{plural}.yaml").read_text()
    version = next(v for v in yaml.safe_load(text)["spec"]["versions"] if v["name"] == "v1alpha1")
    schema = version["schema"]["openAPIV3Schema"]
    _forbid_others(schema)
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]


def _forbid_others(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            _forbid_others(part)
    elif isinstance(schema, list):
        for part in schema:
            _forbid_others(part)


class TrainerCluster:
    """The API server of one namespace.

    Args:
        folder: for its files.
        runtime: the manifest of the one training runtime.
        failing: requests that it answers with 503 before it serves.
        refuse: says why a TrainJob is refused; empty: it is not.
        unscheduled: pods find no node.
        hidden: pods may not be listed.
    """

    def __init__(
        self,
        folder: Path,
        runtime: dict[str, Any],
        *,
        failing: int = 0,
        refuse: Callable[[dict[str, Any]], str] = lambda manifest: "",
        unscheduled: bool = False,
        hidden: bool = False,
    ) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.folder, self.runtime = folder, runtime
        self.failing, self.refuse, self.unscheduled = failing, refuse, unscheduled
        self.hidden = hidden
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        handler = functools.partial(_Handler, self)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> "TrainerCluster":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        server = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": server}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        }
        (self.folder / "kubeconfig").write_text(yaml.safe_dump(config))
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.jobs:
            self.delete(name)
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """With which a client finds it."""
        return {"KUBECONFIG": str(self.folder / "kubeconfig"), "NO_PROXY": "127.0.0.1"}

    def create(self, job: dict[str, Any]) -> str:
        """Starts a job's pods; the name of the job."""
        name = job["metadata"]["generateName"] + "x7k2p"
        trainer, policy = job["spec"]["trainer"], self.runtime["spec"]["mlPolicy"]
        assert job["spec"]["runtimeRef"]["name"] == self.runtime["metadata"]["name"]
        (replicated,) = self.runtime["spec"]["template"]["spec"]["replicatedJobs"]
        (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
        nodes = trainer.get("numNodes", policy["numNodes"])
        hosts = [f"{name}-node-0-{index}.{name}" for index in range(nodes)]
        ports = [f"127.0.0.1:{port}" for port in free_ports(nodes)]
        dns = json.dumps(dict(zip([f"{host}:2222" for host in hosts], ports, strict=True)))
        self.jobs[name] = job
        for index in range(0 if self.unscheduled else nodes):
            variables = {
                **{one["name"]: one["value"] for one in trainer.get("env", [])},
                "PET_NNODES": str(nodes),
                "PET_NPROC_PER_NODE": str(
                    self.runtime["spec"]["mlPolicy"]["torch"]["numProcPerNode"]
                ),
                "PET_NODE_RANK": str(index),
                "PET_MASTER_ADDR": hosts[0],
                "PET_MASTER_PORT": "29400",
            }
            command = [*trainer.get("command", container["command"]), *trainer.get("args", [])]
            inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TF_", "KUBE"))}
            pod = f"{name}-node-0-{index}-abcde"
            with (self.folder / pod).open("wb") as log:
                self.processes[pod] = subprocess.Popen(
                    [_filled_in(part, variables) for part in command],
                    env={
                        **inherited,
                        **variables,
                        "TEST_HOSTS": dns,
                        "PYTHONPATH": str(REPOSITORY),
                        "PYTHONUNBUFFERED": "1",
                    },
                    stdout=log,
                    stderr=log,
                )
        return name

    def conditions(self) -> list[dict[str, str]]:
        codes = [process.poll() for process in self.processes.values()]
        if codes and set(codes) == {0}:
            message = {"reason": "JobsCompleted", "message": "jobset completed successfully"}
            return [{"type": "Complete", "status": "True", **message}]
        if set(codes) - {0, None}:
            message = {"reason": "JobsFailed", "message": "jobset failed due to a job"}
            return [{"type": "Failed", "status": "True", **message}]
        return [{"type": "Suspended", "status": "False", "reason": "Resumed", "message": "it runs"}]

    def pods(self, name: str) -> list[dict[str, Any]]:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
        }
        found = []
        for pod, process in self.processes.items():
            phase = {None: "Running", 0: "Succeeded"}.get(process.poll(), "Failed")
            index = {"batch.kubernetes.io/job-completion-index": pod.split("-")[-2]}
            metadata = {"name": pod, "labels": {**labels, **index}}
            found.append({"metadata": metadata, "status": {"phase": phase}})
        if self.unscheduled:
            condition = {
                **{"type": "PodScheduled", "status": "False"},
                **{"reason": "Unschedulable", "message": "0/3 nodes are available"},
            }
            status = {"phase": "Pending", "conditions": [condition]}
            found.append(
                {"metadata": {"name": f"{name}-node-0-0", "labels": labels}, "status": status}
            )
        return found

    def delete(self, name: str) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.deleted.append(name)


def _filled_in(text: str, variables: dict[str, str]) -> str:
    """As Kubernetes fills in `$(VARIABLE)` in commands and arguments."""
    return re.sub(r"\$\((\w+)\)", lambda match: variables.get(match[1], match[0]), text)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, cluster: TrainerCluster, *arguments: Any) -> None:
        self.cluster = cluster
        super().__init__(*arguments)

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if self._is_down():
            return
        if path.startswith(f"{_JOBS}/"):
            job = self.cluster.jobs.get(path.rpartition("/")[2])
            if job is None or path.rpartition("/")[2] in self.cluster.deleted:
                self._answer(404, {"message": "trainjobs not found", "code": 404})
            else:
                self._answer(200, {**job, "status": {"conditions": self.cluster.conditions()}})
        elif path == _PODS and self.cluster.hidden:
            self._answer(403, {"message": "pods is forbidden", "code": 403})
        elif path == _PODS:
            name = re.search(r"jobset-name%3D([\w-]+)%2C", query)
            assert name is not None, query
            self._answer(200, {"kind": "PodList", "items": self.cluster.pods(name[1])})
        else:
            assert path.endswith("/log"), path
            assert "timestamps=True" in query
            self._follow(path.split("/")[-2])

    def do_POST(self) -> None:
        assert self.path == _JOBS
        manifest = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        refusal = self.cluster.refuse(manifest)
        if refusal:
            self._answer(403, {"message": refusal, "code": 403})
            return
        name = self.cluster.create(manifest)
        self._answer(201, {**manifest, "metadata": {**manifest["metadata"], "name": name}})

    def do_DELETE(self) -> None:
        if not self._is_down():
            self.cluster.delete(self.path.partition("?")[0].rpartition("/")[2])
            self._answer(200, {"kind": "Status", "status": "Success"})

    def _is_down(self) -> bool:
        self.cluster.failing -= 1
        if self.cluster.failing >= 0:
            self._answer(503, {"message": "etcd leader changed", "code": 503})
        return self.cluster.failing >= 0

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _follow(self, pod: str) -> None:
        """The log as it grows, each line with its time, until the process has ended."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        with (self.cluster.folder / pod).open("rb") as log:
            number = 0
            while True:
                is_over = self.cluster.processes[pod].poll() is not None
                for line in log:
                    moment = datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=number)
                    number += 1
                    text = f"{moment.isoformat(timespec='microseconds')}Z ".encode() + line
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                if is_over:
                    self.wfile.write(b"0\r\n\r\n")
                    return
                time.sleep(0.05)
