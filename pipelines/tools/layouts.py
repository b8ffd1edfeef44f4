"""Describe the layouts of inputs, and explain which one matches a source.

print(describe_layouts())                  # a drawing of each layout
print(describe_layouts("photos/"))         # the matching layout, and why the others do not match
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from components.layouts.registry import Layout, all_layouts, explain, locate_layout
from components.raw_inputs.recognition import KINDS, recognise
from components.raw_inputs.requests import SETTINGS
from components.steps import conversion_of
from trainer_utils.core.errors import ConfigError
from trainer_utils.core.json_text import JsonObject
from trainer_utils.core.text_output import Part, TextReport, make_table
from trainer_utils.storage import path_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutFacts:
    """A layout; `matches` and `reason` tell whether it matches the source, None without one."""

    name: str
    kinds: Sequence[str]
    tree: str
    features: str
    splits: str
    refused: str
    matches: bool | None = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayoutReport(TextReport):
    """The layouts in the order of detection, and the one that matches the source."""

    source: str | None
    kind: str | None
    seen: str | None
    taken: str | None
    layouts: Sequence[LayoutFacts]

    def to_json(self) -> JsonObject:
        """Return all fields as plain JSON types."""
        return dataclasses.asdict(self)

    def parts(self) -> list[Part]:
        """Return the lines and tables for a person."""
        if self.source is not None:
            rows = [
                [layout.name, "yes" if layout.matches else "no", layout.reason or ""]
                for layout in self.layouts
            ]
            return [
                f"{self.source}: {self.kind}, layout {self.taken} ({self.seen})",
                "",
                make_table(["layout", "matches", "why"], rows),
                "",
                "The first that matches is taken; --layout NAME takes another one.",
            ]
        parts: list[Part] = []
        for layout in self.layouts:
            parts.append(f"{layout.name} ({', '.join(layout.kinds)})")
            parts += [f"    {line}" for line in layout.tree.splitlines()]
            for title in ("features", "splits", "refused"):
                if text := getattr(layout, title):
                    parts.append(f"  {title}: {text}")
            parts.append("")
        return [*parts, "tfx-shards layouts SRC shows which one a source has."]


def describe_layouts(
    source: str | os.PathLike[str] | None = None, *, kind: str | None = None, **options: Any
) -> LayoutReport:
    """Describe all layouts, or find the layout of a source.

    Args:
        source: a folder, a list or an archive; None: describe the layouts themselves.
        kind: `image`, `text` or `audio`. None: recognised from the files.
        options: settings of the ExampleGen that select files: `ignore`, `follow_links`.

    Raises:
        InputError: the source is missing or has several kinds of files, or no layout matches.
        ConfigError: a setting is invalid.
    """
    if kind not in (None, *KINDS):
        raise ConfigError.of("kind", kind, allowed=f"one of {', '.join(KINDS)}, or None")
    if source is None:
        layouts = [_facts(layout) for layout in all_layouts(kind)]
        return LayoutReport(source=None, kind=kind, seen=None, taken=None, layouts=layouts)
    source, seen = path_of("source", source), "as asked for"
    if kind is None:
        kind, seen = recognise(source, options)
    conversion = conversion_of(source, SETTINGS[kind].from_arguments(options))
    (inputs,) = conversion.inputs()
    layout, inputs = locate_layout(inputs)
    taken = layout.name
    facts = [_facts(layout, matches, reason) for layout, (matches, reason) in explain(inputs)]
    if inputs.root and inputs.root not in inputs.files:
        seen += f", from the folder {inputs.root!r}"
    return LayoutReport(source=source, kind=kind, seen=seen, taken=taken, layouts=facts)


def _facts(layout: Layout, matches: bool | None = None, reason: str | None = None) -> LayoutFacts:
    names: Mapping[str, Any] = {f.name: f for f in dataclasses.fields(LayoutFacts)}
    facts = {name: getattr(layout, name) for name in names if hasattr(layout, name)}
    return LayoutFacts(**facts, matches=matches, reason=reason)
