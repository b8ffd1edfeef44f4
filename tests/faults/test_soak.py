"""Long work in one process: what it holds does not grow with the rounds."""

import io
from pathlib import Path

import pytest

from tests.faults.soak import EPOCHS, READINGS, WARM_UP, growth, soak
from trainer_utils import DatasetWriter

RECORDS = 320
# Of memory a round, at most. TensorFlow keeps the functions of a pipeline, not what they work with.
EPOCH_BYTES, PIPELINE_BYTES = 64 << 10, 192 << 10


@pytest.fixture(scope="module")
def dataset(tmp_path_factory, photos) -> Path:
    """Of some 2 MB of photos: what an epoch reads and does not give back is soon seen."""
    from PIL import Image

    uri = tmp_path_factory.mktemp("soak") / "out"
    with DatasetWriter(uri, num_shards={"train": 4}, images=["image"]) as writer:
        for number in range(RECORDS):
            stream = io.BytesIO()
            photo = Image.fromarray(photos[number % len(photos)]).resize((160, 120))
            photo.rotate(number).save(stream, "JPEG", quality=95)
            writer.write("train", {"image": stream.getvalue(), "id": number})
    return uri


def check_flat(rounds: list[dict[str, int]], *, allowed_bytes: int) -> None:
    print({what: growth(rounds, what) for what in rounds[0]}, rounds[-1])
    late = rounds[round(WARM_UP * len(rounds)) :]
    assert growth(rounds, "rss_bytes") <= allowed_bytes
    assert max(found["threads"] for found in late) <= rounds[0]["threads"] + 4
    assert growth(rounds, "threads") <= 0.05
    assert growth(rounds, "files") <= 0.05


@pytest.mark.faults
@pytest.mark.parametrize("reading", [*READINGS, "iterate", "input_fn anew"])
def test_fifty_epochs_leave_nothing_behind(dataset, tmp_path, reading):
    rounds = soak(reading, dataset, tmp_path / "log")
    assert len(rounds) == EPOCHS
    is_anew = reading == "input_fn anew"
    check_flat(rounds, allowed_bytes=PIPELINE_BYTES if is_anew else EPOCH_BYTES)
    assert rounds[-1]["log_bytes"] == rounds[round(WARM_UP * EPOCHS)]["log_bytes"]
