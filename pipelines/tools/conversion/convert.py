"""From raw images, texts or sounds to a balanced dataset in one call, its lineage kept.

uri = convert("photos/", "datasets/photos")               # uri.written, uri.rejected, uri.cached
uri = convert("reviews.csv", "datasets/reviews", splits={"train": 8, "eval": 2})
uri = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
uri = convert({"train": generate, "eval": rows}, "datasets/ours")     # dicts, from Python
"""

import contextlib
import dataclasses
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from components.common.reject_codes import REJECT_CODES
from components.report.inspection import inspect_dataset
from pipelines.tools.conversion.dry_run import check_small_table
from pipelines.tools.conversion.import_noise import suppress_import_noise, suppress_run_noise
from pipelines.tools.conversion.outputs import (
    METADATA_FILE,
    check_trainable,
    kept_metadata,
    point_to,
)
from pipelines.tools.conversion.python_sources import is_in_python
from pipelines.tools.conversion.settings import EXAMPLE_GENS, Conversion, check_places, prepare
from pipelines.tools.conversion.staging import stage
from trainer_utils.dataset.files import read_manifest
from trainer_utils.format import ConfigError, Manifest, keyed_hash
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.format.printable import printable
from trainer_utils.step_display import say, show_step
from trainer_utils.storage import is_folder, is_remote, join
from trainer_utils.text_output import Part, as_text, human_bytes, list_counts, make_table

__all__ = ["Converted", "convert", "run_conversion"]

_PIPELINE = "tfx-shards-convert"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Converted(str):
    """The uri of the balanced dataset, below `out` as it was given: a text that goes wherever a uri
    goes, and that also knows what the run made.

    Args:
        uri: the same.
        examples: of the ExampleGen's own dataset, with the list of rejects.
        schema: of SchemaExport's artifact.
        metadata: the sqlite file.
        kind: `image`, `text` or `audio`.
        manifest: of the ExampleGen's own dataset: what became of each input.
        cached: whether nothing had changed, so that nothing was made.
        seconds: that it took.
    """

    uri: str
    examples: str
    schema: str
    metadata: str
    kind: str
    manifest: Manifest
    cached: bool
    seconds: float

    def __new__(cls, uri: str, *_: Any, **__: Any) -> "Converted":
        """The text itself; a dataclass sets the rest."""
        return super().__new__(cls, uri)

    @property
    def found(self) -> int:
        """Inputs."""
        return self.manifest.total.found

    @property
    def written(self) -> int:
        """Examples of the inputs, before they were balanced."""
        return self.manifest.total.written

    @property
    def rejected(self) -> int:
        """Inputs that are bad; `rejects.jsonl` in `examples` says why."""
        return self.manifest.total.rejected

    @property
    def skipped(self) -> int:
        """Inputs left out on purpose."""
        return self.manifest.total.skipped

    def to_json(self) -> JsonObject:
        """Where everything is, the accounting of the ExampleGen, and the balanced splits."""
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
        """What a person wants to know of it, as text."""
        how = "nothing changed: taken from cache" if self.cached else f"in {self.seconds:.1f} s"
        parts: list[Part] = [f"{self.manifest.total}; {how}"]
        if rejects := self.manifest.reject_counts:
            parts.append(f"rejected: {list_counts(rejects)} ({self.examples}/{REJECTS_FILE})")
            parts += [f"  {code}: {_advice(code)}" for code in sorted(rejects)]
        rows = [
            [name, split.records, human_bytes(split.bytes), split.num_shards]
            for name, split in inspect_dataset(self.uri).splits.items()
        ]
        return as_text([*parts, make_table(["split", "records", "bytes", "shards"], rows)])


def _advice(code: str) -> str:
    known = REJECT_CODES[code]
    return f"{known.cause}; {known.cure}".replace("`", "")


