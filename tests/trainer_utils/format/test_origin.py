"""`lineage.json`, written and read."""

import json

import pytest

from trainer_utils.format import Accounting, DatasetError, Manifest, Shard
from trainer_utils.format.json_text import render_json, seal
from trainer_utils.format.manifest import Ancestor, DatasetInput, DatasetSummary, Origin, Step

PATH = "out/lineage.json"


@pytest.fixture
def origin() -> Origin:
    summary = DatasetSummary(
        producer="ImageExampleGen",
        input_fingerprint="ab",
        versions={"tfx": "1.16.0"},
        accounting={"train": Accounting(found=3, written=2, rejected=1), "eval": Accounting()},
        num_shards={"train": 2, "eval": 1},
        content={"train": "0" * 16},
        rejects={"NOT_UTF8": 1},
    )
    first = Step(component="ImageExampleGen", settings={"input_base": "größe/"})
    given = DatasetInput(name="examples", digest="1")
    return Origin(
        made_by=Step(
            component="ShardBalancer",
            settings={"num_shards": {"train": 8}, "seed": 5},
            inputs=(given,),
            output="balanced_examples",
        ),
        ancestors=(
            Ancestor(digest="2"),
            Ancestor(digest="1", summary=summary, made_by=first),
        ),
    )


def test_what_was_written_is_read(origin):
    assert Origin.from_json(origin.to_json(), path=PATH) == origin
    summary = Origin.from_json(origin.to_json(), path=PATH).ancestors[1].summary
    assert list(summary.num_shards) == list(summary.accounting) == ["train", "eval"]


def test_what_a_later_program_adds_to_an_entry_is_passed_over(origin):
    value = json.loads(origin.to_json())
    value["made_by"]["host"] = value["ancestors"][0]["host"] = "h"
    value["made_by"]["inputs"][0]["host"] = "h"
    assert Origin.from_json(resealed(value), path=PATH) == origin


def resealed(value: dict) -> str:
    return seal(render_json(value))


def test_other_values_and_any_changed_byte_are_refused(origin):
    value = json.loads(origin.to_json())
    made_by = [
        {"component": 5},
        {"inputs": [{"name": "examples", "digest": 1}]},
        {"inputs": [{}]},
        {"settings": "none"},
    ]
    changes = [{"made_by": {**value["made_by"], **change}} for change in made_by]
    for change in ({"format_version": 2}, {"ancestors": None}, {"made_by": {}}, *changes):
        with pytest.raises(DatasetError, match=r"out/lineage\.json"):
            Origin.from_json(resealed({**value, **change}), path=PATH)
    for place in range(0, 600, 37):
        data = bytearray(origin.to_json().encode())
        data[place] ^= 1
        with pytest.raises(DatasetError, match=r"out/lineage\.json"):
            Origin.from_json(data.decode(errors="surrogateescape"), path=PATH)


def test_a_summary_is_of_the_whole_dataset():
    shards = [
        Shard(path=f"s{number}", split="train", records=1, bytes=9, crc32c=0, content=content)
        for number, content in enumerate((0xF, 0x1))
    ]
    manifest = Manifest(
        shards=tuple(shards),
        accounting={"train": Accounting(found=2, written=2)},
        producer="P",
        config={},
        input_fingerprint="ab",
        versions={"tfx": "1"},
    )
    assert DatasetSummary.of(manifest) == DatasetSummary(
        producer="P",
        input_fingerprint="ab",
        versions={"tfx": "1"},
        accounting={"train": Accounting(found=2, written=2)},
        num_shards={"train": 2},
        content={"train": f"{manifest.content_of('train'):016x}"},
    )
