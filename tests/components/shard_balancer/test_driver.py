"""The fingerprint by which TFX sees that a file or dataset of the settings has changed."""

import json

from tfx.orchestration.portable.data_types import ExecutionInfo

from components import ShardBalancer
from components.shard_balancer import FINGERPRINT
from tests.components.shard_balancer.test_changes import rows, write


def drive(**properties):
    driver = ShardBalancer.DRIVER_CLASS(None)
    output = driver.run(ExecutionInfo(exec_properties=properties))
    return {name: value.string_value for name, value in output.exec_properties.items()}


def test_what_lies_in_files_and_datasets_makes_the_fingerprint(tmp_path):
    names, labels = tmp_path / "names.txt", tmp_path / "labels.csv"
    names.write_text("a\n")
    labels.write_text("name,label\na,3\n")
    write(tmp_path / "more", rows(5))
    settings = {
        "exclude": str(names),
        "relabel": json.dumps(str(labels)),
        "add": json.dumps([str(tmp_path / "more")]),
    }
    seen = [drive(**settings)]
    assert drive(**settings) == seen[0]
    names.write_text("b\n")
    seen.append(drive(**settings))
    labels.write_text("name,label\na,4\n")
    seen.append(drive(**settings))
    write(tmp_path / "other", rows(6))
    (tmp_path / "more").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "more")
    seen.append(drive(**settings))
    assert len({found[FINGERPRINT] for found in seen}) == 4


def test_settings_that_name_nothing_stay_as_they_are():
    assert drive(num_shards=3, exclude=json.dumps(["a"]), where="height > 3") == {}


def test_in_a_notebook_it_is_among_the_properties(tmp_path):
    (tmp_path / "names.txt").write_text("a\n")
    given = {"exclude": str(tmp_path / "names.txt"), "num_shards": 3}
    driver = ShardBalancer.DRIVER_CLASS(metadata_handle=None)
    fingerprint = drive(**given)[FINGERPRINT]
    assert driver.resolve_exec_properties(given, None, None) == {**given, FINGERPRINT: fingerprint}
