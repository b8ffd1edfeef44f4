"""Serve a dataset as web pages on this machine; records are read on request, nothing is written.

    with BrowseServer("datasets/photos", port=8765) as server:
        server.serve_forever()          # http://127.0.0.1:8765/

Other web sites cannot read the pages: requests with another Host header (DNS rebinding) are
refused, and the pages allow neither scripts nor content from other addresses.
"""

import dataclasses
import http.server
import json
import os
import shlex
import threading
import urllib.parse
from collections.abc import Sequence

from components.report.display import MAX_SHOWN, describe_value
from components.report.html import CONTENT_SECURITY_POLICY, load_template
from components.report.records import Example, ExampleReader, Value
from trainer_utils.core.errors import TfxShardsError

ADDRESS = "127.0.0.1"
_LABEL = "label"
_PAGE_RECORDS = 48
_MAX_SEARCHED = 20_000  # records of a search in one request: about two seconds
_MAX_SEARCHED_BYTES = 256 << 20
_MAX_LABELS = 1000  # of a list to choose from


@dataclasses.dataclass(frozen=True)
class RecordFilter:
    """The records to list.

    Args:
        label: a class, by its name or number; empty: every class.
        text: a part of the record's name or of one of its strings, in any case; empty: every text.
    """

    label: str = ""
    text: str = ""

    @property
    def is_set(self) -> bool:
        """Whether it leaves any record out."""
        return bool(self.label or self.text)

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a page's address."""
        return {name: value for name, value in vars(self).items() if value}

    def accepts(self, example: Example) -> bool:
        """Return whether a record is listed."""
        if self.label:
            label = example.values.get(_LABEL)
            if label is None or self.label not in (
                *label.names,
                *(label.texts if label.kind == "text" else map(str, label.values)),
            ):
                return False
        if not self.text:
            return True
        texts = [text for value in example.values.values() for text in _strings(value)]
        return any(self.text.casefold() in text.casefold() for text in texts)


def find_page(
    reader: ExampleReader, split: str, start: int, wanted: RecordFilter
) -> tuple[list[Example], int]:
    """Return the records of one page, and the number of the record after the last one read.

    Args:
        reader: the reader of a dataset.
        split: the split to list.
        start: the number of the first record to read.
        wanted: the records to list. At most some thousand records are read for one page.
    """
    size = reader.count(split)
    stop = min(start + (_MAX_SEARCHED if wanted.is_set else _PAGE_RECORDS), size)
    page: list[Example] = []
    num_bytes = 0
    for example in reader.read(split, range(start, stop)):
        if wanted.accepts(example):
            page.append(example)
        num_bytes += sum(value.num_bytes for value in example.values.values())
        if len(page) == _PAGE_RECORDS or (wanted.is_set and num_bytes > _MAX_SEARCHED_BYTES):
            return page, example.number + 1
    return page, stop


def _strings(value: Value) -> Sequence[str]:
    """Return the strings of a value: texts, or names of classes."""
    return value.texts if value.kind == "text" else value.names


