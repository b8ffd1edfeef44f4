"""Test `file://` URIs, as made by `Path.as_uri()`, in all places that take a uri."""

from pathlib import Path

import pytest

import pipelines
import trainer_utils
from pipelines.tools.conversion.convert import balance
from tests.make import jpeg, write_files, write_rows
from trainer_utils import storage
from trainer_utils.ledger.recorder import InputRecorder, read_ledger
from trainer_utils.storage import local_path


@pytest.mark.parametrize("name", ["plain", "far place", "100%", "a%20b", "ä", "#1?", "[x]"])
def test_uri_of_a_path_is_converted_to_the_path(tmp_path, name):
    path = tmp_path / name
    assert local_path(path.as_uri()) == str(path)
    path.touch()
    assert local_path(path.as_uri()) == str(path)
    assert local_path(f"file://{path}") == str(path)  # not encoded
    assert local_path(path.as_uri().replace("file://", "FILE://localhost")) == str(path)


@pytest.mark.parametrize("path", ["/a%20b", "a", "s3://bucket/a%20b", "https://host/a%20b", ""])
def test_other_uris_are_unchanged(path):
    assert local_path(path) == path


def test_datasets_are_read_from_folder_and_file_uris(tmp_path, subtests):
    folder = tmp_path / "far place"
    write_rows(folder, ({"id": n} for n in range(20)), num_shards=2)
    shards = sorted((folder / "Split-train").iterdir())
    uri = folder.as_uri()
    for given in (uri, f"{uri}/", f"{uri}/Split-train/*", [one.as_uri() for one in shards]):
        with subtests.test(given=given):
            batches = trainer_utils.iterate(given, batch_size=20, features="id", shuffle=False)
            assert [sorted(batch.tolist()) for batch in batches] == [[*range(20)]]


def test_files_are_listed_and_read_below_a_folder_uri(tmp_path, subtests):
    folder = tmp_path / "far place"
    names = ["a b.txt", "c%20d.txt", "100%.txt", "e/f#g.txt", "h?.txt"]
    for name in names:
        with subtests.test(name=name):
            uri = storage.join(folder.as_uri(), name)
            storage.write_text(uri, name, temporary_folder=tmp_path.as_uri())
            assert (folder / name).read_text() == name
            assert storage.exists(uri)
    found = [file.path for file in storage.list_files(folder.as_uri())]
    assert found == sorted(names)
    assert [storage.read_text(storage.join(folder.as_uri(), name)) for name in found] == found
    storage.remove_tree(folder.as_uri())
    assert not any(tmp_path.iterdir())


def test_datasets_and_ledgers_are_written_to_folder_uris(tmp_path):
    folder, run = tmp_path / "far place", tmp_path / "a run"
    with trainer_utils.DatasetWriter(folder.as_uri()) as writer:
        writer.write("train", {"id": 1})
    batches = trainer_utils.iterate(str(folder), batch_size=1)
    recorder = InputRecorder(run.as_uri())
    recorder.begin(batches)
    recorder.count_steps()
    recorder.save()
    assert read_ledger(run.as_uri()).steps == read_ledger(str(run)).steps == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a run", "far place"]


def test_conversion_takes_uris_as_input_and_output(tmp_path):
    photos = {f"{'cat' if n % 2 else 'dog'}/{n} 100%.jpg": jpeg(n) for n in range(6)}
    write_files(tmp_path / "far place", photos)
    source, out = (tmp_path / "far place").as_uri(), (tmp_path / "an output").as_uri()
    result = pipelines.convert(source, out, splits={"train": 1})
    assert Path(tmp_path, "an output", "latest").is_dir()
    names = {row["filename"] for row in trainer_utils.iterate(out, "train", batch_size=None)}
    assert {name.decode() for name in names} == photos.keys()
    assert result.uri.startswith(str(tmp_path / "an output"))
    again = balance(out, (tmp_path / "balanced again").as_uri(), num_shards=2)
    assert str(again).startswith(str(tmp_path / "balanced again"))
