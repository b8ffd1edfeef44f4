import click
import pytest

from pipelines.cli.values import Bytes, Counts, Size, parse_json_or_text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("134217728", 128 << 20),
        ("128MiB", 128 << 20),
        ("128m", 128 << 20),
        ("128 MB", 128_000_000),
        ("1.5GiB", 3 << 29),
        ("2kB", 2000),
    ],
)
def test_bytes_have_units(text, number):
    assert Bytes().convert(text, None, None) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "1.2.3", "MiB", "1 XiB", "0.1"])
def test_other_bytes_are_refused(text):
    with pytest.raises(click.BadParameter, match="expected"):
        Bytes().convert(text, None, None)


def test_sizes_and_counts():
    assert Size().convert("224", None, None) == (224, 224)
    assert Size().convert("96x128", None, None) == (96, 128)
    assert Counts().convert("train=8, eval=2", None, None) == {"train": 8, "eval": 2}
    assert Counts(bare=True).convert("8", None, None) == 8
    for text in ("train=8,train=2", "train", "tr ain=1", ""):
        with pytest.raises(click.BadParameter, match="expected train=8,eval=2"):
            Counts().convert(text, None, None)


def test_settings_are_json_or_text():
    assert parse_json_or_text("quality=80") == ("quality", 80)
    assert parse_json_or_text("shuffle=false") == ("shuffle", False)
    assert parse_json_or_text('columns={"a": "int"}') == ("columns", {"a": "int"})
    assert parse_json_or_text("layout=voc") == ("layout", "voc")
    assert parse_json_or_text("delimiter==") == ("delimiter", "=")
    assert parse_json_or_text("group_by=") == ("group_by", "")
