"""Arguments that several commands take: a dataset, or files of TFRecords."""

import pytest
import tensorflow as tf
from click.testing import CliRunner

from pipelines.cli.app import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory, serialize):
    folder = tmp_path_factory.mktemp("files")
    for index in range(3):
        with tf.io.TFRecordWriter(f"{folder}/train-{index:05d}-of-00003") as writer:
            for number in range(5):
                writer.write(serialize(label=[index * 5 + number]))
    return folder


FIRST, SECOND = "train-00000-of-00003", "train-00001-of-00003"


@pytest.mark.parametrize(
    ("command", "names", "printed"),
    [
        ("inspect", [""], "15 examples"),
        ("inspect", ["train-*"], "15 examples"),
        ("inspect", [FIRST, SECOND], "10 examples"),
        ("verify", ["train-0000[01]-*"], "whole records: train 10"),
        ("verify", [SECOND], "whole records: train 5"),
        ("show", [SECOND, FIRST], "label  5"),
    ],
)
def test_files_are_taken_by_name_and_by_pattern(folder, command, names, printed):
    done = CliRunner().invoke(app, [command, *(f"{folder}/{name}" for name in names)])
    assert done.exit_code == 0, done.output
    assert printed in done.output


def test_a_file_that_is_not_there_is_bad_data(folder):
    done = CliRunner().invoke(app, ["inspect", f"{folder}/{FIRST}", f"{folder}/nothing.tfrecord"])
    assert done.exit_code == 1
    assert "nothing.tfrecord': expected a file of TFRecords, found none" in done.output
    assert CliRunner().invoke(app, ["inspect"]).exit_code == 2
