"""The steps of a conversion from any inputs: plan, check, write, and manifest.

conversion.list_inputs()                 # the files, which every later step needs
plan = conversion.plan(uri)              # splits, features, shards; reads as little as possible
written = conversion.write(plan, uri)    # the shards, and the outcome of each input
"""

import abc
import collections
import concurrent.futures
import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow.compute as pc
from absl import logging

from components.example_gen.input_selection import (
    InputSelection,
    LocatedInputs,
    fingerprint,
    locate,
    refuse_output_among_inputs,
)
from components.example_gen.plan import Plan, Written
from components.example_gen.settings import ExampleGenSettings
from components.inputs.blob_reader import BlobReader
from components.inputs.input_table import Blob, ExcludedInput, label_column
from components.inputs.listing import LayoutInputs
from components.inputs.rejects import (
    Reject,
    RejectedInputError,
    check_reject_fraction,
    render_rejects,
)
from components.layouts.custom import code_digest
from components.layouts.junk import names_at_top
from components.layouts.registry import all_layouts
from components.runtime.run_keys import ZLIB, package_versions, run_key
from components.runtime.runners import Runner
from components.tables.reading import SUFFIXES
from trainer_utils.core.errors import ConfigError, DatasetError, InputError, did_you_mean
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import quantity
from trainer_utils.dataset import Dataset
from trainer_utils.dataset.compression import read_shard_blocks
from trainer_utils.format import Accounting, Feature, Manifest
from trainer_utils.format.example import decode_example
from trainer_utils.format.tensors import TensorSpec, decode_tensor
from trainer_utils.format.tfrecord import extend_crc32c
from trainer_utils.storage import exists, is_folder, list_names, remove_file, write_text
from trainer_utils.storage.paths import join
from trainer_utils.writing.working_folder import working_folder

_Plan = TypeVar("_Plan", bound=Plan)
_TABLE_NAME = rf"(?i)({'|'.join(map(re.escape, sorted(SUFFIXES)))})(\.gz)?$"
_TENSORS_LOOKED_AT = 100  # records of each split
READERS = 8  # threads
FILE_SECONDS = 300e-6  # of one core, per file that is kept


