"""Test that large tables shuffled in several passes give the same bytes."""

import random
from pathlib import Path

import pytest

import components.example_gen.text_conversion
from components import steps
from components.example_gen.settings import TextSettings
from components.runtime.runners import Runner
from components.shuffle import external


def convert_table(folder: Path, table: Path) -> dict[str, bytes]:
    settings = TextSettings(target_shard_bytes=20_000)
    with Runner(processes=1) as runner:
        steps.convert(str(table), str(folder), settings, runner=runner)
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("data_tfrecord-*"))}


@pytest.fixture
def table(tmp_path):
    source = random.Random(5)
    path = tmp_path / "table.csv"
    rows = [f"{source.randbytes(30).hex()},{n % 7}" for n in range(2000)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def test_number_of_shuffle_passes_does_not_change_bytes(monkeypatch, tmp_path, table):
    expected = convert_table(tmp_path / "one", table)
    monkeypatch.setattr(components.example_gen.text_conversion, "BUCKET_BYTES", 2_000)
    monkeypatch.setattr(components.example_gen.text_conversion, "PIECE_BYTES", 2_000)
    divided = []
    divide = external.ExternalShuffle.divide

    def counted(shuffle, level: int, index: int) -> None:
        divided.append(level)
        divide(shuffle, level, index)

    monkeypatch.setattr(external.ExternalShuffle, "divide", counted)
    assert convert_table(tmp_path / "many", table) == expected
    assert set(divided) == {1}
