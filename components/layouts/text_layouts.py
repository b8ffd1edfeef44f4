"""Register the text layouts `json` and `lines`, and detect the other layouts of text files.

`components/layouts/texts.py` reads rows of text in pieces, so these layouts have no `read`.
"""

import functools

from components.inputs.listing import LayoutInputs
from components.layouts import texts
from components.layouts.registry import Detection, Layout, register
from trainer_utils.core.errors import InputError
from trainer_utils.storage import display_path


def detect_text(kind: str, inputs: LayoutInputs) -> Detection:
    """Detect a layout of text files.

    Args:
        kind: the name of the layout.
        inputs: the inputs.
    """
    try:
        detected, paths = texts.recognise(inputs, "auto")
    except InputError as error:
        return Detection.miss(str(error))
    if detected != kind:
        return Detection.miss(f"read as {detected}")
    return Detection.match(display_path(paths[0]) if paths else "text files in folders")


_TREES = {
    "json": 'all.json: {"1": {"text": "Good.", "label": "pos"}, …} or [{"text": …}, …]',
    "lines": "train.txt: one text per line\neval.txt",
}
_SPLITS = {
    "json": "the column split, or files named after splits",
    "lines": "files named after splits",
}
for _kind, _tree in _TREES.items():
    register(
        Layout(
            name=_kind,
            kinds=("text",),
            rank=70,
            tree=_tree,
            features="the keys of the objects" if _kind == "json" else "text",
            splits=_SPLITS[_kind],
            detect=functools.partial(detect_text, _kind),
            takes_columns=True,
        )
    )
