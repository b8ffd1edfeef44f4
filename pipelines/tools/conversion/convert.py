"""Convert raw images, texts or audio files to a balanced dataset in one call, with its lineage.

result = convert("photos/", "datasets/photos")    # result.uri, result.written, result.rejected
result = convert("reviews.csv", "datasets/reviews", splits={"train": 0.8, "eval": 0.2})
result = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
result = convert({"train": generate, "eval": rows}, "datasets/ours")     # dicts, from Python
uri = balance(result, "datasets/high", where="height >= 64")
"""

import atexit
import contextlib
import dataclasses
import importlib.util
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from components.balancing.settings import BalancerSettings
from components.example_gen.file_conversion import FileConversion
from components.example_gen.settings import ExampleGenSettings
from components.inputs.rejects import REJECT_CODES
from components.layouts.names import MEDIA
from components.raw_inputs.recognition import KINDS, recognise
from components.raw_inputs.requests import (
    EXAMPLE_GENS,
    SETTINGS,
    Conversion,
    check_options,
    check_places,
    prepare,
)
from components.report.inspection import inspect_dataset
from components.runtime.component_settings import with_new_names
from components.runtime.workspace import check_folder, is_within
from components.steps import conversion_of
from pipelines.tools.conversion import METADATA_FILE
from pipelines.tools.conversion.base_settings import with_settings_of, without_division
from pipelines.tools.conversion.python_sources import is_in_python
from pipelines.tools.conversion.run_steps import balance_in, convert_in
from trainer_utils.core.errors import ConfigError, DatasetError
from trainer_utils.core.extras import HOW_TO_GET_TFX
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.printable import printable
from trainer_utils.core.settings import check_names
from trainer_utils.core.step_display import say, show_step
from trainer_utils.core.text_output import Part, as_text, human_bytes, list_counts, make_table
from trainer_utils.dataset import open_dataset
from trainer_utils.dataset.location import (
    LATEST,
    datasets_in,
    newest_dataset,
    read_manifest,
    read_origin,
)
from trainer_utils.format import Manifest
from trainer_utils.format.naming import INPUTS_FILE, MANIFEST_FILE, REJECTS_FILE
from trainer_utils.storage import exists, is_remote, join, path_of, read_bytes, write_atomically

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pipelines.tools.conversion.keywords import BalanceKeywords, ConvertKeywords

_CHANGES = ("added", "changed", "removed", "kept")  # numbers of inputs in the report of an update


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConversionResult:
    """The result of `convert`. It is accepted wherever the uri of a dataset is.

    `str(result)` and `os.fspath(result)` are the uri, so that `open`, `pathlib` and f-strings take
    the result as well. Results are equal if they name the same artifacts.

    Attributes:
        uri: the uri of the balanced dataset, which starts with `out` as it was passed to `convert`.
        examples: the uri of the dataset of the ExampleGen, with the list of rejects.
        schema: the uri of the artifact of SchemaExport.
        metadata: the sqlite file of ML Metadata; None without TFX.
        kind: `image`, `text` or `audio`.
        manifest: the manifest of the dataset of the ExampleGen, with the accounting.
        cached: whether nothing had changed and an earlier result was returned.
        seconds: the duration of the run.
    """

    uri: str
    examples: str
    schema: str
    metadata: str | None
    kind: str
    manifest: Manifest = dataclasses.field(repr=False, compare=False)
    cached: bool = dataclasses.field(compare=False)
    seconds: float = dataclasses.field(compare=False)

    def __fspath__(self) -> str:
        """Return the uri."""
        return self.uri

    def __str__(self) -> str:
        return self.uri

    @property
    def found(self) -> int:
        """Number of inputs."""
        return self.manifest.total.found

    @property
    def written(self) -> int:
        """Number of examples written."""
        return self.manifest.total.written

    @property
    def rejected(self) -> int:
        """Number of bad inputs; `rejects.jsonl` of `examples` has the reason for each."""
        return self.manifest.total.rejected

    @property
    def skipped(self) -> int:
        """Number of inputs left out on purpose."""
        return self.manifest.total.skipped

    def to_json(self) -> JsonObject:
        """Return the uris, the accounting of the ExampleGen and the balanced splits, as JSON."""
        facts = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del facts["manifest"]
        counts = {"total": self.manifest.total, **self.manifest.accounting}
        return {
            **facts,
            "accounting": {name: dataclasses.asdict(count) for name, count in counts.items()},
            "rejects": dict(self.manifest.reject_counts),
            "splits": {
                name: {"records": s.records, "bytes": s.bytes, "num_shards": s.num_shards}
                for name, s in inspect_dataset(self.uri).splits.items()
            },
        }

    def summary(self) -> str:
        """Return a summary for a terminal."""
        how = "nothing changed: taken from cache" if self.cached else f"in {self.seconds:.1f} s"
        parts: list[Part] = [f"{self.manifest.total}; {how}"]
        if changes := self.manifest.config.get("update"):
            parts.append(", ".join(f"{changes[name]:,} {name}" for name in _CHANGES))
        if rejects := self.manifest.reject_counts:
            parts.append(f"rejected: {list_counts(rejects)} ({self.examples}/{REJECTS_FILE})")
            known = {code: REJECT_CODES[code] for code in sorted(rejects)}
            parts += [f"  {c}: {of.cause}; {of.cure}".replace("`", "") for c, of in known.items()]
        rows = [
            [name, split.records, human_bytes(split.bytes), split.num_shards]
            for name, split in inspect_dataset(self.uri).splits.items()
        ]
        return as_text([*parts, make_table(["split", "records", "bytes", "shards"], rows)])


