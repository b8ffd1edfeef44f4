"""Where Kubeflow Pipelines' API is, and by what right it is asked: as Kubeflow's own client has it.

access = KubeflowAccess.of("kfp+https://kubeflow.example/pipeline?namespace=team")
access.url, access.namespace       # 'https://kubeflow.example/pipeline', 'team'
access.headers()                   # {'Authorization': 'Bearer …'}

A token is that of the variable `KFP_EXISTING_TOKEN`, else what is in the file that
`KF_PIPELINES_SA_TOKEN_PATH` names, else in the file that Kubeflow mounts in a pod. Cookie, header
and namespace are also taken from `~/.config/kfp/context.json`.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from urllib.parse import parse_qs, urlsplit

from pipelines.lineage.metadata_address import without_password
from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.json_text import JsonObject

__all__ = ["KubeflowAccess"]

_FORM = "kfp+https://host:port/path?namespace=name, or kfp+http://…, as kfp.Client has the host"
_SCHEMES = {"kfp+http": "http", "kfp+https": "https"}
_TOKEN, _NAMESPACE = "KFP_EXISTING_TOKEN", "KFP_NAMESPACE"  # of kfp's command line
_TOKEN_FILE = "KF_PIPELINES_SA_TOKEN_PATH"
_MOUNTED_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"
_OF_KUBEFLOW_ITSELF = "kubeflow"  # kfp's default: where Kubeflow is, and no user's namespace
_CONTEXT_FILE = "~/.config/kfp/context.json"
_SETTINGS = ("namespace", "client_authentication_cookie")
_HEADER = ("client_authentication_header_name", "client_authentication_header_value")


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowAccess:
    """Place and rights.

    Args:
        url: of Kubeflow Pipelines, without a slash at its end.
        namespace: whose runs and artifacts are meant; empty where Kubeflow knows no users.
        shown: how messages name it.
    """

    url: str
    namespace: str
    shown: str

    @classmethod
    def of(cls, metadata: str) -> "KubeflowAccess":
        """From an address.

        Raises:
            ConfigError: it is no such address.
            InputError: the file of kfp's client cannot be read.
        """
        shown = without_password(metadata)
        parts = urlsplit(metadata)
        query = parse_qs(parts.query, keep_blank_values=True)
        names = query.pop("namespace", [])
        is_plain = not (query or parts.fragment or "@" in parts.netloc or len(names) > 1)
        if parts.scheme not in _SCHEMES or not parts.hostname or not is_plain:
            raise ConfigError.of("metadata", shown, allowed=_FORM)
        place = parts._replace(scheme=_SCHEMES[parts.scheme], query="")
        return cls(
            url=place.geturl().rstrip("/"),
            namespace=names[0] if names else _usual_namespace(),
            shown=shown,
        )

    def headers(self) -> dict[str, str]:
        """What each request carries; read anew, since tokens in files are renewed.

        Raises:
            InputError: a file cannot be read.
        """
        found = {}
        context = _context()
        name, value = (str(context.get(key) or "") for key in _HEADER)
        if name and value:
            found[name] = value
        if cookie := context.get(_SETTINGS[1]):
            found["Cookie"] = str(cookie)
        if token := _token():
            found["Authorization"] = f"Bearer {token}"
        for header, text in found.items():
            if not (text.isascii() and text.isprintable()):  # nor is a secret shown
                raise InputError(
                    f"{header} for {self.shown!r}: expected one line of ASCII, as a token or a "
                    f"cookie is; see {_TOKEN}, {_TOKEN_FILE} and {_CONTEXT_FILE}"
                )
        return found


def _usual_namespace() -> str:
    given = os.environ.get(_NAMESPACE, "")
    if given and given != _OF_KUBEFLOW_ITSELF:
        return given
    return str(_context().get(_SETTINGS[0]) or "")


def _token() -> str:
    if given := os.environ.get(_TOKEN, "").strip():
        return given
    named = os.environ.get(_TOKEN_FILE, "")
    path = named or _MOUNTED_TOKEN
    if not named and not os.path.exists(path):
        return ""
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().strip()
    except OSError as error:
        raise InputError(
            f"{_TOKEN_FILE} {path!r}: expected a file with a token: {error.strerror}"
        ) from error


def _context() -> Mapping[str, object]:
    path = os.path.expanduser(_CONTEXT_FILE)
    if not os.path.exists(path):
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            found: JsonObject = json.load(stream)
    except (OSError, ValueError) as error:
        raise InputError(f"{path!r}: expected the JSON of Kubeflow's client: {error}") from error
    return found if isinstance(found, dict) else {}
