"""Folders of images and lists, and what is found in them."""

from pathlib import Path
from typing import Any

from components.common.file_table import FileTable
from components.common.input_table import InputTable
from components.common.layout_inputs import ImageRoot, LayoutInputs
from components.layouts import read_layout
from trainer_utils.storage import list_files

IMAGES = ("1.jpg", "2.jpg", "sub/3.jpg")


def listed(base: Path, *, layout: str = "auto", roots: tuple[Path, ...] = (), **columns: str):
    """Reads a folder whose images are stand-ins: a list never opens them."""
    return read_layout(
        LayoutInputs(
            base=str(base),
            root="",
            files=FileTable.of(list_files(str(base))),
            columns=columns,
            image_roots=tuple(
                ImageRoot(str(root), FileTable.of(list_files(str(root)))) for root in roots
            ),
        ),
        layout=layout,
    )


def folder(base: Path, images: tuple[str, ...] = IMAGES, **texts: str) -> Path:
    for name in images:
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).write_bytes(b"an image")
    for name, text in texts.items():
        (base / name.replace("__", ".")).write_text(text)
    return base


def found(listing: InputTable) -> dict[str, Any]:
    return {entry.name: (entry.split, *entry.values) for entry in listing.entries}
