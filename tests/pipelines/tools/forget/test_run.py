"""Records taken out of all that is below a folder, told by a reader of every byte of the test's own."""

import gzip
import hashlib
import json
import os
import random
import struct
from pathlib import Path

import pytest

import trainer_utils
from pipelines.tools.forget import Certificate
from pipelines.tools.forget import forget as take_out
from pipelines.tools.verification import verify_dataset
from trainer_utils import DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.format import Accounting, Feature, Manifest, ShardName, encode_example
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.reading.shard_parts import ShardParts
from trainer_utils.storage.cache import WholeCopies
from trainer_utils.storage.cache_folder import CacheFolder
from trainer_utils.writing.publishing import publish_manifest, texts_of_dataset, write_texts
from trainer_utils.writing.shards import write_shard

NAME, TWIN, REJECTED = "cat/withdrawn 7.jpg", "dog/another.jpg", "cat/bad.jpg"
TEXT = "reviews.csv:1"
LABELS = ["cat", "dog"]
FEATURES = {
    "filename": Feature(type="string"),
    "image": Feature(type="string"),
    "label": Feature(type="int"),
}
SECRET = random.Random(7).randbytes(3000)


def photo(name: str, data: bytes, label: int) -> bytes:
    return b"".join(encode_example({"filename": name.encode(), "image": data, "label": label}))


def text(name: str, words: str) -> bytes:
    return b"".join(
        encode_example({"id": name.encode(), "text": words.encode(), "label": len(words) % 2})
    )


def write(
    uri: Path,
    splits: dict[str, list[list[bytes]]],
    *,
    features: dict[str, Feature] = FEATURES,
    compressed: bool = False,
    rejects: str = "",
    parents: tuple[str, ...] = (),
) -> str:
    """A dataset as components write it, with rejects of one code, and with lineage."""
    shards = []
    for split, group in splits.items():
        for number, records in enumerate(group):
            name = ShardName(
                split=split, shard_index=number, num_shards=len(group), gzip=compressed
            )

            def fill(writer, records=records):
                for record in records:
                    writer.write([record])

            shards.append(write_shard(name, fill, uri=str(uri)))
    lost = rejects.count("\n")
    labels = {
        split: [label_of(record) for records in group for record in records]
        for split, group in splits.items()
    }
    first = next(iter(splits))
    manifest = Manifest(
        shards=tuple(shards),
        accounting={
            split: Accounting(
                found=len(of) + lost * (split == first),
                written=len(of),
                rejected=lost * (split == first),
            )
            for split, of in labels.items()
        },
        producer="ShardBalancer" if parents else "ImageExampleGen",
        config={"where": f"filename != '{REJECTED}'"} if rejects else {},
        input_fingerprint=hashlib.sha256(str(uri).encode()).hexdigest(),
        label_counts={s: {n: of.count(n) for n in LABELS if n in of} for s, of in labels.items()},
        reject_counts={"BAD_IMAGE": lost} if lost else {},
    )
    texts = texts_of_dataset(
        manifest,
        features,
        vocabularies={"label": LABELS},
        schema="",
        others={"rejects.jsonl": rejects} if rejects else {},
    )
    files = write_texts(str(uri), texts)
    known = [open_dataset(parent) for parent in parents]
    origin = Origin(
        made_by=Step(
            component=manifest.producer,
            settings={"input_base": f"/photos/{NAME if parents else 0}"},
            inputs=tuple(DatasetInput(name="examples", digest=each.digest) for each in known),
        ),
        ancestors=tuple(
            Ancestor(digest=each.digest, summary=DatasetSummary.of(each.manifest)) for each in known
        ),
    )
    write_texts(str(uri), {"lineage.json": origin.to_json()})
    publish_manifest(str(uri), Manifest(**{**vars_of(manifest), "files": files}))
    return str(uri)


def vars_of(manifest: Manifest) -> dict:
    return {name: getattr(manifest, name) for name in Manifest.__dataclass_fields__}


def label_of(record: bytes) -> str:
    """The label: seven bytes behind its key, as docs/format.md shows it."""
    return LABELS[record[record.rindex(b"label") + len("label") + 6]]


def reject(name: str) -> str:
    facts = {"code": "BAD_IMAGE", "detail": f"{name}: no", "source": name, "split": "train"}
    return json.dumps(facts) + "\n"


