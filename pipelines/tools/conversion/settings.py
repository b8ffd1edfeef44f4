"""What a conversion is asked to do, checked before anything heavy is imported.

    conversion = prepare("photos/", num_shards=8, layout="folder")
    check_places(conversion.source, "out/", None)

Neither TFX nor TensorFlow is needed for it, so that a mistake is reported at once.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import components
from components.example_gen.settings import (
    AudioSettings,
    ExampleGenSettings,
    ImageSettings,
    TextSettings,
)
from components.shard_balancer.settings import BalancerSettings
from pipelines.tools.conversion.recognition import KINDS, check_source, recognise
from trainer_utils.format import ConfigError
from trainer_utils.format.naming import check_split_name
from trainer_utils.format.spelling import check_names, misspelt
from trainer_utils.storage import exists, is_object_store, is_remote

__all__ = [
    "EXAMPLE_GENS",
    "Conversion",
    "check_options",
    "check_places",
    "prepare",
    "settings_class",
]

EXAMPLE_GENS = {
    "image": "ImageExampleGen",
    "text": "TextExampleGen",
    "audio": "AudioExampleGen",
}
_SETTINGS: Mapping[str, type[ExampleGenSettings]] = {
    "image": ImageSettings,
    "text": TextSettings,
    "audio": AudioSettings,
}
_TFX_OPTIONS = ("input_config", "output_config", "range_config")  # TFX's own messages
_BALANCER = BalancerSettings.argument_names()
_NAMES = "Set column_names: a list of the columns' names; header=True skips the row that has others"
_BEAM = "Set beam_pipeline_args: ['--runner=DataflowRunner', '--project=…', …]"
_REPLACED = {  # TFRecorder's and Datum's, and pandas'
    "names": _NAMES,
    "schema": "Set columns: kinds by column, {'age': 'float'}",
    "schema_map": "Set columns: kinds by column, {'age': 'float'}",
    "output_dir": "Give it as the second argument",
    **dict.fromkeys(("runner", "project", "region", "dataflow_options"), _BEAM),
    "output_file_format": "Set compression: 'gzip'",
    "tfrecorder_wheel": "Set beam_pipeline_args: ['--extra_package=…'], a wheel of this project",
    "extension": "Leave it out: names are found with any extension, or none",
    "image_extension": "Leave it out: names are found with any extension, or none",
    "label_extension": "Leave it out: names are found with any extension, or none",
    "set_dir": "Set image_set_dir",
    "json_path": "Give the file as the first argument",
    "test_size": "Set splits: {'train': 0.8, 'eval': 0.2}",
    "num_workers": "Leave it out: all cores are used",
}
_PARTS = 10**6  # to which shares of one are exact
_SHARED = ("seed", "compression")  # both components take them


def settings_class(kind: str) -> type[ExampleGenSettings]:
    """The settings of the ExampleGen that takes `image`, `text` or `audio`."""
    return _SETTINGS[kind]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """What is to be done.

    Args:
        source: a path or url.
        kind: `image`, `text` or `audio`.
        seen: what that was recognised by.
        splits: shares by split, for splits that a hash assigns; None: as the inputs say.
        example_gen: the options of the ExampleGen.
        balancer: the options of ShardBalancer.
        beam_pipeline_args: of all components.
    """

    source: str
    kind: str
    seen: str
    splits: Mapping[str, int] | None
    example_gen: Mapping[str, Any]
    balancer: Mapping[str, Any]
    beam_pipeline_args: Sequence[str] = ()

    @property
    def component(self) -> Any:
        """The ExampleGen's class, which brings TFX."""
        return getattr(components, EXAMPLE_GENS[self.kind])


