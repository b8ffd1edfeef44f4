"""`show` finds records by name in all splits, and says where there is none."""

import json

import pytest
from click.testing import CliRunner

import trainer_utils
from pipelines.cli.app import app


@pytest.mark.parametrize("count", ["20", "3"])
def test_the_command_shows_the_records_of_a_name(tmp_path, count):
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), num_shards=2) as writer:
        for number in range(40):
            name, split = f"{number % 10}.jpg", "train" if number < 30 else "eval"
            writer.write(split, {"filename": name, "n": number})
    arguments = ["show", str(tmp_path / "out"), "--record", "7.jpg", "-n", count, "--json"]
    found = json.loads(CliRunner().invoke(app, arguments).stdout)
    shown = {(each["split"], each["values"]["n"], each["values"]["filename"]) for each in found}
    of_name = [("train", 7, "7.jpg"), ("train", 17, "7.jpg"), ("train", 27, "7.jpg")]
    of_name += [("eval", 37, "7.jpg")]
    assert len(found) == len(shown) == min(int(count), 4)
    assert shown <= {*of_name}
    assert [each["split"] for each in found] == [split for split, _, _ in of_name][: len(found)]


def test_a_name_of_no_record_and_a_split_beside_a_name_are_refused(tmp_path):
    with trainer_utils.DatasetWriter(str(tmp_path / "out"), num_shards=1) as writer:
        writer.write("train", {"filename": "7.jpg"})
    for arguments, status, said in (
        ([], 1, "record '5.jpg': expected the filename or id of a record of"),
        (["--split", "train"], 2, "--split, --record: expected one of them"),
    ):
        command = ["show", str(tmp_path / "out"), "--record", "5.jpg", *arguments]
        result = CliRunner().invoke(app, command)
        assert (result.exit_code, said in result.stderr) == (status, True)
