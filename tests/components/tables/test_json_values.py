"""Chats and columns of kind `json` are kept as JSON."""

import json

import pyarrow as pa
import pytest

from components.tables.json_values import is_chat
from tests.components.plain_runs import convert, read_records, write_files
from tests.components.tables.table_files import parquet_of
from trainer_utils.core.errors import InputError

TOOL_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}],
}
CHATS = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße?"}, TOOL_CALL],
    [{"role": "user", "content": "Q\n1"}, {"role": "assistant", "content": 'A "1"'}],
]
SHAREGPT = [[{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]]
CHAT_TYPE = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def lines(rows: list[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def texts_in(tmp_path, files, feature, **settings):
    """Return the values of a feature as JSON, in the order of the inputs."""
    source = write_files(tmp_path / "in", files)
    converted = convert(source, tmp_path / "out", **settings)
    records = read_records(tmp_path / "out", converted)["train"]
    return [json.loads(*r[feature]) if feature in r else None for r in records]


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_chats_are_kept_as_json(tmp_path, suffix):
    rows = [{"messages": chat, "n": n} for n, chat in enumerate(CHATS)]
    data = lines(rows) if suffix == "jsonl" else json.dumps(rows)
    assert texts_in(tmp_path, {f"train.{suffix}": data}, "messages") == CHATS


def test_chats_by_other_names_are_kept_as_json(tmp_path):
    rows = [{"data": {"conversations": chat}} for chat in SHAREGPT]
    found = texts_in(tmp_path, {"train.jsonl": lines(rows)}, "data.conversations")
    assert found == SHAREGPT


def test_chats_of_parquet_are_kept_as_json(tmp_path):
    plain = [[{"role": m["role"], "content": m["content"]} for m in chat] for chat in CHATS]
    data = parquet_of({"messages": pa.array([*plain, None, []], CHAT_TYPE)})
    assert texts_in(tmp_path, {"train.parquet": data}, "messages") == [*plain, None, []]


def test_an_empty_chat_is_a_chat(tmp_path):
    data = lines([{"messages": []}, {"messages": CHATS[1]}, {"messages": None}])
    assert texts_in(tmp_path, {"train.jsonl": data}, "messages") == [[], CHATS[1], None]


VALUES = [{"b": [1, {"c": None}]}, {"b": []}, None, 5, "x", [1, "y", 2.5]]


def test_any_value_can_be_kept_as_json(tmp_path):
    data = lines([{"a": value, "n": 1} for value in VALUES])
    found = texts_in(tmp_path, {"train.jsonl": data}, "a", columns={"a": "json"})
    assert found == VALUES


def test_parquet_structs_can_be_kept_as_json(tmp_path):
    kind = pa.struct(
        [
            ("when", pa.timestamp("s")),
            ("map", pa.map_(pa.string(), pa.int64())),
            ("deep", CHAT_TYPE),
        ]
    )
    values = [{"when": 0, "map": [("k", 1)], "deep": [CHATS[1][0]]}, None]
    data = parquet_of({"x": pa.array(values, kind), "n": [1, 2]})
    expected = {"when": "1970-01-01T00:00:00", "map": {"k": 1}, "deep": [CHATS[1][0]]}
    found = texts_in(tmp_path, {"train.parquet": data}, "x", columns={"x": "json"})
    assert found == [expected, None]


@pytest.mark.parametrize(
    "files",
    [
        {"train.jsonl": lines([{"x": [{"a": 1}]}])},
        {"train.jsonl": lines([{"x": [[1], [2]]}])},
        {"train.jsonl": lines([{"x": [1, None]}])},
        {"train.json": json.dumps([{"x": [{"a": 1}]}])},
        {"train.parquet": parquet_of({"x": [[{"a": 1}]]})},
        {"train.parquet": parquet_of({"x": [[1, None]]})},
        {"train.parquet": parquet_of({"x": pa.array([2**64 - 1], pa.uint64())})},
        {"train.jsonl": lines([{"x": CHATS[0]}, {"x": "words"}])},
    ],
    ids=str,
)
def test_value_that_cannot_be_a_feature_raises_with_a_fix(tmp_path, files):
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match=r"columns={'x': 'json'} \(--column x=json\)"):
        convert(source, tmp_path / "out")
    assert texts_in(tmp_path, files, "x", columns={"x": "json"})[0] is not None


def test_only_a_list_of_messages_is_a_chat():
    assert all(map(is_chat, [*CHATS, *SHAREGPT]))
    assert not any(map(is_chat, [[], None, "x", {}, [{"role": "user"}], [CHATS[0][0], "x"]]))