def convert(
    source: Any,
    out: str | os.PathLike[str],
    *,
    kind: Literal["image", "text", "audio"] | None = None,
    metadata: str | os.PathLike[str] | None = None,
    splits: Mapping[str, float] | Sequence[str] | None = None,
    update: bool = False,
    restart: bool = False,
    verify_output: bool = False,
    replace: bool = False,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: "Unpack[ConvertKeywords]",
) -> ConversionResult:
    """Run an ExampleGen, ShardBalancer and SchemaExport, unless their results are up to date.

    Progress and a summary of the result are shown on a terminal and in a notebook.

    Args:
        source: a folder, a table, a list or an archive, as for the ExampleGens. Or a pandas
            DataFrame with the columns of such a table; its paths are absolute or relative to the
            working directory. From Python also:
            a list of paths of images or audio files;
            a list or generator of dicts, with values by feature (or pairs of a key and a dict, as
            Datum's generators yield them);
            a function that returns these, called without arguments or with the name of a split;
            an array, a dict of arrays, `.npy` and `.npz` files;
            a `tf.data.Dataset` of single examples;
            tables of Arrow and of Hugging Face `datasets`;
            or a dict of splits with any of these.
            `trainer_utils.writing.values` describes how values are stored.
        out: a folder for the artifacts; `out/latest` is a link to the newest dataset. Or a folder
            in a bucket, `s3://bucket/out`, without the link.
        kind: `image`, `text` or `audio`. None: recognised from the files.
        metadata: the sqlite file of ML Metadata. Runs may share it, even at the same time.
            None: `metadata.sqlite` in `out`; in a bucket a copy of it, for one run at a time.
        splits: shares by split, assigned by a hash: `{"train": 8, "eval": 2}`, or fractions,
            `{"train": 0.8, "eval": 0.2}`. None: the splits of the inputs, or train and eval 2:1.
            For a function that takes a split: the names to call it with,
            `("train", "val", "test")` by default.
        update: reuse shards of the newest dataset in `out` whose inputs have not changed, with the
            settings of that dataset where none are given. New shards are not shuffled among them.
            For images and audio only; the first conversion is a normal one.
        restart: discard the results of an earlier, failed or interrupted run with the same inputs
            and settings instead of resuming it.
        verify_output: read every byte of the datasets in `out` before reusing them, and rebuild
            damaged ones. Otherwise the sizes are compared, and the checksums of files modified
            since.
        replace: allow `out/latest` to lead to a dataset of another kind than before, such as texts
            instead of photos. The earlier datasets in `out` stay.
        beam_pipeline_args: arguments for Beam, `["--runner=DataflowRunner", …]`. None: run in this
            process.
        options: settings of ImageExampleGen, TextExampleGen or AudioExampleGen (`layout`,
            `vocabulary`, …) and of ShardBalancer (`num_shards`, `target_shard_bytes`,
            `shard_multiple`, `balance`, `stratify_by`, `shuffle`, `memory_bytes`); `seed` and
            `compression` apply to both.

    Returns:
        The uri of the balanced dataset and the accounting. It is accepted wherever a uri is.

    Raises:
        InputError: the input is missing or malformed, its kind is ambiguous, or too many inputs
            were rejected.
        ConfigError: a setting is invalid.
    """
    with show_step("Looking at the input"):
        conversion = prepare_all(
            source,
            path_of("out", out),
            kind=kind,
            metadata=metadata,
            splits=splits,
            update=update,
            replace=replace,
            beam_pipeline_args=beam_pipeline_args,
            **with_new_names(options),
        )
    result = run_conversion(
        conversion, out, metadata=metadata, restart=restart, verify_output=verify_output
    )
    say(printable(result.summary(), keep="\n"))
    return result


