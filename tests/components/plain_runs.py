"""Convert without TFX or TensorFlow, and decode the records in the order of the inputs."""

from pathlib import Path
from typing import Any

from components import steps
from components.example_gen.input_selection import InputSelection
from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.runtime.runners import Runner
from trainer_utils.dataset.compression import read_shard_blocks
from trainer_utils.format.example import decode_example
from trainer_utils.storage.paths import join

_SETTINGS = {"text": TextSettings, "image": ImageSettings, "audio": AudioSettings}


def write_files(folder: Path, files: dict[str, bytes | str]) -> Path:
    """Write files by relative path; return their folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def convert(source: Path, uri: Path, *, media: str = "text", **settings: Any) -> Any:
    """Convert in this process, and return the result of `steps.convert`."""
    with Runner(processes=1) as runner:
        selection = InputSelection(base=str(source))
        return steps.convert(selection, str(uri), _SETTINGS[media](**settings), runner=runner)


def read_records(uri: Path, converted: Any) -> dict[str, list[dict[str, list[Any]]]]:
    """Return the decoded records of each split, in the order of the inputs."""
    records: dict[str, list[dict[str, list[Any]]]] = {}
    for shard in converted.manifest.shards:
        found = records.setdefault(shard.split, [])
        for block in read_shard_blocks(join(str(uri), shard.path)):
            found += [_record(bytes(block.record(n))) for n in range(len(block))]
    for found in records.values():
        found.sort(key=_identity)
    return records


def _record(data: bytes) -> dict[str, list[Any]]:
    return {
        name: [bytes(value) if isinstance(value, memoryview) else value for value in values]
        for name, values in decode_example(data).items()
    }


def _identity(record: dict[str, list[Any]]) -> tuple[bytes, int]:
    """Return the source and number of a record's row."""
    name = next(record[key][0] for key in ("id", "record_id", "filename") if key in record)
    source, _, number = name.rpartition(b":")
    return (source, int(number)) if number.isdigit() else (name, 0)
