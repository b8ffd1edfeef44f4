"""Register layouts, and find the layout of inputs.

    find_layout(inputs, "auto").read(inputs)       # an InputTable
    for layout, found in explain(inputs): ...      # why each layout matches or does not

To add a layout:

1. Write a module `components/layouts/<module>.py` with two functions and, at its end, a call:

       def detect(inputs: LayoutInputs) -> Detection:
           if "index.txt" in inputs.files:
               return Detection.match("index.txt")
           return Detection.miss("no index.txt")

       def read(inputs: LayoutInputs) -> InputTable: ...

       register(Layout(name="mine", kinds=("image",), rank=45, tree=..., features=..., splits=...,
                       refused=..., detect=detect, read=read))

2. Add the module to `_MODULES` below, and its row to docs/layouts.md.

`detect` checks names first and reads as little as possible: a million files must take seconds.
`read` returns an entry for each example, and excludes rejects with a code. It raises an
`InputError` for everything else that it cannot read as intended. Patterns in `known` match files
that belong to the layout but are not read (lists of classes, licences). Any other file that is
neither read nor of the media type ends the run (components/layouts/meaningful.py).

Ranks: the lowest rank that matches wins. Two matches with the same rank are an error. Custom
layouts have rank 0, layouts with fixed folder names 10 to 49, archives 50, lists 60, and class
folders 100.

Layouts in other packages are registered by import, or by an entry point in the group
`tfx_shards.layouts` with the name of the layout: see components/layouts/custom.py.
"""

import dataclasses
import functools
import importlib
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from components.inputs.advice import how_to_set
from trainer_utils.core.errors import ConfigError, InputError, did_you_mean
from trainer_utils.core.extras import entry_points
from trainer_utils.format.split_words import split_of_name

if TYPE_CHECKING:
    from components.inputs.input_table import InputTable
    from components.inputs.listing import LayoutInputs

ENTRY_POINTS = "tfx_shards.layouts"
KINDS = ("image", "text", "audio")
_MODULES = (
    "voc",
    "segmentation",
    "tiny_imagenet",
    "imagenet_list",
    "masks",
    "coco",
    "yolo",
    "webdataset",
    "split_lists",
    "common_voice",
    "ljspeech",
    "speakers",
    "list_layouts",
    "folder",
    "text_layouts",
)


class Detection(NamedTuple):
    """Whether inputs have a layout, and the reason in words."""

    is_match: bool
    reason: str

    @classmethod
    def match(cls, reason: str) -> "Detection":
        """Return a match; the reason names the evidence."""
        return cls(True, reason)

    @classmethod
    def miss(cls, reason: str) -> "Detection":
        """Return a mismatch; the reason names the missing evidence."""
        return cls(False, reason)


def _not_detected(_: "LayoutInputs") -> Detection:
    return Detection.miss("it has no detection function: select it with layout=…")


def _is_read_elsewhere(_: "LayoutInputs") -> "InputTable":
    raise AssertionError("text layouts are read in pieces: components/layouts/texts.py")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """An arrangement of files.

    Args:
        name: the value of the setting `layout`.
        kinds: the ExampleGens that can read it: `image`, `text`, `audio`.
        rank: the order of detection; lower ranks are tried first.
        tree: a drawing of the files, in several lines.
        features: the features of an example in addition to the features of its file.
        splits: the source of the splits, in words.
        refused: the inputs that are refused, in words.
        detect: function that returns whether inputs have the layout.
        read: function that returns the table of all inputs.
        takes_columns: whether the setting `columns` applies to it.
        keeps_sizes: whether its columns `height` and `width` are the image size that boxes are
            relative to.
        custom: the function that `components.layouts.layout` registered, for a custom layout.
        known: `fnmatch` patterns, relative to the root, of files that belong to the layout but
            are not read.
    """

    name: str
    kinds: tuple[str, ...]
    rank: int
    tree: str
    features: str = ""
    splits: str = ""
    refused: str = ""
    detect: Callable[["LayoutInputs"], Detection] = _not_detected
    read: Callable[["LayoutInputs"], "InputTable"] = _is_read_elsewhere
    takes_columns: bool = False
    keeps_sizes: bool = False
    known: tuple[str, ...] = ()
    custom: Callable[..., object] | None = None


_LAYOUTS: dict[str, Layout] = {}


def register(layout: Layout) -> Layout:
    """Add a layout. Raise a ConfigError if another module has registered its name."""
    known = _LAYOUTS.get(layout.name)
    if known is not None and _module_of(known) != _module_of(layout):
        allowed = f"a name that {_module_of(known)} has not registered"
        raise ConfigError.of("layout", layout.name, allowed=allowed)
    _LAYOUTS[layout.name] = layout
    return layout


