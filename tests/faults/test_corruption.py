"""Damage in every published file is found and located by `verify`, and never read by a trainer."""

import bisect
import itertools
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from pipelines.tools.verification import Problem, verify_dataset
from tests.faults.conftest import KINDS
from tests.faults.counts import some_or_many
from tests.faults.tfrecords import frame_length, read_records
from trainer_utils import iterate
from trainer_utils.core.errors import TfxShardsError

QUICK, LONG = 40, 400  # changes per kind of dataset
LENGTHS = [*(1 << power for power in (20, 24, 31, 32, 40, 62, 63)), (1 << 63) - 1, (1 << 64) - 1]

Batches = list[dict[str, Any]]


class Change(NamedTuple):
    """The changed bytes of a file, and the offset of the first change."""

    name: str
    place: int
    data: bytes


def a_change(data: bytes, chance: random.Random) -> Change:
    """Return data with bits, bytes or ranges changed, removed, added or zeroed."""
    while True:
        place = chance.randrange(len(data))
        before, octet, after = data[:place], data[place], data[place + 1 :]
        changed = chance.choice(
            [
                Change("bit", place, before + bytes([octet ^ 1 << chance.randrange(8)]) + after),
                Change("bit", place, before + bytes([octet ^ 1 << chance.randrange(8)]) + after),
                Change("byte", place, before + chance.randbytes(1) + after),
                Change("four bytes", place, before + chance.randbytes(4) + after[3:]),
                Change("zeros", place, before + bytes(min(64, len(data) - place)) + after[63:]),
                Change("inserted", place, before + chance.randbytes(1) + data[place:]),
                Change("deleted", place, before + after),
                Change("cut", place, before),
                Change("appended", len(data), data + chance.randbytes(chance.randrange(1, 40))),
            ]
        )
        if changed.data != data:
            differing = (a != b for a, b in zip(data, changed.data, strict=False))
            shortest = min(len(data), len(changed.data))
            first = next(itertools.compress(itertools.count(), differing), shortest)
            return changed._replace(place=first)


