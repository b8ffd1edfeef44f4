"""Records taken out of all below a folder, told by others' readers and by a twin without them."""

import bz2
import contextlib
import csv
import dataclasses
import fcntl
import gzip
import hashlib
import html
import io
import itertools
import json
import lzma
import os
import random
import re
import shutil
import urllib.parse
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trainer_utils
from pipelines.cli import commands as forget_command
from pipelines.cli.app import app
from pipelines.tools.forget import Forgetting, rewriting, run
from pipelines.tools.ledger import RunLedger
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
from trainer_utils.format.schema_text import render_schema_text
from trainer_utils.order.ledger import InputLedger, Segment, settings_of_order
from trainer_utils.reading.remote_parts import CachedFile, RemoteParts
from trainer_utils.storage.cache_folder import CacheFolder
from trainer_utils.writing.publishing import publish_manifest, texts_of_dataset, write_texts
from trainer_utils.writing.shards import write_shard

FEATURES = {
    "filename": Feature(type="string"),
    "text": Feature(type="string"),
    "label": Feature(type="int"),
    "patient": Feature(type="int"),
}
OTHERS = [(f"zz{n}.jpg", f"qq {n:04d}" * 30, ("cat", "dog")[n % 2], "pp") for n in range(9)]
NAME = "cat/withdrawn 7.jpg"
SECRET = random.Random(7).randbytes(3000).hex()


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory) -> Iterator[None]:
    """Keeps off what this user's trainers have in their cache."""
    folder = str(tmp_path_factory.mktemp("cache"))
    with mock.patch.object(run, "default_cache_dir", return_value=folder):
        yield


def write(uri, rows, *, splits=None, gzip=False, rejects=(), config=None, parents=()):
    """A dataset as components write it; rows are name, text, label and patient."""
    splits = splits or {"train": 3}
    vocabularies = {
        "label": sorted({row[2] for row in rows}),
        "patient": sorted({row[3] for row in rows}),
    }
    shards, counts = [], {split: dict[str, int]() for split in splits}
    for place, (split, num_shards) in enumerate(splits.items()):
        mine = rows[place :: len(splits)]
        for number in range(num_shards):
            name = ShardName(split=split, shard_index=number, num_shards=num_shards, gzip=gzip)

            def fill(writer, mine=mine, number=number, num_shards=num_shards, split=split):
                for row in mine[number::num_shards]:
                    values = {
                        "filename": row[0].encode("utf-8", "surrogateescape"),
                        "text": row[1].encode(),
                        "label": vocabularies["label"].index(row[2]),
                        "patient": vocabularies["patient"].index(row[3]),
                    }
                    writer.write(encode_example(values))
                    counts[split][row[2]] = counts[split].get(row[2], 0) + 1

            shards.append(write_shard(name, fill, uri=str(uri)))
    first = next(iter(splits))
    lines = "".join(
        json.dumps({"code": "BAD", "detail": detail, "source": name, "split": first}) + "\n"
        for name, detail in rejects
    )
    written = {split: sum(of.values()) for split, of in counts.items()}
    bad = {split: len(rejects) * (split == first) for split in splits}
    manifest = Manifest(
        shards=tuple(shards),
        accounting={
            split: Accounting(found=n + bad[split], written=n, rejected=bad[split])
            for split, n in written.items()
        },
        producer="ShardBalancer" if parents else "ImageExampleGen",
        config=config or {},
        input_fingerprint="00" * 16,
        label_counts=counts,
        reject_counts={"BAD": len(rejects)} if rejects else {},
    )
    texts = texts_of_dataset(
        manifest,
        FEATURES,
        vocabularies=vocabularies,
        schema=render_schema_text(FEATURES, vocabularies=vocabularies),
        others={"rejects.jsonl": lines} if rejects else {},
    )
    files = write_texts(str(uri), texts)
    known = [open_dataset(parent) for parent in parents]
    inputs = tuple(DatasetInput(name="examples", digest=each.digest) for each in known)
    ancestors = [
        Ancestor(digest=each.digest, summary=DatasetSummary.of(each.manifest)) for each in known
    ]
    step = Step(component=manifest.producer, settings=config or {}, inputs=inputs)
    origin = Origin(made_by=step, ancestors=tuple(ancestors))
    write_texts(str(uri), {"lineage.json": origin.to_json()})
    publish_manifest(str(uri), dataclasses.replace(manifest, files=files))
    return str(uri)


def take_out(names, roots, **settings):
    found = Forgetting.find(names, [str(root) for root in roots], **settings)
    found.carry_out()
    return found


