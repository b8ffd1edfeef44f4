"""A local hub of datasets that answers the requests of `huggingface_hub` for `hf://`.

    with hub("team/photos", {"train/a.bin": b"..."}) as endpoint:
        subprocess.run(command, env={**os.environ, "HF_ENDPOINT": endpoint})

Source: https://huggingface.co/docs/hub/api
"""

import contextlib
import hashlib
import json
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextlib.contextmanager
def hub(repository: str, files: Mapping[str, bytes]) -> Iterator[str]:
    """Serve the files of one dataset.

    Args:
        repository: the name of the dataset.
        files: the content by path; the mapping may change while the server runs.

    Yields:
        The endpoint, for `HF_ENDPOINT`.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            api = f"/api/datasets/{repository}"
            if path in (api, f"{api}/revision/main"):
                self._say({"id": repository, "sha": "0" * 40})
            elif path.startswith(f"{api}/tree/main"):
                folder = path[len(f"{api}/tree/main") :].strip("/")
                found = _tree(files, folder, is_deep=_is_true(query.get("recursive")))
                self._say(found or {"error": "no such entry"}, 200 if found else 404)
            elif path.startswith(f"/datasets/{repository}/resolve/main/"):
                self._send(files.get(path.partition("/resolve/main/")[2]))
            else:
                self._say({"error": "no such dataset"}, 404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self.headers["Content-Type"] == "application/json":
                asked = json.loads(body)["paths"]
            else:
                asked = urllib.parse.parse_qs(body)["paths"]
            found = _tree(files, "", is_deep=True)
            self._say([entry for entry in found if entry["path"] in asked])

        def _send(self, data: bytes | None) -> None:
            if data is None:
                self._say({"error": "no such entry"}, 404)
                return
            start, stop = 0, len(data)
            if asked := self.headers.get("Range"):
                first, _, last = asked.removeprefix("bytes=").partition("-")
                start, stop = int(first), min(int(last or len(data)) + 1, len(data))
            self._answer(206 if asked else 200, data[start:stop], "application/octet-stream")

        def _say(self, value: Any, status: int = 200) -> None:
            self._answer(status, json.dumps(value).encode(), "application/json")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            if status == 404:
                of_dataset = b"dataset" in body
                self.send_header("X-Error-Code", "RepoNotFound" if of_dataset else "EntryNotFound")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _tree(files: Mapping[str, bytes], folder: str, *, is_deep: bool) -> list[dict[str, Any]]:
    """Return the entries of a folder in the hub's format."""
    prefix = f"{folder}/" if folder else ""
    found: dict[str, dict[str, Any]] = {}
    for path, data in files.items():
        if not path.startswith(prefix):
            continue
        names = path[len(prefix) :].split("/")
        for depth in range(1, len(names)):
            above = prefix + "/".join(names[:depth])
            found[above] = {"type": "directory", "path": above, "oid": _oid(above.encode())}
        found[path] = {"type": "file", "path": path, "size": len(data), "oid": _oid(data)}
    return [e for e in found.values() if is_deep or "/" not in e["path"][len(prefix) :]]


def _is_true(values: list[str] | None) -> bool:
    """Parse a boolean of `huggingface_hub`: `True` in older releases, `true` in newer ones."""
    return values is not None and values[0].lower() == "true"


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()
