"""`forget` removes records from all datasets under a folder, checked with TensorFlow's reader."""

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import tarfile
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner

import trainer_utils
from components import steps
from components.example_gen.settings import ImageSettings, TextSettings
from pipelines.cli import commands
from pipelines.cli.app import app
from pipelines.tools import forget
from pipelines.tools.forget import Forgetting
from pipelines.tools.verification import verify_dataset
from tests.make import everything, jpeg, write_files, write_rows
from trainer_utils import ConfigError, DatasetError
from trainer_utils.dataset import open_dataset
from trainer_utils.reading.remote_files import RemoteParts

NAME, SECRET = "cat/withdrawn 7.jpg", b"the text of a record that is withdrawn"
OTHERS = [f"zz{number}.jpg" for number in range(9)]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Use an empty cache folder instead of the user's own."""
    folder = str(tmp_path_factory.mktemp("cache"))
    monkeypatch.setattr(forget, "default_cache_dir", lambda: folder)


def write(uri, names=(*OTHERS[:4], NAME, *OTHERS[4:]), **settings) -> str:
    rows = ({"filename": n, "text": SECRET if n == NAME else b"others"} for n in names)
    return write_rows(uri, rows, num_shards=3, **settings)


def take_out(names, roots, **settings):
    found = Forgetting.find(names, [str(root) for root in roots], **settings)
    found.carry_out()
    return found.certificate


def records_of(uri) -> dict[str, list[bytes]]:
    from tensorflow.compat.v1.io import TFRecordOptions, tf_record_iterator

    return {
        path.name: [*tf_record_iterator(str(path), TFRecordOptions("GZIP" if path.suffix else ""))]
        for path in sorted(Path(uri).glob("Split-*/*"))
    }


def state_of(uri) -> str:
    """Return whether a dataset has the record, lacks it, or is missing; assert one of these."""
    try:
        open_dataset(str(uri))
    except DatasetError:
        assert not Path(uri).exists()
        return "gone"
    assert verify_dataset(str(uri)).is_good
    found = [record for records in records_of(uri).values() for record in records]
    return "old" if any(SECRET in record for record in found) else "new"


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_record_is_removed_and_others_are_unchanged(tmp_path, compression):
    uri = write(tmp_path / "a", compression=compression)
    (tmp_path / "a/README.md").write_text("one's own")
    before, digest = records_of(uri), open_dataset(uri).digest
    done = take_out([NAME], [tmp_path])
    after = records_of(uri)
    assert after == {
        path: [record for record in records if SECRET not in record]
        for path, records in before.items()
    }
    assert sum(map(len, after.values())) == 9
    assert state_of(uri) == "new"
    assert (tmp_path / "a/README.md").read_text() == "one's own"
    assert not [
        p for p, data in everything(tmp_path).items() if SECRET in data or NAME.encode() in data
    ]
    (entry,) = done["datasets"]
    assert (entry["digest_before"], entry["digest_after"]) == (digest, open_dataset(uri).digest)
    assert (done["complete"], len(entry["records"]), done["not_found"]) == (True, 1, [])


def test_remaining_occurrences_of_the_name_are_reported(tmp_path):
    photos = write_files(
        tmp_path / "photos", {"a/1.jpg": jpeg(1), "a/2.jpg": b"none", "b/3.jpg": jpeg(3)}
    )
    settings = ImageSettings(max_reject_fraction=0.5)
    steps.convert(str(photos), str(tmp_path / "data"), settings)
    done = take_out(["a/2.jpg"], [tmp_path], plain_names=True, output=f"{tmp_path}.json")
    (entry,) = done["datasets"]
    assert (entry["records"], entry["rejects"]) == ([], ["a/2.jpg"])
    assert not (tmp_path / "data/rejects.jsonl").exists()
    assert sum(open_dataset(str(tmp_path / "data")).records.values()) == 2
    assert [each["path"] for each in done["remains"]] == [str(photos / "a/2.jpg")]
    assert not done["complete"]
    (photos / "a/2.jpg").unlink()
    named = write(tmp_path / "named")
    write_rows(tmp_path / "more", ({"filename": n, "who": n} for n in (NAME, "other")))
    done = take_out([NAME], [tmp_path])
    assert len(done["datasets"]) == 2
    assert state_of(named) == "new"


def test_raw_inputs_outside_the_folder_are_listed(tmp_path):
    photos = write_files(tmp_path / "photos", {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n) for n in range(6)})
    steps.convert(str(photos), str(tmp_path / "runs/data"), ImageSettings())
    done = take_out(["a/2.jpg"], [tmp_path / "runs"])
    assert [each["path"] for each in done["remains"]] == [str(photos / "a/2.jpg")]
    assert not done["complete"]
    (photos / "a/4.jpg").unlink()
    assert take_out(["a/4.jpg"], [tmp_path / "runs"], output=f"{tmp_path}/4.json")["complete"]


