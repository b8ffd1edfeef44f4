"""Shared fixtures: small real photos, and datasets written by Datum and by us."""

import collections
import csv
import functools
import gc
import importlib.metadata
import itertools
import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.autograph import leave_tf_keras_unconverted
from tests.object_stores import Store, azure_server, gcs_server, s3_server

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before any test imports TensorFlow
os.environ.setdefault("TFX_SHARDS_RETRY_SECONDS", "0")  # do not retry permanent faults for minutes

# Google's libraries call this function 15 times while TFX is imported, 0.2 s each.
importlib.metadata.packages_distributions = functools.cache(
    importlib.metadata.packages_distributions
)

# No deadline, because the machine may be busy; the same examples each time, for reproducibility.
settings.register_profile(
    "timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("timeless")


_LISTS = {int: "int64_list", float: "float_list", bytes: "bytes_list"}


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Return an id for parameters such as settings or bytes, equal in each collecting process.

    Compressed files and archives may contain their time of creation, so bytes cannot be the id.
    """
    if isinstance(val, bytes) and len(val) > 8:
        return argname  # pytest adds numbers to equal ids
    if not isinstance(val, Mapping):
        return None
    plain = (str, int, float, bool, type(None))
    return ",".join(
        f"{name}={value if isinstance(value, plain) else type(value).__name__}"
        for name, value in val.items()
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the long part, unless `-m` selects it as in `make test-faults`.

    Files with slow tests come first, so that at the end no process waits long for another.
    """
    slow = collections.Counter(
        item.path for item in items if any(map(item.get_closest_marker, ("e2e", "slow")))
    )
    items.sort(key=lambda item: -slow[item.path])
    if unlike := [item.nodeid for item in items if re.search("0x[0-9a-f]{6}", item.nodeid)]:
        raise pytest.UsageError(f"an address is another one in each process: {unlike}")
    if "faults" in config.getoption("-m"):
        return
    long = [item for item in items if item.get_closest_marker("faults")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if item not in long]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print in one line which tests were skipped and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = collections.Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        for report in skipped
    )
    if reasons:
        said = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"Skipped {len(skipped)} ({said})".replace("Skipped: ", ""))


def pytest_collection_finish() -> None:
    """Exclude modules and tests, which live until the end, from garbage collection.

    AutoGraph does not convert tf_keras in this process; in the processes of most tests it does.
    """
    if "tensorflow" in sys.modules:
        leave_tf_keras_unconverted()
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("dist", "no") != "no":  # the controller process of xdist
        config.pluginmanager.register(EndWhenSilent(), "end-when-silent")


_PACKAGES = ("components", "pipelines", "trainer_utils")


def pytest_runtest_setup() -> None:
    """Reset logging after libraries and earlier tests: levels, disabled loggers and filters."""
    logging.disable(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.split(".")[0] in (*_PACKAGES, "absl") and isinstance(logger, logging.Logger):
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)
            logger.filters.clear()  # the command line adds a filter if a test runs it here


