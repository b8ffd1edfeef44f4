"""Where the entries of a JSON file end, against a parser that goes character by character."""

import json
import random

import pytest

from components.tables.json_entries import JsonEntries

TEXTS = ["a, b", '"', "\\", '\\"', "{[", "]}", "", "\\\\", "é,ü"]


def random_value(chance: random.Random, depth: int = 0):
    kind = chance.randrange(5 if depth < 3 else 3)
    if kind == 0:
        return chance.randrange(10**6)
    if kind < 3:
        return "".join(chance.choices(TEXTS, k=chance.randrange(4)))
    values = [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return values if kind == 3 else {f"{n},{n}": value for n, value in enumerate(values)}


def ends_of_entries(data: bytes) -> list[int]:
    """The places behind the commas of the outermost object or list."""
    ends, depth, is_text, escapes = [], 0, False, False
    for place, octet in enumerate(data):
        character = chr(octet)
        if is_text:
            is_text = escapes or character != '"'
            escapes = character == "\\" and not escapes
        elif character == '"':
            is_text = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        elif character == "," and depth == 1:
            ends.append(place + 1)
    return ends


@pytest.mark.parametrize("seed", range(20))
def test_ends_are_found_in_blocks_of_any_size(seed):
    chance = random.Random(seed)
    entries = {str(n): random_value(chance) for n in range(30)}
    data = json.dumps(entries if seed % 2 else [*entries.values()], ensure_ascii=False).encode()
    expected = ends_of_entries(data)
    assert len(expected) == 29
    for size in (1, 2, 3, 7, 50, len(data)):
        found = JsonEntries()
        for first in range(0, len(data), size):
            block = data[first : first + size]
            within = [end - first for end in expected if first < end <= first + len(block)]
            wanted = (within[0], within[-1]) if within else (0, 0)
            assert found.row_ends(block) == wanted, (size, first)
            assert first + size >= len(data) or not found.is_whole
        assert found.is_whole
