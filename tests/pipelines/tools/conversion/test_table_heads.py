"""What the first rows of tables tell, of tables that pandas writes."""

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("tfx", reason="components needs TFX")
from pipelines.tools.conversion.table_heads import kinds_in_table

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


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("case", FRAMES)
def test_columns_of_names_tell_what_they_name(tmp_path, case, ending):
    columns, kind = FRAMES[case]
    path, frame = str(tmp_path / f"list.{ending}"), pd.DataFrame(columns)
    if ending == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="," if ending == "csv" else "\t", index=False)
    assert kinds_in_table(path) == kind


def test_bytes_are_what_they_begin_as(tmp_path):
    stream = io.BytesIO()
    Image.fromarray(np.zeros((2, 2, 3), np.uint8)).save(stream, "PNG")
    for data, kind in ((stream.getvalue(), "image"), (b"other", None)):
        path = str(tmp_path / f"{kind}.parquet")
        pd.DataFrame({"data": [data, data]}).to_parquet(path)
        assert kinds_in_table(path) == kind


def test_what_cannot_be_read_tells_nothing(tmp_path):
    (tmp_path / "list.parquet").write_bytes(b"PAR1 no parquet")
    assert kinds_in_table(str(tmp_path / "list.parquet")) is None
