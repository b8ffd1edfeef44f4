"""Remember the runs in an output folder, so that a later run reuses their datasets.

    record = RunRecord.read("/data/out/artifacts")
    record.whole_outputs(key, own_key, "ImageExampleGen", verify=False)

`artifacts/conversion.json` keeps the outputs of each run by its key.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator

from absl import logging

from components.runtime.workspace import folder_lock
from pipelines.tools.verification import verify_dataset
from trainer_utils.core.errors import DatasetError
from trainer_utils.core.printable import printable
from trainer_utils.dataset.location import list_dataset
from trainer_utils.format.naming import MANIFEST_FILE, index_file
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.runtime.machine import usable_cores
from trainer_utils.storage import (
    exists,
    is_folder,
    is_host_error,
    is_remote,
    join,
    list_names,
    make_folder,
    modification_time,
    open_for_reading,
    read_text,
    remove_file,
    remove_tree,
    write_atomically,
)

_RUN_FILE = "conversion.json"

BALANCED = ("ShardBalancer", "balanced_examples")

EXPORTED = {"SchemaExport": "datum_schema", "datum_dataset": "datum_dataset"}  # their outputs

_ARTIFACTS = "/artifacts/"

_READ_BYTES = 1 << 20


@contextlib.contextmanager
def exclusive_lock(folder: str) -> Iterator[None]:
    """Wait for other runs on this machine that write to a folder, and lock the folder.

    Concurrent runs would choose the same number for an output.
    """
    if is_remote(folder):
        yield
        return
    make_folder(folder)
    with folder_lock(folder, waiting="another run writes there: waiting until it ends"):
        yield


@dataclasses.dataclass
class RunRecord:
    """The runs in a folder, as stored in `conversion.json`.

    Args:
        folder: the folder of the artifacts.
        runs: by key of a finished run, its outputs by component, relative to the folder.
        unfinished: by key of an ExampleGen whose run failed later, its dataset.
        damaged: datasets with a failed read; the next run reads every byte of them.
    """

    folder: str
    runs: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    unfinished: dict[str, str] = dataclasses.field(default_factory=dict)
    damaged: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, folder: str) -> "RunRecord":
        """Read the file of a folder; a missing or malformed file counts as empty."""
        path = join(folder, _RUN_FILE)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            known = json.loads(read_text(path)) if exists(path) else {}
            runs = {key: dict(outputs) for key, outputs in known.get("runs", {}).items()}
            unfinished = {key: str(path) for key, path in known.get("unfinished", {}).items()}
            return cls(folder, runs, unfinished, [str(path) for path in known.get("damaged", ())])
        return cls(folder)

    def write(self) -> None:
        """Write the file for the next run, or remove it if the record is empty."""
        known = {"runs": self.runs, "unfinished": self.unfinished, "damaged": self.damaged}
        path = join(self.folder, _RUN_FILE)
        if not any(known.values()):
            if exists(path):
                remove_file(path)
            return
        with write_atomically(path, temporary_folder=self.folder) as stream:
            stream.write(json.dumps({n: v for n, v in known.items() if v}, indent=2).encode())

    def whole_outputs(
        self, key: str, own_key: str, example_gen: str, *, verify: bool
    ) -> dict[str, str]:
        """Return the uris of intact outputs of an earlier run of the same conversion.

        The outputs depend on each other in order: the dataset of the ExampleGen, the balanced
        dataset, the schema. Those after a missing or damaged one are not returned.
        """
        before = self.runs.get(key, {})
        paths = {example_gen: self.unfinished.get(own_key, ""), **before}
        whole: dict[str, str] = {}
        # Shards of one dataset may be links to shards of the other.
        if suspects := [path for path in paths.values() if path in self.damaged]:
            self.damaged = [path for path in self.damaged if path not in suspects]
            self.write()
        for name in (example_gen, BALANCED[0]):
            uri = join(self.folder, paths.get(name) or "")
            if not paths.get(name) or not is_folder(uri):
                return whole
            if (problem := _problem_of(uri, verify=verify or bool(suspects))) is not None:
                logging.warning("%s is rebuilt: %s", uri, printable(problem))
                return whole
            whole[name] = uri
        exported = {name: join(self.folder, paths[name]) for name in EXPORTED if name in paths}
        return whole | {name: uri for name, uri in exported.items() if is_folder(uri)}

    def note_damage(self, uri: str) -> None:
        """Make the next run read every byte of a dataset before reusing it."""
        path = uri[len(self.folder) + 1 :]
        if path not in self.damaged:
            self.damaged.append(path)
            self.write()

    def discard_unfinished(self) -> None:
        """Remove datasets that failed runs left, unless a finished run refers to them."""
        used = {path for outputs in self.runs.values() for path in outputs.values()}
        for path in set(self.unfinished.values()) - used:
            uri = join(self.folder, path)
            logging.warning("%s is removed: the run that wrote it did not finish", uri)
            remove_tree(uri)
        if self.unfinished:
            self.unfinished.clear()
            self.write()


def note_failed_read(path: str) -> None:
    """Make the next `convert` into the same folder check a dataset with a damaged file.

    Args:
        path: the dataset, or a file of it. Datasets not written by `convert` are ignored.
    """
    place = os.path.realpath(path)
    if is_remote(path) or _ARTIFACTS not in place:
        return
    root, _, inner = place.rpartition(_ARTIFACTS)
    folder, parts = f"{root}{_ARTIFACTS}".rstrip("/"), inner.split("/")
    if len(parts) >= 3 and exists(join(folder, _RUN_FILE)):
        with contextlib.suppress(OSError), exclusive_lock(folder):  # the folder may be read-only
            RunRecord.read(folder).note_damage(join(folder, "/".join(parts[:3])))


def _problem_of(uri: str, *, verify: bool = False) -> str | None:
    """Return the first problem of a dataset, or None, by the names, sizes and times of its files.

    The checksum of a file modified after the manifest is compared too. With `verify` every byte of
    the dataset is read.
    """
    if verify:
        problems = verify_dataset(uri, processes=usable_cores()).problems
        return str(problems[0].message) if problems else None
    files = list_dataset(uri)
    try:
        manifest = files.layout().manifest  # compares the manifest with the shards
    except DatasetError as error:
        if is_host_error(error):
            raise
        return str(error)
    if manifest is None:
        return f"{files.path(MANIFEST_FILE)}: is missing"
    for name, digest in manifest.published.items():
        size = files.size(name)
        if size is None or (digest is not None and digest.bytes != size):
            return f"{files.path(name)}: is missing, or has another size"
    sums = {name: digest.crc32c for name, digest in manifest.published.items() if digest}
    for shard in manifest.shards:
        sums[shard.path] = shard.crc32c
        if shard.index_crc32c is not None:
            sums[index_file(shard.path)] = shard.index_crc32c
    written = modification_time(files.path(MANIFEST_FILE))
    for name, crc in sums.items():
        path = files.path(name)
        if modification_time(path) > written and _crc_of(path) != crc:
            return f"{path}: is damaged: its checksum is not that of the manifest"
    return None


def _crc_of(path: str) -> int:
    crc = 0
    with open_for_reading(path) as stream:
        while block := stream.read(_READ_BYTES):
            crc = extend_crc32c(crc, block)
    return crc


def next_output(record: RunRecord, component: str, output: str) -> str:
    """Return the next numbered output folder, as TFX names them, or one left by a killed run."""
    folder = record.folder
    place = join(folder, f"{component}/{output}")
    make_folder(place)
    names = list_names(place) if exists(place) else ()  # a bucket has no empty folders
    numbers = [int(name) for name in names if name.isdecimal()]
    # The folders of earlier runs, which may be removed by now
    known_paths = [path for run in record.runs.values() for path in run.values()]
    known_paths += record.unfinished.values()
    known = [
        int(p.rpartition("/")[2]) for p in known_paths if p.startswith(f"{component}/{output}/")
    ]
    last = max(numbers, default=0)
    if last and last not in known and output.endswith("examples"):
        path = join(place, str(last))
        if not exists(join(path, MANIFEST_FILE)):
            return path
    return join(place, str(max([last, *known]) + 1))
