"""Run the steps of `convert` and `balance` in order, in output folders numbered as by TFX.

uris, cached = convert_in(conversion, "/data/out")
uris["ShardBalancer"]

`artifacts/conversion.json` keeps the outputs of each run by its key. The lineage of a dataset is in
its own `lineage.json`.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from components import steps
from components.balancing.settings import BalancerSettings
from components.inputs.advice import how_to_set
from components.raw_inputs.requests import EXAMPLE_GENS, Conversion
from components.runtime.runners import runner_of
from components.runtime.workspace import folder_lock
from pipelines.tools.verification import verify_dataset
from trainer_utils.core.errors import ConfigError, CorruptShardError, DatasetError, InputError
from trainer_utils.core.printable import printable
from trainer_utils.core.text_output import list_counts
from trainer_utils.dataset.location import list_dataset, read_manifest
from trainer_utils.format import Manifest
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
_BALANCED = ("ShardBalancer", "balanced_examples")
_EXPORTED = {"SchemaExport": "datum_schema", "datum_dataset": "datum_dataset"}  # their outputs
_ARTIFACTS = "/artifacts/"
_READ_BYTES = 1 << 20


def convert_in(
    conversion: Conversion, root: str, *, restart: bool = False, verify: bool = False
) -> tuple[dict[str, str], bool]:
    """Return the output uri of each component by name, and whether all came from the cache.

    Args:
        conversion: the conversion to run.
        root: the output folder; the datasets are written to its `artifacts`.
        restart: discard the results of an earlier run instead of resuming it.
        verify: read every byte of earlier datasets before reusing them, and rebuild damaged ones.
    """
    try:
        return _convert_in(conversion, root, restart=restart, verify=verify)
    except _DamagedExamplesError as error:
        logging.warning("%s", error)
        return _convert_in(conversion, root, restart=restart, verify=verify)


class _DamagedExamplesError(Exception):
    """The cached dataset to balance is damaged; the next run rebuilds it."""


def _convert_in(
    conversion: Conversion, root: str, *, restart: bool, verify: bool
) -> tuple[dict[str, str], bool]:
    folder, beam = join(root, "artifacts"), conversion.beam_pipeline_args
    settings = conversion.settings
    balancing = BalancerSettings(**conversion.balancer)
    module, name = steps.workers_module(settings), EXAMPLE_GENS[conversion.kind]
    with _exclusive_lock(folder):
        record = _Record.read(folder)
        with runner_of(beam, module=module) as runner:
            planned = steps.conversion_of(conversion.selection, settings, runner)
            planned_key = planned.key()
            own_key = _digest(planned_key, settings.max_reject_fraction)
            key = _digest(planned_key, settings.max_reject_fraction, balancing)
            made = record.whole_outputs(key, own_key, name, verify=verify)
            if made.keys() >= {name, _BALANCED[0], *_EXPORTED}:
                return made, True
            examples = None if restart else made.get(name)
            just_written = examples is None
            if examples is not None:
                manifest = read_manifest(examples)
                assert manifest is not None
                logging.warning("resuming: the dataset of %s is done", name)
            else:
                record.discard_unfinished()
                examples = _next_output(record, name, "examples")
                manifest = steps.convert(
                    planned, examples, settings, runner=runner, restart=restart
                ).manifest
                record.unfinished[own_key] = examples[len(folder) + 1 :]
                record.write()
            try:
                check_trainable(manifest)
                balanced = _next_output(record, *_BALANCED)
                steps.balance(
                    [examples],
                    balanced,
                    balancing,
                    just_written=just_written,
                    runner=runner,
                    restart=restart,
                )
            except (ConfigError, InputError):
                # Resuming would fail in the same way, and nobody requested this dataset.
                if record.unfinished.pop(own_key, None) is not None:
                    record.write()
                    remove_tree(examples)
                raise
            except CorruptShardError as error:
                record.note_damage(examples)
                if made.get(name) == examples:
                    raise _DamagedExamplesError(str(error)) from error
                raise
            except KeyboardInterrupt as error:
                kept = f"the dataset of {name} is kept: the same run resumes from it"
                error.args = ("; ".join([kept, *map(str, error.args)]),)
                raise
        schema, dataset = (
            _next_output(record, "SchemaExport", output) for output in _EXPORTED.values()
        )
        steps.export_schema(balanced, dataset, schema_uri=schema)
        uris = {name: examples, _BALANCED[0]: balanced}
        uris |= {"SchemaExport": schema, "datum_dataset": dataset}
        record.unfinished.pop(own_key, None)
        record.runs[key] = {name: uri[len(folder) + 1 :] for name, uri in uris.items()}
        record.write()
    return uris, False


def balance_in(
    examples: str,
    settings: Mapping[str, Any],
    root: str,
    beam: Sequence[str],
    *,
    restart: bool = False,
) -> str:
    """Balance a dataset and return the uri of the new one.

    Args:
        examples: the uri of the dataset to balance.
        settings: settings of ShardBalancer.
        root: the output folder; the dataset is written to its `artifacts`.
        beam: arguments for Beam.
        restart: discard the results of an earlier run instead of resuming it.
    """
    folder = join(root, "artifacts")
    with _exclusive_lock(folder):
        balancing = BalancerSettings(**settings)
        uri = _next_output(_Record.read(folder), *_BALANCED)
        with runner_of(beam, module="balancing.parts") as runner:
            steps.balance([examples], uri, balancing, runner=runner, restart=restart)
    return uri


@contextlib.contextmanager
def _exclusive_lock(folder: str) -> Iterator[None]:
    """Wait for other runs on this machine that write to a folder, and lock the folder.

    Concurrent runs would choose the same number for an output.
    """
    if is_remote(folder):
        yield
        return
    make_folder(folder)
    with folder_lock(folder, waiting="another run writes there: waiting until it ends"):
        yield


def check_trainable(manifest: Manifest) -> None:
    """Raise InputError if the split `train` of a dataset is empty.

    Args:
        manifest: the manifest of the dataset.

    Raises:
        InputError: `train` has no examples; the message has the accounting of each split.
    """
    counts = manifest.accounting
    if "train" in counts and not counts["train"].written:
        found = "; ".join(f"{split}: {count}" for split, count in counts.items())
        rejects = f"; {list_counts(manifest.reject_counts)}" * bool(manifest.reject_counts)
        raise InputError(
            f"split 'train': expected examples, got none ({found}{rejects}). Fix the inputs of "
            f"train, or put all into it: {how_to_set(splits={'train': 1})}."
        )


def _digest(key: str, max_reject_fraction: float, balancing: BalancerSettings | None = None) -> str:
    known = [key, max_reject_fraction, None if balancing is None else dataclasses.asdict(balancing)]
    return hashlib.sha256(json.dumps(known, default=repr, sort_keys=True).encode()).hexdigest()


@dataclasses.dataclass
class _Record:
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
    def read(cls, folder: str) -> "_Record":
        """Read the file of a folder; a missing or malformed file counts as empty."""
        path = join(folder, _RUN_FILE)
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            known = json.loads(read_text(path)) if exists(path) else {}
            runs = {key: dict(made) for key, made in known.get("runs", {}).items()}
            unfinished = {key: str(made) for key, made in known.get("unfinished", {}).items()}
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
        given = {example_gen: self.unfinished.get(own_key, ""), **before}
        whole: dict[str, str] = {}
        # Shards of one dataset may be links to shards of the other.
        if suspects := [path for path in given.values() if path in self.damaged]:
            self.damaged = [path for path in self.damaged if path not in suspects]
            self.write()
        for name in (example_gen, _BALANCED[0]):
            uri = join(self.folder, given.get(name) or "")
            if not given.get(name) or not is_folder(uri):
                return whole
            if (problem := _problem_of(uri, verify=verify or bool(suspects))) is not None:
                logging.warning("%s is rebuilt: %s", uri, printable(problem))
                return whole
            whole[name] = uri
        exported = {name: join(self.folder, given[name]) for name in _EXPORTED if name in given}
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
        with contextlib.suppress(OSError), _exclusive_lock(folder):  # the folder may be read-only
            _Record.read(folder).note_damage(join(folder, "/".join(parts[:3])))


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


def _next_output(record: _Record, component: str, output: str) -> str:
    """Return the next numbered output folder, as TFX names them, or one left by a killed run."""
    folder = record.folder
    place = join(folder, f"{component}/{output}")
    make_folder(place)
    names = list_names(place) if exists(place) else ()  # a bucket has no empty folders
    numbers = [int(name) for name in names if name.isdecimal()]
    made = [path for run in record.runs.values() for path in run.values()]  # may be removed by now
    made += record.unfinished.values()
    known = [int(p.rpartition("/")[2]) for p in made if p.startswith(f"{component}/{output}/")]
    last = max(numbers, default=0)
    if last and last not in known and output.endswith("examples"):
        path = join(place, str(last))
        if not exists(join(path, MANIFEST_FILE)):
            return path
    return join(place, str(max([last, *known]) + 1))
