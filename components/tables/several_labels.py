"""Recognise fields with several labels, which would become a class of their own.

find_several_labels(["cat", "dog", "cat|dog"])        # ('cat|dog', '|')
find_several_labels(["cat", "dog", "cat dog"])        # ('cat dog', ' ')
find_several_labels(["hot dog", "['cat', 'dog']"])    # ("['cat', 'dog']", '')
"""

import collections
import re
from collections.abc import Collection

_LIST_OR_OBJECT = re.compile(r"""\[\s*(?:['"\d{\[].*)?\]|\{\s*['"].*\}""", re.DOTALL)
_SURE, _LIKELY = "|", ";"
_POSSIBLE = (",", " ")  # they also occur in the names of classes, such as `hot dog`


def find_several_labels(labels: Collection[str]) -> tuple[str, str] | None:
    """Return a label that looks like several, and the character between them; else None.

    A `|` is enough. With a `;`, a part must occur in another label. With a comma or a space, every
    part must be a label by itself.

    Args:
        labels: the different labels of a column.

    Returns:
        The label, and an empty string as the character if it is a list or an object.
    """
    for label in labels:
        if _LIST_OR_OBJECT.fullmatch(label.strip()):
            return label, ""
    several = next((label for label in labels if _SURE in label), None)
    if several is not None:
        return several, _SURE
    several = next((label for label in labels if _LIKELY in label), None)
    if several is not None:
        counts = collections.Counter(part for label in labels for part in _parts(label, _LIKELY))
        if any(counts[part] > 1 for part in _parts(several, _LIKELY)):
            return several, _LIKELY
    known = {label.strip() for label in labels}
    for separator in _POSSIBLE:
        for label in labels:
            parts = _parts(label, separator)
            if separator in label.strip() and len(parts) > 1 and known.issuperset(parts):
                return label, separator
    return None


def _parts(label: str, separator: str) -> list[str]:
    return [*filter(None, map(str.strip, label.split(separator)))]
