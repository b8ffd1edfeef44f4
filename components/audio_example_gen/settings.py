"""The settings of AudioExampleGen, checked where they are made.

AudioSettings(audio=AudioOptions(sample_rate=16_000), vocabulary=["yes", "no"])
"""

import dataclasses

from components.example_gen.media_settings import MediaSettings
from components.example_gen.settings import LISTS, column_name
from components.media.options import AudioOptions
from trainer_utils.format.settings import group, one_of, setting

__all__ = ["AudioSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioSettings(MediaSettings):
    """Those of all media, and the layouts of audio."""

    layout: str = setting(
        "auto",
        one_of("auto", "folder", *LISTS),
        "`auto`, or the name of one: `folder` (`<split>/<class>/…`, `<class>/…`), `csv`, `tsv`, "
        "`jsonl`, `parquet`.",
    )
    group_by: str | None = setting(
        None,
        column_name,
        "a column, such as a speaker's id: rows with equal values go to the same split; or "
        "`near_duplicates`: sounds of the same bytes do.",
    )
    audio: AudioOptions = group(AudioOptions)
