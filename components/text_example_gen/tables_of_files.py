"""Tables whose rows name images or sounds: the engine of all ExampleGens of files, for these."""

import dataclasses
from collections.abc import Iterable

from components.common.beam import LocalFirstBeamExecutor
from components.common.layout_inputs import LayoutInputs
from components.common.listing import Listing
from components.example_gen import lists
from components.example_gen.executor import MediaExecutor
from components.example_gen.media_settings import MediaSettings
from components.example_gen.settings import LISTS
from components.example_gen.simple_layouts import (
    names_at_top,
    read_simple,
    without_reserved,
)

__all__ = ["TableOfFilesExecutor"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Settings(MediaSettings):
    """Those of all media: a table is one of the lists."""


class TableOfFilesExecutor(MediaExecutor):
    """What TextExampleGen does where `columns` has images or audio."""

    producer, unit, media = "TextExampleGen", "rows", "image"
    settings_class = _Settings

    @classmethod
    def like(cls, other: LocalFirstBeamExecutor) -> "TableOfFilesExecutor":
        """One that runs as another executor does."""
        executor = cls()
        executor.__dict__.update(other.__dict__)  # where TFX keeps how Beam is run
        return executor

    def is_source_file(self, path: str) -> bool:  # noqa: D102
        return lists.is_list(path)

    def read_layout(self, inputs: LayoutInputs, layout: str) -> Listing:  # noqa: D102
        return without_reserved(read_simple(inputs, layout=layout))

    def what_was_looked_for(self, names: Iterable[str]) -> str:  # noqa: D102
        return f"Looked for a table ({', '.join(LISTS)}); at its top: {names_at_top(names)}."
