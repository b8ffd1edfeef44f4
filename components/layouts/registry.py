"""The layouts that inputs can have, and the one that some inputs do have.

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

`detect` looks at names first and reads as little as it can; a million files must cost seconds.
`read` gives an entry for each example, and excludes with a code what it rejects; it raises an
`InputError` for everything that it cannot read as it is meant. Files that belong to the layout but
are not read (sets of classes, licences) are matched by `known` patterns; any other file that is
neither read nor of the media type ends the run (components/layouts/meaningful.py).

Ranks: the lowest rank that matches wins, and two matches of one rank are refused. Custom layouts
have rank 0, layouts with folders of fixed names 10 to 49, archives 50, lists 60, class folders 100.

Layouts of other packages are registered by import, or by an entry point of the group
`tfx_shards.layouts` whose name is the layout's: see components/layouts/custom.py.
"""

import dataclasses
import functools
import importlib
import importlib.metadata
import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from components.common.advice import how_to_set
from trainer_utils.format.errors import ConfigError, InputError, did_you_mean
from trainer_utils.format.split_words import split_of_name

if TYPE_CHECKING:
    from components.common.entry import InputTable
    from components.common.layout_inputs import LayoutInputs

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
    """Whether inputs have a layout, and by what that is seen, in words."""

    is_match: bool
    reason: str

    @classmethod
    def match(cls, reason: str) -> "Detection":
        """Return a match; the reason names what was found."""
        return cls(True, reason)

    @classmethod
    def miss(cls, reason: str) -> "Detection":
        """Return no match; the reason names what is missing."""
        return cls(False, reason)


def _not_detected(_: "LayoutInputs") -> Detection:
    return Detection.miss("it declares no detection: name it, layout=…")


def _is_read_elsewhere(_: "LayoutInputs") -> "InputTable":
    raise AssertionError("text layouts are read in pieces: components/layouts/texts.py")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """One way in which files are arranged.

    Args:
        name: the value of the setting `layout`.
        kinds: the ExampleGens that read it: `image`, `text`, `audio`.
        rank: lower ranks are tried first.
        tree: a drawing of the files, several lines.
        features: the features of an example in addition to those of its file.
        splits: where the splits come from.
        refused: what is refused, in words.
        detect: says whether inputs have the layout.
        read: makes the table of all inputs.
        takes_columns: whether the setting `columns` is for it.
        keeps_sizes: whether its `height` and `width` are those that its boxes are relative to.
        custom: the function of a layout that `components.layouts.layout` registered.
        known: patterns of `fnmatch`, relative to the root, of files that belong to the layout
            although they are not read.
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
    """Add a layout; one of the same name that another module registered is an error."""
    known = _LAYOUTS.get(layout.name)
    if known is not None and _module_of(known) != _module_of(layout):
        allowed = f"a name that {_module_of(known)} has not registered"
        raise ConfigError.of("layout", layout.name, allowed=allowed)
    _LAYOUTS[layout.name] = layout
    return layout


def _module_of(layout: Layout) -> str:
    return str(getattr(layout.custom or layout.read, "__module__", "components.layouts"))


def all_layouts(kind: str | None = None) -> list[Layout]:
    """Return the layouts, those of one kind or all, in the order in which they are tried."""
    _load()
    layouts = sorted(_LAYOUTS.values(), key=lambda layout: (layout.rank, layout.name))
    return [layout for layout in layouts if kind is None or kind in layout.kinds]


@functools.cache
def _load() -> None:
    """Import the modules of all layouts, and those that entry points name."""
    for module in _MODULES:
        importlib.import_module(f"components.layouts.{module}")
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:
            raise ConfigError(
                f"entry point {point.name!r} of {ENTRY_POINTS!r}: expected an import of "
                f"{point.value!r}, got {type(error).__name__}: {error}. Fix or uninstall the "
                "package that declares it."
            ) from error


def layout_named(name: str, kind: str | None = None) -> Layout:
    """Return the layout of a name; a ConfigError names the one that was meant."""
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
    """Return a value of the setting `layout`, or raise a ConfigError: the setting's rule."""
    if value == "auto":
        return value
    if not isinstance(value, str):
        names = ", ".join(layout.name for layout in all_layouts(kind))
        raise ConfigError.of(name, value, allowed=f"one of auto, {names}")
    layout_named(value, kind)
    return value


def explain(inputs: "LayoutInputs") -> list[tuple[Layout, Detection]]:
    """Return every layout for the kind of the inputs with its detection, first the one taken."""
    return [(layout, layout.detect(inputs)) for layout in all_layouts(inputs.media)]


def locate_layout(inputs: "LayoutInputs", name: str = "auto") -> "tuple[Layout, LayoutInputs]":
    """Return the layout, and the inputs from the folder where it begins.

    A folder that wraps all files, as an archive that was unpacked leaves it, is descended if there
    is a layout in it; class folders are read from the top, since they know wrappers.
    """
    layout = find_layout(inputs, name)
    if name != "auto" or layout.name != "folder" or inputs.media == "text":
        return layout, inputs
    inner = inputs
    while (folder := inner.only_folder) is not None:
        split = inner.split or split_of_name(posixpath.basename(folder))
        inner = dataclasses.replace(inner, root=folder, split=split)
        if (found := find_layout(inner)).name != "folder":
            return found, inner
    return layout, inputs


def find_layout(inputs: "LayoutInputs", name: str = "auto") -> Layout:
    """Return the layout that is named, or the first in rank that the inputs have.

    Raises:
        ConfigError: there is no layout of that name for this kind of inputs.
        InputError: two layouts of the same rank match.
    """
    if name != "auto":
        return layout_named(name, inputs.media)
    first: tuple[Layout, Detection] | None = None
    for layout in all_layouts(inputs.media):
        if first is not None and layout.rank > first[0].rank:
            break
        if not (found := layout.detect(inputs)).is_match:
            continue
        if first is not None:
            names = f"{first[0].name} ({first[1].reason}) and {layout.name} ({found.reason})"
            raise InputError.at(
                inputs.base,
                expected="one layout",
                got=names,
                advice=f"Name the one to read: {how_to_set(layout=layout.name)}.",
            )
        first = layout, found
    assert first is not None, "class folders match everything"
    return first[0]
