"""Records taken out of all below a folder, told by a reader of every byte of the test's own."""

import gzip
import hashlib
import itertools
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import trainer_utils
from pipelines.cli.app import app
from pipelines.lineage import describe_artifact
from pipelines.tools.diff import compare_datasets, render_difference
from pipelines.tools.forget import Certificate, Traced
from pipelines.tools.forget import forget as take_out
from pipelines.tools.html import write_page
from pipelines.tools.ledger import RunLedger
from pipelines.tools.records.search import search_dataset
from pipelines.tools.verification import verify_dataset
from trainer_utils import ConfigError, DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.format import (
    Accounting,
    Feature,
    Manifest,
    ShardName,
    encode_example,
    frame_records,
)
from trainer_utils.format.origin import Ancestor, DatasetInput, DatasetSummary, Origin, Step
from trainer_utils.order.ledger import InputLedger, Stretch, plan_of
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
TEXT_FEATURES = {
    "id": Feature(type="string"),
    "text": Feature(type="string"),
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


def count(records: dict[str, list[bytes]]) -> int:
    return sum(map(len, records.values()))


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
    lineage = describe_artifact(made["balanced"], metadata=str(root)).to_json()
    ancestors = [each["artifact"]["uri"] for each in lineage["ancestors"]]
    befores = [f"digest:{told[made[name]]['digest_before']}" for name in ("photos", "balanced")]
    assert ancestors == befores  # of which the photos as they are now were made too
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


def in_a_child(work: Callable[[], object], *, calls: int) -> bool:
    """Runs it in a process that ends before its n-th change of a file; whether it was done."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    left = itertools.count(calls, -1)

    def counted(function):
        def call(*arguments, **named):
            if next(left) <= 0:
                os._exit(9)
            return function(*arguments, **named)

        return call

    try:
        for name in ("replace", "remove", "unlink", "rmdir", "mkdir", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


def state_of(uri: str, old: dict[str, list[bytes]]) -> str:
    """Whether a dataset is the old one, the new one, or one that nothing opens."""
    try:
        open_dataset(uri)
    except DatasetError as error:
        return "refused" if "tfx-shards forget" in str(error) else f"{error}"
    assert verify_dataset(uri).is_good
    now = records_of(uri)
    return "old" if now == old else "new" if not any(map(holds, now.values())) else "other"


def holds(records: list[bytes]) -> bool:
    return any(SECRET in record or NAME.encode() in record for record in records)


def test_a_run_that_is_killed_at_any_change_is_finished_by_the_next(tmp_path, chance):
    names, seen = [NAME, TEXT, REJECTED], set()
    for calls in itertools.count(chance.randrange(8), 9):
        root = tmp_path / f"{calls}"
        made = root_of(root, random.Random(3))
        old = {uri: records_of(uri) for uri in made.values()}
        is_done = in_a_child(
            lambda root=root: take_out(names, [str(root)], with_content=True), calls=calls
        )
        states = {state_of(made[name], old[made[name]]) for name in ("photos", "balanced")}
        assert states <= {"old", "new", "refused"}
        seen |= states
        done = take_out(names, [str(root)], with_content=True)
        assert holders(root, SECRET, NAME.encode(), REJECTED.encode()) == []
        assert done.certificate.num_records == 5
        told = {
            d["uri"]: (d["digest_before"], d["digest_after"]) for d in done.certificate.datasets
        }
        assert told.keys() == {made["photos"], made["balanced"], made["texts"]}
        assert all(before != after is not None for before, after in told.values())
        assert all(verify_dataset(uri).is_good for uri in told)
        assert not (root / ".tfx-shards-forget").exists()
        shutil.rmtree(root)
        if is_done:
            break
    assert seen == {"old", "new", "refused"}


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["forget", *map(str, arguments)])


def test_the_command(tmp_path, chance):
    root = tmp_path / "root"
    made = root_of(root, chance)
    before = everything(root)
    dry = invoke(NAME, "--in", root, "--dry-run", "--json")
    assert (dry.exit_code, everything(root)) == (0, before), dry.stderr
    facts = json.loads(dry.stdout)
    assert [len(dataset["records"]) for dataset in facts["datasets"]] == [1, 1]
    assert {each["uri"] for each in facts["same_content"]} == {made["photos"], made["balanced"]}
    shown = invoke(NAME, "--in", root, "--dry-run").stdout
    assert NAME in shown
    assert TWIN in shown
    unknown = invoke("none.jpg", "--in", root)
    assert (unknown.exit_code, everything(root)) == (1, before)
    assert "found none of 1" in unknown.stderr
    assert invoke("--in", root).exit_code == 2
    assert invoke(NAME, "--in", tmp_path / "nowhere").exit_code == 1
    (tmp_path / "names.txt").write_text(f"{NAME}\nnobody.jpg\n")
    (root / "raw/cat").mkdir(parents=True)
    (root / "raw" / NAME).write_bytes(SECRET)
    (root / "list.csv").write_text(f"filename,label\n{NAME},0\n")
    foreign = b"".join(encode_example({"filename": NAME.encode(), "n": 1}))
    (root / "other.tfrecord").write_bytes(frame_records([foreign]))
    certificate = tmp_path / "certificate.json"
    done = invoke(
        "--file", tmp_path / "names.txt", "--in", root, "-o", certificate, "--plain-names"
    )
    assert done.exit_code == 1
    told = json.loads(certificate.read_text())
    left = {os.path.relpath(each["path"], root) for each in told["remains"]}
    assert left == {f"raw/{NAME}", "list.csv", "other.tfrecord"}
    assert (told["records"], told["not_found"]) == ([NAME, "nobody.jpg"], ["nobody.jpg"])
    assert holders(root, NAME.encode()) == sorted({*left} - {f"raw/{NAME}"})
    assert {record["by"] for dataset in told["datasets"] for record in dataset["records"]} == {
        "name"
    }
    assert [r for r in records_of(made["photos"])["Split-eval"] if SECRET in r] != []
    other = invoke(TEXT, "--in", root, "-o", certificate)
    assert (other.exit_code, "name another" in other.stderr) == (2, True)


def test_tokens_and_ledgers_of_before_are_refused_and_runs_are_told(tmp_path, chance):
    some = other_photos(chance, 6)
    parent = write(tmp_path / "a", {"train": [[*some[:3], photo(NAME, SECRET, 0)], some[3:]]})
    other = write(tmp_path / "b", {"train": [some]})
    uris = [parent, other]
    batches = trainer_utils.iterate(uris, batch_size=2, shuffle=False)
    token = batches.state(1)
    plan = plan_of(batches.order, [(uri, "train") for uri in uris], None)
    stretch = Stretch(plan=0, first_step=0, steps=4, start=0, num_workers=1, num_replicas=1)
    ledger = InputLedger(plans=[plan], stretches=[stretch])
    (tmp_path / "run").mkdir()
    (tmp_path / "run/input_ledger.json").write_text(ledger.to_json())
    model = {"uri": "model/7", "type": "Model", "id": 7, "state": "LIVE"}
    copy = write(
        tmp_path.parent / f"{tmp_path.name}-elsewhere", {"train": [[photo(NAME, SECRET, 0)]]}
    )
    traced = Traced(models=[model], relatives=[other, copy])
    done = take_out([NAME], [str(tmp_path)], trace=lambda uri: traced).certificate
    assert done.models == [{**model, "dataset": parent}]
    assert done.runs == [
        {"run": str(tmp_path / "run"), "dataset": parent, "steps": 4, "steps_that_saw": 1}
    ]
    assert [each["path"] for each in done.remains] == [copy]
    with pytest.raises(ConfigError, match=r"of before `tfx-shards forget` took records out of it"):
        trainer_utils.iterate(uris, batch_size=2, shuffle=False, state=token)
    with pytest.raises(DatasetError, match=r"what `tfx-shards forget` has left of it"):
        RunLedger(str(tmp_path / "run")).at_step(0)
    now = trainer_utils.iterate(uris, batch_size=2, shuffle=False).state(1)
    trainer_utils.iterate(uris, batch_size=2, shuffle=False, state=now)
    alike = trainer_utils.iterate(other, batch_size=2, shuffle=False).state(1)
    with pytest.raises(ConfigError, match="It is of another dataset or split"):
        trainer_utils.iterate(uris, batch_size=2, shuffle=False, state=alike)


def test_pages_and_findings_that_name_a_record_go_and_what_others_wrote_stays(tmp_path, chance):
    uri = write(tmp_path / "a", {"train": [[photo(NAME, SECRET, 0), *other_photos(chance, 2)]]})
    write_page(str(tmp_path / "report.html"), render_difference(compare_datasets(uri, uri)))
    again = tmp_path / "again.html"
    write_page(str(again), (tmp_path / "report.html").read_text() + NAME)
    (tmp_path / "audit/Split-train").mkdir(parents=True)
    facts = {"counts": {}, "findings": [{"records": [NAME]}]}
    (tmp_path / "audit/findings.json").write_text(json.dumps(facts))
    (tmp_path / "audit/Split-train/SchemaDiff.pb").write_bytes(bytes([len(NAME)]) + NAME.encode())
    (tmp_path / "mine.html").write_text(f"<p>{NAME}</p>")
    done = take_out([NAME], [str(tmp_path)]).certificate
    assert [each["path"] for each in done.remains] == [str(tmp_path / "mine.html")]
    assert holders(tmp_path, NAME.encode()) == ["mine.html"]
    assert (tmp_path / "report.html").exists()
    assert not again.exists()


def test_a_dataset_on_an_object_store(tmp_path, chance, in_memory):
    root = tmp_path / "root"
    made = root_of(root, chance)
    shutil.rmtree(root / "cache")  # caches are local
    uri = in_memory(root, f"forget-{tmp_path.name}")
    done = take_out([NAME], [uri], with_content=True).certificate
    assert done.is_complete
    assert done.num_records == 4
    for name in made:
        assert verify_dataset(f"{uri}/{name}").is_good
    assert not search_dataset(f"{uri}/photos", NAME).places