class Conversion(abc.ABC, Generic[_Plan]):
    """A conversion from inputs to shards. Without a runner, it only plans.

    Args:
        settings: the settings of the ExampleGen.
        selection: the inputs to convert.
        runner: makes the calls that write shards. None: this process.

    Attributes:
        located: the files of the inputs, listed by `list_inputs`.
    """

    located: LocatedInputs
    settings: ExampleGenSettings
    unit: ClassVar[str]  # name of the inputs, such as `images`
    sees_siblings: ClassVar[bool] = True  # whether an input file may refer to other files
    media: ClassVar[str]  # default kind of the files: `image`, `audio` or `text`
    byte_seconds: ClassVar[float] = 1 / 350e6  # of one core, at least, per byte of the inputs

    def __init__(
        self, settings: ExampleGenSettings, selection: InputSelection, runner: Runner | None
    ) -> None:
        self.settings, self.selection = settings, selection
        self._runner = runner or Runner(processes=1)

    def check_settings(self) -> None:
        """Raise ConfigError if the settings need a package or a file that is missing."""

    def list_inputs(self) -> None:
        """Check the settings and list the files of the inputs. All later steps need the listing.

        Raises:
            InputError: the input is missing or cannot be listed.
            ConfigError: the settings need a package or a file that is missing.
        """
        self.check_settings()
        settings = self.settings
        self.located = locate(
            self.selection,
            file_roots=settings.file_roots if self.sees_siblings else (),
            lists_roots=False,
            is_source_file=self.is_source_file,
            sees_siblings=self.sees_siblings,
            unit=self.unit,
            media=self.media,
            ignore=settings.ignore,
            follow_links=settings.follow_links,
        )

    def key(self) -> str:
        """Return a digest of everything that shards depend on. A run resumes another with its key.

        `max_reject_fraction` is not part of it, since no shard depends on it: a run with too many
        rejects resumes when more are allowed.
        """
        settings = dataclasses.asdict(self.settings)
        del settings["max_reject_fraction"]
        return run_key(
            type(self).__name__,
            fingerprint(self.located),
            settings,
            self.selection.partition,
            self.digest_of_files,
            *(parent.digest for parents in self.parents.values() for parent in parents),
            packages=self.packages,
        )

    @functools.cached_property
    def digest_of_files(self) -> str:
        """Digest of custom layouts' code and of files that settings name; empty without any."""
        return code_digest(self.settings.layout, self.media)

    @property
    def least_seconds(self) -> float:
        """Time of one core that the listed inputs take at least, known before one is read."""
        tables = [pattern.files for pattern in self.located.patterns]
        num_bytes = sum(pc.sum(files.table.column("size")).as_py() or 0 for files in tables)
        return max(num_bytes * self.byte_seconds, sum(map(len, tables)) * FILE_SECONDS)

    @property
    def packages(self) -> set[str]:
        """Packages whose versions may change the bytes, besides the packages of every dataset."""
        packages = {ZLIB} if self.settings.gzip else set()
        tables = any(
            pc.any(pc.match_substring_regex(pattern.files.paths, pattern=_TABLE_NAME)).as_py()
            for pattern in self.located.patterns
        )
        return packages | ({"pyarrow"} if tables else set())

    @property
    def config(self) -> JsonObject:
        """The settings that affect a dataset, for its manifest."""
        partition = self.selection.partition
        return {**self.settings.for_manifest(), "splits": partition and dict(partition.buckets)}

    @property
    def parents(self) -> dict[str, list[Dataset]]:
        """The datasets that the conversion starts from, by setting."""
        return {}

    def refuse_output(self, uri: str, *, setting: str) -> None:
        """Raise ConfigError if the listing would select files of an output folder.

        Args:
            uri: the output folder.
            setting: the setting that determines the output folder.
        """
        refuse_output_among_inputs(
            self.located,
            uri,
            setting=setting,
            sees_siblings=self.sees_siblings,
            unlisted=self.selection.unlisted,
        )

    @abc.abstractmethod
    def is_source_file(self, path: str) -> bool:
        """Return whether a single file is a source of examples, as a list is."""

    @abc.abstractmethod
    def plan(self, uri: str) -> _Plan:
        """Decide splits, features and shards."""

    @abc.abstractmethod
    def write(self, plan: _Plan, uri: str) -> Written:
        """Write every shard of a plan, and read it back."""

    def sums_of_unread(
        self, excluded: Iterable[ExcludedInput], unread: Mapping[Blob, bool]
    ) -> dict[Blob, int | None]:
        """Read the inputs that are in no shard; return the CRC-32C of each, None if it is not read.

        The fingerprint of the inputs needs them. It is an unordered sum over every input file or
        part of a file, whether it became an example or was rejected. It covers its name relative to
        the input base, its size and its CRC-32C. Inputs that a layout skips (files in no image set)
        or that cannot be read count with the size only. Junk and ignored files do not count.
        Therefore it is the same for every conversion of the same inputs, regardless of settings,
        shards and runner. It differs if a name or a byte differs. Contents are summed while they
        are read for conversion. Only Parquet files, and the inputs here, are read for the sum.

        Args:
            excluded: inputs that were rejected or skipped.
            unread: additional inputs, and whether each can be read.
        """
        is_read, reader = dict(unread), self.blob_reader()
        junk = {file.name for pattern in self.located.patterns for file in pattern.skipped()}
        for file in excluded:
            is_rejected = file.code is not None
            if is_rejected or file.name not in junk:
                size = self.size_of(file.name)
                is_read[Blob(file.name, size or 0)] = is_rejected and size is not None

        def crc_of(blob: Blob) -> int | None:
            if not is_read[blob]:
                return None
            try:
                return extend_crc32c(0, reader.read(blob))
            except RejectedInputError:
                return None

        with concurrent.futures.ThreadPoolExecutor(READERS) as pool:
            return dict(zip(is_read, pool.map(crc_of, [*is_read]), strict=True))

    def blob_reader(self) -> BlobReader:
        """Return a reader of the files that were found."""
        roots = [root.base for root in self.located.file_roots]
        return BlobReader(self.located.base, roots, follow_links=self.settings.follow_links)

    @abc.abstractmethod
    def inputs(self) -> list[LayoutInputs]:
        """Return the inputs of the layout, one for each pattern of `input_config`."""

    def custom_layout(self) -> str | None:
        """Return the custom layout that row inputs have by its own detection, if any."""
        return None

    def skipped_files(self) -> list[ExcludedInput]:
        """Return the junk and ignored files of all patterns, and log their number."""
        skipped = [left for pattern in self.located.patterns for left in pattern.skipped()]
        for reason, count in collections.Counter(left.detail for left in skipped).items():
            logging.info("%s: %s", quantity(count, "file"), reason)
        return skipped

    def size_of(self, path: str) -> int | None:
        """Return the size of a listed file. None: it cannot be read, or is not listed."""
        files = [pattern.files[path] for pattern in self.located.patterns if path in pattern.files]
        return files[-1].size if files and files[-1].problem is None else None

    def list_rejects(self, uri: str, rejects: Sequence[Reject]) -> None:
        """Write the rejects of a failed run next to its output, which TFX removes."""
        rendered = render_rejects(rejects)
        write_text(rejects_path(uri), rendered, temporary_folder=working_folder(uri))

    def check_outcome(
        self, plan: Plan, rejects: Sequence[Reject], *, written: Mapping[str, int], uri: str
    ) -> None:
        """Raise InputError for too many rejects, or if the dataset or a split lost every record.

        TFX removes a failed run's output, so the list of rejects is written next to it.

        Args:
            plan: the run's plan.
            rejects: all rejects of the run.
            written: the number of records by split.
            uri: the folder of the dataset.
        """
        listed_in = rejects_path(uri)
        base, most = self.located.base, self.settings.max_reject_fraction
        try:
            check_reject_fraction(
                rejects, found=plan.found, max_reject_fraction=most, listed_in=listed_in
            )
            if not any(written.values()):
                why = "a table that has a header alone has none"
                if rejects:
                    first_reject = rejects[0]
                    first = (
                        f"first {first_reject.source!r}: {first_reject.code}, {first_reject.detail}"
                    )
                    why = f"{len(rejects)} rejected, {first}"
                elif plan.found:
                    why = f"{plan.found} skipped, as the settings ask for"
                rule = f"expected {self.unit}, found none that can be read ({why})"
                raise InputError(f"input_base {base!r}: {rule}.", path=base)
            for reject in rejects:
                if reject.split in plan.own_splits and not written.get(reject.split):
                    count = sum(other.split == reject.split for other in rejects)
                    raise InputError(
                        f"input_base {base!r}: all {count} {self.unit} of the split "
                        f"{reject.split!r} were rejected. The first: {reject.source!r}: "
                        f"{reject.code} ({reject.detail}). All are listed in {listed_in}. Fix or "
                        "remove them.",
                        path=base,
                    )
        except InputError as error:
            self.list_rejects(uri, rejects)
            is_unknown = self.settings.layout == "auto" and not plan.found
            if is_unknown and is_folder(self.selection.base):
                top = names_at_top(list_names(base))
                names = ", ".join(layout.name for layout in all_layouts(self.media))
                searched = f"Looked for the layouts {names}; at its top: {top}."
                raise InputError(str(error.args[0]), details=(*error.details, searched)) from None
            raise
        if exists(listed_in):  # from an earlier run that failed
            remove_file(listed_in)

    def described_features(self, written: Written, uri: str) -> dict[str, Feature]:
        """Return the features with their `tensors`; raise ConfigError if values differ."""
        features, specs = dict(written.features), dict[str, TensorSpec]()
        for name, text in self.settings.tensors.items():
            if name not in features or features[name].type != "string" or features[name].is_image:
                rule = f"columns of bytes, of {', '.join(features)}"
                advice = did_you_mean(name, features).strip()
                raise ConfigError.of("tensors", name, allowed=rule, advice=advice)
            specs[name] = TensorSpec.parse(text)
            extra = {**features[name].extra, "tensor": specs[name].to_json()}
            features[name] = dataclasses.replace(features[name], extra=extra)
        if specs:
            # The last one of equal keys stays: the first shard with records of each split.
            shards = {shard.split: shard for shard in reversed(written.shards) if shard.records}
            for shard in shards.values():
                _check_tensors(join(uri, shard.path), specs)
        return features

    def make_manifest(self, producer: str, plan: Plan, written: Written) -> Manifest:
        """Return the manifest, without the metadata files."""
        rejects = (*plan.rejects, *written.rejects)
        records: collections.Counter[str] = collections.Counter()
        rejected = collections.Counter(reject.split for reject in rejects)
        for shard in written.shards:
            records[shard.split] += shard.records
        for split in plan.splits:
            if not records[split]:
                logging.warning("split %r has no examples: it keeps one empty shard", split)
        place = label_column(plan.columns)  # its classes are counted by name
        words = None if place is None else plan.vocabularies.get(plan.columns[place].name)
        labels: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for split, counts in written.label_counts:
            if counts:
                labels[split].update({words[n] if words else str(n): c for n, c in counts.items()})
        config = self.config
        if not plan.is_shuffled:
            config["shuffled"] = False
        if written.update:
            config["update"] = written.update
        return Manifest(
            shards=written.shards,
            accounting={
                name: Accounting(
                    found=records[name] + rejected[name] + plan.skipped.get(name, 0),
                    written=records[name],
                    rejected=rejected[name],
                    skipped=plan.skipped.get(name, 0),
                )
                for name in plan.splits
            },
            producer=producer,
            config=config,
            input_fingerprint=written.fingerprint,
            label_counts=labels,
            conversions=written.conversions,
            reject_counts=dict(collections.Counter(reject.code for reject in rejects)),
            versions=package_versions(self.packages),
        )


def rejects_path(uri: str) -> str:
    """Return the path of the file that lists a failed run's rejects, next to its output."""
    return f"{uri.rstrip('/')}.rejects.jsonl"


def _check_tensors(path: str, specs: Mapping[str, TensorSpec]) -> None:
    """Raise ConfigError if a value of a shard's first records is not the declared tensor."""
    block = next(read_shard_blocks(path))
    for number in range(min(len(block), _TENSORS_LOOKED_AT)):
        for name, values in decode_example(block.record(number), list(specs)).items():
            for value in values:
                _check_tensor(name, value, specs[name])


def _check_tensor(name: str, value: Any, spec: TensorSpec) -> None:
    got = f"{bytes(value[:40])!r}"
    try:
        actual = TensorSpec.of(decode_tensor(value))
        got = f"tensors {actual}"
        if spec.merge(actual) == spec:
            return
    except DatasetError:
        pass
    rule = f"serialized tensors {spec}, as tf.io.serialize_tensor makes them"
    raise ConfigError(
        f"tensors[{name!r}]: expected {rule}, got {got}", setting="tensors", value=name
    )
