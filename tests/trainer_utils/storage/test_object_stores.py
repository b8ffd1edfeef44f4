"""Test object stores with a faulty network, and the errors for their answers."""

import os
import threading

import numpy as np
import pytest

from tests.make import run_python, write_rows
from tests.make import write_anywhere as write
from tests.object_stores import BUCKET, OTHER_BUCKET, Store, faulty
from trainer_utils import ConfigError, storage

pytest.importorskip("obstore")


@pytest.fixture
def at_s3(s3_store, monkeypatch):
    """Return a function that configures a store; the store without faults is the default."""

    def lead(store: Store) -> str:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        return store.base

    lead(s3_store)
    return lead


@pytest.fixture(scope="module")
def data() -> bytes:
    return np.random.default_rng(0).bytes(21 << 20)


@pytest.fixture
def large(at_s3, s3_store, data) -> str:
    """Return an object of 21 MiB."""
    path = f"{s3_store.base}/large.bin"
    write(path, data)
    return path


def test_stream_reads_and_seeks_like_a_file(large, data, tmp_path):
    local = tmp_path / "file"
    local.write_bytes(data)
    rng = np.random.default_rng(1)
    with storage.open_for_reading(large) as stream, local.open("rb") as other:
        for _ in range(40):
            if rng.random() < 0.4:
                place = int(rng.integers(0, len(data) + 99))
                assert stream.seek(place) == other.seek(place)
            size = int(rng.choice([1, 1000, 300_000, 9 << 20]))
            assert stream.read(size) == other.read(size)
            assert stream.tell() == other.tell()
        assert stream.seek(-5, os.SEEK_END) == len(data) - 5
        assert stream.read() == data[-5:]


@pytest.mark.parametrize("fault", ["drop", "cut"])
def test_writing_through_faults_leaves_no_partial_object(data, at_s3, s3_store, fault):
    """The library does not retry a POST with a truncated answer; that is an error."""
    cut = []
    with faulty(s3_store, **{fault: 0.1, "seed": 5}) as proxy:
        for path in (f"{proxy.base}/{fault}-{number}" for number in range(6)):
            at_s3(proxy)
            try:
                write(path, data)
            except OSError:
                cut.append(path)
            at_s3(s3_store)
            if path in cut:
                assert not storage.exists(path)
            else:
                assert storage.read_bytes(path) == data
    assert len(cut) < (4 if fault == "cut" else 1)


@pytest.mark.parametrize("kind", ["s3", "az"])
def test_reading_survives_faults_and_detects_changes(kind, data, monkeypatch, request):
    store = request.getfixturevalue(f"{kind}_store")
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    path = f"{store.base}/large ü.bin"
    with storage.write_atomically(path, temporary_folder=store.base) as stream:
        for start in range(0, len(data), 1_000_003):
            stream.write(data[start : start + 1_000_003])
    with faulty(store, drop=0.1, busy=0.1, cut=0.1, seed=3) as proxy:
        monkeypatch.setenv(proxy.variable, proxy.environment[proxy.variable])
        for _ in range(3):
            assert storage.read_bytes(path) == data
            with storage.open_for_reading(path) as stream:
                assert b"".join(iter(lambda: stream.read(1 << 20), b"")) == data
        counts = proxy.counts()
    assert min(counts["dropped"], counts["busy"], counts["cut"]) > 0
    monkeypatch.setenv(store.variable, store.environment[store.variable])
    with storage.open_for_reading(path) as stream:
        assert stream.read(10) == data[:10]
        write(path, data[::-1])
        with pytest.raises(storage.FileRefusedError, match="another of that name") as caught:
            stream.read()
        assert caught.value.code == "CHANGED_FILE"


def test_folder_placeholders_are_not_files(at_s3, s3_store):
    folder = f"{s3_store.base}/photos"
    write(f"{folder}/cat/1.jpg", b"1")
    write(f"{folder}/empty.txt", b"")
    boto3 = pytest.importorskip("boto3")
    client = boto3.client("s3", endpoint_url=s3_store.environment["AWS_ENDPOINT_URL"])
    for key in ("photos/", "photos/cat/", "photos/dog/"):
        client.put_object(Bucket=BUCKET, Key=key)
    assert [file.path for file in storage.list_files(folder)] == ["cat/1.jpg", "empty.txt"]


def test_copy_goes_to_the_named_bucket(at_s3, s3_store):
    source, target = f"{s3_store.base}/from.bin", f"s3://{OTHER_BUCKET}/to.bin"
    write(source, b"12345")
    assert not storage.copy_file(source, target, temporary_folder=f"s3://{OTHER_BUCKET}")
    assert storage.read_bytes(target) == b"12345"
    assert not storage.exists(f"{s3_store.base}/to.bin")
    with pytest.raises(ConfigError, match=r"to\.bin'.*the bucket of .*from\.bin"):
        storage.rename(source, target)
    assert storage.read_bytes(source) == b"12345"


def test_large_folder_is_listed_in_pages(at_s3, s3_store):
    names = [f"{number:04}" for number in range(2345)]
    with storage.object_stores._at(s3_store.base) as (store, _):
        for name in names:
            store.put(f"many/{name}", b"x")
    assert [file.path for file in storage.list_files(f"{s3_store.base}/many")] == names