def replace(path: Path, data: bytes) -> None:
    """Replace a file by a new one, as after a disk error or a bad copy."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def files_of(uri: Path) -> list[Path]:
    return sorted(path for path in uri.rglob("*") if path.is_file())


def is_shard(path: Path) -> bool:
    return path.parent.name.startswith("Split-")


def split_of(path: Path) -> str:
    name = path.parent.name if is_shard(path) else path.name
    return "eval" if "eval" in name else "train"


def batches_of(uri: Path, split: str, *, shuffle: bool | str = False) -> Batches:
    batches = iterate(str(uri), split, batch_size=5, shuffle=shuffle, seed=3)
    return [{name: plain(values) for name, values in batch.items()} for batch in batches]


def plain(values: np.ndarray) -> Any:
    return values.tolist() if values.dtype == object else (values.dtype, values.tobytes())


def problems_of(uri: Path) -> list[Problem]:
    return verify_dataset(str(uri)).problems


def read_or_refusal(
    uri: Path, split: str, *, shuffle: bool | str = False
) -> tuple[Batches, str | None]:
    """Return the batches, and the message if reading raised one of our errors."""
    try:
        return batches_of(uri, split, shuffle=shuffle), None
    except TfxShardsError as error:
        return [], str(error)


@pytest.fixture
def copy(datasets, tmp_path) -> Callable[[str], Path]:
    """Return a function that copies a dataset of a kind, to be changed."""
    return lambda kind: Path(shutil.copytree(datasets[kind], tmp_path / kind))


def check_changes(uri: Path, count: int, chance: random.Random) -> None:
    """Change files one by one; check that each change is found, located and not read."""
    files = files_of(uri)
    ways = (False, True) if any(path.suffix == ".gz" for path in files) else (False, True, "global")
    good = {
        (split, shuffle): batches_of(uri, split, shuffle=shuffle)
        for split in ("train", "eval")
        for shuffle in ways
    }
    for number in range(count):
        path = files[number % len(files)]
        data, name = path.read_bytes(), str(path.relative_to(uri))
        starts = [start for start, _ in read_records(path)] if is_shard(path) else []
        change = a_change(data, chance)
        said = f"{name}: {change.name} at byte {change.place}"
        replace(path, change.data)
        found = [problem for problem in problems_of(uri) if problem.path == name]
        assert found, said
        if is_shard(path) and path.suffix != ".gz":
            check_place(found, starts, len(data), change, said)
        split, shuffle = split_of(path), chance.choice(ways)
        read, message = read_or_refusal(uri, split, shuffle=shuffle)
        if message is None:
            assert not is_shard(path), f"{said}: was read"
            assert path.name != "manifest.json", f"{said}: was read"
            assert read == good[split, shuffle], f"{said}: others were read"
        else:
            assert path.name in message, f"{said}: {message}"
        replace(path, data)
    assert not problems_of(uri)


def check_place(
    found: list[Problem], starts: list[int], size: int, change: Change, said: str
) -> None:
    """Check that the error names the record of the first changed byte, or the end of the file."""
    record = bisect.bisect_right([*starts, size], change.place) - 1
    offset = [*starts, size][record]
    if change.name == "cut" and change.place in starts:
        return  # fewer but intact records: the error can name only the file
    places = [(problem.record, problem.offset) for problem in found]
    assert (record, offset) in places, f"{said}: {found}"


def test_undamaged_datasets_contain_the_inputs(datasets, raw):
    for kind, uri in datasets.items():
        assert not problems_of(uri)
        records = {
            path: [tf.train.Example.FromString(payload) for _, payload in read_records(path)]
            for path in files_of(uri)
            if is_shard(path)
        }
        source = {"balanced": "images", "gzipped": "texts"}.get(kind, kind)
        key, content = {"texts": ("id", "text"), "audio": ("filename", "audio")}.get(
            source, ("filename", "image")
        )
        found = {}
        for examples in records.values():
            for example in examples:
                values = example.features.feature
                (name,), (data,) = (values[n].bytes_list.value for n in (key, content))
                assert found.setdefault(name.decode(), data) is data, "twice"
        given = {
            str(path.relative_to(raw[source])): path.read_bytes()
            for path in files_of(raw[source])
            if path.name not in ("cut.jpg", "cut.wav", "bad.txt")
        }
        assert found == given
        read = [*batches_of(uri, "train"), *batches_of(uri, "eval")]
        assert sorted(n.decode() for b in read for n in b[key]) == sorted(given)


@some_or_many(QUICK, LONG)
@pytest.mark.parametrize("kind", KINDS)
def test_change_of_any_file_is_found_and_not_read(copy, kind, count, chance):
    check_changes(copy(kind), count, chance)


@pytest.mark.parametrize("kind", ["images", "balanced", "gzipped"])
def test_a_shard_cut_at_any_record_is_found_and_not_read(copy, kind):
    uri = copy(kind)
    path = next(path for path in files_of(uri) if is_shard(path))
    data = path.read_bytes()
    records = read_records(path)
    ends = [start for start, _ in records] if path.suffix != ".gz" else range(0, len(data), 97)
    for end in sorted({first + more for first in ends for more in (0, 1, 12)}):
        replace(path, data[:end])
        found = [p for p in problems_of(uri) if p.path == str(path.relative_to(uri))]
        assert found, end
        _, message = read_or_refusal(uri, split_of(path))
        assert message is not None, end
        assert path.name in message


def test_missing_swapped_and_foreign_shards_are_found(copy, datasets, subtests):
    uri = copy("images")
    shards = [path for path in files_of(uri) if is_shard(path) and split_of(path) == "train"]
    first, second = shards[0].read_bytes(), shards[1].read_bytes()
    other = next(p for p in files_of(datasets["balanced"]) if is_shard(p))
    (*_, last), _ = zip(*read_records(shards[0]), strict=True)
    for damage, bad in {
        "missing": [None, second],
        "doubled": [first, first],
        "swapped": [second, first],
        "foreign": [other.read_bytes(), second],
        "empty": [b"", second],
        # Each record is intact, and their sum equals that of the manifest.
        "reordered": [first[last:] + first[:last], second],
    }.items():
        with subtests.test(damage=damage):
            for path, data in zip(shards, bad, strict=False):
                path.unlink(missing_ok=True)
                if data is not None:
                    path.write_bytes(data)
            named = {problem.path for problem in problems_of(uri)}
            assert any(str(path.relative_to(uri)) in named for path in shards), damage
            for shuffle in (False, True):
                _, message = read_or_refusal(uri, "train", shuffle=shuffle)
                assert message is not None, damage
                assert any(path.name in message for path in shards), damage


def test_unlisted_shard_is_found_and_not_read(copy):
    uri = copy("images")
    good = batches_of(uri, "train")
    shards = [path for path in files_of(uri) if is_shard(path) and split_of(path) == "train"]
    extra = shards[0].with_name("data_tfrecord-00004-of-00005")
    extra.write_bytes(shards[0].read_bytes())
    assert str(extra.relative_to(uri)) in {problem.path for problem in problems_of(uri)}
    read, message = read_or_refusal(uri, "train")
    if message is None:
        assert read == good


@pytest.mark.parametrize("has_manifest", [True, False])
def test_forged_lengths_are_refused_at_no_cost(copy, tmp_path, has_manifest, subtests):
    uri = copy("images")
    path = next(path for path in files_of(uri) if is_shard(path))
    data, records = path.read_bytes(), read_records(path)
    if not has_manifest:
        bare = tmp_path / "bare"
        bare.mkdir()
        uri, path = bare, bare / "part-00000-of-00001.tfrecord"
    numbered = list(enumerate(records))
    ends = [numbered[0], numbered[len(numbered) // 2], numbered[-1]]
    for length, (number, (start, _)) in itertools.product(LENGTHS, ends):
        with subtests.test(length=length):
            replace(path, data[:start] + frame_length(length) + data[start + 12 :])
            name = str(path.relative_to(uri))
            found = [(p.record, p.offset) for p in problems_of(uri) if p.path == name]
            assert (number, start) in found, (length, found)
            split = split_of(path) if has_manifest else "train"
            _, message = read_or_refusal(uri, split)
            assert message is not None, length
            assert path.name in message
            assert "byte" in message