def payloads(path: Path) -> list[bytes]:
    """The records of a file, by the format alone."""
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    found, place = [], 0
    while place < len(data):
        (size,) = struct.unpack_from("<Q", data, place)
        found.append(data[place + 12 : place + 12 + size])
        place += size + 16
    return found


def records_of(uri: str) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for path in sorted(Path(uri).glob("Split-*/*")):
        found.setdefault(path.parent.name, []).extend(payloads(path))
    return found


def holders(folder: Path, *wanted: bytes) -> list[str]:
    """Every file in which some bytes stand, compressed or not."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            data += gzip.decompress(data) if data.startswith(b"\x1f\x8b") else b""
            if any(one in data for one in wanted):
                found.append(str(path.relative_to(folder)))
    return found


def other_photos(chance: random.Random, count: int) -> list[bytes]:
    return [photo(f"cat/{n}.jpg", chance.randbytes(900), n % 2) for n in range(count)]


@pytest.fixture
def chance() -> random.Random:
    return random.Random(3)


def root_of(folder: Path, chance: random.Random) -> dict[str, str]:
    """Photos with rejects, balanced twice, texts in gzip, a copy of all, a cache, killed runs."""
    withdrawn, twin = photo(NAME, SECRET, 0), photo(TWIN, SECRET, 1)
    some = other_photos(chance, 12)
    first = [some[:4], [withdrawn], some[4:6]]
    made = {}
    made["photos"] = write(
        folder / "photos",
        {"train": first, "eval": [[*some[6:8], twin]]},
        rejects=reject(REJECTED) + reject(f"cat/{'x' * 9}.jpg"),
    )
    made["balanced"] = write(
        folder / "balanced",
        {"train": [[*some[:2], withdrawn, some[2]], some[3:6]], "eval": [[twin, *some[6:8]]]},
        parents=(made["photos"],),
    )
    words = [text(f"reviews.csv:{n}", "so many words " * (n + 1)) for n in range(20)]
    made["texts"] = write(
        folder / "texts",
        {"train": [words[:5], words[5:]]},
        features={
            "id": FEATURES["filename"],
            "text": FEATURES["filename"],
            "label": FEATURES["label"],
        },
        compressed=True,
    )
    made["untouched"] = write(folder / "untouched", {"train": [some[8:]]})
    cache = CacheFolder(str(folder / "cache"), 1 << 30)
    opened = open_dataset(made["balanced"]).shards["train"]
    parts = ShardParts(opened)
    for shard in opened:
        (part,) = parts.of(shard.path)
        cache.put(parts.name(part), parts.fetch(part).data, use=1.0, use_of=lambda name: None)
    copies = WholeCopies(cache)
    for shard in open_dataset(made["texts"]).shards["train"]:
        copies.locate(shard.path)
    del copies
    killed = folder / "killed"
    (killed / ".tfx-shards-tmp").mkdir(parents=True)
    (killed / "Split-train").mkdir()
    (killed / ".tfx-shards-tmp/run-0").write_bytes(b"...." + withdrawn + b"....")
    (killed / "Split-train/data_tfrecord-00000-of-00001").write_bytes(b"some")
    (killed / "notes.txt").write_text("one's own")
    return made


def test_no_byte_of_the_records_is_left_and_all_else_is_as_it_was(tmp_path, chance):
    root = tmp_path / "root"
    made = root_of(root, chance)
    before = {name: records_of(uri) for name, uri in made.items()}
    files = {path: path.stat().st_ino for path in root.rglob("Split-*/data_tfrecord*")}
    assert len(holders(root, SECRET)) >= 5
    names = [NAME, TEXT, REJECTED]
    done = take_out(names, [str(root)], with_content=True)
    assert (
        holders(root, SECRET, *(f"{name}{end}".encode() for name in names for end in '"\x12\n'))
        == []
    )
    assert holders(root, NAME.encode(), REJECTED.encode()) == []
    gone = {"photos": 2, "balanced": 2, "texts": 1, "untouched": 0}
    for name, uri in made.items():
        wanted = {
            split: [r for r in records if SECRET not in r and TEXT.encode() + b"\n" not in r]
            for split, records in before[name].items()
        }
        assert records_of(uri) == wanted
        assert sum(len(r) for r in before[name].values()) - gone[name] == sum(
            map(len, wanted.values())
        )
        assert verify_dataset(uri).is_good, verify_dataset(uri)
        assert not (Path(uri) / ".tfx-shards-tmp").exists()
    kept = [path for path, inode in files.items() if path.exists() and path.stat().st_ino == inode]
    assert len(kept) == len(files) - 6  # five shards are others now, the killed run's is gone
    assert [path.name for path in (root / "killed").iterdir()] == ["notes.txt"]
    certificate = Certificate.from_json(Path(done.path).read_text(), path=done.path)
    assert certificate.is_complete
    assert certificate.num_records == 5
    assert not certificate.not_found
    told = {dataset["uri"]: dataset for dataset in certificate.datasets}
    assert told.keys() == {made["photos"], made["balanced"], made["texts"]}
    for uri, dataset in told.items():
        manifest = Manifest.from_json(Path(uri, "manifest.json").read_text(), path=uri)
        assert dataset["digest_after"] == manifest.digest != dataset["digest_before"]
        assert manifest.earlier_digests == (dataset["digest_before"],)
        assert dataset["shards"][0]["after"]["crc32c"] != dataset["shards"][0]["before"]["crc32c"]
        origin = Origin.from_json(Path(uri, "lineage.json").read_text(), path=uri)
        assert (origin.made_by.component, origin.made_by.inputs[0].digest) == (
            "Forget",
            dataset["digest_before"],
        )
        assert origin.ancestors[-1].digest == dataset["digest_before"]
    photos = Manifest.from_json(Path(made["photos"], "manifest.json").read_text(), path="")
    assert photos.accounting["train"] == Accounting(found=9, written=6, rejected=1, skipped=2)
    assert photos.reject_counts == {"BAD_IMAGE": 1}
    by_name = [r for r in told[made["photos"]]["records"] if r["by"] == "name"]
    assert by_name == [
        {
            "record": f"sha256:{hashlib.sha256(NAME.encode()).hexdigest()}",
            "by": "name",
            "split": "train",
            "shard": "Split-train/data_tfrecord-00001-of-00003",
            "number": 0,
            "bytes": len(photo(NAME, SECRET, 0)),
        }
    ]
    assert (
        sum(len(array["label"]) for array in trainer_utils.iterate(made["photos"], batch_size=2))
        == 6
    )
    again = take_out(names, [str(root)], with_content=True)
    assert again.certificate.datasets == certificate.datasets


class Killed(BaseException):
    pass


def in_a_child(work, *, calls: int | None) -> bool:
    """Runs it in a process that ends at its n-th call that changes a file; whether it came to its end."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    left = calls

    def counted(function):
        def call(*arguments, **named):
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(9)
            return function(*arguments, **named)

        return call

    try:
        for name in ("replace", "remove", "unlink", "rmdir", "mkdir", "fsync", "rename", "utime"):
            setattr(os, name, counted(getattr(os, name)))
        work()
    except BaseException:
        os._exit(1)
    os._exit(0)


