"""From raw images, texts or sounds to a balanced dataset in one call, its lineage kept.

uri = convert("photos/", "datasets/photos")
uri = convert("reviews.csv", "datasets/reviews", splits={"train": 8, "eval": 2})
uri = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
uri = convert({"train": generate, "eval": rows}, "datasets/ours")     # dicts, from Python
"""

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.tools.conversion.import_noise import suppress_import_noise
from pipelines.tools.conversion.outputs import METADATA_FILE, kept_metadata, point_to
from pipelines.tools.conversion.python_sources import is_in_python
from pipelines.tools.conversion.settings import EXAMPLE_GENS, Conversion, check_places, prepare
from pipelines.tools.conversion.staging import stage
from pipelines.tools.inspection import inspect_dataset
from trainer_utils.format import ConfigError, Manifest, keyed_hash
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.storage import is_folder, is_remote, join
from trainer_utils.text_output import Part, as_text, human_bytes, list_counts, make_table

__all__ = ["Converted", "convert", "convert_whole", "run_conversion"]

_PIPELINE = "tfx-shards-convert"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Converted:
    """What was made, below `out` as it was given.

    Args:
        uri: of the balanced dataset.
        examples: of the ExampleGen's own dataset, with the list of rejects.
        schema: of SchemaExport's artifact.
        metadata: the sqlite file.
        kind: `image`, `text` or `audio`.
    """

    uri: str
    examples: str
    schema: str
    metadata: str
    kind: str

    def to_json(self) -> JsonObject:
        """Where everything is, the accounting of the ExampleGen, and the balanced splits."""
        manifest = self.manifest
        counts = {"total": manifest.total, **manifest.accounting}
        return {
            **dataclasses.asdict(self),
            "accounting": {name: dataclasses.asdict(count) for name, count in counts.items()},
            "rejects": dict(manifest.reject_counts),
            "splits": {
                name: {"records": s.records, "bytes": s.bytes, "num_shards": s.num_shards}
                for name, s in inspect_dataset(self.uri).splits.items()
            },
        }

    def __str__(self) -> str:
        manifest = self.manifest
        parts: list[Part] = [str(manifest.total)]
        if rejects := manifest.reject_counts:
            parts.append(f"rejected: {list_counts(rejects)} ({self.examples}/{REJECTS_FILE})")
        rows = [
            [name, split.records, human_bytes(split.bytes), split.num_shards]
            for name, split in inspect_dataset(self.uri).splits.items()
        ]
        return as_text([*parts, make_table(["split", "records", "bytes", "shards"], rows)])

    @property
    def manifest(self) -> Manifest:
        """Of the ExampleGen's own dataset: what became of each input."""
        manifest = inspect_dataset(self.examples).manifest
        assert manifest is not None
        return manifest


def convert(
    source: Any,
    out: str,
    *,
    kind: str | None = None,
    metadata: str | None = None,
    splits: Mapping[str, int] | Sequence[str] | None = None,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> str:
    """Runs an ExampleGen, ShardBalancer and SchemaExport; what did not change is not run again.

    Args:
        source: a folder, a table, a list or an archive, as the ExampleGens take; or a pandas
            DataFrame in the form of such a table, paths in it relative to the working directory
            or whole. From Python also: dicts of values by feature in a list or from a generator;
            a function that gives these, of a split's name or of none (or pairs of a key and a
            dict, as Datum's generators); a dict of arrays, arrays, `.npy` and `.npz`; a
            `tf.data.Dataset` of single examples; tables of Arrow and of Hugging Face `datasets`;
            or a dict of splits with any of these. `trainer_utils.writing.values` says what
            becomes of a value.
        out: a folder for the artifacts; `out/latest` is a link to the newest dataset. Or a folder
            in a bucket, `s3://bucket/out`, where there are no links.
        kind: `image`, `text` or `audio`. None: recognised from the files.
        metadata: the sqlite file of ML Metadata. Several runs may share one, at once as well.
            None: `metadata.sqlite` in `out`; in a bucket a copy of it, for one run at a time.
        splits: shares by split that a hash assigns. None: those that the inputs name, or train
            and eval 2:1. Of a function that is called with a split: the names to call it with,
            `("train", "val", "test")` by default.
        beam_pipeline_args: as Beam takes them, `["--runner=DataflowRunner", …]`. None: all runs
            in this process.
        options: of ImageExampleGen, TextExampleGen or AudioExampleGen (`layout`, `vocabulary`,
            `output_config`, …) and of ShardBalancer (`num_shards`, `target_shard_bytes`,
            `shard_multiple`, `balance`, `stratify_by`, `shuffle`, `memory_bytes`); `seed` and
            `compression` are for both.

    Returns:
        The uri of the balanced dataset.

    Raises:
        InputError: the input is missing, malformed, of no one kind, or too much was rejected.
        ConfigError: a setting is not allowed.
    """
    options |= {"kind": kind, "splits": splits, "beam_pipeline_args": beam_pipeline_args}
    return convert_whole(source, out, metadata=metadata, **options).uri


def convert_whole(
    source: Any,
    out: str,
    *,
    kind: str | None = None,
    metadata: str | None = None,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> Converted:
    """As `convert`; returns all that was made."""
    with contextlib.ExitStack() as stack:
        place = out = os.fspath(out)
        if is_in_python(source):
            check_places("", out, metadata)
            if is_remote(out):  # what is read in place lies on this machine, for as long
                place = stack.enter_context(tempfile.TemporaryDirectory(prefix="tfx-shards-"))
        staged = stage(source, place, kind=kind, options=options)
        conversion = prepare(
            staged.source, kind=staged.kind, beam_pipeline_args=beam_pipeline_args, **staged.options
        )
        return run_conversion(conversion, out, metadata=metadata)


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

    uris = run_pipeline(conversion, root, name, store, use_cache=True)
    if not all(map(is_folder, uris.values())):  # somebody removed one since
        uris = run_pipeline(conversion, root, name, store, use_cache=False)
    shown = uris
    if not is_remote(root):
        point_to(root, uris["ShardBalancer"])
        shown = {n: os.path.join(out, os.path.relpath(uri, root)) for n, uri in uris.items()}
    return Converted(
        uri=shown["ShardBalancer"],
        examples=shown[EXAMPLE_GENS[conversion.kind]],
        schema=shown["SchemaExport"],
        metadata=metadata or os.path.join(out, METADATA_FILE),
        kind=conversion.kind,
    )


def _digest(root: str) -> str:
    place = root if is_remote(root) else os.path.realpath(root)
    return f"{keyed_hash(os.fsencode(place), seed=0, purpose='out'):016x}"
