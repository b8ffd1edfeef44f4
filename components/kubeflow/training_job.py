"""Submits a TrainJob to Kubeflow Trainer, waits for its end, and brings its logs and metrics.

    job = train_job_manifest(["python", "train.py"], workers=4)
    metrics = run_train_job(job, logs="/tmp/logs")       # {"accuracy": 0.93}

The job is deleted at the end, however that comes: it is done, has failed, takes too long, or this
process is told to stop. Where this process is killed, Kubernetes deletes it with this pod.
"""

import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kubernetes import client, config  # kfp brings it
from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from components.kubeflow.training_runtime import API_GROUP, API_VERSION, WORKER_JOB
from components.kubeflow.worker_logs import WorkerLogs
from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format.json_text import JsonObject

__all__ = ["TrainJobError", "run_train_job"]

_PLURAL = "trainjobs"
_NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
_INDEX = "batch.kubernetes.io/job-completion-index"
# Kubeflow's launcher sets these; a job that belongs to the pod is deleted with it.
_POD_VARIABLES = ("KFP_POD_NAME", "KFP_POD_UID")
_ENDED = ("Succeeded", "Failed")
_REQUEST_SECONDS = 60.0
_PATIENCE_SECONDS = 600.0  # for an API server that does not answer, such as one that is upgraded
_ADVICE = {
    403: "Let the service account of this step create, get and delete trainjobs, and read the logs "
    "of pods (docs/kubeflow.md).",
    404: "Is Kubeflow Trainer v2 installed?",
}


