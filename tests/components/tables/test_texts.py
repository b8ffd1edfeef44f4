"""What is done to texts before they are kept."""

import pyarrow as pa
import pytest

from components.tables.rows import Rows
from components.tables.texts import TextRules
from trainer_utils.format import InputError


def test_a_column_of_lists_holds_no_texts():
    rows = Rows({"text": pa.array([["a", "b"], ["c"]])}, found=2)
    with pytest.raises(InputError, match="text"):
        TextRules().apply(rows, ["text"])
