"""Folders as Pascal VOC lays them out."""

from xml.etree import ElementTree


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


# From here on: sets, names, hostile files, and the count of all inputs.


def one(tmp_path, write, text: bytes, name: str = "a"):
    files = {f"JPEGImages/{name}.jpg": b"image", f"Annotations/{name}.xml": text}
    return write(tmp_path / "in", **files)
