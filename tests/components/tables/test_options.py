"""What is taken of a component's settings to read its tables."""

import dataclasses

from components.example_gen.settings import AudioSettings, ImageSettings, TextSettings
from components.tables.options import TableOptions, select_settings
from components.tables.texts import TextRules


def test_every_setting_of_that_name_is_taken_and_what_is_not_set_is_the_default():
    texts = TextSettings(
        columns={"note": "ignore"},
        column_names=["text", "note"],
        header=True,
        delimiter=";",
        encoding="latin-1",
        lowercase=True,
        normalize="NFC",
        min_chars=2,
        max_chars=9,
        deduplicate=True,
    )
    options = select_settings(TableOptions, texts)
    assert options == TableOptions(
        columns={"note": "ignore"},
        column_names=["text", "note"],
        header=True,
        delimiter=";",
        encoding="iso8859-1",
    )
    assert (options.ignored, options.is_utf8) == ({"note"}, False)
    assert dataclasses.asdict(select_settings(TextRules, texts)) == {
        "lowercase": True,
        "normalize": "NFC",
        "min_chars": 2,
        "max_chars": 9,
        "deduplicate": True,
    }
    for settings in (ImageSettings(header=True), AudioSettings(header=True)):
        assert select_settings(TableOptions, settings) == TableOptions(header=True)
