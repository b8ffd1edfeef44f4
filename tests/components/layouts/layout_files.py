"""Build archives, COCO and Pascal VOC files, and read them with a layout."""

import json
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from components.inputs.input_table import InputTable
from components.inputs.listing import FileTable, LayoutInputs
from components.inputs.rejects import Reject, render_rejects
from components.layouts.reading import read_layout
from tests.make import archive, write_files
from trainer_utils.storage import list_files

CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "traffic light"}]


def read(
    base: Path, layout: str = "auto", columns: Mapping[str, str] | None = None, **names: str
) -> InputTable:
    """Read a folder with a layout. Images may be placeholders, since no layout opens them.

    Assert that every reject can be written, with any bytes in its name.
    """
    files = FileTable.of(list_files(str(base)))
    inputs = LayoutInputs(base=str(base), root="", files=files, names=names, columns=columns or {})
    listing = read_layout(inputs, layout=layout)
    rejects = [Reject("train", o.name, o.code, o.detail) for o in listing.excluded if o.code]
    assert len(render_rejects(rejects).encode().splitlines()) == len(rejects)
    return listing


def image(number: int, name: str) -> dict:
    return {"id": number, "file_name": name, "width": 200, "height": 100}


def thing(image_id: int, category: int, bbox: list, **more: int) -> dict:
    return {"image_id": image_id, "category_id": category, "bbox": bbox, **more}


def instances(images: list, annotations: list) -> str:
    return json.dumps({"images": images, "annotations": annotations, "categories": CATEGORIES})


def values(listing) -> dict[str, dict]:
    names = [column.name for column in listing.columns]
    return {e.name: dict(zip(names, e.values, strict=True)) for e in listing.entries}


def annotation(*objects: tuple, size: tuple[int, int] = (500, 375)) -> bytes:
    root = ElementTree.Element("annotation")
    sizes = ElementTree.SubElement(root, "size")
    for name, value in zip(("width", "height"), size, strict=True):
        ElementTree.SubElement(sizes, name).text = str(value)
    for label, xmin, ymin, xmax, ymax in objects:
        thing = ElementTree.SubElement(root, "object")
        for name, text in (("name", label), ("pose", "Left"), ("truncated", "1")):
            ElementTree.SubElement(thing, name).text = text
        ElementTree.SubElement(thing, "difficult").text = "0"
        box = ElementTree.SubElement(thing, "bndbox")
        for name, value in (("xmin", xmin), ("ymin", ymin), ("xmax", xmax), ("ymax", ymax)):
            ElementTree.SubElement(box, name).text = str(value)
    return ElementTree.tostring(root)


def one(tmp_path, text: bytes, name: str = "a"):
    files = {f"JPEGImages/{name}.jpg": b"image", f"Annotations/{name}.xml": text}
    return write_files(tmp_path / "in", files)


def write_tar(path: Path, files: dict[str, bytes | str], **options) -> Path:
    return write_files(path.parent, {path.name: archive(files, **options)}) / path.name


def in_archive(tmp_path: Path, entry) -> bytes:
    (blob,) = entry.blobs
    return (tmp_path / blob.path).read_bytes()[blob.offset : blob.offset + blob.size]
