"""Files of archives, COCO and Pascal VOC, and what a listing of them says."""

import io
import json
import tarfile
from pathlib import Path
from xml.etree import ElementTree

CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "traffic light"}]


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


def one(tmp_path, write, text: bytes, name: str = "a"):
    files = {f"JPEGImages/{name}.jpg": b"image", f"Annotations/{name}.xml": text}
    return write(tmp_path / "in", **files)


def write_tar(path: Path, files: dict[str, bytes | str], **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, options.pop("mode", "w"), **options) as archive:
        for name, content in files.items():
            data = content if isinstance(content, bytes) else content.encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def in_archive(tmp_path: Path, entry) -> bytes:
    (blob,) = entry.blobs
    return (tmp_path / blob.path).read_bytes()[blob.offset : blob.offset + blob.size]
