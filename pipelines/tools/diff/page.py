"""What is different as a page: each change with the pictures and values of both sides.

page = render_difference(compare_datasets("datasets/4", "datasets/5", most=50))
"""

import dataclasses
from collections.abc import Mapping, Sequence

from pipelines.tools.diff.compare import KINDS, Change, Difference, Place
from pipelines.tools.html import load_template
from pipelines.tools.records import Example, ExampleReader
from pipelines.tools.records.display import describe_value
from pipelines.tools.report.pictures import Picture, draw_picture
from trainer_utils.format import DatasetError

__all__ = ["render_difference"]

_MOST_VALUES = 12  # of a record that is shown whole


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Side:
    """A record in one of the datasets, as far as it can be shown."""

    split: str
    number: int
    example: Example | None
    picture: Picture | None
    damage: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ShownChange:
    """A change, both sides of it, and the values of features: name, before, after."""

    name: str
    before: _Side | None
    after: _Side | None
    values: Sequence[tuple[str, str, str]]


def render_difference(found: Difference) -> str:
    """The page as HTML, with the changes that were listed; their records are read again.

    Raises:
        DatasetError: a dataset is gone.
    """
    readers = [ExampleReader(uri) for uri in found.uris]
    shown: Mapping[str, list[_ShownChange]] = {kind: [] for kind in KINDS}
    for change in found.changes:
        shown[change.kind].append(_show(change, readers))
    return load_template("diff/page.html").render(found=found, kinds=shown)


def _show(change: Change, readers: Sequence[ExampleReader]) -> _ShownChange:
    before, after = (
        None if place is None else _read(reader, place)
        for reader, place in zip(readers, (change.before, change.after), strict=True)
    )
    sides = [side.example for side in (before, after) if side is not None]
    names = change.features or list(
        dict.fromkeys(name for example in sides if example for name in example.values)
    )
    return _ShownChange(
        name=change.name,
        before=before,
        after=after,
        values=[(name, _value(before, name), _value(after, name)) for name in names[:_MOST_VALUES]],
    )


def _read(reader: ExampleReader, place: Place) -> _Side:
    example = picture = None
    damage = ""
    try:
        (example,) = reader.read(place.split, [place.number])
        picture = draw_picture(example)
    except DatasetError as error:
        damage = str(error)
    return _Side(
        split=place.split, number=place.number, example=example, picture=picture, damage=damage
    )


def _value(side: _Side | None, name: str) -> str:
    if side is None or side.example is None or name not in side.example.values:
        return ""
    return describe_value(side.example.values[name])
