"""A script that ends in the middle of an epoch prints only its own error."""

import re

import pytest

from tests.make import run_python, write_rows
from tests.trainer_utils.reading.jpegs import cuts, encode

PROGRAM = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"  # errors and warnings of TensorFlow's
import sys
import trainer_utils
settings = {"batch_size": 8, "image_size": (96, 96), "cache": sys.argv[2], "shuffle": "global"}
dataset = trainer_utils.input_fn(sys.argv[1], "train", **settings)
next(iter(dataset))
os.write(2, b"TensorFlow is there.")
assert [sum(1 for _ in dataset) for _ in range(2)] == [8, 8]
iterator = iter(trainer_utils.input_fn(sys.argv[1], "train", repeat=True, **settings))
next(iterator)
raise SystemError("the user's own")
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    images = [encode(part) for part in cuts([(333, 400)] * 4)]
    rows = ({"image": images[number % 4], "label": number} for number in range(64))
    return write_rows(tmp_path_factory.mktemp("live") / "set", rows, images=["image"])


def test_an_abandoned_iterator_prints_nothing(uri, tmp_path):
    run = run_python(PROGRAM, uri, tmp_path / "cache")
    told = run.stderr.partition("TensorFlow is there.")[2]
    assert not re.findall(r"(?m)^[\d-]+ [\d:.]+: [EF] .*", told)  # errors of TensorFlow
    told = run.stderr[run.stderr.index("Traceback") :]
    assert told.splitlines()[-1] == "SystemError: the user's own"
    assert told.count("Traceback") == 1
    assert run.returncode == 1