class TrainJobError(DatasetError):
    """A training job was refused, has failed, or took too long.

    Attributes:
        job: its name.
        reason: in one word: `Failed`, `Timeout`, `Deleted`.
    """

    def __init__(self, message: str, *, job: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.job, self.reason = job, reason


def run_train_job(
    manifest: JsonObject,
    *,
    logs: str,
    namespace: str = "",
    timeout_seconds: float = 0,
    poll_seconds: float = 5.0,
) -> dict[str, float]:
    """Runs a job from its creation to its deletion.

    Args:
        manifest: of the TrainJob, as `train_job_manifest` makes it.
        logs: a folder for a file of each worker's log.
        namespace: of the job. Empty: that of this pod.
        timeout_seconds: from its creation on; 0: none.
        poll_seconds: between looks at the job.

    Returns:
        The metrics that worker 0 printed: the last value of each.

    Raises:
        ConfigError: there is no namespace, or Kubernetes refuses the manifest.
        TrainJobError: the job has failed, was deleted, or took longer than it may.
    """
    with _stopped_by_signal():
        cluster = _Cluster(namespace or _own_namespace())
        job = cluster.create({**manifest, "metadata": _owned(manifest["metadata"])})
        logging.info("TrainJob %s in %s: created", job, cluster.namespace)
        try:
            followed = WorkerLogs(cluster.read_lines, logs)
            _wait(cluster, job, followed, timeout_seconds, poll_seconds)
            return followed.metrics
        finally:
            cluster.delete(job)


def _wait(
    cluster: "_Cluster",
    job: str,
    logs: WorkerLogs,
    timeout_seconds: float,
    poll_seconds: float,
) -> None:
    deadline = time.monotonic() + (timeout_seconds or float("inf"))
    said: set[str] = set()
    while True:
        conditions = cluster.conditions(job)
        waiting = cluster.follow_pods(job, logs)
        for sentence in [*_state(conditions), *waiting]:
            if sentence not in said:
                logging.info("TrainJob %s: %s", job, sentence)
                said.add(sentence)
        if "Complete" in conditions or "Failed" in conditions:
            logs.finish()
        if "Complete" in conditions:
            return
        if "Failed" in conditions:
            raise TrainJobError(
                f"TrainJob {job!r}: expected it to complete, got Failed: {conditions['Failed']}. "
                "The log above, and the output logs, have what each worker said.",
                job=job,
                reason="Failed",
            )
        if time.monotonic() > deadline:
            state = "; ".join([*_state(conditions), *waiting]) or "running"
            raise TrainJobError(
                f"TrainJob {job!r}: expected its end within {timeout_seconds:g} seconds, got none "
                f"({state}). Give it a longer timeout_seconds, or mend what it waits for.",
                job=job,
                reason="Timeout",
            )
        time.sleep(min(poll_seconds, max(0.0, deadline - time.monotonic())))


def _state(conditions: dict[str, str]) -> list[str]:
    return [f"{name}: {message}" for name, message in sorted(conditions.items())]


class _Cluster:
    """Kubernetes' API, as far as it is needed here, in one namespace."""

    def __init__(self, namespace: str) -> None:
        config.load_config()
        self.namespace = namespace
        self._jobs, self._pods = client.CustomObjectsApi(), client.CoreV1Api()
        self._where = (API_GROUP, API_VERSION, namespace, _PLURAL)

    def create(self, manifest: JsonObject) -> str:
        """Returns the name that Kubernetes gives it."""
        try:
            made = self._jobs.create_namespaced_custom_object(
                *self._where, manifest, _request_timeout=_REQUEST_SECONDS
            )
        except ApiException as error:
            raise self._refused("create it", error) from error
        return str(made["metadata"]["name"])

    def conditions(self, job: str) -> dict[str, str]:
        """Reason and message of each condition that holds, by its type."""
        get = self._jobs.get_namespaced_custom_object
        try:
            found = _patiently(lambda: get(*self._where, job, _request_timeout=_REQUEST_SECONDS))
        except ApiException as error:
            if error.status != 404:
                raise
            raise TrainJobError(
                f"TrainJob {job!r}: expected it in {self.namespace!r}, got none: it was deleted "
                "before its end",
                job=job,
                reason="Deleted",
            ) from error
        return {
            one["type"]: f"{one.get('reason', '')} {one.get('message', '')}".strip()
            for one in found.get("status", {}).get("conditions", [])
            if one["status"] == "True"
        }

    def follow_pods(self, job: str, logs: WorkerLogs) -> list[str]:
        """Follows the logs of the job's pods; returns what pods wait for that do not run."""
        selector = f"{_JOBSET}={job},{_REPLICATED_JOB}={WORKER_JOB}"
        list_pods = self._pods.list_namespaced_pod
        try:
            found = _patiently(
                lambda: list_pods(
                    self.namespace, label_selector=selector, _request_timeout=_REQUEST_SECONDS
                )
            )
        except ApiException as error:
            raise self._refused("list its pods", error) from error
        waiting = []
        for pod in found.items:
            marks = {**(pod.metadata.annotations or {}), **(pod.metadata.labels or {})}
            worker = int(marks.get(_INDEX, 0))
            if pod.status.phase == "Pending":
                waiting += [f"worker {worker} waits: {reason}" for reason in _reasons(pod.status)]
            else:
                ended = pod.status.phase in _ENDED
                logs.follow(pod.metadata.name, worker=worker, ended=ended)
        return sorted(waiting)

    def read_lines(self, pod: str, *, since: str) -> Iterator[str]:
        """As `ReadLines`."""
        response = self._pods.read_namespaced_pod_log(
            pod,
            self.namespace,
            container=WORKER_JOB,
            follow=True,
            timestamps=True,
            _preload_content=False,
        )
        with contextlib.closing(response):
            rest = b""
            for part in response.stream(1 << 16):
                *lines, rest = (rest + part).split(b"\n")
                yield from (line for line in map(_text, lines) if line.partition(" ")[0] > since)
            if _text(rest).partition(" ")[0] > since:  # the last line may end without a break
                yield _text(rest)

    def delete(self, job: str) -> None:
        """Deletes it with all that is its; where that fails, the log says so."""
        delete = self._jobs.delete_namespaced_custom_object
        try:
            _patiently(
                lambda: delete(
                    *self._where,
                    job,
                    propagation_policy="Foreground",
                    _request_timeout=_REQUEST_SECONDS,
                )
            )
            logging.info("TrainJob %s: deleted", job)
        except ApiException as error:
            if error.status != 404:
                logging.error("TrainJob %s: not deleted: %s", job, _message(error))

    def _refused(self, what: str, error: Any) -> ConfigError:
        advice = _ADVICE.get(error.status, "")
        message = (
            f"TrainJob: expected Kubernetes to {what} in {self.namespace!r}, got "
            f"{error.status}: {_message(error)}. {advice}"
        )
        return ConfigError(message.rstrip(". ") + ".", setting="train_job")


def _patiently(ask: Callable[[], Any]) -> Any:
    """Asks the API server again where it does not answer for the moment."""
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, 1.0
    while True:
        try:
            return ask()
        except (ApiException, HTTPError) as error:
            status = getattr(error, "status", None)
            lasting = isinstance(status, int) and status < 500 and status != 429
            if lasting or time.monotonic() > deadline:
                raise
            logging.warning("Kubernetes: %s; once more in %g s", _message(error), pause)
        time.sleep(pause)
        pause = min(pause * 2, 30.0)


def _message(error: Exception) -> str:
    """What Kubernetes says, in one line."""
    try:
        return str(json.loads(getattr(error, "body", ""))["message"])
    except (KeyError, TypeError, ValueError):
        return " ".join(str(error).split())


def _reasons(status: Any) -> list[str]:
    """Why a pod does not run: it has no node, or its image does not come."""
    found = [
        f"{one.reason}: {one.message}"
        for one in status.conditions or []
        if one.type == "PodScheduled" and one.status == "False"
    ]
    states = [one.state.waiting for one in status.container_statuses or [] if one.state]
    return found + [
        f"{one.reason}: {one.message or ''}".rstrip(": ")
        for one in states
        if one is not None and one.reason
    ]


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")


def _own_namespace() -> str:
    try:
        with open(_NAMESPACE_FILE, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        raise ConfigError.of(
            "namespace", "", allowed="the namespace of the job, outside of a pod"
        ) from None


def _owned(metadata: JsonObject) -> JsonObject:
    """The metadata of an object that Kubernetes deletes with this pod."""
    name, uid = (os.environ.get(variable, "") for variable in _POD_VARIABLES)
    if not (name and uid):
        return metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return {**metadata, "ownerReferences": [owner]}


@contextlib.contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """Lets SIGTERM, with which Kubernetes ends a pod, unwind what is open."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
