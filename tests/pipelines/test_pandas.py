"""TFRecorder's accessor of DataFrames."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import pipelines.pandas  # noqa: F401 the import registers the accessor
import trainer_utils
from pipelines.tools.conversion import convert
from tests.make import jpeg, write_files


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    write_files(tmp_path, {f"{number}.jpg": jpeg(number) for number in range(6)})
    return pd.DataFrame(
        {
            "split": ["TRAIN"] * 3 + ["VALIDATION"] * 2 + ["TEST"],
            "image_uri": [str(tmp_path / f"{number}.jpg") for number in range(6)],
            "label": ["cat", "dog"] * 3,
            "age": range(6),
            "length of ear": [0.5] * 6,
            "note": ["some text"] * 6,
        }
    )


@pytest.mark.slow
def test_frame_becomes_a_dataset_with_keys_of_tfrecorder(
    frame: pd.DataFrame, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow", reason="input_fn needs it")
    (tmp_path / "1.jpg").write_bytes(b"no image")
    (tmp_path / "4.jpg").unlink()
    result = frame.tensorflow.to_tfr(output_dir=str(tmp_path / "out"), num_shards=2)
    assert result["job_id"] == "DirectRunner"
    assert result["metrics"] == {"rows": 6, "good_images": 4, "bad_images": 2}
    splits = trainer_utils.load(result["tfrecord_dir"], batch_size=2, shuffle=False)
    assert sorted(splits) == ["eval", "test", "train"]
    batch = next(iter(splits["train"]))
    assert sorted(batch["age"].numpy()) == [0, 2]
    assert set(batch) >= {"image", "label", "length of ear", "note"}
    shards = list(Path(result["tfrecord_dir"], "Split-train").iterdir())
    assert (len(shards), {shard.suffix for shard in shards}) == (2, {".gz"})


def test_arguments_become_flags_of_beam_and_options(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    class Stop(Exception):
        pass

    def stop(source: Any, out: str, **options: Any) -> None:
        given.update(options, out=out)
        raise Stop

    monkeypatch.setattr(convert, "convert", stop)
    with pytest.raises(Stop):
        frame.tensorflow.to_tfr(
            output_dir="gs://bucket/out",
            runner="DataflowRunner",
            project="mine",
            region="here",
            tfrecorder_wheel="ours.whl",
            dataflow_options={
                "num_workers": 3,
                "experiments": ["a", "b"],
                "no_auth": True,
            },
            job_label="to_tfr",
            compression=None,
            schema_map={"image_uri": "image", "age": "IntegerInput"},
        )
    assert given["beam_pipeline_args"] == [
        "--runner=DataflowRunner",
        "--job_name=to-tfr",
        "--project=mine",
        "--region=here",
        "--extra_package=ours.whl",
        "--num_workers=3",
        "--experiments=a",
        "--experiments=b",
        "--no_auth",
    ]
    assert given["columns"] == {"image_uri": "image", "age": "int"}
    assert given["compression"] == "none"
    assert "num_shards" not in given
