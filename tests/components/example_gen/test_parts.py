"""Where shards are fewer than processes, parts of them are made and joined to the same bytes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from components import steps
from components.common.tasks import Cost, Runner
from components.example_gen import file_conversion
from components.example_gen.file_shards import EncodedPart
from components.example_gen.settings import AudioSettings, ImageSettings
from tests.make import everything, photo, wav, write_files
from trainer_utils.format import CorruptShardError


class _Side(Runner):
    """Eight processes, which are this one; it keeps what was asked of them."""

    def __init__(self) -> None:
        super().__init__(processes=1)
        self.names: list[str] = []
        self.made: list[Any] = []

    def count(self, tasks: int, cost: Cost, paths: Sequence[str] = ()) -> int:
        return min(8, tasks)

    def run(self, call: Any, tasks: Sequence[Any], processes: int) -> list[Any]:
        self.names += [task.name for task in tasks]
        made = [call(task) for task in tasks]
        self.made += made
        return made


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(file_conversion, "_PART_RECORDS", 3)


def _photos(folder: Path) -> Path:
    kinds = ["JPEG", "PNG", "BMP", "JPEG", "GIF"]
    files: dict[str, bytes | str] = {
        f"{'ab'[n % 2]}/{n}.jpg": photo(n, kinds[n % 5], size=(20 + n % 3, 24)) for n in range(60)
    }
    return write_files(folder, files | {"a/cut.jpg": photo(1)[:300], "b/empty.jpg": b""})


def _files(uri: Path) -> dict[str, bytes]:
    return {name: data for name, data in everything(uri).items() if name != "lineage.json"}


@pytest.mark.parametrize("layout", ["images", "sounds"])
def test_joined_parts_are_the_shards_that_one_process_writes(tmp_path, layout):
    settings: Any
    if layout == "images":
        source, settings = _photos(tmp_path / "in"), ImageSettings(max_reject_fraction=0.5)
    else:
        sounds = {f"{'ab'[n % 2]}/{n}.wav": wav(n, frames=400 + n) for n in range(40)}
        source, settings = write_files(tmp_path / "in", sounds), AudioSettings()
    side = _Side()
    steps.convert(str(source), str(tmp_path / "side"), settings, runner=side)
    steps.convert(str(source), str(tmp_path / "alone"), settings, runner=Runner(processes=1))
    assert sum("-part-" in name for name in side.names) > 8
    assert _files(tmp_path / "side") == _files(tmp_path / "alone")


def test_compressed_shards_and_those_that_suffice_are_made_whole(tmp_path):
    source = str(_photos(tmp_path / "in"))
    for number, more in enumerate([{"compression": "gzip"}, {"target_shard_bytes": 2000}]):
        side, settings = _Side(), ImageSettings(max_reject_fraction=0.5, **more)
        steps.convert(source, str(tmp_path / f"out-{number}"), settings, runner=side)
        assert not any("-part-" in name for name in side.names)


@pytest.mark.parametrize("damage", [b"", b"\0" * 99])
def test_a_part_that_is_not_what_was_written_becomes_no_shard(tmp_path, monkeypatch, damage):
    source = str(_photos(tmp_path / "in"))

    class Damaging(_Side):
        def run(self, call: Any, tasks: Sequence[Any], processes: int) -> list[Any]:
            made = super().run(call, tasks, processes)
            for part in made:
                if isinstance(part, EncodedPart):
                    Path(part.path).write_bytes(damage)
            return made

    settings = ImageSettings(max_reject_fraction=0.5)
    with pytest.raises(CorruptShardError):
        steps.convert(source, str(tmp_path / "out"), settings, runner=Damaging())
    assert not (tmp_path / "out" / "manifest.json").exists()
