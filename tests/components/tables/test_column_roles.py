"""Labels, their ids, and text columns."""

import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tables.column_roles import TextRules, label_ids, make_vocabularies
from components.tables.pieces import Rows
from trainer_utils.core.errors import InputError

TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1)
LABELS = st.lists(TEXTS.map(lambda text: unicodedata.normalize("NFC", text)), min_size=1)


@given(LABELS)
def test_label_ids_follow_the_byte_order_of_labels(labels):
    vocabulary = make_vocabularies({"label": labels}, given={})["label"]
    assert list(vocabulary) == sorted({*labels}, key=lambda label: label.encode())
    ids = label_ids(pa.array([*labels, None]), vocabulary).to_pylist()
    assert ids == [*(vocabulary.index(label) for label in labels), None]
    lists = label_ids(pa.array([labels, []], pa.list_(pa.string())), vocabulary).to_pylist()
    assert lists == [ids[:-1], []]


def test_given_vocabulary_keeps_order_and_excludes_others():
    made = make_vocabularies({"label": {"a", "b"}}, given={"label": ("b", "c")})
    assert made == {"label": ("b", "c")}
    assert label_ids(pa.array(["a", "b", "c"]), made["label"]).to_pylist() == [None, 0, 1]


@pytest.mark.parametrize("form", ["NFD", "NFKD"])
def test_labels_in_two_unicode_forms_need_a_vocabulary(form):
    labels = ("caf\u00e9", unicodedata.normalize(form, "caf\u00e9"))
    with pytest.raises(InputError, match=r"'cafe\\u0301' and 'caf\\xe9', which look alike"):
        make_vocabularies({"label": {*labels, "dog"}}, given={})
    assert make_vocabularies({"label": {*labels}}, given={"label": labels}) == {"label": labels}


def test_list_column_as_text_raises():
    rows = Rows({"text": pa.array([["a", "b"], ["c"]])}, found=2)
    with pytest.raises(InputError, match="text"):
        TextRules().apply(rows, ["text"])
