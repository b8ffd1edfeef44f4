"""JSON of one object or array, cut into pieces between its entries."""

import gzip
import json

import pytest

from components.tables import pieces
from trainer_utils.format import InputError


def small_pieces(monkeypatch, *, piece_bytes: int = 1, block_bytes: int = 64) -> None:
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "piece_bytes", piece_bytes)
    monkeypatch.setattr(pieces, "_BLOCK_BYTES", block_bytes)


@pytest.mark.parametrize("form", ["by key", "list"])
def test_a_file_of_json_is_cut_between_its_entries_and_gives_the_same_rows(
    convert, monkeypatch, form
):
    entries = [{"text": f'a "{n}", {{\\', "label": {"n": n}, "x": [n, n]} for n in range(40)]
    value = {f"k{n},": entry for n, entry in enumerate(entries)} if form == "by key" else entries
    data = json.dumps(value, indent=1).encode()
    whole = convert({"t.json": data}).by_id()
    small_pieces(monkeypatch)
    assert convert({"t.json": data}).by_id() == whole
    assert convert({"t.json.gz": gzip.compress(data)}).texts().keys() == {
        name.replace("t.json", "t.json.gz") for name in whole
    }


def test_a_key_that_stands_twice_in_a_large_file_is_rejected_the_second_time(convert, monkeypatch):
    entries = "".join(f'"{n % 20}": {{"text": "t{n}"}},\n' for n in range(40))
    data = f'{{{entries}"end": {{"text": "e"}}}}'
    for block_bytes in (1 << 20, 64, 7):
        small_pieces(monkeypatch, block_bytes=block_bytes)
        dataset = convert({"t.json": data}, max_reject_fraction=0.5)
        expected = {f"t.json:{n}": f"t{n}" for n in range(20)} | {"t.json:end": "e"}
        assert dataset.texts() == expected
        assert [line["code"] for line in dataset.rejects] == ["DUPLICATE_KEY"] * 20


@pytest.mark.parametrize("end", ["", "}", "]}", "},", "}}}", ",}", '"', "]", '}, "b": 1 2}'])
def test_a_file_of_json_that_is_not_whole_is_refused_in_pieces_too(convert, monkeypatch, end):
    data = '{"a": {"text": "x", "n": [1]}, "c": {"text": "y"' + end
    with pytest.raises(ValueError, match=r".") as truth:
        json.loads(data)
    assert truth
    for block_bytes in (1 << 20, 8):
        small_pieces(monkeypatch, block_bytes=block_bytes)
        with pytest.raises(InputError, match=r"'t\.json': expected JSON"):
            convert({"t.json": data})


def test_an_entry_of_json_that_is_too_long_is_rejected_and_the_others_are_read(
    convert, monkeypatch
):
    monkeypatch.setitem(pieces.cut.__kwdefaults__, "max_row_bytes", 2000)
    small_pieces(monkeypatch, block_bytes=500)
    data = json.dumps({"a": {"text": "x"}, "b": {"text": "y" * 9000}, "c": {"text": "z"}})
    dataset = convert({"t.json": data}, max_reject_fraction=0.5)
    assert dataset.texts() == {"t.json:a": "x", "t.json:c": "z"}
    assert [line["code"] for line in dataset.rejects] == ["TOO_LARGE"]


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


@pytest.mark.parametrize("word", ["NaN", "-Infinity"])
@pytest.mark.parametrize("column", ["text", "x"])
def test_no_text_is_made_of_nan_where_a_file_holds_nothing_else(convert, word, column):
    row = f'{{"{column}": {word}}}\n'
    words = "".join(f'{{"{column}": "{text}"}}\n' for text in "abc")
    with pytest.raises(InputError, match=rf"column '{column}'.*(nan|inf) among texts.*b\.jsonl"):
        convert({"a.jsonl": words, "b.jsonl": row})
