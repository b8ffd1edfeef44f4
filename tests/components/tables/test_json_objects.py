"""JSON of one object or array, and the columns of its objects."""

import gzip
import json

import pytest

from trainer_utils.format import InputError


def test_a_packed_file_of_json_gives_the_same_rows(convert):
    entries = [{"text": f'a "{n}", {{\\', "label": {"n": n}, "x": [n, n]} for n in range(4)]
    texts = [entry["text"] for entry in entries]
    for value in ({f"k{n},": entry for n, entry in enumerate(entries)}, entries):
        data = json.dumps(value, indent=1).encode()
        for name, packed in {"t.json": data, "t.json.gz": gzip.compress(data)}.items():
            assert sorted(convert({name: packed}).texts().values()) == texts


def test_a_file_of_json_that_is_not_whole_is_refused(convert):
    for end in ("", "}", "]}", "},", ",}", '"', '}, "b": 1 2}'):
        data = '{"a": {"text": "x", "n": [1]}, "c": {"text": "y"' + end
        with pytest.raises(InputError, match=r"'t\.json': expected JSON"):
            convert({"t.json": data})


MIXTURES = {
    "whole and not": ["1", "2.5", '"x"', '"y"', '"z"'],
    "written as floats": ["1.0", "1", "-0.0", '"x"', '"y"', '"z"', '"w"'],
    "truths": ["true", "2", "false", '"x"', '"y"', '"z"', '"w"'],
    "large": ["1e20", "1e-7", "9007199254740991", '"x"', '"y"', '"z"', '"w"'],
}


@pytest.mark.parametrize("values", MIXTURES.values(), ids=MIXTURES)
def test_numbers_among_texts_are_the_same_texts_wherever_a_file_is_cut(convert, values):
    lines = [f'{{"text": {v}, "x": {v}, "label": {v}}}\n' for v in values]
    numbers = sum('"' not in value for value in values)
    together = convert({"t.jsonl": "".join(lines)})
    apart = convert({f"{place:02}.jsonl": line for place, line in enumerate(lines)})
    halves = convert({"a.jsonl": "".join(lines[:numbers]), "b.jsonl": "".join(lines[numbers:])})

    def found(dataset):
        return [row for _, row in sorted(dataset.by_id().items(), key=lambda pair: pair[0])]

    assert found(together) == found(apart) == found(halves)
