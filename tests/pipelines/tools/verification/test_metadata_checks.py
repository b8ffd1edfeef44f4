"""Problems that `verify` finds outside the shards; tests/faults damages files of all kinds."""

import dataclasses
import shutil

import google_crc32c
import pytest

from components import steps
from components.example_gen.input_selection import InputSelection
from components.example_gen.settings import ImageSettings
from pipelines.tools.verification import verify_dataset
from tests.make import photo
from trainer_utils.format import Manifest, RecordIndex
from trainer_utils.format.lineage import Origin, Step

DAMAGE = {
    "a bit": lambda data, at: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :],
    "the case": lambda data, at: data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :],
    "all bits": lambda data, at: data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :],
    "a blank for another": lambda data, at: (
        data[:at] + (b"\t" if data[at : at + 1] == b" " else b" ") + data[at + 1 :]
    ),
    "one more blank": lambda data, at: data[:at] + b" " + data[at:],
    "one more newline": lambda data, at: data[:at] + b"\n" + data[at:],
    "one more of it": lambda data, at: data[: at + 1] + data[at:],
    "one less": lambda data, at: data[:at] + data[at + 1 :],
    "the end": lambda data, at: data[:at],
}
FIRST = "Split-train/data_tfrecord-00000-of-00002"
JSON = ("manifest.json", "datum_to_type_and_shape_mapping.json", "shard_info.json")


def check(dataset, path, data, what):
    """Replace a file by `data`, and check that verify names the file."""
    whole = path.read_bytes()
    path.write_bytes(data)
    try:
        found = verify_dataset(str(dataset))
        assert not found.is_good, (path, what)
        assert str(path.relative_to(dataset)) in str(found), (path, what, str(found))
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", JSON)
def test_change_of_any_json_byte_is_found(dataset, name):
    path = dataset / name
    whole = path.read_bytes()
    ways = list(DAMAGE.items())
    for at in range(0, len(whole), 5):  # one change per place; each kind of change many times
        what, damage = ways[at % len(ways)]
        if (data := damage(whole, at)) != whole:
            check(dataset, path, data, (what, at))
    assert verify_dataset(str(dataset)).is_good


@pytest.mark.parametrize(
    "name",
    [
        "Split-train/data_tfrecord-00002-of-00003",
        "Split-train/._data_tfrecord-00000-of-00002",
        "Split-test/data_tfrecord-00000-of-00001",
        "index/train-00002-of-00003.npy",
        "index/notes",
        "vocab/other.txt",
        "vocab/notes.md",
        "dataset_info.json",
        "features.json",
        "example.schema.json",
    ],
)
def test_extra_file_is_named(dataset, name):
    (dataset / name).parent.mkdir(exist_ok=True)
    (dataset / name).write_bytes(b"{}")
    (problem,) = verify_dataset(str(dataset)).problems
    assert problem.path == name
    assert "is not in the dataset's manifest" in problem.message


@pytest.mark.parametrize("rest", ["all", "no index", "Datum's alone"])
def test_deleted_manifest_is_found_by_our_other_files(dataset, rest):
    (dataset / "manifest.json").unlink()
    if rest != "all":
        shutil.rmtree(dataset / "index")
    if rest == "Datum's alone":
        shutil.rmtree(dataset / "vocab")
        (dataset / "rejects.jsonl").unlink()
    found = verify_dataset(str(dataset))
    (problem,) = found.problems
    assert problem.path == "manifest.json"
    assert "is missing" in problem.message
    assert found.records == {"train": 20, "eval": 5}, "what is there is read all the same"


def test_changed_lineage_is_a_problem_but_missing_is_not(dataset, subtests):
    step = Step(component="Gen", settings={"input_base": "photos/"})
    text = Origin(made_by=step).to_json()
    assert verify_dataset(str(dataset)).problems == []
    (dataset / "lineage.json").write_text(text)
    assert verify_dataset(str(dataset)).problems == []
    for changed in (text.replace("photos", "phatos"), text[:90], ""):
        with subtests.test(changed=changed):
            (dataset / "lineage.json").write_text(changed)
            (problem,) = verify_dataset(str(dataset)).problems
            assert problem.path == "lineage.json"


@pytest.mark.parametrize("column", ["lengths", "payload_crcs"])
def test_index_is_compared_with_the_records(dataset, column):
    path, manifest_path = dataset / "index/train-00000-of-00002.npy", dataset / "manifest.json"
    manifest = Manifest.from_json(manifest_path.read_text(), path="")
    index = RecordIndex.from_bytes(path.read_bytes(), path="")
    values = getattr(index, column).copy()
    values[0], values[1] = values[0] + 1, values[1] - 1  # the file is as long as they say
    index = dataclasses.replace(index, **{column: values})
    path.write_bytes(index.to_bytes())
    shard = manifest.shards[[s.path for s in manifest.shards].index(FIRST)]
    own = shard._replace(index_crc32c=google_crc32c.value(index.to_bytes()))
    shards = tuple(own if one is shard else one for one in manifest.shards)
    manifest_path.write_text(dataclasses.replace(manifest, shards=shards).to_json())
    found = verify_dataset(str(dataset))
    assert [problem.path for problem in found.problems] == ["index/train-00000-of-00002.npy"]


def test_inputs_file_is_checked(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(6):
        (tmp_path / f"in/{number}.jpg").write_bytes(photo(number))
    out = tmp_path / "out"
    steps.convert(InputSelection(base=str(tmp_path / "in")), str(out), ImageSettings())
    assert verify_dataset(str(out)).is_good
    check(out, out / "inputs.json", (out / "inputs.json").read_bytes()[:-20] + b" " * 20, "blanks")
