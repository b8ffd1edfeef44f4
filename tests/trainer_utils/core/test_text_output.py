"""Lines and tables: plain, on a terminal, and of hostile data."""

import io
import re

import pytest
import rich.console

from trainer_utils.core.text_output import as_text, make_table, print_parts


def test_plain_text_is_neither_folded_nor_painted():
    path = "/x" * 3000
    rows = [["bad", path]]
    text = as_text([path, make_table(None, rows, styles={"bad": "red"})])
    assert text.splitlines() == [path, f"bad  {path}"]


@pytest.mark.parametrize("data", ["a\x1b[2Jb", "a\nforged  1", "\u202ex", "[red]x[/red]", "\udce9"])
def test_data_neither_drives_a_terminal_nor_forges_a_line(data):
    text = as_text([data, make_table([data], [[data]])])
    assert len(set(text.splitlines())) == 1
    assert len(text.splitlines()) == 3
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800-\udfff]", text)
    assert "[red]x[/red]" in text or "\\" in text


def test_a_terminal_gets_colours_and_tables_of_its_width(monkeypatch, capsys):
    terminal = io.StringIO()
    make_console = rich.console.Console
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **options: make_console(
            file=terminal, force_terminal=True, color_system="standard", width=30, **options
        ),
    )
    line = "word " * 20
    print_parts([line, make_table(None, [["bad", "word " * 10]], styles={"bad": "red"})])
    first, *table = terminal.getvalue().splitlines()
    assert first.rstrip() == line.rstrip()
    assert "\x1b[31mbad" in table[0]
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in table]
    assert len(plain) == 2
    assert max(map(len, plain)) <= 30
    assert plain[1].startswith("     word")
