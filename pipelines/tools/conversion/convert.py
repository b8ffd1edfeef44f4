"""From raw images, texts or sounds to a balanced dataset in one call, its lineage kept.

uri = convert("photos/", "datasets/photos")
uri = convert("reviews.csv", "datasets/reviews", splits={"train": 8, "eval": 2})
uri = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
"""

import dataclasses
import io
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.tools.conversion.import_noise import suppress_import_noise
from pipelines.tools.conversion.outputs import METADATA_FILE, point_to
from pipelines.tools.conversion.recognition import recognise
from pipelines.tools.conversion.settings import EXAMPLE_GENS, Conversion, check_places, prepare
from pipelines.tools.inspection import inspect_dataset
from trainer_utils.format import ConfigError, Manifest, keyed_hash
from trainer_utils.format.json_text import JsonObject
from trainer_utils.format.naming import REJECTS_FILE
from trainer_utils.text_output import Part, as_text, human_bytes, list_counts, make_table

__all__ = ["Converted", "convert", "run_conversion"]

_FRAME_FILE = "source/frame.parquet"
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
        manifest = self._manifest()
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
        manifest = self._manifest()
        parts: list[Part] = [str(manifest.total)]
        if rejects := manifest.reject_counts:
            parts.append(f"rejected: {list_counts(rejects)} ({self.examples}/{REJECTS_FILE})")
        rows = [
            [name, split.records, human_bytes(split.bytes), split.num_shards]
            for name, split in inspect_dataset(self.uri).splits.items()
        ]
        return as_text([*parts, make_table(["split", "records", "bytes", "shards"], rows)])

    def _manifest(self) -> Manifest:
        manifest = inspect_dataset(self.examples).manifest
        assert manifest is not None
        return manifest


def convert(
    source: Any,
    out: str,
    *,
    kind: str | None = None,
    metadata: str | None = None,
    splits: Mapping[str, int] | None = None,
    **options: Any,
) -> str:
    """Runs an ExampleGen, ShardBalancer and SchemaExport; what did not change is not run again.

    Args:
        source: a folder, a table, a list or an archive, as the ExampleGens take; or a pandas
            DataFrame in the form of such a table, paths in it relative to the working directory
            or whole.
        out: a folder for the artifacts; `out/latest` is a link to the newest dataset.
        kind: `image`, `text` or `audio`. None: recognised from the files.
        metadata: the sqlite file of ML Metadata. Several runs may share one, at once as well.
            None: `metadata.sqlite` in `out`.
        splits: shares by split that a hash assigns. None: those that the inputs name, or train
            and eval 2:1.
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
    if hasattr(source, "to_parquet"):
        source = _write_frame(source, Path(out, _FRAME_FILE))
        kind = kind or recognise(source, options).kind
        if kind != "text":
            options.setdefault("image_roots", [os.getcwd()])
    conversion = prepare(source, kind=kind, splits=splits, **options)
    return run_conversion(conversion, out, metadata=metadata).uri


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
    own = os.path.abspath(os.path.join(out, METADATA_FILE))
    store = os.path.abspath(metadata or own)
    root = os.path.abspath(out)
    for name, place in (("out", root), ("metadata", os.path.dirname(store))):
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
    if not all(map(os.path.isdir, uris.values())):  # somebody removed one since
        uris = run_pipeline(conversion, root, name, store, use_cache=False)
    point_to(root, uris["ShardBalancer"])
    shown = {name: os.path.join(out, os.path.relpath(uri, root)) for name, uri in uris.items()}
    return Converted(
        uri=shown["ShardBalancer"],
        examples=shown[EXAMPLE_GENS[conversion.kind]],
        schema=shown["SchemaExport"],
        metadata=metadata or os.path.join(out, METADATA_FILE),
        kind=conversion.kind,
    )


def _digest(root: str) -> str:
    return f"{keyed_hash(os.fsencode(os.path.realpath(root)), seed=0, purpose='out'):016x}"


def _write_frame(frame: Any, path: Path) -> str:
    """Keeps a frame as Parquet; an equal one is left alone, so that the cache holds."""
    stream = io.BytesIO()
    frame.to_parquet(stream, index=False)
    if not path.is_file() or path.read_bytes() != stream.getvalue():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{uuid.uuid4().hex}")
        temporary.write_bytes(stream.getvalue())
        os.replace(temporary, path)
    return str(path)
