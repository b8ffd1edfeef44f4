"""Texts that are numbers, against Python's own `int` and `float`."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from hypothesis import given
from hypothesis import strategies as st

from components.tables.casting import cast_column
from components.tables.kinds import column_facts, decide_column
from trainer_utils.format import InputError

FLOAT32 = float(np.finfo(np.float32).max)


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(-FLOAT32, FLOAT32))
def test_every_number_as_python_writes_it_is_one_in_lists_and_in_tables(number):
    text = repr(number)
    kind = "int" if isinstance(number, int) else "float"
    for values in ([text], [text, "1" if kind == "int" else "0.25"]):
        facts = column_facts(pa.array(values), np.arange(len(values)), are_texts=True)
        decided = decide_column("x", [(0, facts)], given=None, is_text=False, place=lambda *_: "")
        assert decided is not None
        assert decided.kind == kind
        read = cast_column(pa.array(values), decided, floats=pa.float64())
        assert read[0].as_py() == number


@given(st.text(st.sampled_from("0123456789+-_.,eExn aif \uff11\u0663"), min_size=1, max_size=8))
def test_what_is_taken_for_a_number_can_be_written_again_as_it_was(text):
    """Python's own reading is the truth: a number that it reads, and writes in the same way."""
    facts = column_facts(pa.array([text]), np.arange(1), are_texts=True)
    try:
        decided = decide_column("x", [(0, facts)], given=None, is_text=False, place=lambda *_: "")
    except InputError:
        is_too_large = abs(float(text)) > FLOAT32
        assert is_too_large
        return
    assert decided is not None
    if decided.kind == "int":
        assert str(int(text)) == text
    elif decided.kind == "float":
        assert "." in text or "e-" in text.lower() or "e+" in text.lower()
        whole = text.lower().partition("e")[0].partition(".")[0]
        assert whole in ("-0", str(int(whole)))
