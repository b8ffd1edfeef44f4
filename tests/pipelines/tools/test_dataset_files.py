import pytest

from components.report.doctor import dataset_checks
from components.report.inspection import inspect_dataset
from pipelines.tools.verification import verify_dataset
from trainer_utils.dataset.files import list_dataset
from trainer_utils.format import DatasetError
from trainer_utils.storage import rename


@pytest.fixture(scope="module")
def remote(whole_dataset, in_memory):
    """The same dataset on a file system that is not the local one."""
    return in_memory(whole_dataset, "bucket/dataset")


def test_a_remote_dataset_is_listed_as_a_local_one(whole_dataset, remote):
    local, other = list_dataset(str(whole_dataset)), list_dataset(remote)
    assert set(local.sizes) == set(other.sizes)
    for name in local.sizes:
        assert other.size(name) == local.size(name), name
    assert other.read_bytes("manifest.json") == local.read_bytes("manifest.json")
    assert other.size("nothing") is local.size("nothing") is None


def test_commands_take_a_remote_dataset(whole_dataset, remote):
    ours = {**inspect_dataset(str(whole_dataset)).to_json(), "uri": ""}
    assert {**inspect_dataset(remote).to_json(), "uri": ""} == ours
    assert verify_dataset(remote).is_good
    assert {check.name for check in dataset_checks(remote) if check.level == "bad"} == set()


def test_a_missing_remote_shard_is_told(remote):
    name = "Split-eval/data_tfrecord-00000-of-00001"
    rename(f"{remote}/{name}", f"{remote}/gone")
    (problem,) = verify_dataset(remote).problems
    assert problem.path == name
    with pytest.raises(DatasetError, match="bucket/nothing"):
        list_dataset("memory://bucket/nothing")
