"""Register the layouts `csv`, `tsv`, `jsonl` and `parquet`: tables whose rows name files."""

import functools

from components.inputs.input_table import InputTable, with_excluded
from components.inputs.listing import LayoutInputs, select_readable
from components.layouts import lists
from components.layouts.names import LISTS
from components.layouts.refusals import refuse_layout
from components.layouts.registry import Detection, Layout, register
from components.layouts.text_layouts import detect_text
from trainer_utils.storage import display_path


def _find(inputs: LayoutInputs, kind: str) -> list[str]:
    """Return the lists of a kind, or of all kinds if the layout was detected."""
    return lists.find(inputs, kind=kind if inputs.layout in LISTS else None)


def _detect(kind: str, inputs: LayoutInputs) -> Detection:
    if inputs.media == "text":
        return detect_text(kind, inputs)
    paths = lists.find(inputs)
    # With lists of several kinds, the first decides. `lists.read` raises if they disagree.
    if not paths or lists.kind_of(inputs, paths[0]) != kind:
        return Detection.miss(f"no {kind.upper()} file at the top")
    return Detection.match(display_path(paths[0]))


def _read(kind: str, inputs: LayoutInputs) -> InputTable:
    if not (paths := _find(inputs, kind)):
        named = inputs.names.get("csv_path")
        what = f"a {kind.upper()} file" if named is None else f"the csv_path {named!r}"
        refuse_layout(inputs, kind, what)
    good, excluded = select_readable(inputs, paths, "a list")
    return with_excluded(lists.read(inputs, good), excluded)


_ROWS = {
    "csv": "image,label,split\n  1.jpg,cat,train",
    "tsv": "image<tab>label\n  1.jpg<tab>cat",
    "jsonl": '{"image": "1.jpg", "label": "cat"}',
    "parquet": "image, label, split",
}
for _kind in LISTS:
    register(
        Layout(
            name=_kind,
            kinds=("image", "audio", "text"),
            rank=60,
            tree=f"list.{_kind}: {_ROWS[_kind]}\n1.jpg",
            features="the other columns",
            splits="the column split, or lists named after splits",
            refused="several lists that are not named after splits; a row that cannot be read",
            detect=functools.partial(_detect, _kind),
            read=functools.partial(_read, _kind),
            takes_columns=True,
        )
    )
