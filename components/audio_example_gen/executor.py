"""The engine of all ExampleGens of files, for audio."""

from collections.abc import Iterable

from components.audio_example_gen.settings import AudioSettings
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing
from components.example_gen import lists
from components.example_gen.executor import MediaExecutor
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import (
    names_at_top,
    read_simple,
    without_reserved,
)

__all__ = ["Executor"]


class Executor(MediaExecutor):
    """Executor of AudioExampleGen."""

    producer, unit, media = "AudioExampleGen", "sounds", "audio"
    settings_class = AudioSettings

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return lists.is_list(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> Listing:  # noqa: D102
        return without_reserved(read_simple(inputs, layout=layout))

    def what_was_looked_for(self, names: Iterable[str]) -> str:  # noqa: D102
        return (
            f"Looked for a list of sounds ({', '.join(LISTS)}), and sounds in folders; "
            f"at its top: {names_at_top(names)}."
        )
