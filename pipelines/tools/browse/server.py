"""The web server of `tfx-shards browse`: this machine only, reading only.

    with BrowseServer("datasets/photos") as server:
        print(server.url)
        server.serve_forever()

A page of another site cannot read it either: requests that were not meant for this address
(DNS rebinding) are refused, and pages allow neither scripts nor anything from elsewhere.
"""

import http.server
import json
import shlex
import threading
import urllib.parse
from collections.abc import Mapping

from pipelines.tools.browse.search import Query, find_examples
from pipelines.tools.html import CONTENT_SECURITY_POLICY, load_template
from pipelines.tools.records import Example, ExampleReader, Value
from pipelines.tools.records.display import MOST_SHOWN, describe_value
from trainer_utils.format import DatasetError

__all__ = ["BrowseServer"]

ADDRESS = "127.0.0.1"
_PAGE_RECORDS = 48
_TYPES = {
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".mp3": "audio/mpeg",
}


class BrowseServer(http.server.ThreadingHTTPServer):
    """Serves one dataset; it listens as soon as it is made.

    Args:
        uri: of the dataset.
        port: 0 for any that is free.

    Raises:
        DatasetError: there is no dataset.
        OSError: the port is taken.
    """

    daemon_threads = True

    def __init__(self, uri: str, *, port: int = 0) -> None:
        self.uri = uri
        self.reader = ExampleReader(uri)
        self.lock = threading.Lock()  # a reader remembers what it opened
        super().__init__((ADDRESS, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{ADDRESS}:{self.server_port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: BrowseServer
    server_version = "tfx-shards"
    sys_version = ""

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self._own_names():
            self._send(403, b"This address is served to this machine only.", "text/plain")
            return
        parts = urllib.parse.urlsplit(self.path)
        fields = {name: values[-1] for name, values in urllib.parse.parse_qs(parts.query).items()}
        pages = {"/": self._list, "/record": self._record, "/file": self._file}
        try:
            content, kind = pages[parts.path](fields)
        except (KeyError, IndexError, ValueError) as error:
            damaged = isinstance(error, DatasetError)
            text = str(error) if damaged else "There is no such page."
            page = _render("message.html", message=text)
            self._send(500 if damaged else 404, page, "text/html")
            return
        self._send(200, content, kind)

    def _own_names(self) -> set[str]:
        return {f"{host}:{self.server.server_port}" for host in (ADDRESS, "localhost")}

    def _list(self, fields: dict[str, str]) -> tuple[bytes, str]:
        reader = self.server.reader
        query = Query(
            split=fields.get("split", reader.splits[0]),
            label=fields.get("label", ""),
            text=fields.get("text", ""),
            start=max(int(fields.get("start", 0)), 0),
        )
        with self.server.lock:
            splits = {split: reader.count(split) for split in reader.splits}
            found = find_examples(reader, query, most=_PAGE_RECORDS)
        following = {**vars(query), "start": found.next_start}
        page = _render(
            "list.html",
            uri=self.server.uri,
            splits=splits,
            query=query,
            labels=reader.labels.get("label", reader.labels.get("labels", ())),
            cards=[_card(example) for example in found.examples],
            next_page=None if found.next_start is None else _link("/", following),
        )
        return page, "text/html"

    def _record(self, fields: dict[str, str]) -> tuple[bytes, str]:
        example = self._example(fields)
        rows = [
            {
                "name": name,
                "what": describe_value(value),
                "file": _file_link(example, name),
                "kind": value.kind if value.is_file else "",
                "text": "\n\n".join(value.texts) if _is_long(value) else "",
                "json": json.dumps(value.to_json(), ensure_ascii=False)
                if value.kind == "number" and len(value.values) > 1
                else "",
            }
            for name, value in example.values.items()
        ]
        with self.server.lock:
            last = self.server.reader.count(example.split) - 1
        place = {"split": example.split}
        page = _render(
            "record.html",
            example=example,
            rows=rows,
            before=_link("/record", {**place, "number": example.number - 1})
            if example.number
            else None,
            after=_link("/record", {**place, "number": example.number + 1})
            if example.number < last
            else None,
            back=_link("/", {**place, "start": example.number}),
            command=shlex.join(
                ["tfx-shards", "lineage", self.server.uri, "--record", example.name]
            ),
        )
        return page, "text/html"

    def _file(self, fields: dict[str, str]) -> tuple[bytes, str]:
        value = self._example(fields).values[fields["feature"]]
        if not value.is_file:
            raise KeyError(fields["feature"])
        return value.content, _TYPES.get(value.suffix, "application/octet-stream")

    def _example(self, fields: dict[str, str]) -> Example:
        number, split = int(fields["number"]), fields["split"]
        with self.server.lock:
            if not 0 <= number < self.server.reader.count(split):
                raise IndexError(number)
            (example,) = self.server.reader.read(split, [number])
        return example

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        for name, value in {
            "Content-Type": kind + charset,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: what is asked for is the user's own."""


def _render(name: str, **values: object) -> bytes:
    return load_template(f"browse/{name}").render(**values).encode("utf-8", "backslashreplace")


def _is_long(value: Value) -> bool:
    return value.kind == "text" and max(map(len, value.texts)) > MOST_SHOWN


def _card(example: Example) -> dict[str, object]:
    image = next((n for n, v in example.values.items() if v.kind == "image" and v.is_file), None)
    label = example.values.get("label")
    text = next((v for v in example.values.values() if v.kind == "text"), None)
    return {
        "link": _link("/record", {"split": example.split, "number": example.number}),
        "image": None if image is None else _file_link(example, image),
        "name": example.name,
        "label": "" if label is None else describe_value(label),
        "text": "" if image is not None or text is None else describe_value(text),
    }


def _file_link(example: Example, feature: str) -> str:
    place = {"split": example.split, "number": example.number, "feature": feature}
    return _link("/file", place)


def _link(path: str, fields: Mapping[str, object]) -> str:
    return f"{path}?{urllib.parse.urlencode(fields)}"
