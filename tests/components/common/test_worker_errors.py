"""What a worker raises comes to the executor with its class and its data, not as a traceback."""

import pickle

import pytest

from components.common.rejects import RejectedInputError
from components.common.summaries import (
    finished_names,
    read_summaries,
    start_working,
    working_folder,
    write_summary,
)
from components.common.worker_errors import raise_reported_error, report_errors
from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.storage.file_system import FileRefusedError

STEPS = ("survey", "scatter", "gather")
ERRORS = [
    DatasetError("\x1b[2J of the data", path="a"),
    CorruptShardError.at("shard", expected="b", got="c", record=3, offset=2**40),
    InputError.at("table.csv", expected="b", got="c", record=1),
    ConfigError.of("seed", 1.5, allowed="int"),
]


@pytest.fixture
def uri(tmp_path):
    start_working(str(tmp_path))
    return str(tmp_path)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_again_as_it_was(uri, error):
    with report_errors(uri, "gather-train-00000"):
        raise error
    assert finished_names(working_folder(uri)) == ["gather-train-00000"]
    with pytest.raises(type(error)) as found:
        raise_reported_error(read_summaries(working_folder(uri)), STEPS)
    assert (type(found.value), str(found.value)) == (type(error), str(error))
    assert vars(found.value) == vars(error)


def test_the_earliest_step_is_the_cause(uri):
    for name in ("gather-a", "scatter-b", "scatter-c", "gather-d"):
        with report_errors(uri, name):
            raise DatasetError(name)
    write_summary(working_folder(uri), "survey-e", {"records": 3})
    with pytest.raises(DatasetError, match="scatter-b"):
        raise_reported_error(read_summaries(working_folder(uri)), STEPS)


def test_nothing_is_raised_where_all_went_well_and_other_errors_pass(uri):
    with report_errors(uri, "scatter-a"):
        write_summary(working_folder(uri), "scatter-a", {"records": 3})
    raise_reported_error(read_summaries(working_folder(uri)), STEPS)
    with pytest.raises(ZeroDivisionError), report_errors(uri, "scatter-b"):
        print(1 // 0)


@pytest.mark.parametrize(
    "error",
    [
        RejectedInputError("TRUNCATED_IMAGE", "it ends", name="a.jpg"),
        FileRefusedError("CHANGED_FILE", "it grew"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_told_of_one_input_pickles_with_its_data(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