class BrowseServer(http.server.ThreadingHTTPServer):
    """An HTTP server of one dataset, which listens from its creation on.

    Args:
        uri: the uri of the dataset.
        port: the port to listen on; 0: any free port.

    Raises:
        DatasetError: there is no dataset at `uri`.
        OSError: the port is in use.
    """

    daemon_threads = True

    def __init__(self, uri: str | os.PathLike[str], *, port: int = 0) -> None:
        self.uri = os.fspath(uri)
        self.reader = ExampleReader(uri)
        self.lock = threading.Lock()  # a reader caches open shards and is not thread-safe
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
        """Answer a request with a page; refuse requests for another host."""
        names = {f"{host}:{self.server.server_port}" for host in (ADDRESS, "localhost")}
        if self.headers.get("Host") not in names:
            self._send(403, b"This address is served to this machine only.", "text/plain")
            return
        parts = urllib.parse.urlsplit(self.path)
        fields = {name: values[-1] for name, values in urllib.parse.parse_qs(parts.query).items()}
        pages = {"/": self._list, "/record": self._record, "/file": self._file}
        try:
            with self.server.lock:
                self._send(200, *pages[parts.path](fields))
        except (KeyError, IndexError, ValueError) as error:
            is_of_dataset = isinstance(error, TfxShardsError)
            text = str(error) if is_of_dataset else "There is no such page."
            self._send(500 if is_of_dataset else 404, *_page("message", message=text))

    def _list(self, fields: dict[str, str]) -> tuple[bytes, str]:
        """Return the page with the records of a split, or those with a name."""
        reader, name = self.server.reader, fields.get("name", "")
        splits = {split: reader.count(split) for split in reader.splits}
        split = fields.get("split", reader.splits[0])
        start = max(int(fields.get("start", 0)), 0)
        wanted = RecordFilter(label=fields.get("label", ""), text=fields.get("text", ""))
        if name:
            page, stop = list(reader.named(name)), splits[split]
        else:
            page, stop = find_page(reader, split, start, wanted)
        has_next = not name and stop < splits[split]
        return _page(
            "list",
            uri=self.server.uri,
            splits=splits,
            split=split,
            name=name,
            wanted=wanted,
            labels=reader.dataset.vocabularies.get(_LABEL, ())[:_MAX_LABELS],
            searched=f"{start:,} to {stop:,} of {splits[split]:,}" if wanted.is_set else "",
            cards=[_card(example) for example in page],
            next_page=_link("", split, start=stop, **wanted.fields) if has_next else None,
        )

    def _record(self, fields: dict[str, str]) -> tuple[bytes, str]:
        """Return the page of one record, with a row for each feature."""
        example = self._example(fields)
        split, number = example.split, example.number
        rows = []
        for name, value in example.values.items():
            text = ""
            if value.kind == "text" and max(map(len, value.texts)) > MAX_SHOWN:
                text = "\n\n".join(value.texts)
            elif value.kind == "number" and len(value.values) > 1:
                text = json.dumps(value.to_json(), ensure_ascii=False)
            row = {"name": name, "what": describe_value(value), "text": text}
            row["file"] = _link("file", split, number=number, feature=name)
            rows.append({**row, "kind": value.kind if value.is_file else ""})
        is_last = number + 1 == self.server.reader.count(split)
        command = ["tfx-shards", "lineage", self.server.uri, "--record", example.name]
        return _page(
            "record",
            example=example,
            rows=rows,
            before=_link("record", split, number=number - 1) if number else None,
            after=None if is_last else _link("record", split, number=number + 1),
            back=_link("", split, start=number),
            command=shlex.join(command),
        )

    def _file(self, fields: dict[str, str]) -> tuple[bytes, str]:
        value = self._example(fields).values[fields["feature"]]
        if not value.is_file:
            raise KeyError(fields["feature"])
        kind = {"image": "image", "sound": "audio"}.get(value.kind)
        name = "png" if value.format == "RAW" else value.format.lower()  # RAW: served as PNG
        return value.content, f"{kind}/{name}" if kind else "application/octet-stream"

    def _example(self, fields: dict[str, str]) -> Example:
        number, split = int(fields["number"]), fields["split"]
        if not 0 <= number < self.server.reader.count(split):
            raise IndexError(number)
        (example,) = self.server.reader.read(split, [number])
        return example

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
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
        """Log nothing: requests are private to the user."""


def _page(template: str, /, **values: object) -> tuple[bytes, str]:
    page = load_template(f"browse/{template}.html").render(**values)
    return page.encode("utf-8", "backslashreplace"), "text/html"


def _card(example: Example) -> dict[str, object]:
    image = next((n for n, v in example.values.items() if v.kind == "image" and v.is_file), None)
    label = example.values.get(_LABEL)
    text = next((v for v in example.values.values() if v.kind == "text"), None)
    place = {"split": example.split, "number": example.number}
    return {
        "link": _link("record", **place),
        "image": None if image is None else _link("file", **place, feature=image),
        "name": example.name,
        "label": "" if label is None else describe_value(label),
        "text": "" if image is not None or text is None else describe_value(text),
    }


def _link(page: str, split: object, **fields: object) -> str:
    return f"/{page}?{urllib.parse.urlencode({'split': split, **fields})}"