def _module_of(layout: Layout) -> str:
    return str(getattr(layout.custom or layout.read, "__module__", "components.layouts"))


def all_layouts(kind: str | None = None) -> list[Layout]:
    """Return the layouts in the order of detection.

    Args:
        kind: the kind of inputs, or None for all layouts.
    """
    _load()
    layouts = sorted(_LAYOUTS.values(), key=lambda layout: (layout.rank, layout.name))
    return [layout for layout in layouts if kind is None or kind in layout.kinds]


@functools.cache
def _load() -> None:
    """Import the modules of all built-in layouts, and the modules of entry points."""
    for module in _MODULES:
        importlib.import_module(f"components.layouts.{module}")
    for point in entry_points(ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:
            raise ConfigError(
                f"entry point {point.name!r} of {ENTRY_POINTS!r}: expected an import of "
                f"{point.value!r}, got {type(error).__name__}: {error}. Fix or uninstall the "
                "package that declares it."
            ) from error


def layout_named(name: str, kind: str | None = None) -> Layout:
    """Return a layout by name.

    Args:
        name: the name of the layout.
        kind: the kind of inputs that it must read, or None.

    Raises:
        ConfigError: there is no such layout; the message suggests a similar name.
    """
    layouts = {layout.name: layout for layout in all_layouts(kind)}
    if name not in layouts:
        names = ("auto", *layouts)
        advice = did_you_mean(name, names).strip()
        if not advice and name in _LAYOUTS:
            advice = f"{name!r} is a layout for {' and '.join(_LAYOUTS[name].kinds)}"
        raise ConfigError.of(
            "layout", name, allowed=f"one of {', '.join(names)}", advice=advice.rstrip(".")
        )
    return layouts[name]


def is_custom(name: str) -> bool:
    """Return whether a layout was registered by `components.layouts.layout`."""
    if name == "auto":
        return False
    _load()
    return name in _LAYOUTS and _LAYOUTS[name].custom is not None


def check_layout_name(name: str, value: object, *, kind: str | None = None) -> object:
    """Return a valid value of the setting `layout`; raise a ConfigError for any other value.

    Args:
        name: the name of the setting.
        value: the value to check.
        kind: the kind of inputs, or None.
    """
    if value == "auto":
        return value
    if not isinstance(value, str):
        names = ", ".join(layout.name for layout in all_layouts(kind))
        raise ConfigError.of(name, value, allowed=f"one of auto, {names}")
    layout_named(value, kind)
    return value


def explain(inputs: "LayoutInputs") -> list[tuple[Layout, Detection]]:
    """Return every layout for the kind of the inputs, with its detection, in order of rank."""
    return [(layout, layout.detect(inputs)) for layout in all_layouts(inputs.media)]


def locate_layout(inputs: "LayoutInputs", name: str = "auto") -> "tuple[Layout, LayoutInputs]":
    """Return the layout, and the inputs with the root of the layout.

    If a single folder contains all files, as after unpacking an archive, a layout inside it is
    used. Class folders are read from the top, since they handle such folders.

    Args:
        inputs: the inputs.
        name: the setting `layout`.

    Raises:
        ConfigError: there is no such layout for this kind of inputs.
        InputError: two layouts of the same rank match.
    """
    layout = find_layout(inputs, name)
    if name != "auto" or layout.name != "folder" or inputs.media == "text":
        return layout, inputs
    inner = inputs
    while (folder := inner.only_folder) is not None:
        split = inner.split or split_of_name(posixpath.basename(folder))
        inner = dataclasses.replace(inner, root=folder, split=split)
        if (inner_layout := find_layout(inner)).name != "folder":
            return inner_layout, inner
    return layout, inputs


def find_layout(inputs: "LayoutInputs", name: str = "auto") -> Layout:
    """Return the named layout, or the layout of lowest rank that matches the inputs.

    Args:
        inputs: the inputs.
        name: the setting `layout`.

    Raises:
        ConfigError: there is no such layout for this kind of inputs.
        InputError: two layouts of the same rank match.
    """
    if name != "auto":
        return layout_named(name, inputs.media)
    first: tuple[Layout, Detection] | None = None
    for layout in all_layouts(inputs.media):
        if first is not None and layout.rank > first[0].rank:
            break
        if not (detection := layout.detect(inputs)).is_match:
            continue
        if first is not None:
            names = f"{first[0].name} ({first[1].reason}) and {layout.name} ({detection.reason})"
            raise InputError.at(
                inputs.base,
                expected="one layout",
                got=names,
                advice=f"Name the one to read: {how_to_set(layout=layout.name)}.",
            )
        first = layout, detection
    assert first is not None, "class folders match everything"
    return first[0]