def read_by_tensorflow(uri) -> dict[str, list[bytes]]:
    from tensorflow.compat.v1.io import TFRecordOptions, tf_record_iterator

    return {
        str(path.relative_to(uri)): [
            *tf_record_iterator(str(path), TFRecordOptions("GZIP" if path.suffix else ""))
        ]
        for path in sorted(Path(uri).glob("Split-*/*"))
    }


def texts_in(value) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)


def told_in(uri) -> set[str]:
    """Every text in the small files of a dataset, each read by its own parser."""
    text_format = pytest.importorskip("google.protobuf.text_format")
    schema_pb2 = pytest.importorskip("tensorflow_metadata.proto.v0.schema_pb2")
    found: set[str] = set()
    for path in Path(uri).rglob("*"):
        if path.suffix == ".json":
            found.update(texts_in(json.loads(path.read_text())))
        elif path.suffix == ".jsonl":
            found.update(t for line in path.open() for t in texts_in(json.loads(line)))
        elif path.suffix == ".txt":
            found.update(path.read_text().split("\n"))
        elif path.suffix == ".pbtxt":
            schema = text_format.Parse(path.read_text(), schema_pb2.Schema())
            found.update(each.name for each in schema.feature)
            found.update(value for domain in schema.string_domain for value in domain.value)
            assert [each.name for each in schema.string_domain] == ["label", "patient"]
    return found


HOSTILE = [
    "12345", "-3", "a", "feature", "label", "train", "cat.jpg", 'say "hi"', "\\", "tab\tname",
    "日本", "(forgotten)", "&amp;", "Größe\\\"\t",
]  # fmt: skip


@given(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\n\r\0", exclude_categories=["Cs"]),
        min_size=1,
    ).filter(lambda name: name.strip() and name not in {row[0] for row in OTHERS}),
    st.booleans(),
)
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_name_of_any_letters(tmp_path_factory, name, is_shared):
    check_forgetting(tmp_path_factory.mktemp("any"), name, is_shared, gzip=True)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_files_have_for_themselves(tmp_path, name):
    check_forgetting(tmp_path, name, is_shared=len(name) % 2 == 0, gzip=False)


def check_forgetting(root: Path, name: str, is_shared: bool, gzip: bool) -> None:
    """Nothing names the record any more, but what others have, and all else is as it was."""
    row = (name, SECRET, name, name)
    others = [*OTHERS, ("zz9.jpg", "qq", name, "pp")] if is_shared else OTHERS
    bad = [("zzbad.jpg", "qq"), (name, "no image"), ("zztwin.jpg", f"a copy of {name}")]
    config = {"where": f"filename != {name!r}", "exclude": [name], "by_name": {name: 1}}
    twin = write(
        root / "twin", others, gzip=gzip, rejects=[bad[0], ("zztwin.jpg", "(forgotten)")],
        config={"where": "(forgotten)", "exclude": ["(forgotten)"], "by_name": {"(forgotten)": 1}},
    )  # fmt: skip
    told = told_in(twin)
    shutil.rmtree(twin)
    uri = write(root / "it", [*others[:4], row, *others[4:]], gzip=gzip, rejects=bad, config=config)
    before = read_by_tensorflow(uri)
    done = take_out([name], [str(root)], output=f"{root}.json").certificate
    after = read_by_tensorflow(uri)
    assert after == {
        path: [record for record in records if SECRET.encode() not in record]
        for path, records in before.items()
    }
    assert sum(map(len, after.values())) == len(others)
    assert verify_dataset(uri).is_good, verify_dataset(uri)
    edges = [
        "[0-9A-Za-z]" if re.match("[0-9A-Za-z]", end) else r"\Z\A" for end in (name[0], name[-1])
    ]
    naming = re.compile(f"(?<!{edges[0]}){re.escape(name)}(?!{edges[1]})")
    known = told | {"forgotten", "digests", *(f"(forgotten) {number}" for number in range(4))}
    assert not {text for text in told_in(uri) - known if naming.search(text)}
    assert done["complete"] == (not is_shared)
    assert len(done["datasets"][0]["records"]) == len(done["datasets"][0]["rejects"]) == 1
    ids = {feature: len(names) for feature, names in open_dataset(uri).vocabularies.items()}
    assert ids == {"label": 2 + (name not in ("cat", "dog")), "patient": 2}  # none has shifted


