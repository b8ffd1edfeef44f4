"""Files in other encodings than UTF-8."""

import json

import pytest

from components.tables import reading
from trainer_utils.core.errors import InputError

ENCODINGS = {
    "utf-16": "Straße, 東京, 😀",
    "utf-32": "Straße, 東京, 😀",
    "cp1252": "“Straße” 5 €",
    "shift_jis": "東京、表示",
    "gb18030": "北京",
    "utf-8": "Straße, 東京, 😀",
}


@pytest.mark.parametrize(
    ("layout", "encoding"),
    [
        *(("csv", encoding) for encoding in ENCODINGS),
        *((layout, "utf-16") for layout in ("jsonl", "json")),
        ("lines", "cp1252"),
        ("folder", "shift_jis"),
    ],
)
def test_a_file_may_be_in_another_encoding(convert, monkeypatch, encoding, layout):
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 3)  # cuts characters in two
    text = ENCODINGS[encoding]
    files = {
        "csv": ("t.csv", f'text,label\n"{text}",a\n'),
        "jsonl": ("t.jsonl", json.dumps({"text": text, "label": "a"}, ensure_ascii=False)),
        "json": ("t.json", json.dumps({"1": {"text": text, "label": "a"}}, ensure_ascii=False)),
        "lines": ("t.txt", text + "\n"),
        "folder": ("a/t.txt", text),
    }
    name, content = files[layout]
    base = name if layout == "lines" else ""
    settings = {"layout": layout} if layout == "folder" else {}  # one class alone is ambiguous
    data = content.encode(encoding)
    dataset = convert({name: data}, base=base, encoding=encoding, **settings)
    (row,) = dataset.by_id().values()
    assert row["text"] == [text.encode()]
    assert not dataset.rejects


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("shift_jis", "text,n\n東京,1\n".encode("shift_jis") + b"\x81\xff,2\nc,3\n"),
        ("cp1252", b"text,n\na,1\n\x81,2\nc,3\n"),
        ("utf-16-le", "text,n\na,1\n".encode("utf-16-le") + b"\x00\xd8x\x00,\x002\x00\n\x00"),
    ],
)
def test_bytes_invalid_in_the_encoding_raise(convert, encoding, data):
    with pytest.raises(InputError) as caught:
        convert({"t.csv": data}, encoding=encoding, max_reject_fraction=0.5)
    assert caught.value.path == "t.csv"