def test_wrong_credentials_and_names_raise(at_s3, s3_store, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    if "versitygw" not in str(s3_store):  # moto accepts any
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_store.others["AWS_SECRET_ACCESS_KEY"])
    with pytest.raises(FileNotFoundError):
        storage.read_bytes("s3://no-such-bucket/x")
    with pytest.raises(ConfigError, match="'s3:///x': expected the name of a bucket"):
        storage.read_bytes("s3:///x")
    with pytest.raises(OSError, match=r"'s3://data/a/\.\./b'"):
        storage.read_bytes("s3://data/a/../b")


def test_retry_limit_holds_for_a_refusing_store(large, at_s3, s3_store, monkeypatch):
    from trainer_utils.storage import store_settings

    monkeypatch.setattr(store_settings, "_MAX_RETRIES", 2)
    with faulty(s3_store, busy=1) as proxy:
        at_s3(proxy)
        with pytest.raises(OSError, match=r"large.bin.*503"):
            storage.read_range(large, start=0, stop=10)
        counts = proxy.counts()
    assert counts["GET"] == counts["requests"] == 3


def test_silent_answer_is_requested_again_early(large, data, at_s3, s3_store, monkeypatch):
    from trainer_utils.storage import store_settings

    monkeypatch.setattr(store_settings, "SILENCE_SECONDS", 1)
    monkeypatch.setattr(store_settings, "REQUEST_SECONDS", 3600)
    found: list[bytes] = []
    with faulty(s3_store, cut=1, stall=3600, most=1) as proxy:
        at_s3(proxy)
        read = threading.Thread(
            target=lambda: found.append(storage.read_range(large, start=5, stop=1 << 20)),
            daemon=True,
        )
        read.start()
        read.join(60)  # otherwise it hangs
        assert found == [data[5 : 1 << 20]]


def test_lost_answer_to_the_end_of_an_upload_is_retried(data, at_s3, s3_store):
    path = f"{s3_store.base}/answer"
    with faulty(s3_store) as proxy:
        at_s3(proxy)
        with storage.write_atomically(path, temporary_folder=proxy.base) as stream:
            stream.write(data)
            proxy.ask("set?posts=1&most=1&drop=1")
        assert proxy.counts()["dropped"] == 1
        assert storage.read_bytes(path) == data


FORKED = """
import hashlib, os, sys
from concurrent.futures import ThreadPoolExecutor
from trainer_utils import storage
url = sys.argv[1]
folder = url.rpartition("/")[0]

def look():
    whole = storage.read_bytes(url)
    with storage.open_for_reading(url) as stream:
        stream.seek(5)
        part = stream.read(1 << 20)
    with ThreadPoolExecutor(8) as pool:
        read = lambda n: storage.read_range(url, start=n << 20, stop=n + 1 << 20)
        ranges = [*pool.map(read, range(8))]
    listed = sorted(entry.name for entry in storage.list_folder(folder))
    walked = sorted(file.path for file in storage.walk_files(folder))
    try:
        storage.read_bytes(url + "-none")
    except FileNotFoundError as error:
        missing = str(error)
    sums = [hashlib.sha256(data).hexdigest() for data in (whole, part, *ranges)]
    return storage.file_size(url), storage.exists(url + "x"), sums, listed, walked, missing

before = look()
if not os.fork():
    print(look() == before, flush=True)
    try:
        storage.write_text(folder + "/new", "text", temporary_folder=folder)
    except OSError as error:
        print("spawn" in str(error), flush=True)
    os._exit(0)
os.wait()
"""


def test_forked_process_reads_and_lists_like_its_parent(large):
    finished = run_python(FORKED, large)
    assert (finished.stdout.split(), finished.stderr) == (["True", "True"], "")


FORKED_INPUT = """
import os, sys
import trainer_utils
batches = trainer_utils.iterate(sys.argv[1], "train", batch_size=10, features="id", prefetch=0)
expected = [batch.tolist() for batch in batches]
other = trainer_utils.iterate(sys.argv[1], "train", batch_size=10, features="id", prefetch=0)
for source in (batches, other):
    if not os.fork():
        print([source.batch(0, step)["id"].tolist() for step in range(6)] == expected, flush=True)
        os._exit(0)
    os.wait()
"""


def test_forked_process_reads_batches_from_a_bucket(at_s3, s3_store, tmp_path):
    uri = write_rows(tmp_path / "rows", ({"id": n} for n in range(60)), num_shards=2)
    for file in storage.list_files(uri):
        write(f"{s3_store.base}/rows/{file.path}", storage.read_bytes(f"{uri}/{file.path}"))
    finished = run_python(FORKED_INPUT, f"{s3_store.base}/rows")
    assert (finished.stdout.split(), finished.stderr) == (["True", "True"], "")


KILLED = """
import os, signal, subprocess, sys
from trainer_utils import storage
size = storage.file_size(sys.argv[1])
if not os.fork():
    storage.file_size(sys.argv[1])
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    print(storage.file_size(sys.argv[1]) == size, flush=True)
    os._exit(0)
os.wait()
"""


def test_forked_process_survives_the_end_of_its_helper(large):
    finished = run_python(KILLED, large)
    assert (finished.stdout.split(), finished.stderr) == (["True"], "")


def test_unsupported_buffer_raises_type_error(at_s3, s3_store):
    with (
        pytest.raises(TypeError),
        storage.write_atomically(f"{s3_store.base}/odd", temporary_folder=s3_store.base) as stream,
    ):
        stream.write(memoryview(b"abcd")[::2])