def tree(root: Path) -> dict[str, str]:
    """Photos with rejects and a file of one's own, balanced, texts in gzip, a copy, a cache."""
    some, bad = [*OTHERS[:4], (NAME, SECRET, "cat", "lone"), *OTHERS[4:]], [(NAME, "no image")]
    made = {"photos": write(root / "photos", some, splits={"train": 2, "eval": 1}, rejects=bad)}
    (root / "photos/README.md").write_text("one's own")
    parents = (made["photos"],)
    made["balanced"] = write(
        root / "balanced", some[::-1], parents=parents, config={"where": f"filename != '{NAME}'"}
    )
    made["texts"] = write(root / "texts", some[2:], gzip=True)
    made["untouched"] = write(root / "untouched", OTHERS[:3])
    cache = CacheFolder(str(root / "cache"), 1 << 30)
    parts = RemoteParts(cache, is_global=False)
    for shard in open_dataset(made["balanced"]).shards["train"]:
        CachedFile(shard, parts).read(0, shard.bytes)
    return made


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def in_a_child(work, *, calls: int) -> bool:
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
        for name in ("replace", "rename", "link", "remove", "unlink", "rmdir", "mkdir", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


def state_of(uri: str) -> str:
    """Whether a dataset has the record, has not, or is not there; never anything between."""
    try:
        open_dataset(uri)
    except DatasetError as error:
        return "gone" if not Path(uri).exists() else str(error)
    assert verify_dataset(uri).is_good
    records = [record for records in read_by_tensorflow(uri).values() for record in records]
    return "old" if any(SECRET.encode() in record for record in records) else "new"


@pytest.mark.parametrize(("inner", "step"), [("", 17), ("photos", 5)])
def test_a_run_that_is_killed_at_any_change_ends_as_one_that_is_not(tmp_path, inner, step):
    def forget(root):
        return take_out([NAME], [root], output=str(tmp_path / "certificate.json"))

    def told():
        facts = json.loads((tmp_path / "certificate.json").read_text())
        return {name: facts[name] for name in facts.keys() - {"requested_at", "checksum"}}

    whole, template = tmp_path / "whole", tmp_path / "template"
    tree(template)
    shutil.copytree(template, whole)
    done = forget(whole / inner)
    assert done.certificate["complete"]
    expected, certificate, seen = everything(whole), told(), set()
    assert not [p for p, data in everything(whole / inner).items() if NAME.encode() in data]
    assert (whole / "photos/README.md").read_text() == "one's own"
    for calls in itertools.count(1, step):
        shutil.rmtree(whole)
        (tmp_path / "certificate.json").unlink()
        shutil.copytree(template, whole)
        is_done = in_a_child(lambda: forget(whole / inner), calls=calls)
        if (whole / inner / ".tfx-shards-forget/draft.json").exists():
            with pytest.raises(ConfigError):  # another request waits
                take_out(["zz1.jpg"], [whole / inner])
        seen |= {state_of(str(whole / "photos"))}
        if not is_done:
            is_over = not [*whole.rglob("draft.json")] and (tmp_path / "certificate.json").exists()
            with pytest.raises(ConfigError) if is_over else contextlib.nullcontext():
                forget(whole / inner)
        assert everything(whole) == expected
        assert told() == certificate
        if is_done:
            break
    assert {"old", "new"} <= seen <= {"old", "new", "gone"}


def packed(data: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.txt", data)
    return stream.getvalue()


def as_csv(name: str) -> bytes:
    csv.writer(stream := io.StringIO()).writerow([name, 1])
    return stream.getvalue().encode()


AWKWARD = 'Größe "x"\t\\ 日本'
SPELLINGS = {
    "plain.txt": lambda name: name.encode(),
    "utf16.csv": lambda name: name.encode("utf-16"),
    "plain.json": lambda name: json.dumps([name]).encode(),
    "utf8.json": lambda name: json.dumps([name], ensure_ascii=False).encode(),
    "inner.json": lambda name: json.dumps([json.dumps([name])]).encode(),
    "some.pbtxt": lambda name: render_schema_text({name: FEATURES["text"]}, vocabularies={}).encode(
        "ascii"
    ),
    "some.py": lambda name: ascii(name.encode()).encode(),
    "page.html": lambda name: f"<p>{html.escape(name)}</p>".encode(),
    "ascii.html": lambda name: html.escape(name).encode("ascii", "xmlcharrefreplace"),
    "latin.html": lambda name: b"\xe9 " + html.escape(name).encode("ascii", "xmlcharrefreplace"),
    "url.txt": lambda name: urllib.parse.quote(name).encode(),
    "list.csv": as_csv,
    "list.csv.gz": lambda name: gzip.compress(name.encode()),
    "list.csv.bz2": lambda name: bz2.compress(name.encode()),
    "list.csv.xz": lambda name: lzma.compress(name.encode()),
    "some.npz": lambda name: packed(name.encode()),
    "some.pb": lambda name: b"\0\xff\x12" + bytes([len(name.encode())]) + name.encode() + b"B\1",
    "long.txt": lambda name: b"-" * ((8 << 20) - 5) + json.dumps(name).encode(),
    "other.tfrecord": lambda name: frame_records([example(name)]),
    "other.tfrecord.gz": lambda name: gzip.compress(frame_records([example(name)])),
}  # fmt: skip


PACKED = {f"others/{file}" for file in ("list.csv.gz", "list.csv.bz2", "list.csv.xz", "some.npz")}
PACKED |= {"others/other.tfrecord.gz"}  # which are not looked into


def example(name: str) -> bytes:
    return b"".join(encode_example({"image/name": name.encode(), "n": 1}))


def test_whatever_else_names_a_record_is_listed_and_left(tmp_path):
    write(tmp_path / "data", [*OTHERS, (AWKWARD, SECRET, "cat", "pp")])
    for folder, name in (("named", AWKWARD), ("others", "cat/other.jpg")):
        (tmp_path / folder).mkdir()
        for file, spell in SPELLINGS.items():
            (tmp_path / folder / file).write_bytes(spell(name))
    (tmp_path / AWKWARD).mkdir()
    raw = {f"{AWKWARD}.png", f"a {AWKWARD} b.png", f"{AWKWARD}/left.png"}
    for file in raw:
        (tmp_path / file).write_bytes(b"a picture")
    (tmp_path / "table.parquet").write_bytes(b"PAR1 and more")
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(random.Random(1).randbytes(99))[:-9])
    write(tmp_path / "damaged", OTHERS)
    shard = next((tmp_path / "damaged").glob("Split-train/*00000-of*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    before = everything(tmp_path / "named")
    done = take_out([AWKWARD], [tmp_path], plain_names=True).certificate
    left = {os.path.relpath(each["path"], tmp_path) for each in done["remains"]}
    odd = raw | {"table.parquet", "cut.csv.gz", "damaged"}
    assert left == odd | {f"named/{file}" for file in SPELLINGS} | PACKED
    assert (done["complete"], everything(tmp_path / "named")) == (False, before)
    assert [each["records"][0]["name"] for each in done["datasets"]] == [AWKWARD]


def test_what_other_records_have_stays_and_is_told(tmp_path):
    mine, other = ("12345", SECRET, "rare", "12345"), ("zz9.jpg", "see 12345, or 1234", "cat", "pp")
    both = write(tmp_path / "a", [*OTHERS, mine, other])
    rare = write(tmp_path / "b", [*OTHERS, ("zz9.jpg", "qq", "rare", "pp")])
    done = take_out(["12345"], [tmp_path]).certificate
    assert [(os.path.relpath(each["path"], tmp_path)) for each in done["remains"]] == ["a"]
    assert "1 of its other records" in done["remains"][0]["why"]
    labels = open_dataset(both).vocabularies
    assert labels == {"label": ["cat", "dog", "rare"], "patient": ["(forgotten) 0", "pp"]}
    (entry,) = done["datasets"]
    assert (entry["uri"], entry["labels"]) == (both, {"patient": [0]})
    assert open_dataset(rare).vocabularies["label"] == ["cat", "dog", "rare"]


@pytest.mark.parametrize("count", [3, 40])
def test_many_names_and_numbers_as_ids(tmp_path, count):
    uri = str(tmp_path / "data")
    with trainer_utils.DatasetWriter(uri, num_shards={"train": 4}) as writer:
        for number in range(100):
            writer.write("train", {"id": number, "text": f"{number * 1000} qq"})
    done = take_out([*map(str, range(count)), "300", "nobody"], [tmp_path]).certificate
    assert sum(len(each["records"]) for each in done["datasets"]) == count
    assert len(done["not_found"]) == 2
    assert sum(open_dataset(uri).records.values()) == 100 - count
    assert verify_dataset(uri).is_good
    assert done["complete"]


def test_tokens_and_ledgers_of_before_are_refused(tmp_path):
    uri = write(tmp_path / "a", [*OTHERS, (NAME, SECRET, "cat", "pp")])
    batches = trainer_utils.iterate(uri, batch_size=2, shuffle=False)
    token, order = batches.state(1), batches.order
    segment = Segment(
        first_step=0,
        steps=4,
        start=0,
        datasets=[(uri, "train")],
        settings=settings_of_order(order.options),
        digest=order.digest,
    )
    ledger = InputLedger((segment,))
    (tmp_path / "input_ledger.json").write_text(ledger.to_json())
    take_out([NAME], [tmp_path])
    with pytest.raises(ConfigError, match="digest"):
        trainer_utils.iterate(uri, batch_size=2, shuffle=False, state=token)
    with pytest.raises(DatasetError, match="digest"):
        RunLedger(str(tmp_path)).at_step(0)


def test_a_root_that_is_a_link_to_a_dataset(tmp_path):
    uri = write(tmp_path / "data", [*OTHERS, (NAME, SECRET, "cat", "pp")])
    (tmp_path / "latest").symlink_to("data")
    done = take_out([NAME], [tmp_path / "latest"]).certificate
    assert (done["complete"], (tmp_path / "latest").is_symlink()) == (True, True)
    assert state_of(uri) == "new"


@pytest.mark.parametrize("inner", ["", "/photos"])
def test_a_dataset_on_an_object_store(tmp_path, in_memory, inner):
    tree(tmp_path / "root")
    shutil.rmtree(tmp_path / "root/cache")  # caches are local
    uri = in_memory(tmp_path / "root", f"forget-{tmp_path.name}")
    found = Forgetting.find([NAME], [uri + inner])
    fault = mock.patch.object(rewriting, "upload_dataset", side_effect=OSError("no network"))
    with fault, pytest.raises(OSError, match="no network"):
        found.carry_out()
    done = take_out([NAME], [uri + inner]).certificate
    assert (done["complete"], len(done["datasets"])) == (True, 1 if inner else 3)
    for each in done["datasets"]:
        assert verify_dataset(each["uri"]).is_good
        assert each["digest_before"] != each["digest_after"]


def test_two_runs_at_once(tmp_path):
    uri = write(tmp_path / "data", [*OTHERS, (NAME, SECRET, "cat", "pp")])
    found, before = Forgetting.find([NAME], [str(tmp_path)]), everything(tmp_path)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(ConfigError, match="no other run"):
        found.carry_out()
    assert everything(tmp_path) == before
    os.close(descriptor)
    found.carry_out()
    assert state_of(uri) == "new"


def invoke(*arguments, **settings):
    return CliRunner().invoke(app, ["forget", *map(str, arguments)], **settings)


def test_the_command(tmp_path):
    root, certificate = tmp_path / "root", tmp_path / "certificate.json"
    tree(root)
    before = everything(root)
    dry = invoke(NAME, "--in", root, "--dry-run")
    assert (dry.exit_code, everything(root)) == (0, before), dry.stderr
    assert NAME in dry.stdout
    assert invoke("--in", root).exit_code == 2
    assert invoke(NAME, "--in", tmp_path / "nowhere").exit_code == 1
    unknown = invoke("none.jpg", "--in", root)
    assert (unknown.exit_code, everything(root)) == (1, before)
    with mock.patch.object(forget_command, "is_terminal", return_value=True):
        asked = invoke(NAME, "--in", root, input="n\n")
        assert (asked.exit_code, everything(root)) == (1, before)
        assert NAME in asked.stderr
        (tmp_path / "names.txt").write_text(f"{NAME}\nnobody.jpg\n")
        done = invoke(
            "--file", tmp_path / "names.txt", "--in", root, "-o", certificate, "--json", "--yes"
        )
    assert done.exit_code == 0, done.stderr
    facts = json.loads(certificate.read_text())
    assert (json.loads(done.stdout) | {"checksum": facts["checksum"]}, facts["complete"]) == (
        facts,
        True,
    )
    assert facts["records"] == sorted(
        f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in (NAME, "nobody.jpg")
    )
    assert len(facts["not_found"]) == 1
    assert [each["digest_after"] for each in facts["datasets"]] == [
        open_dataset(each["uri"]).digest for each in facts["datasets"]
    ]
    assert invoke("zz1.jpg", "--in", root, "-o", certificate).exit_code == 2  # it is there
    for each in facts["datasets"]:
        manifest = open_dataset(each["uri"]).manifest
        assert manifest.earlier_digests == (each["digest_before"],)
        (skipped,) = {c.skipped for c in manifest.accounting.values()} - {0}
        assert skipped == len(each["records"]) + len(each["rejects"])
        path = Path(each["uri"], "lineage.json")
        origin = Origin.from_json(path.read_text(), path="")
        assert origin.made_by.inputs[0].digest == origin.ancestors[-1].digest
        assert origin.ancestors[-1].digest == each["digest_before"]
