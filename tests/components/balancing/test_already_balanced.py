"""Test that shards which an ExampleGen already balanced are linked, not rewritten."""

import functools
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components import steps
from components.balancing.settings import BalancerSettings
from components.example_gen.settings import ImageSettings
from pipelines.tools.conversion import convert as conversion
from tests.make import photo as any_photo
from tests.make import wav, write_files
from trainer_utils import iterate
from trainer_utils.dataset import open_dataset

photo = functools.partial(any_photo, kind="PNG", size=(16, 16))
SHARDS = {"num_shards": {"train": 5}, "shard_multiple": 2, "seed": 3}


def write_photos(folder):
    files = {f"{'ab'[n % 2]}/{n:02d}.png": photo(n) for n in range(60)}
    write_files(folder, files)
    return [*files.values()]


def write_sounds(folder):
    files = {f"{n}.wav": wav(n) for n in range(40)}
    write_files(folder, files)
    return [*files.values()]


def write_rows(folder):
    texts = [f"text number {number:03d} of these" for number in range(400)]
    folder.mkdir()
    (folder / "rows.csv").write_text("\n".join(["text,stars", *(f"{t},3" for t in texts)]))
    return [text.encode() for text in texts]


def bytes_below(folder):
    """Return the contents of all files below a folder, with hard links of one file counted once."""
    files = {path.stat().st_ino: path for path in folder.rglob("*") if path.is_file()}
    return b"\0".join(path.read_bytes() for path in files.values())


@pytest.mark.parametrize(
    ("kind", "write"), [("image", write_photos), ("text", write_rows), ("audio", write_sounds)]
)
def test_convert_stores_the_bytes_of_each_input_once(kind, write, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "has_tfx", lambda: False)
    inputs = write(tmp_path / "in")
    splits = {"train": 3, "eval": 1}
    made = conversion.convert(
        tmp_path / "in", str(tmp_path / "out"), kind=kind, splits=splits, **SHARDS
    )
    stored = bytes_below(tmp_path / "out")
    assert {stored.count(given) for given in inputs} == {1}
    assert len(open_dataset(made).shards["train"]) == 6
    for shards in open_dataset(made).shards.values():
        counts = [shard.records for shard in shards]
        assert max(counts) - min(counts) <= 1
    assert sum(open_dataset(made).records.values()) == len(inputs)


def made(folder, settings=ImageSettings, write=write_photos, **options):
    """Convert inputs with an ExampleGen; return the dataset's URI."""
    write(folder / "in")
    steps.convert(str(folder / "in"), str(folder / "made"), settings(**{**SHARDS, **options}))
    return str(folder / "made")


def are_linked(*folders):
    """Return for each split whether the shards of both folders are the same files."""
    first, second = (
        {p.stat().st_ino: p.parent.name for p in Path(folder).glob("Split-*/*")}
        for folder in folders
    )
    return {name: inode in first for inode, name in second.items()}


def names_of(uri):
    return [
        name
        for batch in iterate(uri, split="train", batch_size=1, shuffle=False)
        for name in batch["filename"].tolist()
    ]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_unshuffled_shards_are_also_linked(tmp_path, compression):
    uri = made(tmp_path, compression=compression)
    settings = BalancerSettings(**SHARDS, compression=compression, shuffle=False)
    steps.balance([uri], str(tmp_path / "out"), settings)
    assert are_linked(uri, tmp_path / "out") == {"Split-train": True, "Split-eval": True}


def test_other_settings_or_inputs_rewrite_the_shards(tmp_path, subtests):
    uri = made(tmp_path)
    before = names_of(uri)
    for number, others in enumerate(
        (
            {"seed": 4},
            {"num_shards": 5},
            {"num_shards": None},
            {"shard_multiple": 3},
            {"target_shard_bytes": 9000},
            {"compression": "gzip"},
            {"balance": "bytes"},
            {"stratify_by": "label"},
            {"where": "height > 3"},
            {"exclude": ["a/00.png"]},
            {"add": [uri]},
        )
    ):
        with subtests.test(number=number):
            out = str(tmp_path / f"out-{number}")
            steps.balance([uri], out, BalancerSettings(**{**SHARDS, **others}))
            assert not any(are_linked(uri, out).values()), others
            assert names_of(out) != before, others


def test_split_with_unequal_shards_is_rewritten(tmp_path):
    write_photos(tmp_path / "in")
    settings = ImageSettings(**SHARDS)
    steps.convert(str(tmp_path / "in"), str(tmp_path / "whole"), settings)
    first = next(iter(iterate(str(tmp_path / "whole"), split="train", batch_size=6, shuffle=False)))
    for name in first["filename"].tolist()[:3]:  # of shard 0; only decoding shows the damage
        path = tmp_path / "in" / os.fsdecode(name)
        path.write_bytes(path.read_bytes()[:-20])
    settings = ImageSettings(**SHARDS, max_reject_fraction=0.5)
    uri = str(tmp_path / "made")
    steps.convert(str(tmp_path / "in"), uri, settings)
    counts = [shard.records for shard in open_dataset(uri).shards["train"]]
    assert max(counts) - min(counts) > 1
    steps.balance([uri], str(tmp_path / "out"), BalancerSettings(**SHARDS))
    assert are_linked(uri, tmp_path / "out") == {"Split-train": False, "Split-eval": True}
    counts = [shard.records for shard in open_dataset(str(tmp_path / "out")).shards["train"]]
    assert max(counts) - min(counts) <= 1


def test_photos_in_a_table_are_shuffled_by_balancing(tmp_path):
    def write(folder):
        folder.mkdir()
        table = pa.table({"photo": [photo(n) for n in range(60)], "label": [*"ab"] * 30})
        pq.write_table(table, folder / "photos.parquet")

    uri = made(tmp_path, write=write, columns={"photo": "image"})
    steps.balance([uri], str(tmp_path / "out"), BalancerSettings(**SHARDS))
    assert not any(are_linked(uri, tmp_path / "out").values())
    assert names_of(str(tmp_path / "out")) != names_of(uri)


def test_updated_dataset_is_shuffled_again(tmp_path):
    before = made(tmp_path)
    for number in range(9):
        (tmp_path / f"in/a/more-{number}.png").write_bytes(photo(99 + number))
    uri = str(tmp_path / "updated")
    settings = ImageSettings(**SHARDS, base_dataset=before)
    steps.convert(str(tmp_path / "in"), uri, settings)
    counts = [shard.records for shard in open_dataset(uri).shards["train"]]
    assert max(counts) - min(counts) <= 1
    steps.balance([uri], str(tmp_path / "out"), BalancerSettings(**SHARDS))
    assert not any(are_linked(uri, tmp_path / "out").values())
