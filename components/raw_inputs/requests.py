"""Check the settings of a conversion before any input is read.

conversion = prepare("photos/", num_shards=8, layout="folder")
check_places(conversion.source, "out/", None)
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from components.balancing.settings import BalancerSettings
from components.example_gen.input_selection import ALL_FILES, InputSelection
from components.example_gen.settings import (
    AudioSettings,
    ExampleGenSettings,
    ImageSettings,
    TextSettings,
)
from components.example_gen.split_rules import Partition, whole_shares
from components.raw_inputs.recognition import KINDS, check_source, recognise
from components.runtime.beam import asks_for_beam
from components.runtime.workspace import check_folder, is_within
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.core.settings import check_names
from trainer_utils.storage import exists, is_folder, is_object_store, is_remote, path_of

EXAMPLE_GENS = {"image": "ImageExampleGen", "text": "TextExampleGen", "audio": "AudioExampleGen"}
SETTINGS: Mapping[str, type[ExampleGenSettings]] = {
    "image": ImageSettings,
    "text": TextSettings,
    "audio": AudioSettings,
}
_BALANCER = BalancerSettings.argument_names()
_SHARED = {*_BALANCER} & {*ImageSettings.argument_names()}  # settings of both components


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """The checked settings of a conversion.

    Args:
        source: the path or address of the inputs.
        kind: `image`, `text` or `audio`.
        seen: the evidence for the kind, for messages.
        splits: shares by split, assigned by a hash; None: the splits of the inputs.
        example_gen: settings of the ExampleGen.
        balancer: settings of ShardBalancer.
        beam_pipeline_args: arguments for Beam.
        out: the output folder; None for a dry run.
    """

    source: str
    kind: str
    seen: str
    splits: Mapping[str, int] | None
    example_gen: Mapping[str, Any]
    balancer: Mapping[str, Any]
    beam_pipeline_args: Sequence[str] = ()
    out: str | None = None

    @property
    def settings(self) -> ExampleGenSettings:
        """The settings of the ExampleGen."""
        return SETTINGS[self.kind].from_arguments(self.example_gen)

    @property
    def selection(self) -> InputSelection:
        """The selected inputs and their splits."""
        partition = None if self.splits is None else Partition(tuple(self.splits.items()))
        return InputSelection(
            base=self.source, patterns=ALL_FILES, partition=partition, unlisted=self.out
        )


def prepare(
    source: Any,
    *,
    kind: str | None = None,
    splits: Mapping[str, float] | Sequence[str] | None = None,
    beam_pipeline_args: Sequence[str] | None = None,
    **options: Any,
) -> Conversion:
    """Check arguments of `convert` and return the conversion.

    Args:
        source: the path or address of the inputs.
        kind: as for `convert`.
        splits: as for `convert`.
        beam_pipeline_args: as for `convert`.
        options: settings of the ExampleGen and of ShardBalancer.

    Raises:
        InputError: the input is missing, or its kind is ambiguous.
        ConfigError: a setting is invalid.
    """
    source = path_of("source", source)
    if kind not in (None, *KINDS):
        rule = f"one of {', '.join(KINDS)}, or None"
        raise ConfigError.of("kind", kind, allowed=rule, advice=did_you_mean(kind, KINDS).strip())
    shares = None if splits is None else whole_shares(splits)
    _check_beam(beam_pipeline_args)
    check_options(options, kind=kind)  # looking at a remote source takes seconds
    seen = "as asked for"
    if kind is None:
        kind, seen = recognise(source, options)
        check_options(options, kind=kind)
    else:
        check_source(source, options)
    balancer = {name: options[name] for name in _BALANCER if name in options}
    example_gen = {n: v for n, v in options.items() if n not in _BALANCER or n in _SHARED}
    SETTINGS[kind].from_arguments(example_gen)
    balancing = BalancerSettings(**balancer)
    if shares is not None:
        balancing.check_splits(list(shares))
    if not is_remote(source):  # follow a link to the source; links inside it have their own setting
        source = os.path.realpath(source) if os.path.islink(source) else os.path.abspath(source)
    return Conversion(
        source=source,
        kind=kind,
        seen=seen,
        splits=shares,
        example_gen=example_gen,
        balancer=balancer,
        beam_pipeline_args=tuple(beam_pipeline_args or ()),
    )


def check_options(options: Mapping[str, object], *, kind: str | None = None) -> None:
    """Raise ConfigError for options that no component of this kind has.

    Args:
        options: settings by name.
        kind: the kind of the inputs; None: allow the options of all kinds.

    Raises:
        ConfigError: an option is unknown; the message has its value and the closest known name.
    """
    kinds = KINDS if kind is None else (kind,)
    known = [*dict.fromkeys(name for kind in kinds for name in SETTINGS[kind].argument_names())]
    component = EXAMPLE_GENS[kind] if kind else "the ExampleGens"
    check_names(
        "convert",
        options,
        [*known, *_BALANCER],
        alternatives=("kind", "metadata", "splits", "beam_pipeline_args"),
        allowed=f"one of {component} ({', '.join(known)}) or of ShardBalancer "
        f"({', '.join(_BALANCER)})",
    )


def _check_beam(arguments: Sequence[str] | None) -> None:
    is_list = isinstance(arguments, Sequence) and not isinstance(arguments, str)
    if arguments is not None and not (
        is_list and all(isinstance(a, str) and a.startswith("--") for a in arguments)
    ):
        rule = "flags as Beam takes them, such as ['--runner=DataflowRunner']"
        raise ConfigError.of("beam_pipeline_args", arguments, allowed=rule)
    asks_for_beam(arguments or ())  # raises if Beam is needed but not installed


def check_places(source: str, out: str, metadata: str | None) -> None:
    """Raise ConfigError for outputs that cannot be written or that the next run would read.

    Args:
        source: the path or address of the inputs.
        out: the output folder.
        metadata: the sqlite file of ML Metadata, or None.

    Raises:
        ConfigError: an output is not allowed; the message names it.
    """
    for name, place in (("out", out), ("metadata", metadata or "")):
        if "\0" in place:
            raise ConfigError.of(name, place, allowed="a path without NUL characters")
    if metadata and (is_remote(metadata) or is_folder(metadata)):
        raise ConfigError.of("metadata", metadata, allowed="a local file, since it is a database")
    if metadata:
        check_folder("metadata", os.path.dirname(metadata) or ".")
    if not out or (is_remote(out) and not is_object_store(out)):
        raise ConfigError.of("out", out, allowed="a folder, local or in a bucket")
    if (is_remote(source) or is_folder(source)) and is_within(out, source):
        raise ConfigError.of(
            "out",
            out,
            allowed=f"a folder outside the input {source!r}",
            advice="The next run would take the dataset for input",
        )
    if is_remote(out):
        exists(out)  # raises if the store is missing or there are no credentials for it
    check_folder("out", out)
