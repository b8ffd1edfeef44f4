"""What a worker raises comes to the executor with its class and its data, not as a traceback."""

import pickle

import pytest

from components.common.rejects import RejectedInputError
from components.common.summaries import start_working, working_folder, write_summary
from components.common.worker_errors import raising_reported, report_errors
from trainer_utils.format import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.storage.file_system import FileRefusedError, MachineError

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


def run_as_beam_does(uri: str, error: DatasetError) -> None:
    try:
        with report_errors(uri, "gather-train-00000"):
            raise error
    except DatasetError as told:
        raise RuntimeError(f"{told} [while running 'Gather']") from None


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_raised_again_as_it_was(uri, error):
    with pytest.raises(type(error)) as found, raising_reported(uri):
        run_as_beam_does(uri, error)
    assert (type(found.value), str(found.value)) == (type(error), str(error))
    assert vars(found.value) == vars(error)


def test_an_error_that_nobody_reported_passes(uri):
    write_summary(working_folder(uri), "survey-e", {"records": 3})
    with (
        pytest.raises(ZeroDivisionError),
        raising_reported(uri),
        report_errors(uri, "scatter-b"),
    ):
        print(1 // 0)


@pytest.mark.parametrize(
    "error",
    [
        RejectedInputError("TRUNCATED_IMAGE", "it ends", name="a.jpg"),
        FileRefusedError("CHANGED_FILE", "it grew"),
        MachineError("the disk", path="a.jpg", errno=5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_told_of_one_input_pickles_with_its_data(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert getattr(copy, "errno", None) == getattr(error, "errno", None)