def prepare_all(
    source: Any,
    out: str | os.PathLike[str] | None,
    *,
    kind: str | None = None,
    metadata: str | os.PathLike[str] | None = None,
    splits: Mapping[str, float] | Sequence[str] | None = None,
    update: bool = False,
    replace: bool = False,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> Conversion:
    """Check the arguments before any input is read; write Python sources to a table on disk.

    The arguments and errors are the same as for `convert`; a dry run passes `out=None`.
    """
    out = None if out is None else path_of("out", out)
    metadata = None if metadata is None else path_of("metadata", metadata)
    if is_in_python(source):
        if out is not None:
            check_places("", out, metadata)
        _check_options_early(options, kind)
        source, kind, options = _source_on_disk(source, out, kind, {**options, "splits": splits})
        splits = options.pop("splits", None)
    conversion = prepare(
        source, kind=kind, splits=splits, beam_pipeline_args=beam_pipeline_args, **options
    )
    if out is not None:
        check_places(conversion.source, out, metadata)
        conversion = dataclasses.replace(conversion, out=out)
        if not replace:
            _check_same_kind(conversion.kind, out)
    if metadata is not None and not has_tfx():
        raise ConfigError.of("metadata", metadata, allowed=f"None without TFX: {HOW_TO_GET_TFX}")
    return _updating(conversion, out) if update and out is not None else conversion


def _check_options_early(options: dict[str, Any], kind: str | None) -> None:
    """Raise ConfigError for options that no conversion of the kind takes, before rows are read."""
    check_options(options, kind=kind if kind in KINDS else None)
    SETTINGS.get(kind or "", ExampleGenSettings).from_arguments(options)
    BalancerSettings.from_arguments(options)


def _source_on_disk(
    source: Any, out: str | None, kind: str | None, options: dict[str, Any]
) -> tuple[str, str, dict[str, Any]]:
    """Write a Python source to a table on this machine, where the ExampleGen reads it.

    Returns:
        The path of the table, its kind, and the options for reading it.
    """
    from pipelines.tools.conversion.python_tables import as_table

    if out is None or is_remote(out):
        folder = tempfile.mkdtemp(prefix="tfx-shards-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        table, options, roots = as_table(source, folder, options)
    else:
        with _folder("out", os.path.abspath(out)):
            table, options, roots = as_table(source, os.path.join(out, "source"), options)
    kind = kind or recognise(table, options)[0]
    names_files = any(of in MEDIA for of in options.get("columns", {}).values())
    if roots and (kind != "text" or names_files):
        options["file_roots"] = roots
    return table, kind, options


def _check_same_kind(kind: str, out: str) -> None:
    """Raise ConfigError if `out/latest` leads to a dataset that was converted from another kind."""
    latest = newest_dataset(out)
    try:
        manifest = read_manifest(latest) if latest != out else None
        origin = None if manifest is None else read_origin(latest, manifest)
    except DatasetError:  # a damaged dataset is rebuilt
        return
    steps = (
        []
        if origin is None
        else [origin.made_by, *(ancestor.made_by for ancestor in origin.ancestors)]
    )
    components = {step.component for step in steps if step is not None}
    before = [kind for kind, component in EXAMPLE_GENS.items() if component in components]
    if before and kind not in before:
        raise ConfigError(
            f"out: {out!r} holds a dataset of kind {before[0]}, and the input is of kind {kind}. "
            "Choose another folder; or pass replace=True (--replace), after which "
            f"{join(out, LATEST)!r} leads to the new dataset.",
            setting="out",
            value=out,
        )


def _updating(conversion: Conversion, out: str) -> Conversion:
    """Return the conversion that reuses the newest dataset in `out`, if there is one."""
    if conversion.kind == "text":
        rule = "False for texts and tables, which are converted as a whole"
        raise ConfigError.of("update", True, allowed=rule)
    folder = join(out, f"artifacts/{EXAMPLE_GENS[conversion.kind]}/examples")
    datasets = [
        uri
        for uri in (datasets_in([folder]) if exists(folder) else ())
        if exists(join(uri, MANIFEST_FILE)) and exists(join(uri, INPUTS_FILE))
    ]
    if not datasets:
        return conversion
    conversion = with_settings_of(conversion, datasets[0], out)
    example_gen = {**conversion.example_gen, "base_dataset": datasets[0]}
    settings = dataclasses.replace(conversion, example_gen=example_gen).settings
    steps = conversion_of(conversion.selection, settings)
    assert isinstance(steps, FileConversion)
    assert steps.base is not None
    assert steps.base.dataset.manifest is not None
    config = steps.base.dataset.manifest.config
    if steps.is_up_to_date():  # repeat the run that wrote the dataset, which is in the cache
        if not (before := config.get("update")):
            return conversion
        known = {open_dataset(uri, inspect=False).digest: uri for uri in datasets[1:]}
        example_gen["base_dataset"] = known.get(before["base"], datasets[0])
    balancer = {**without_division(conversion, config, out), "keep_shards": True}
    try:
        BalancerSettings.from_arguments(balancer)
    except ConfigError as error:
        rule = "False with settings that change how records are divided into shards"
        raise ConfigError.of("update", True, allowed=rule, advice=str(error)) from error
    return dataclasses.replace(conversion, example_gen=example_gen, balancer=balancer)


def has_tfx() -> bool:
    """Return whether TFX is installed, which includes ML Metadata, so that runs are tracked."""
    return importlib.util.find_spec("tfx") is not None


def run_conversion(
    conversion: Conversion,
    out: str | os.PathLike[str],
    *,
    metadata: str | os.PathLike[str] | None = None,
    restart: bool = False,
    verify_output: bool = False,
) -> ConversionResult:
    """Run a conversion from `prepare_all`; arguments and errors are the same as for `convert`."""
    started = time.monotonic()
    out = path_of("out", out)
    metadata = None if metadata is None else path_of("metadata", metadata)
    check_places(conversion.source, out, metadata)
    root = out.rstrip("/") if is_remote(out) else os.path.abspath(out)
    store = os.path.abspath(metadata) if metadata else join(root, METADATA_FILE)
    example_gen = EXAMPLE_GENS[conversion.kind]
    with contextlib.ExitStack() as folders:
        if not is_remote(root):
            folders.enter_context(_folder("out", root))
        if has_tfx() and not is_remote(store):
            folders.enter_context(_folder("metadata", os.path.dirname(store)))
        folders.enter_context(show_step("Converting"))
        uris, cached = convert_in(conversion, root, restart=restart, verify=verify_output)
        examples, balanced = uris[example_gen], uris["ShardBalancer"]
        exported = {"datum_schema": uris["SchemaExport"], "datum_dataset": uris["datum_dataset"]}
        _track(
            store,
            "tfx-shards-convert",
            (example_gen, {}, {"examples": examples}),
            ("ShardBalancer", {"examples": examples}, {"balanced_examples": balanced}),
            ("SchemaExport", {"examples": balanced}, exported),
            is_cached=cached,
        )
    if not is_remote(root):
        point_to(root, balanced)
        uris = {n: os.path.join(out, os.path.relpath(uri, root)) for n, uri in uris.items()}
    manifest = read_manifest(uris[example_gen])
    assert manifest is not None
    return ConversionResult(
        uri=uris["ShardBalancer"],
        examples=uris[example_gen],
        schema=uris["SchemaExport"],
        metadata=(metadata or join(out, METADATA_FILE)) if has_tfx() else None,
        kind=conversion.kind,
        manifest=manifest,
        cached=cached,
        seconds=time.monotonic() - started,
    )


def _track(store: str, pipeline: str, *steps: Any, is_cached: bool = False) -> None:
    """Record a run in ML Metadata if TFX, which includes it, is installed."""
    if has_tfx():
        from pipelines.tools.conversion.tracking import RecordedStep, open_store, record_run

        with _kept_here(store) as path, open_store(path) as opened:
            record_run(
                opened, pipeline, [RecordedStep(*step) for step in steps], is_cached=is_cached
            )


@contextlib.contextmanager
def _folder(name: str, place: str) -> Iterator[None]:
    """Create a folder for a run; remove empty folders if the run fails."""
    created = place
    while not os.path.lexists(above := os.path.dirname(created)):
        created = above
    was_there = os.path.lexists(place)
    try:
        os.makedirs(place, exist_ok=True)
    except OSError as error:  # a read-only file system, for example
        rule = f"a folder that can be made ({error.strerror})"
        raise ConfigError.of(name, place, allowed=rule) from error
    try:
        yield
    except BaseException:
        of_run = os.path.join(place, "artifacts") if was_there else created
        for folder, _, _ in os.walk(of_run, topdown=False):
            with contextlib.suppress(OSError):  # the folder is not empty
                os.rmdir(folder)
        raise


def point_to(out: str, uri: str) -> None:
    """Point `out/latest` to a dataset; do nothing if the file system has no links."""
    link, fresh = os.path.join(out, LATEST), os.path.join(out, f".{LATEST}-{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        os.symlink(os.path.relpath(uri, out), fresh, target_is_directory=True)
        os.replace(fresh, link)


@contextlib.contextmanager
def _kept_here(store: str) -> Iterator[str]:
    """Yield the path of a store; a store in a bucket is copied here and uploaded at the end."""
    if not is_remote(store):
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="tfx-shards-") as folder:
        path = Path(folder, METADATA_FILE)
        if exists(store):
            path.write_bytes(read_bytes(store))
        yield str(path)
        out = store.rpartition("/")[0]
        with write_atomically(store, temporary_folder=out) as kept:
            kept.write(path.read_bytes())


def balance(
    examples: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    restart: bool = False,
    beam_pipeline_args: Sequence[str] | None = None,
    **settings: "Unpack[BalanceKeywords]",
) -> str:
    """Run ShardBalancer on a dataset, as a separate pipeline.

    Args:
        examples: the uri of a dataset, or the `out` folder of `convert` or `balance`.
        out: a folder for the artifact and for `metadata.sqlite`. In a local one, `out/latest` is a
            link to the newest dataset.
        restart: discard the results of an earlier run instead of resuming it.
        beam_pipeline_args: arguments for Beam. None: run in this process.
        settings: settings of ShardBalancer.

    Returns:
        The uri of the new dataset.

    Raises:
        ConfigError: a setting is invalid.
        DatasetError: the input is not a dataset, or is incomplete or damaged.
    """
    out = path_of("out", out)
    check_balancing(settings)
    check_folder("out", out)
    source = newest_dataset(path_of("examples", examples))
    if is_within(out, source):
        raise ConfigError.of("out", out, allowed=f"a folder outside the dataset {source!r}")
    source = source if is_remote(source) else os.path.abspath(source)
    is_in_store = is_remote(out)
    root = out.rstrip("/") if is_in_store else os.path.abspath(out)
    with contextlib.nullcontext() if is_in_store else _folder("out", root):
        uri = balance_in(source, settings, root, beam_pipeline_args or (), restart=restart)
        step = "ShardBalancer", {"examples": source}, {"balanced_examples": uri}
        _track(join(root, METADATA_FILE), "tfx-shards-balance", step)
    if is_in_store:
        return uri
    point_to(root, uri)
    return os.path.join(out, os.path.relpath(uri, root))


def check_balancing(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError if `balance` would refuse a setting.

    Args:
        settings: settings of ShardBalancer.

    Raises:
        ConfigError: a setting is invalid; the message names it.
    """
    check_names("balance", settings, BalancerSettings.argument_names())
    BalancerSettings(**settings)
