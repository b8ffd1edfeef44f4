"""Files of COCO annotations."""

import json

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
