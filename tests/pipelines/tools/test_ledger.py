"""`ledger` as called by a user, on the ledger of a run."""

import json
import shutil

import pytest
from click.testing import CliRunner

import trainer_utils
from pipelines.cli.app import app
from tests.make import write_rows
from trainer_utils.format import Feature

FEATURES = {"filename": Feature(type="string"), "label": Feature(type="int")}


@pytest.fixture
def run(tmp_path, write_dataset) -> str:
    examples = [{"filename": [f"cat/\x1b{n}.jpg".encode()], "label": [n]} for n in range(20)]
    shards = [examples[:9], examples[9:]]
    uri = write_dataset(tmp_path / "data", {"train": shards}, FEATURES)
    dataset = trainer_utils.input_fn(
        uri, features="label", batch_size=8, shuffle=False, repeat=True
    )
    progress = trainer_utils.InputProgress(str(tmp_path / "run"))
    for step, _ in enumerate(progress.follow(dataset)):
        if step == 4:
            progress.serialize()
            return str(tmp_path / "run")
    raise AssertionError


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["ledger", *arguments])


def test_ledger_command_finds_steps_and_records(run):
    batch = json.loads(invoke(run, "--step", "3", "--json").stdout)
    assert (batch["step"], batch["epoch"], batch["step_in_epoch"]) == (3, 1, 0)
    assert [row["record"]["number"] for row in batch["rows"]] == list(range(8))
    assert batch["rows"][3]["record"]["name"] == "cat/\x1b3.jpg"
    text = invoke(run, "--step", "3").stdout
    assert r"cat/\x1b3.jpg" in text
    assert "\x1b" not in text
    seen = json.loads(invoke(run, "--record", "cat/\x1b9.jpg", "--json").stdout)
    assert seen == json.loads(invoke(run, "--place", "train:9", "--json").stdout)
    assert seen["records"][0]["shard"] == "Split-train/data_tfrecord-00001-of-00002"
    assert [at["step"] for at in seen["records"][0]["steps"]] == [1, 4]
    assert "seen 2 times" in invoke(run, "--place", "train:9").stdout
    facts = json.loads(invoke(run, "--json").stdout)
    assert (facts["steps"], len(facts["segments"])) == (5, 1)
    assert invoke(run).stdout.startswith("5 steps of ")


def test_moved_dataset_is_found_with_the_dataset_flag(run, tmp_path, write_dataset):
    (tmp_path / "data").rename(tmp_path / "moved")
    moved = str(tmp_path / "moved")
    found = invoke(run, "--step", "0", "--dataset", moved, "--json")
    assert json.loads(found.stdout)["rows"][7]["record"]["number"] == 7
    assert invoke(run, "--step", "0").exit_code == 1
    other = write_dataset(tmp_path / "other", {"train": [[{"label": [1]}]]}, {})
    refused = invoke(run, "--step", "0", "--dataset", other)
    assert refused.exit_code == 1
    assert "expected the dataset of the run" in refused.stderr
    assert invoke(run, "--step", "0", "--dataset", moved, "--dataset", moved).exit_code == 2


def test_unknown_records_and_steps_are_errors(run, subtests):
    for arguments, code in (
        (["--step", "5"], 2),
        (["--place", "train:20"], 2),
        (["--place", "train"], 2),
        (["--record", "dog.jpg"], 1),
        (["--record", "x", "--step", "1"], 2),
    ):
        with subtests.test(arguments=arguments):
            assert invoke(run, *arguments).exit_code == code, arguments


def test_damaged_record_has_no_name(run, tmp_path):
    path = next((tmp_path / "data/Split-train").glob("*00000-of*"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"3.jpg", b"4.jpg"))
    names = [
        row["record"]["name"]
        for row in json.loads(invoke(run, "--step", "0", "--json").stdout)["rows"]
    ]
    assert names[2:5] == ["cat/\x1b2.jpg", "train 3", "cat/\x1b4.jpg"]
    shutil.rmtree(tmp_path / "data")
    assert invoke(run, "--step", "0").exit_code == 1


def test_packs_are_listed_by_document(tmp_path):
    """Check that the tokens of a batch come from the documents in the ledger, in order."""
    lengths = [5, 30, 1, 12, 0, 9, 40, 3]
    rows = [
        {"id": f"{number}", "tokens": [number * 100 + place for place in range(length)]}
        for number, length in enumerate(lengths)
    ]
    uri = write_rows(tmp_path / "data", rows, num_shards=2)
    pack = trainer_utils.PackOptions(length=16, strategy="best_fit")
    dataset = trainer_utils.input_fn(uri, batch_size=2, pack=pack, shuffle="global")
    progress = trainer_utils.InputProgress(str(tmp_path / "run"))
    batches = [
        batch["tokens"].numpy()[batch["segment_ids"].numpy() > 0].tolist()
        for batch in progress.follow(dataset)
    ]
    progress.serialize()
    steps_of: dict[str, set[int]] = {}
    for step, tokens in enumerate(batches):
        told = json.loads(invoke(str(tmp_path / "run"), "--step", f"{step}", "--json").stdout)
        found = []
        for row in told["rows"]:
            name, (begin, end) = row["record"]["name"], row["tokens"]
            found += [int(name) * 100 + place for place in range(begin, end)]
            steps_of.setdefault(name, set()).add(step)
        assert found == tokens
    assert {*steps_of} == {f"{number}" for number, length in enumerate(lengths) if length}
    for name, steps in steps_of.items():
        seen = json.loads(invoke(str(tmp_path / "run"), "--record", name, "--json").stdout)
        assert [at["step"] for at in seen["records"][0]["steps"]] == sorted(steps)
    shown = [invoke(str(tmp_path / "run"), "--step", f"{n}").stdout for n in range(len(batches))]
    assert sum(text.count("tokens 16 to 31") for text in shown) == 1
