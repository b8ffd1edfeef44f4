import gzip
import io
import tarfile

import numpy as np
import pandas as pd
import pytest

from components.raw_inputs.recognition import kind_in_table, recognise
from tests.make import frame_records
from trainer_utils.core.errors import InputError

JPEG, WAV = b"\xff\xd8\xff\xe0rest", b"RIFF\0\0\0\0WAVEfmt "
TEXT = b"Some words.\n"


def write(base, files):
    for name, data in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def many(pattern, data, count=10):
    return {pattern.format(number): data for number in range(count)}


def archive():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w"):
        pass
    return stream.getvalue()


KINDS = [
    # files                                                                  kind
    (many("cat/{}.jpg", JPEG) | {"README.md": TEXT, "LICENSE": TEXT}, "image"),
    (many("{}", JPEG), "image"),
    (many("{}.jpg", JPEG, 60) | {"bell.wav": WAV}, "image"),
    ({"a.tar": archive()}, "image"),
    (many("yes/{}.wav", WAV), "audio"),
    (many("{}", WAV), "audio"),
    (many("sci.space/{}", TEXT), "text"),
    (many("pos/{}.txt", TEXT), "text"),
    ({"train.csv": "text,label\ngood,1\n", "test.csv": "text,label\nbad,0\n"}, "text"),
    ({"a.csv": "caption,image\nA cat.,gs://bucket/1.jpg\n"}, "image"),
    ({"a.csv": "caption,photo\nA cat.,https://x.org/1.jpg\n"}, "text"),
    ({"a.csv": "TRAIN,gs://bucket/1.jpg,cat\nTEST,gs://bucket/2.jpg,dog\n"}, "image"),
    ({"train.csv": "filename,label\n1,0\n", **many("train/{}.png", JPEG)}, "image"),
    ({"a.jsonl": '{"audio": {"uri": "1.wav"}, "n": 3}\n'}, "audio"),
    ({".DS_Store": b"\0", **many("{}.txt", TEXT)}, "text"),
    ({"data.json": "{}"}, "text"),
]


def test_kind_is_recognised_from_the_files(tmp_path, subtests):
    for number, (files, kind) in enumerate(KINDS):
        with subtests.test(number=number):
            write(tmp_path / f"{number}", files)
            assert recognise(str(tmp_path / f"{number}"), {})[0] == kind, files


def test_file_is_recognised_by_name_or_rows(tmp_path, subtests):
    for name, data, kind in (
        ("a.txt", TEXT, "text"),
        ("corpus", TEXT, "text"),
        ("a.csv", "image_uri,label\ncat/1.jpg,cat\n", "image"),
        ("a.tsv", "path\tlabel\ncat/1.png\tcat\n", "image"),
        ("a.csv", "image,label\n1,cat\n", "image"),
        ("a.csv.gz", gzip.compress(b"text\ngood\n", mtime=0), "text"),
        ("a.csv", "", "text"),
    ):
        with subtests.test(name=name):
            write(tmp_path, {name: data})
            assert recognise(str(tmp_path / name), {})[0] == kind, (name, data)


def test_kind_is_recognised_from_bytes_in_parquet(tmp_path, subtests):
    for head, kind in ((JPEG, "image"), (WAV, "audio"), (b"\0\1", "text")):
        with subtests.test(head=head):
            media = [{"bytes": head, "path": "a"}] * 3
            pd.DataFrame({"media": media, "label": np.arange(3)}).to_parquet(tmp_path / "a.parquet")
            assert recognise(str(tmp_path / "a.parquet"), {})[0] == kind


def test_ambiguous_kind_error_names_the_files(tmp_path, subtests):
    for number, (files, seen) in enumerate(
        (
            (many("{}.jpg", JPEG, 3) | many("{}.txt", TEXT, 9), "found 3 images, 9 texts"),
            (many("{}.bin", b"\0\1\2"), "found 10 other files"),
        )
    ):
        with subtests.test(number=number):
            write(tmp_path / f"{number}", files)
            with pytest.raises(InputError, match=seen):
                recognise(str(tmp_path / f"{number}"), {})


def test_dataset_as_input_is_refused_with_advice(tmp_path, subtests):
    from components.example_gen.input_selection import InputSelection, locate

    for number, names in enumerate(
        (
            ["manifest.json", "Split-train/data_tfrecord-00000-of-00001", "rejects.jsonl"],
            [
                "metadata.sqlite",
                "artifacts/Gen/examples/1/Split-a/data_tfrecord-0-of-1",
            ],
            ["datum_to_type_and_shape_mapping.json", "shard_info.json", "train/a.tfrecord"],
            ["a.tfrecord", "b.tfrecords.gz", "label.labels.txt", "info.json"],
        )
    ):
        with subtests.test(number=number):
            base = tmp_path / f"{number}"
            write(base, dict.fromkeys(names, b"x"))
            with pytest.raises(InputError, match="tfx-shards balance"):
                recognise(str(base), {})
            with pytest.raises(InputError, match="tfx-shards balance"):
                locate(InputSelection(base=str(base)), is_source_file=lambda path: False)


def test_tfrecords_are_recognised_by_their_first_bytes(tmp_path, subtests):
    write(tmp_path, {"some/file": frame_records([b"a" * 300, b"b"]), "other/file": b"\0" * 400})
    for source in (tmp_path / "some", tmp_path / "some/file"):
        with subtests.test(source=source):
            with pytest.raises(InputError, match="some/file': expected raw files, got TFRecords"):
                recognise(str(source), {})
    with pytest.raises(InputError, match="1 other file"):
        recognise(str(tmp_path / "other"), {})


FRAMES = {
    "photos": ({"file": ["a/1.jpg", "b.PNG"], "n": [1, 2]}, "image"),
    "photos with holes": ({"file": ["a/1.jpg", None]}, "image"),
    "sounds": ({"file": ["1.wav", "2.flac"], "text": ["a cat", "a dog"]}, "audio"),
    "both": ({"sound": ["1.wav"], "photo": ["1.jpg"]}, "image"),
    "names without an ending": ({"image_uri": ["photos/1", "photos/2"]}, "image"),
    "captions": ({"image": ["a cat", "a dog"]}, None),
    "urls": ({"image": ["https://example.com/1.jpg"]}, None),
    "some names": ({"text": ["1.jpg", "a dog"]}, None),
    "numbers": ({"n": [1, 2], "x": [0.5, 1]}, None),
}


@pytest.mark.parametrize("case", FRAMES)
def test_columns_of_file_names_have_the_kind_of_the_files(tmp_path, case):
    columns, kind = FRAMES[case]
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "list.csv", index=False)
    frame.to_csv(tmp_path / "list.tsv", sep="\t", index=False)
    frame.to_json(tmp_path / "list.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "list.parquet")
    assert {kind_in_table(str(path)) for path in tmp_path.iterdir()} == {kind}
