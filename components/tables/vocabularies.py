"""Labels and their ids."""

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from trainer_utils.format import ConfigError, InputError
from trainer_utils.format.errors import did_you_mean
from trainer_utils.format.naming import vocabulary_file
from trainer_utils.format.printable import printable
from trainer_utils.storage.file_system import display_path


def make_vocabularies(
    labels: Mapping[str, Iterable[str]],
    *,
    given: Mapping[str, tuple[str, ...]],
    known: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, tuple[str, ...]]:
    """The vocabulary of each feature of labels: as given, or its values, sorted.

    Where none is given, labels that are `known` come first, whose ids do not move.

    Raises:
        ConfigError: one is given for no such feature.
        InputError: a label cannot be a line of a file, or two that were not given look alike.
    """
    for name in given:
        if name not in labels:
            allowed = f"a feature of labels ({', '.join(labels) or 'there is none'})"
            meant = did_you_mean(name, labels).strip()
            raise ConfigError.of("vocabulary", name, allowed=allowed, advice=meant)
    vocabularies = {}
    for name, values in labels.items():
        found = [*(known or {}).get(name, ()), *sorted(set(values), key=os.fsencode)]
        vocabularies[name] = given.get(name) or tuple(dict.fromkeys(found))
        vocabulary_file(name)  # refuses a name that no file can have
        forms: dict[str, str] = {}
        for label in vocabularies[name]:
            rule = None
            if "\n" in label or "\r" in label:
                rule = "one line, since a vocabulary has one each"
            elif label != display_path(label):
                rule = "a name in UTF-8. Rename that folder"
            if rule:
                raise InputError(f"{printable(name)} {display_path(label)!r}: expected {rule}.")
            # In two of Unicode's forms, as copies from a Mac and others' have it.
            other = forms.setdefault(unicodedata.normalize("NFC", label), label)
            if other != label and name not in given:
                raise InputError(
                    f"{printable(name)} {label!r}: expected one spelling of it, got {other!a} and "
                    f"{label!a}, which look alike (Unicode normal forms). Rename one, or say that "
                    "they are two classes: name both in the setting vocabulary."
                )
    return vocabularies


def label_ids(array: pa.Array, vocabulary: Sequence[str]) -> pa.Array:
    """Texts, or lists of them, as places in a vocabulary; null where it lacks one."""
    values = pa.array(vocabulary, pa.string())
    if pa.types.is_list(array.type):
        ids = pc.index_in(array.values, value_set=values).cast(pa.int64())
        return pa.ListArray.from_arrays(array.offsets, ids)
    return pc.index_in(array, value_set=values, skip_nulls=True).cast(pa.int64())
