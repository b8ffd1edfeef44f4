"""The blocks of docs/coming-from.md for other loaders, compared with what these read themselves.

The blocks that need no other library are run here and by test_run.py.
"""

import io
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

import trainer_utils
from tests.docs.coming_from import PAGE
from tests.docs.inputs_of_others import NUM, jpegs, write_inputs_of_others
from tests.docs.markdown import blocks

pytestmark = pytest.mark.slow


def run(part, folder, monkeypatch):
    """Run the block that contains a piece of text, in a folder; return its names."""
    monkeypatch.chdir(folder)
    (block,) = (b for b in blocks(PAGE) if b.language == "python" and part in b.text)
    names: dict = {}
    exec(compile(block.text, block.place, "exec"), names)
    return names


def pixels_of(data):
    return np.asarray(Image.open(io.BytesIO(data)))


def pairs(uri):
    """Return the pixels, as bytes, and the label of each record, sorted."""
    batches = trainer_utils.iterate(uri, "train", batch_size=1, features="image", label="label")
    return sorted((images[0].tobytes(), int(labels[0])) for images, labels in batches)


def test_imagefolder_numbers_classes_as_torchvision_does(tmp_path, monkeypatch):
    for number, data in enumerate(jpegs()):
        path = tmp_path / "photos" / ("zebra", "Ant", "bee")[number % 3] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    batches = run("random_resized_crop", tmp_path, monkeypatch)["batches"]
    expected = sorted(path.name for path in (tmp_path / "photos").iterdir())  # its `find_classes`
    assert batches.class_names == expected
    labels = [int(label) for _, batch in batches for label in batch]
    assert sorted(labels) == [number % 3 for number in range(3) for _ in range(NUM // 3)]


def test_archives_are_read_as_tar_has_them(tmp_path, monkeypatch):
    write_inputs_of_others(tmp_path)
    batches = run('"archives/"', tmp_path, monkeypatch)["batches"]
    stored = []
    for path in (tmp_path / "archives").iterdir():
        with tarfile.open(path) as archive:
            stored += [
                int(archive.extractfile(name).read())  # type: ignore[union-attr]
                for name in archive.getnames()
                if name.endswith(".cls")
            ]
    assert sorted(int(label) for _, labels in batches for label in labels) == sorted(stored)


def test_a_clone_of_the_hub_is_read(tmp_path, monkeypatch):
    write_inputs_of_others(tmp_path)
    batches = run('conversion={"kind": "image"}', tmp_path, monkeypatch)["batches"]
    labels = sorted(int(label) for _, labels in batches for label in labels)
    assert labels == sorted(number % 2 for number in range(NUM))


def test_loaded_datasets_are_converted(tmp_path, monkeypatch):
    pytest.importorskip("datasets")
    write_inputs_of_others(tmp_path)
    names = run("datasets.load_dataset", tmp_path, monkeypatch)
    expected = sorted((pixels_of(data).tobytes(), n % 2) for n, data in enumerate(jpegs()))
    assert pairs(names["uri"]) == expected


def test_samples_of_mds_are_converted(tmp_path, monkeypatch):
    streaming = pytest.importorskip("streaming")
    columns = {"image": "jpeg", "label": "int"}
    with streaming.MDSWriter(out=str(tmp_path / "mds"), columns=columns) as writer:
        for number, data in enumerate(jpegs()):
            writer.write({"image": Image.open(io.BytesIO(data)), "label": number % 2})
    names = run("LocalDataset", tmp_path, monkeypatch)
    theirs = streaming.LocalDataset(str(tmp_path / "mds"))
    samples = [theirs[number] for number in range(len(theirs))]
    expected = sorted((np.asarray(s["image"]).tobytes(), int(s["label"])) for s in samples)
    assert pairs(names["uri"]) == expected


def sample_of_litdata(number):
    return {"image": Image.open(io.BytesIO(jpegs()[number])), "label": number % 2}


def test_samples_of_litdata_are_converted(tmp_path, monkeypatch):
    litdata = pytest.importorskip("litdata")
    litdata.optimize(
        fn=sample_of_litdata,
        inputs=list(range(NUM)),
        output_dir=str(tmp_path / "chunks"),
        num_workers=1,
        chunk_bytes="1MB",
    )
    names = run("litdata import", tmp_path, monkeypatch)
    theirs = litdata.StreamingDataset(str(tmp_path / "chunks"))
    samples = [theirs[number] for number in range(len(theirs))]
    expected = sorted(
        (s["image"].permute(1, 2, 0).numpy().tobytes(), int(s["label"])) for s in samples
    )
    assert pairs(names["uri"]) == expected


def test_records_of_array_record_are_converted(tmp_path, monkeypatch):
    module = pytest.importorskip("array_record.python.array_record_module")
    rows = [{"text": f"text {number}", "stars": number} for number in range(NUM)]
    writer = module.ArrayRecordWriter(str(tmp_path / "texts.array_record"), "group_size:1")
    for row in rows:
        writer.write(json.dumps(row).encode())
    writer.close()
    names = run("ArrayRecordDataSource", tmp_path, monkeypatch)
    batches = trainer_utils.iterate(names["uri"], "train", batch_size=1)
    read = [(batch["text"][0].decode(), int(batch["stars"][0])) for batch in batches]
    assert sorted(read) == sorted((row["text"], row["stars"]) for row in rows)
