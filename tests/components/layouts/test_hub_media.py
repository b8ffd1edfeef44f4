"""Images and audio files in Parquet files of the Hugging Face Hub."""

import io
import json
import wave
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from tests.components.plain_runs import convert, read_records, write_files
from tests.components.tables.table_files import parquet_of
from trainer_utils.core.errors import InputError

FILE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def png(number: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((4, 6, 3), number, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def wav(number: int) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(np.full(100, number, np.int16).tobytes())
    return stream.getvalue()


def hub_parquet(
    media: str, files: list[bytes], labels: list[int], names=("cat", "dog"), path="{}.x"
) -> bytes:
    """Return a Parquet file in the form of `datasets.Dataset.to_parquet`."""
    features: dict[str, Any] = {
        media: {"_type": media.title()},
        "label": {"names": [*names], "_type": "ClassLabel"},
    }
    structs = [{"bytes": data, "path": path.format(n)} for n, data in enumerate(files)]
    table = pa.table(
        {media: pa.array(structs, FILE), "label": labels},
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    return parquet_of({}, table=table)


def clone(media: str, make) -> dict[str, bytes | str]:
    return {
        "README.md": "# x",
        ".gitattributes": "x",
        "data/train-00000-of-00002.parquet": hub_parquet(media, [make(1), make(2)], [1, 0]),
        "data/train-00001-of-00002.parquet": hub_parquet(media, [make(3)], [1]),
        "data/test-00000-of-00001.parquet": hub_parquet(media, [make(4)], [-1]),
    }


@pytest.mark.parametrize("top", ["", "data"])
@pytest.mark.parametrize(("media", "make"), [("image", png), ("audio", wav)])
def test_a_clone_of_the_hub_is_read_with_splits_and_classes(tmp_path, media, make, top):
    source = write_files(tmp_path / "in", clone(media, make))
    converted = convert(source / top, tmp_path / "out", media=media)
    assert converted.vocabularies == {"label": ("cat", "dog")}
    records = read_records(tmp_path / "out", converted)
    found = {
        split: sorted((record[media][0], record.get("label")) for record in of)
        for split, of in records.items()
    }
    train = [(make(1), [1]), (make(2), [0]), (make(3), [1])]
    assert found == {"train": sorted(train), "test": [(make(4), None)]}
    names = [record["filename"][0] for of in records.values() for record in of]
    assert len({*names}) == 4


def test_classes_of_shards_must_agree(tmp_path):
    files = {
        "train-0.parquet": hub_parquet("image", [png(1)], [0]),
        "train-1.parquet": hub_parquet("image", [png(2)], [0], names=("dog", "cat")),
    }
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError, match="the names of classes of column 'label'"):
        convert(source, tmp_path / "out", media="image")


def test_tables_below_image_folders_are_not_lists(tmp_path):
    files = {f"{label}/{n}.png": png(n) for n, label in enumerate(["a", "b"] * 4)}
    files["extra/more.parquet"] = parquet_of({"x": [1]})
    source = write_files(tmp_path / "in", files)
    with pytest.raises(InputError):
        convert(source, tmp_path / "out", media="image", max_reject_fraction=0.01)
