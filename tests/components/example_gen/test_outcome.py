"""Where no example is left, the error says why."""

import pytest

from trainer_utils.format import InputError


def test_where_all_inputs_are_rejected_the_error_has_the_first_reason(convert):
    rows = '[{"text": "a"},\n{"text": "b"}]\n'
    with pytest.raises(InputError, match=r"2 rejected, first 't\.jsonl:1': BAD_JSON, .*expected"):
        convert({"t.jsonl": rows}, max_reject_fraction=1)
