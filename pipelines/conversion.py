"""From raw images, texts or sounds to a balanced dataset in one call, its lineage kept.

uri = convert("photos/", "datasets/photos")
uri = convert("reviews.csv", "datasets/reviews", splits={"train": 8, "eval": 2})
uri = convert(frame, "datasets/photos", columns={"age": "float"})     # a pandas DataFrame
"""

import dataclasses
import inspect
import io
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# `tfx.v1` would bring Vertex AI's client: three seconds.
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.proto import example_gen_pb2

import components
from components import SchemaExport, ShardBalancer
from pipelines.local_runs import run_here
from pipelines.outputs import METADATA_FILE, point_to
from pipelines.recognition import KINDS, recognise
from trainer_utils.format import ConfigError, keyed_hash

__all__ = ["EXAMPLE_GENS", "Conversion", "Converted", "convert", "prepare", "run_conversion"]

EXAMPLE_GENS = {
    "image": "ImageExampleGen",
    "text": "TextExampleGen",
    "audio": "AudioExampleGen",
}
_BALANCER_OPTIONS = (
    "num_shards",
    "target_shard_bytes",
    "shard_multiple",
    "balance",
    "stratify_by",
    "shuffle",
    "memory_bytes",
)
_SHARED_OPTIONS = ("seed", "compression")
_FRAME_FILE = "source/frame.parquet"
_PIPELINE = "tfx-shards-convert"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """What is to be done.

    Args:
        source: a path or url.
        kind: `image`, `text` or `audio`.
        seen: what that was told by.
        example_gen: the options of the ExampleGen.
        balancer: the options of ShardBalancer.
    """

    source: str
    kind: str
    seen: str
    example_gen: Mapping[str, Any]
    balancer: Mapping[str, Any]

    @property
    def component(self) -> Any:
        """The ExampleGen's class."""
        return getattr(components, EXAMPLE_GENS[self.kind])


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
        kind: `image`, `text` or `audio`. None: told by what is there.
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
        conversion: from `prepare`.
        out, metadata: as `convert` takes them.

    Raises:
        InputError, ConfigError: as `convert`.
    """
    out = os.fspath(out)
    metadata = None if metadata is None else os.fspath(metadata)
    _check_places(conversion.source, out, metadata)
    own = os.path.abspath(os.path.join(out, METADATA_FILE))
    store = os.path.abspath(metadata or own)
    root = os.path.abspath(out)
    os.makedirs(root, exist_ok=True)
    os.makedirs(os.path.dirname(store), exist_ok=True)
    # A cache knows nothing of where things lie: runs into other folders are another pipeline.
    name = _PIPELINE if store == own else f"{_PIPELINE}-{_digest(root)}"
    uris = _run(conversion, root, name, store, use_cache=True)
    if not all(map(os.path.isdir, uris.values())):  # somebody removed one since
        uris = _run(conversion, root, name, store, use_cache=False)
    point_to(root, uris["ShardBalancer"])
    shown = {name: os.path.join(out, os.path.relpath(uri, root)) for name, uri in uris.items()}
    return Converted(
        uri=shown["ShardBalancer"],
        examples=shown[EXAMPLE_GENS[conversion.kind]],
        schema=shown["SchemaExport"],
        metadata=metadata or os.path.join(out, METADATA_FILE),
        kind=conversion.kind,
    )


def _check_places(source: str, out: str, metadata: str | None) -> None:
    """Refuses places that cannot be written to, or that the next run would take for inputs."""
    for name, place in (("out", out), ("metadata", metadata or "")):
        if "://" in place:
            raise ConfigError(
                f"{name}: expected a local path, got {place!r}. To write elsewhere, put the "
                "components into a pipeline of your own."
            )
    if os.path.exists(out) and not os.path.isdir(out):
        raise ConfigError(f"out: expected a folder, got the file {out!r}")
    if metadata and os.path.isdir(metadata):
        raise ConfigError(f"metadata: expected a file, got the folder {metadata!r}")
    root = os.path.realpath(out)
    if os.path.isdir(source) and os.path.commonpath([os.path.realpath(source), root]) == (
        os.path.realpath(source)
    ):
        raise ConfigError(
            f"out: expected a folder outside the input, got {out!r} in {source!r}. "
            "The next run would take the dataset for input."
        )


def prepare(
    source: Any,
    *,
    kind: str | None = None,
    splits: Mapping[str, int] | None = None,
    **options: Any,
) -> Conversion:
    """Works out and checks what `convert` would do, which it takes these arguments from.

    Raises:
        InputError: the input is missing, or of no one kind.
        ConfigError: a setting is not allowed.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"source: expected a path or a DataFrame, got {type(source).__name__}")
    if kind not in (None, *KINDS):
        raise ConfigError(f"kind: expected one of {', '.join(KINDS)}, or None, got {kind!r}")
    source = os.fspath(source)
    source = source if "://" in source else os.path.abspath(source)
    seen = "as asked for"
    if kind is None:
        recognised = recognise(source, options)
        kind, seen = recognised.kind, recognised.seen
    balancing = {name: options.pop(name) for name in _BALANCER_OPTIONS if name in options}
    balancing |= {name: options[name] for name in _SHARED_OPTIONS if name in options}
    if splits is not None:
        if "output_config" in options:
            raise ConfigError(f"splits: expected none beside output_config, got {splits!r}")
        options["output_config"] = _output_config(splits)
    conversion = Conversion(
        source=source, kind=kind, seen=seen, example_gen=options, balancer=balancing
    )
    _check_names(conversion)
    return conversion


def _output_config(splits: Mapping[str, int]) -> example_gen_pb2.Output:
    for name, share in splits.items():
        if isinstance(share, bool) or not isinstance(share, int) or share < 1:
            raise ConfigError(f"splits[{name!r}]: expected a share of at least 1, got {share!r}")
    config = example_gen_pb2.Output()
    for name, share in splits.items():
        config.split_config.splits.add(name=name, hash_buckets=share)
    return config


def _check_names(conversion: Conversion) -> None:
    parameters = inspect.signature(conversion.component.__init__).parameters
    known = [name for name in parameters if name not in ("self", "input_base")]
    for name in conversion.example_gen:
        if name not in known:
            raise ConfigError(
                f"option {name!r}: expected one of {EXAMPLE_GENS[conversion.kind]} "
                f"({', '.join(known)}) or of ShardBalancer ({', '.join(_BALANCER_OPTIONS)})"
            )


def _run(
    conversion: Conversion, root: str, name: str, metadata: str, *, use_cache: bool
) -> dict[str, str]:
    """The uri that each component gave, by the component's name."""
    examples = conversion.component(input_base=conversion.source, **conversion.example_gen)
    balanced = ShardBalancer(examples=examples.outputs["examples"], **conversion.balancer)
    exported = SchemaExport(examples=balanced.outputs["balanced_examples"])
    # Without Beam arguments our components run in process, and TFX does not pack itself up for
    # workers elsewhere, which took longer than converting 10,000 photos.
    pipeline = Pipeline(
        pipeline_name=name,
        pipeline_root=os.path.join(root, "artifacts"),
        components=[examples, balanced, exported],
        enable_cache=use_cache,
        metadata_connection_config=sqlite_metadata_connection_config(metadata),
    )
    return run_here(pipeline, metadata)


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