class EndWhenSilent:
    """A plugin that ends a silent run, because xdist may wait forever for a killed worker."""

    SECONDS = 900

    def __init__(self) -> None:
        self._heard = time.monotonic()

    def pytest_sessionstart(self) -> None:
        threading.Thread(target=self._watch, name="end-when-silent", daemon=True).start()

    def pytest_runtest_logreport(self) -> None:
        self._heard = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._heard < self.SECONDS:
            time.sleep(min(10, self.SECONDS))
        print(f"\nNo test has ended for {self.SECONDS} s: this run ends.", flush=True)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def our_messages(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """Return a function that returns the messages this project has logged during the test."""
    root = Path(__file__).parents[1]
    ours = tuple(f"{root / package}{os.sep}" for package in _PACKAGES)
    return lambda: [r.getMessage() for r in caplog.records if r.pathname.startswith(ours)]


@pytest.fixture(scope="session")
def photos() -> list[np.ndarray]:
    """Return 30 different crops of scikit-learn's two photos, each `(40, 48, 3) uint8`."""
    from sklearn.datasets import load_sample_images

    images = load_sample_images().images
    corners = itertools.product(range(0, 300, 100), range(0, 500, 100))
    return [image[top : top + 40, left : left + 48] for top, left in corners for image in images]


@pytest.fixture(scope="session")
def serialize() -> Callable[..., bytes]:
    """Return a function that serializes lists as a `tf.train.Example`, empty ones as in TFX."""
    import tensorflow as tf

    def serialize(**features: list[Any]) -> bytes:
        example = tf.train.Example()
        for name, values in features.items():
            feature = example.features.feature[name]
            if values:
                getattr(feature, _LISTS[type(values[0])]).value.extend(values)
        return example.SerializeToString()

    return serialize


@pytest.fixture(scope="session")
def write_dataset(serialize) -> Callable[..., str]:
    """Return a function that writes a dataset of `{split: [shard, …]}`, shards of examples."""
    from trainer_utils import format as ours
    from trainer_utils.format.manifest import FileDigest

    def write(
        uri: Path,
        splits: Mapping[str, Sequence[Iterable[Mapping[str, list[Any]]]]],
        features: Mapping[str, ours.Feature],
        *,
        gzip: bool = False,
    ) -> str:
        shards: list[ours.Shard] = []
        for split, group in splits.items():
            for index, examples in enumerate(group):
                name = ours.ShardName(
                    split=split, shard_index=index, num_shards=len(group), gzip=gzip
                )
                path = uri / name.path
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as stream:
                    writer = ours.ShardWriter(stream, gzip=gzip)
                    for example in examples:
                        writer.write([serialize(**example)])
                    digest = writer.finish()._asdict()
                shards.append(ours.Shard(path=name.path, split=split, **digest))
        records = {s: {x.path: x.records for x in shards if x.split == s} for s in splits}
        texts = {
            "shard_info.json": ours.datum.render_shard_info(records),
            "datum_to_type_and_shape_mapping.json": ours.datum.render_features(features),
        }
        manifest = ours.Manifest(
            shards=tuple(shards),
            accounting={
                split: ours.Accounting(found=sum(group.values()), written=sum(group.values()))
                for split, group in records.items()
            },
            producer="tests",
            config={},
            input_fingerprint="",
            files={path: FileDigest.of(text.encode()) for path, text in texts.items()},
        )
        for path, text in {**texts, "manifest.json": manifest.to_json()}.items():
            (uri / path).write_text(text)
        return str(uri)

    return write


@pytest.fixture(scope="session")
def in_memory() -> Callable[..., str]:
    """Return a function that copies a folder to fsspec's memory file system, as a mock bucket."""
    import fsspec

    def copy(folder: Path, name: str) -> str:
        memory = fsspec.filesystem("memory")
        for path in folder.rglob("*"):
            if path.is_file():
                memory.pipe_file(f"/{name}/{path.relative_to(folder)}", path.read_bytes())
        return f"memory://{name}"

    return copy


@pytest.fixture(scope="session")
def s3_store(tmp_path_factory) -> Iterator[Store]:
    """Start an S3 server with a bucket."""
    pytest.importorskip("obstore")
    with s3_server(tmp_path_factory.mktemp("s3")) as store:
        yield store


@pytest.fixture(scope="session")
def gs_store(tmp_path_factory) -> Iterator[Store]:
    """Start a server of Google Cloud Storage with a bucket."""
    pytest.importorskip("obstore")
    with gcs_server(tmp_path_factory.mktemp("gs")) as store:
        yield store


@pytest.fixture(scope="session")
def az_store(tmp_path_factory) -> Iterator[Store]:
    """Start a server of Azure Blob Storage with a container."""
    pytest.importorskip("obstore")
    with azure_server(tmp_path_factory.mktemp("az")) as store:
        yield store


@pytest.fixture(scope="session")
def export_with_datum(tmp_path_factory) -> Callable[..., str]:
    """Return a function: Datum exports `{split: [row, …]}`, rows of `image` pixels and values."""
    pytest.importorskip("datum")  # `make test-trainer` does not install it
    from datum.configs import TFRWriteConfigs
    from datum.export import export_to_tfrecord
    from PIL import Image

    def export(
        splits: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        extension: str = ".jpg",
        sparse_features: Sequence[str] = (),
    ) -> str:
        source, target = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("datum")
        for split, rows in splits.items():
            (source / split).mkdir()
            with (source / f"{split}.csv").open("w", newline="") as stream:
                table = csv.writer(stream)
                table.writerow(["filename", *(name for name in rows[0] if name != "image")])
                for number, row in enumerate(rows):
                    Image.fromarray(row["image"]).save(source / split / f"{number}{extension}")
                    # Datum evaluates each cell as a Python literal.
                    table.writerow(
                        [number, *(repr(value) for name, value in row.items() if name != "image")]
                    )
        configs = TFRWriteConfigs()
        configs.splits = {
            split: {"num_examples": len(rows), "extension": extension}
            for split, rows in splits.items()
        }
        configs.sparse_features = list(sparse_features)
        export_to_tfrecord(str(source), str(target), "image_clf", configs)
        return str(target)

    return export


@pytest.fixture(scope="session")
def datum_photos(photos, export_with_datum) -> str:
    """Return a dataset written by Datum, with 23 photos for training and 7 for validation."""
    rows = [
        {"image": photo, "id": number, "label": number % 3, "weight": number / 4}
        for number, photo in enumerate(photos)
    ]
    return export_with_datum({"train": rows[:23], "val": rows[23:]})
