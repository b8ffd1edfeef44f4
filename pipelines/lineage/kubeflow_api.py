"""Kubeflow Pipelines' own API of runs, tasks and artifacts, which it has in place of ML Metadata.

api = KubeflowApi(KubeflowAccess.of("kfp+https://kubeflow.example/pipeline"))
api.artifacts(uri="minio://mlpipeline/v2/artifacts/…/examples")
api.links([artifact_id]), api.tasks(run_id), api.runs()

Documents are as the API gives them. It is only read.

Source: `backend/api/v2beta1/{artifact,filter}.proto` of Kubeflow Pipelines, and for the tasks of
runs the models of its generated client and its frontend's mock server, as of 2026.
"""

import contextlib
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from pipelines.lineage.kubeflow_access import KubeflowAccess
from trainer_utils.format import InputError
from trainer_utils.format.json_text import Json, JsonObject

__all__ = ["KubeflowApi"]

_PATH = "/apis/v2beta1"
_PAGE = 200  # entries, the most that Kubeflow gives at once
_IDS_AT_ONCE = 50  # of 36 characters each, in one url
_TIMEOUT_SECONDS = 60.0
_MOST_CHARACTERS = 200  # of what a server says
_HINTS = {
    400: "In a Kubeflow of many users, name the namespace: ?namespace=NAME.",
    401: "Set KFP_EXISTING_TOKEN, or KF_PIPELINES_SA_TOKEN_PATH to a file with a token.",
    403: "Is the namespace right (?namespace=NAME), and may you read it?",
}
_NO_API = (
    "Is the path right, as in kfp+https://host/pipeline? A Kubeflow Pipelines that still has ML "
    "Metadata has no such API: name that, by grpc://host:8080."
)


class KubeflowApi:
    """Asks Kubeflow Pipelines.

    Args:
        access: where it is, and by what right.
    """

    def __init__(self, access: KubeflowAccess) -> None:
        self.shown = access.shown
        self._access = access
        self._opener = urllib.request.build_opener(_NoRedirect)

    def artifacts(self, uri: str | None = None) -> list[JsonObject]:
        """All artifacts of the namespace, or those of a uri."""
        predicate = {"operation": "EQUALS", "key": "uri", "string_value": uri}
        wanted = {} if uri is None else {"filter": json.dumps({"predicates": [predicate]})}
        return list(self._pages("artifacts", "artifacts", {**self._scope(), **wanted}))

    def links(self, artifacts: Sequence[str]) -> list[JsonObject]:
        """Which tasks of which runs read or made artifacts, by ids of these."""
        return [
            link
            for start in range(0, len(artifacts), _IDS_AT_ONCE)
            for link in self._pages(
                "artifact_tasks",
                "artifact_tasks",
                {"artifact_ids": artifacts[start : start + _IDS_AT_ONCE]},
            )
        ]

    def tasks(self, run: str) -> list[JsonObject]:
        """The tasks of a run, with their inputs and outputs."""
        return list(self._pages(f"runs/{quote(run, safe='')}/tasks", "tasks", {}))

    def runs(self) -> list[JsonObject]:
        """All runs of the namespace."""
        return list(self._pages("runs", "runs", self._scope()))

    def run(self, run: str) -> JsonObject | None:
        """A run; None where it was deleted."""
        return self._known(f"runs/{quote(run, safe='')}")

    def pipeline(self, pipeline: str) -> JsonObject | None:
        """A pipeline that was uploaded; None where it was deleted."""
        return self._known(f"pipelines/{quote(pipeline, safe='')}")

    def _scope(self) -> dict[str, str]:
        return {"namespace": self._access.namespace} if self._access.namespace else {}

    def _known(self, path: str) -> JsonObject | None:
        try:
            return self._get(path, {})
        except _NotFoundError:
            return None

    def _pages(self, path: str, entries: str, query: Mapping[str, Any]) -> Iterator[JsonObject]:
        """The entries of all pages."""
        token = ""
        while True:
            given = {**query, "page_size": _PAGE, **({"page_token": token} if token else {})}
            page = self._get(path, given)
            found = page.get(entries) or []
            if not isinstance(found, list):
                raise self._error(f"expected a list of {entries}, got {_short(found)}")
            yield from found
            before, token = token, page.get("next_page_token") or ""
            if not token:
                return
            if token == before:
                raise self._error(f"the list of {entries} gives the same page again and again")

    def _get(self, path: str, query: Mapping[str, Any]) -> JsonObject:
        url = f"{self._access.url}{_PATH}/{path}"
        if query:
            url += f"?{urlencode(query, doseq=True)}"
        headers = {"Accept": "application/json", **self._access.headers()}
        request = urllib.request.Request(url, headers=headers)
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise self._refusal(error, path) from error
        except (OSError, http.client.HTTPException) as error:  # a URLError has a reason
            reason = getattr(error, "reason", error)
            raise self._error(
                f"no answer: {reason}. Is Kubeflow running, and the address right?"
            ) from error
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._error(
                f"expected JSON, got {_short(text.decode(errors='replace'))}. Is that the address "
                "of Kubeflow Pipelines' API, as in kfp+https://host/pipeline?"
            )
        return document

    def _refusal(self, error: urllib.error.HTTPError, path: str) -> InputError:
        with error:
            said = error.read(1 << 16).decode(errors="replace")
        if error.code in _REDIRECTS:
            return self._error(
                f"it sends {path} elsewhere ({error.code}), as to a page of login. {_HINTS[401]}"
            )
        with contextlib.suppress(ValueError, AttributeError):  # where it is no JSON object
            document = json.loads(said)
            said = str(document.get("message") or document.get("error_message") or said)
        hint = _NO_API if error.code in (404, 501) else _HINTS.get(error.code, "")
        answer = f"{path}: {error.code} {error.reason}: {_short(said)}"
        kind = _NotFoundError if error.code == 404 else InputError
        return self._error(f"{answer}. {hint}".rstrip(), kind)

    def _error(self, text: str, kind: type[InputError] = InputError) -> InputError:
        return kind(f"metadata {self.shown!r}: {text}")


class _NotFoundError(InputError):
    """Kubeflow has none of that name."""


_REDIRECTS = (301, 302, 303, 307, 308)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the token is for the server that was named alone."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuses."""


def _short(value: Json) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"