def prepare(
    source: Any,
    *,
    kind: str | None = None,
    splits: Mapping[str, float] | None = None,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> Conversion:
    """Works out and checks what `convert` would do, which it takes these arguments from.

    Raises:
        InputError: the input is missing, or of no one kind.
        ConfigError: a setting is not allowed.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(
            f"source: expected a path or a DataFrame, got {type(source).__name__}", setting="source"
        )
    if kind not in (None, *KINDS):
        raise ConfigError(
            f"kind: expected one of {', '.join(KINDS)}, or None, got {misspelt(kind, KINDS)}"
        )
    _check_splits(splits, options)
    _check_beam(beam_pipeline_args)
    splits = _whole_shares(splits)
    source = os.fspath(source)
    if not source:
        raise ConfigError.of("source", source, allowed="a path")
    known, seen = kind, "as asked for"
    if known is None:
        if "://" in source:
            check_options(options)  # looking at a remote source takes seconds
        recognised = recognise(source, options)
        known, seen = recognised.kind, recognised.seen
    check_options(options, kind=known)
    balancer = {name: options[name] for name in _BALANCER if name in options}
    example_gen = {
        name: value for name, value in options.items() if name not in _BALANCER or name in _SHARED
    }
    _SETTINGS[known].from_arguments(example_gen)
    balancing = BalancerSettings(**balancer)
    if splits is not None:
        balancing.check_splits(list(splits))
    if kind is not None:
        check_source(source)
    if "://" not in source:  # a link is as good as the file: only links within a folder are not
        source = os.path.realpath(source) if os.path.islink(source) else os.path.abspath(source)
    return Conversion(
        source=source,
        kind=known,
        seen=seen,
        splits=splits,
        example_gen=example_gen,
        balancer=balancer,
        beam_pipeline_args=tuple(beam_pipeline_args or ()),
    )


def check_options(options: Mapping[str, object], *, kind: str | None = None) -> None:
    """Refuses options that the components do not have.

    Args:
        options: by name.
        kind: whose ExampleGen takes them; None: any of the three.

    Raises:
        ConfigError: it names the option, its value, and the nearest that there is.
    """
    kinds = KINDS if kind is None else (kind,)
    known = [name for one in kinds for name in _SETTINGS[one].argument_names()]
    known = [*dict.fromkeys([*known, *_TFX_OPTIONS])]
    component = EXAMPLE_GENS[kind] if kind else "the ExampleGens"
    for name in options.keys() & _REPLACED.keys() - {*known, *_BALANCER}:
        raise ConfigError(
            f"convert, option {name!r}: it is another project's. {_REPLACED[name]}",
            setting=name,
            value=options[name],
        )
    check_names(
        "convert",
        options,
        [*known, *_BALANCER],
        alternatives=("kind", "metadata", "splits", "beam_pipeline_args"),
        called="option",
        allowed=f"one of {component} ({', '.join(known)}) or of ShardBalancer "
        f"({', '.join(_BALANCER)})",
    )
    for name, value in options.items():
        if name in _TFX_OPTIONS and isinstance(value, (str, bool, int, float, list, tuple)):
            raise ConfigError.of(name, value, allowed="TFX's own message")


def _check_beam(arguments: Sequence[str] | None) -> None:
    is_list = isinstance(arguments, Sequence) and not isinstance(arguments, str)
    if arguments is not None and not (
        is_list and all(isinstance(a, str) and a.startswith("--") for a in arguments)
    ):
        raise ConfigError.of(
            "beam_pipeline_args",
            arguments,
            allowed="flags as Beam takes them, such as ['--runner=DataflowRunner']",
        )


def _whole_shares(splits: Mapping[str, float] | None) -> dict[str, int] | None:
    """Shares of one as whole numbers, 0.8 and 0.2 as 8 and 2; others as they are."""
    if splits is None:
        return None
    parts = 1 if all(isinstance(share, int) for share in splits.values()) else 10
    while parts < _PARTS and any(round(s * parts, 6) % 1 for s in splits.values()):
        parts *= 10
    return {name: round(share * parts) for name, share in splits.items()}


def _check_splits(splits: Mapping[str, float] | None, options: Mapping[str, object]) -> None:
    if splits is None:
        return
    if "output_config" in options:
        raise ConfigError.of("splits", splits, allowed="none beside output_config")
    if not isinstance(splits, Mapping) or not splits:
        raise ConfigError.of("splits", splits, allowed="shares such as {'train': 8, 'eval': 2}")
    for name, share in splits.items():
        check_split_name(str(name))
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not is_number or not (
            share >= 1 if isinstance(share, int) else 1 / _PARTS <= share <= 1
        ):
            raise ConfigError(
                f"splits[{name!r}]: expected a share of at least 1, or one between 0 and 1, "
                f"got {share!r}"
            )
    are_of_one = any(isinstance(share, float) for share in splits.values())
    if are_of_one and abs(sum(splits.values()) - 1) > 1e-5:  # a third is 0.333333
        raise ConfigError.of("splits", splits, allowed="whole numbers, or shares of one")


def check_places(source: str, out: str, metadata: str | None) -> None:
    """Refuses places that cannot be written to, or that the next run would take for inputs.

    Raises:
        ConfigError: it names the place.
    """
    for name, place in (("out", out), ("metadata", metadata or "")):
        if "\0" in place:
            raise ConfigError.of(name, place, allowed="a path without NUL characters")
    if "://" in (metadata or ""):
        raise ConfigError.of("metadata", metadata, allowed="a local path, since it is a database")
    if not out:
        raise ConfigError.of("out", out, allowed="a folder")
    if is_remote(out) and not is_object_store(out):
        raise ConfigError.of("out", out, allowed="a local path, or one in a bucket")
    if metadata and os.path.isdir(metadata):
        raise ConfigError(
            f"metadata: expected a file, got the folder {metadata!r}", setting="metadata"
        )
    if metadata:
        _check_folder("metadata", os.path.dirname(metadata) or ".")
    if is_remote(out):
        exists(out)  # raises where there is no such store, or no credentials for it
        _check_outside(source, out, source, out)
        return
    _check_folder("out", out)
    if os.path.isdir(source):
        _check_outside(source, out, os.path.realpath(source), os.path.realpath(out))


def _check_outside(source: str, out: str, base: str, place: str) -> None:
    """Refuses a place within the input; the last two are both of them in full."""
    if f"{place.rstrip('/')}/".startswith(f"{base.rstrip('/')}/"):
        raise ConfigError(
            f"out: expected a folder outside the input, got {out!r} in {source!r}. "
            "The next run would take the dataset for input.",
            setting="out",
            value=out,
        )


def _check_folder(name: str, folder: str) -> None:
    """Refuses a folder that is not there and cannot be made, or that cannot be written into."""
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        is_file = place == os.path.abspath(folder)
        what = f"the file {folder!r}" if is_file else f"{folder!r}, below the file {place!r}"
        raise ConfigError(f"{name}: expected a folder, got {what}", setting=name)
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{name}: expected a folder that can be written to, got {folder!r}: "
            f"no permission to write in {place!r}",
            setting=name,
            value=folder,
        )
