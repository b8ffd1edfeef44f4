"""Finished shards of a run that failed under TFX stay in a bucket, and the next run takes them."""

import pytest

from components import steps
from components.example_gen import text_conversion
from components.example_gen.input_selection import InputSelection
from components.example_gen.settings import ExampleGenSettings, ImageSettings, TextSettings
from components.runtime.runners import Runner
from components.runtime.unfinished_runs import kept_from_launcher
from tests.faults.simulated_store import SimulatedStore, served
from tests.make import photo
from trainer_utils import storage

PHOTOS = {
    f"data/in/{'ab'[n % 2]}/{n:02}.png": photo(n, "PNG", size=(20 + n % 3, 24)) for n in range(30)
}
ROWS = "".join(f"{number} {'word ' * 50},{number % 3}\n" for number in range(300))
TABLE = {"data/in/t.csv": f"text,label\n{ROWS}".encode()}
KINDS: dict[str, tuple[dict[str, bytes], ExampleGenSettings]] = {
    "images": (PHOTOS, ImageSettings(target_shard_bytes=1000)),
    "texts": (TABLE, TextSettings(target_shard_bytes=5000)),
}
ROOT = "s3://data/root/examples"
OUTCOMES = ("lineage.json",)  # has the time of the run


@pytest.fixture(params=KINDS)
def case(request, monkeypatch) -> tuple[SimulatedStore, ExampleGenSettings]:
    monkeypatch.setattr(text_conversion, "BUCKET_BYTES", 10_000)
    objects, settings = KINDS[request.param]
    return SimulatedStore(objects), settings


def convert(uri: str, settings: ExampleGenSettings) -> None:
    with kept_from_launcher(uri), Runner(processes=1) as runner:
        steps.convert(InputSelection(base="s3://data/in"), uri, settings, runner=runner)


def objects_at(store: SimulatedStore, uri: str) -> dict[str, bytes]:
    prefix = uri.partition("://")[2] + "/"
    return {
        key[len(prefix) :]: data
        for key, data in store.objects.items()
        if key.startswith(prefix) and not key.endswith(OUTCOMES)
    }


def is_shard(path: str) -> bool:
    return "data_tfrecord-" in path and "/Split-" in path


def fail_at_last_shard(store: SimulatedStore, settings: ExampleGenSettings) -> dict[str, bytes]:
    """Fail at the last shard, as a run at `/1`; return the objects of a whole run."""
    store.arm(0, "")
    convert("s3://data/whole/1", settings)
    puts = [n for n, call in enumerate(store.calls, 1) if call[:3] == "put" and is_shard(call)]
    assert len(puts) >= 4
    store.arm(puts[-1], "DENIED")
    with pytest.raises(PermissionError):
        convert(f"{ROOT}/1", settings)
    store.disarm()
    storage.remove_tree(f"{ROOT}/1")  # as TFX's launcher does
    return objects_at(store, "s3://data/whole/1")


def test_next_run_takes_the_finished_shards_over(case):
    store, settings = case
    with served(store):
        whole = fail_at_last_shard(store, settings)
        kept = {path for path in objects_at(store, f"{ROOT}/.unfinished") if is_shard(f"/{path}")}
        assert len(kept) >= 3
        store.arm(0, "")
        convert(f"{ROOT}/2", settings)
        written = {
            call.partition(f"{ROOT}/2/")[2] for call in store.calls if call.startswith("put ")
        }
        assert objects_at(store, f"{ROOT}/2") == whole
    assert len(kept & written) <= 2  # of the task that failed, which writes two shards of texts
    assert not objects_at(store, f"{ROOT}/.unfinished")


def test_run_of_other_inputs_leaves_the_finished_shards(case):
    store, settings = case
    with served(store):
        fail_at_last_shard(store, settings)
        before = objects_at(store, f"{ROOT}/.unfinished")
        store.objects[
            "data/in/new.csv" if "data/in/t.csv" in store.objects else "data/in/a/x.png"
        ] = store.objects[min(key for key in store.objects if key.startswith("data/in/"))]
        convert(f"{ROOT}/2", settings)
    assert objects_at(store, f"{ROOT}/.unfinished") == before


def test_run_starts_again_if_another_takes_the_shards_meanwhile(case, monkeypatch):
    store, settings = case
    copies, copy_file = 0, storage.copy_file

    def copy(*arguments, **settings):
        nonlocal copies
        copies += 1
        if copies == 3:
            raise FileNotFoundError("gone")
        return copy_file(*arguments, **settings)

    with served(store):
        whole = fail_at_last_shard(store, settings)
        monkeypatch.setattr(storage, "copy_file", copy)
        convert(f"{ROOT}/2", settings)
        assert copies >= 3
        assert objects_at(store, f"{ROOT}/2") == whole