def test_a_run_that_is_killed_at_any_change_is_finished_by_the_next(tmp_path, chance):
    names, kills = [NAME, TEXT, REJECTED], 0
    place, step = 0, 1
    while True:
        folder = tmp_path / f"{place}"
        root = folder / "root"
        made = root_of(root, random.Random(3))
        old = {uri: records_of(uri) for uri in made.values()}

        def work(root=root):
            take_out(names, [str(root)], with_content=True)

        is_done = in_a_child(work, calls=place)
        for uri in made.values():
            try:
                open_dataset(uri)
            except DatasetError as error:
                assert "forget" in str(error)
                continue
            now = records_of(uri)
            assert verify_dataset(uri).is_good
            assert now == old[uri] or not any(SECRET in r for of in now.values() for r in of)
        done = take_out(names, [str(root)], with_content=True)
        assert holders(root, SECRET, NAME.encode(), REJECTED.encode()) == []
        assert done.certificate.num_records == 5
        assert len(done.certificate.datasets) == 3
        assert all(d["digest_after"] != d["digest_before"] for d in done.certificate.datasets)
        assert all(verify_dataset(uri).is_good for uri in made.values())
        assert not (root / ".tfx-shards-forget").exists()
        kills += not is_done
        if is_done:
            break
        place, step = place + step, chance.choice([3, 5, 9, 14])
    assert kills >= 10