def test_table_and_archive_of_a_record_are_listed(tmp_path):
    table = tmp_path / "in/reviews.csv"
    table.parent.mkdir()
    table.write_text("text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(30)))
    archive = tmp_path / "archived/one.tar"
    archive.parent.mkdir()
    with tarfile.open(archive, "w") as tar:
        for path in write_files(tmp_path / "x", {f"{n}.jpg": jpeg(n) for n in range(6)}).iterdir():
            tar.add(path, f"photos/{path.name}")
    for source, settings, holder in (
        (table, TextSettings(), table),
        (table.parent, TextSettings(), table),
        (archive.parent, ImageSettings(), archive),
    ):
        uri = str(tmp_path / f"runs-{len(os.listdir(tmp_path))}/data")
        steps.convert(str(source), uri, settings)
        names = trainer_utils.iterate(uri, batch_size=1, shuffle=False, image_size=None)
        first = next(iter(names))
        name = first["filename" if "filename" in first else "id"][0].decode()
        done = take_out([name], [os.path.dirname(uri)])
        assert [each["path"] for each in done["remains"]] == [str(holder)], name


def in_a_child(work, *, calls: int) -> bool:
    """Run `work` in a process that exits before its n-th file change; return if it finished."""
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


@pytest.mark.parametrize(("root", "stride"), [("", 13), ("a", 3)])
def test_next_run_finishes_a_run_killed_at_any_change(tmp_path, root, stride):
    template, it = tmp_path / "template", tmp_path / "it"
    for name in ("a", "b"):
        write(template / name)
    (template / "a/README.md").write_text("one's own")
    before, seen = records_of(template / "a"), set()
    for calls in itertools.count(1, stride):
        shutil.rmtree(it, ignore_errors=True)
        shutil.copytree(template, it)
        path = tmp_path / f"{calls}.json"
        is_done = in_a_child(
            lambda o=path: take_out([NAME], [it / root], output=str(o)), calls=calls
        )
        seen.add(state_of(it / "a"))
        with contextlib.suppress(DatasetError):  # no record was left to remove
            take_out([NAME], [it / root], output=f"{path}.again")
        assert state_of(it / "a") == "new"
        assert len(records_of(it / "a")) == len(before)
        assert (it / "a/README.md").read_text() == "one's own"
        assert state_of(it / "b") == ("old" if root else "new")
        assert not [path for path in it.rglob(".*")]
        if is_done:
            break
    assert {"old", "new"} <= seen <= {"old", "new", "gone"}


def read_through(cache, *uris, as_files=False):
    """Read all shards of datasets through a trainer's cache; return the bytes of the copies."""
    parts = RemoteParts(str(cache), 1 << 30, is_global=False)
    for uri in uris:
        for shard in open_dataset(str(uri)).shards["train"]:
            shard = shard._replace(entry=None) if as_files else shard
            parts.open(shard).read(0, shard.bytes)
    return {path.name: path.read_bytes() for path in (cache / "shards").glob("*-data_tfrecord-*")}


@pytest.mark.parametrize("as_files", [False, True])
def test_cached_copies_of_only_this_dataset_are_removed(tmp_path, as_files):
    cache = tmp_path / "cache"
    uri = write(tmp_path / "data")
    other = write(tmp_path / "other/data", [f"other{number}" for number in range(9)])
    copies = read_through(cache, uri, other, as_files=as_files)
    assert len(copies) == 6
    assert len({name[-28:] for name in copies}) == 3  # shards of two datasets have equal names
    done = take_out([NAME], [tmp_path])
    assert len(done["removed"]) == 1
    left = {n: data for n, data in copies.items() if SECRET not in data}
    assert len(left) == 5
    assert {p.name: p.read_bytes() for p in (cache / "shards").glob("*-data_*")} == left


def test_copies_read_by_another_address_are_removed(tmp_path, monkeypatch):
    uri, cache = write(tmp_path / "data"), tmp_path / "cache"
    (tmp_path / "link").symlink_to("data")
    monkeypatch.chdir(tmp_path)
    assert len(read_through(cache, uri, tmp_path / "link", "data")) == 9
    assert len(take_out([NAME], [tmp_path / "data"], caches=[str(cache)])["removed"]) == 3
    assert not any(SECRET in path.read_bytes() for path in (cache / "shards").iterdir())


def test_unpacked_copies_of_gzip_shards_are_removed(tmp_path):
    cache = tmp_path / "cache"
    uri = write(tmp_path / "data", compression="gzip")
    list(trainer_utils.iterate(uri, batch_size=2, cache=str(cache)))
    copies = [*(cache / "shards").glob("*-data_tfrecord-*")]
    assert any(SECRET in path.read_bytes() for path in copies)
    done = take_out([NAME], [tmp_path], caches=[str(cache)])
    assert len(done["removed"]) == 1
    left = [*(cache / "shards").glob("*-data_tfrecord-*")]
    assert len(left) == len(copies) - 1
    assert not any(SECRET in path.read_bytes() for path in left)


def test_invalid_cache_folder_is_refused(tmp_path, subtests):
    uri = write(tmp_path / "data")
    for wrong in (tmp_path / "none", uri):
        with subtests.test(wrong=wrong), pytest.raises(ConfigError):
            take_out([NAME], [tmp_path], caches=[str(wrong)])
    assert state_of(uri) == "old"


def test_many_names_and_numbers_as_ids(tmp_path):
    rows = ({"id": number, "text": f"{number * 1000} qq"} for number in range(100))
    uri = write_rows(tmp_path / "data", rows, num_shards=4)
    done = take_out([*map(str, range(40)), "300", "nobody"], [tmp_path])
    assert sum(len(each["records"]) for each in done["datasets"]) == 40
    assert len(done["not_found"]) == 2
    assert sum(open_dataset(uri).records.values()) == 60
    assert verify_dataset(uri).is_good


def test_earlier_resume_token_is_refused(tmp_path):
    uri = write(tmp_path / "a")
    token = trainer_utils.iterate(uri, batch_size=2, shuffle=False).state(1)
    take_out([NAME], [tmp_path])
    with pytest.raises(ConfigError):
        trainer_utils.iterate(uri, batch_size=2, shuffle=False, state=token)


def test_root_may_be_a_link_to_a_dataset(tmp_path):
    uri = write(tmp_path / "data")
    (tmp_path / "latest").symlink_to("data")
    assert take_out([NAME], [tmp_path / "latest"])["complete"]
    assert (tmp_path / "latest").is_symlink()
    assert state_of(uri) == "new"


def test_a_dataset_on_an_object_store(tmp_path, in_memory):
    write(tmp_path / "root/a")
    uri = in_memory(tmp_path / "root", f"forget-{tmp_path.name}")
    fault = mock.patch.object(forget, "upload_dataset", side_effect=OSError("no network"))
    with fault, pytest.raises(OSError, match="no network"):
        take_out([NAME], [uri], output=f"{uri}/one.json")
    with pytest.raises(DatasetError):  # the next run finds the new dataset and finishes the swap
        take_out([NAME], [uri], output=f"{uri}/two.json")
    assert verify_dataset(f"{uri}/a").is_good
    assert sum(open_dataset(f"{uri}/a").records.values()) == 9


def invoke(*arguments, **settings):
    return CliRunner().invoke(app, ["forget", *map(str, arguments)], **settings)


def test_forget_command_asks_and_writes_a_certificate(tmp_path):
    root, certificate = tmp_path / "root", tmp_path / "certificate.json"
    write(root / "a")
    before = everything(root)
    dry = invoke(NAME, "--in", root, "--dry-run")
    assert (dry.exit_code, everything(root)) == (0, before), dry.stderr
    assert NAME in dry.stdout
    assert invoke("--in", root).exit_code == 2
    assert invoke(NAME, "--in", tmp_path / "nowhere").exit_code == 1
    assert (invoke("none.jpg", "--in", root).exit_code, everything(root)) == (1, before)
    unasked = invoke(NAME, "--in", root)
    assert (unasked.exit_code, everything(root)) == (2, before)
    assert "Add --yes to rewrite them, or --dry-run" in unasked.stderr
    with mock.patch.object(commands, "is_terminal", return_value=True):
        assert invoke(NAME, "--in", root, input="n\n").exit_code == 1
        assert everything(root) == before
        (tmp_path / "names.txt").write_text(f"{NAME}\nnobody.jpg\n")
        arguments = ["--file", tmp_path / "names.txt", "--in", root, "-o", certificate, "--yes"]
        done = invoke(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(certificate.read_text())
    assert json.loads(done.stdout) | {"checksum": facts["checksum"]} == facts
    assert facts["records"] == sorted(
        f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in (NAME, "nobody.jpg")
    )
    assert invoke("zz1.jpg", "--in", root, "-o", certificate).exit_code == 2  # the file exists