def convert(
    source: Any,
    out: str,
    *,
    kind: str | None = None,
    metadata: str | None = None,
    splits: Mapping[str, float] | Sequence[str] | None = None,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> Converted:
    """Runs an ExampleGen, ShardBalancer and SchemaExport; what did not change is not run again.

    On a terminal and in a notebook it shows how far it is, and then what it made.

    Args:
        source: a folder, a table, a list or an archive, as the ExampleGens take; or a pandas
            DataFrame in the form of such a table, paths in it relative to the working directory
            or whole. From Python also: a list of paths of images or sounds; dicts of values by
            feature in a list or from a generator; a function that gives these, of a split's name or
            of none (or pairs of a key and a dict, as Datum's generators); a dict of arrays, arrays,
            `.npy` and `.npz`; a `tf.data.Dataset` of single examples; tables of Arrow and of
            Hugging Face `datasets`; or a dict of splits with any of these.
            `trainer_utils.writing.values` says what becomes of a value.
        out: a folder for the artifacts; `out/latest` is a link to the newest dataset. Or a folder
            in a bucket, `s3://bucket/out`, where there are no links.
        kind: `image`, `text` or `audio`. None: recognised from the files.
        metadata: the sqlite file of ML Metadata. Several runs may share one, at once as well.
            None: `metadata.sqlite` in `out`; in a bucket a copy of it, for one run at a time.
        splits: shares by split that a hash assigns, `{"train": 8, "eval": 2}` or of one,
            `{"train": 0.8, "eval": 0.2}`. None: those that the inputs name, or train and eval 2:1.
            Of a function that is called with a split: the names to call it with,
            `("train", "val", "test")` by default.
        beam_pipeline_args: as Beam takes them, `["--runner=DataflowRunner", …]`. None: all runs
            in this process.
        options: of ImageExampleGen, TextExampleGen or AudioExampleGen (`layout`, `vocabulary`,
            `output_config`, …) and of ShardBalancer (`num_shards`, `target_shard_bytes`,
            `shard_multiple`, `balance`, `stratify_by`, `shuffle`, `memory_bytes`); `seed` and
            `compression` are for both.

    Returns:
        The uri of the balanced dataset, a `str`, with `found`, `written`, `rejected`, `cached` and
        `seconds` as attributes.

    Raises:
        InputError: the input is missing, malformed, of no one kind, or too much was rejected.
        ConfigError: a setting is not allowed.
    """
    with contextlib.ExitStack() as stack:
        place = out = os.fspath(out)
        with show_step("Looking at the input"):
            if is_in_python(source):
                check_places("", out, metadata)
                if is_remote(out):  # what is read in place lies on this machine, for as long
                    place = stack.enter_context(tempfile.TemporaryDirectory(prefix="tfx-shards-"))
            options["splits"] = splits
            staged = stage(source, place, kind=kind, options=options)
            conversion = prepare(
                staged.source,
                kind=staged.kind,
                beam_pipeline_args=beam_pipeline_args,
                **staged.options,
            )
            check_small_table(conversion)
        say("Starting TFX (some seconds) …")
        made = run_conversion(conversion, out, metadata=metadata)
        say(printable(made.summary(), keep="\n"))
        return made


def run_conversion(conversion: Conversion, out: str, *, metadata: str | None = None) -> Converted:
    """Runs what was prepared.

    Args:
        conversion: from `conversion_settings.prepare`.
        out, metadata: as `convert` takes them.

    Raises:
        InputError, ConfigError: as `convert`.
    """
    out = os.fspath(out)
    metadata = None if metadata is None else os.fspath(metadata)
    check_places(conversion.source, out, metadata)
    if is_remote(out) and metadata is None:
        with kept_metadata(out) as local:
            made = _run(conversion, out, local)
            return dataclasses.replace(made, metadata=join(out, METADATA_FILE))
    return _run(conversion, out, metadata)


def _run(conversion: Conversion, out: str, metadata: str | None) -> Converted:
    started = time.monotonic()
    own = os.path.abspath(os.path.join(out, METADATA_FILE))
    store = os.path.abspath(metadata or own)
    root = out.rstrip("/") if is_remote(out) else os.path.abspath(out)
    places = {"out": root, "metadata": os.path.dirname(store)}
    for name, place in places.items():
        if is_remote(place):
            continue
        try:
            os.makedirs(place, exist_ok=True)
        except OSError as error:  # such as a file system that is read-only
            raise ConfigError(
                f"{name}: expected a folder that can be made, got {place!r}: {error.strerror}",
                setting=name,
                value=place,
            ) from error
    # A cache knows nothing of where things lie: runs into other folders are another pipeline.
    name = _PIPELINE if store == own else f"{_PIPELINE}-{_digest(root)}"
    with suppress_import_noise():
        from pipelines.tools.conversion.pipeline import run_pipeline  # TFX: all was checked before

    with show_step("Converting"), suppress_run_noise():
        uris, cached = run_pipeline(conversion, root, name, store, use_cache=True)
        if not all(map(is_folder, uris.values())):  # somebody removed one since
            uris, cached = run_pipeline(conversion, root, name, store, use_cache=False)
    check_trainable(uris[EXAMPLE_GENS[conversion.kind]])
    shown = uris
    if not is_remote(root):
        point_to(root, uris["ShardBalancer"])
        shown = {n: os.path.join(out, os.path.relpath(uri, root)) for n, uri in uris.items()}
    examples = shown[EXAMPLE_GENS[conversion.kind]]
    manifest = read_manifest(examples)
    assert manifest is not None
    return Converted(
        uri=shown["ShardBalancer"],
        examples=examples,
        schema=shown["SchemaExport"],
        metadata=metadata or os.path.join(out, METADATA_FILE),
        kind=conversion.kind,
        manifest=manifest,
        cached=cached,
        seconds=time.monotonic() - started,
    )


def _digest(root: str) -> str:
    place = root if is_remote(root) else os.path.realpath(root)
    return f"{keyed_hash(os.fsencode(place), seed=0, purpose='out'):016x}"
