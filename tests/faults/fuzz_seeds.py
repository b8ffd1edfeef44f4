"""Small good inputs of each target of `fuzz_targets`, to begin from, made by other libraries.

seeds()["image"]                     # [a PNG, a JPEG, a GIF, …]
"""

import io
import json
import struct
import tarfile

import numpy as np
import soundfile
from PIL import Image

from tests.faults.tfrecords import frame
from trainer_utils.format import Accounting, Manifest, RecordIndex, Shard
from trainer_utils.format.manifest import FileDigest
from trainer_utils.order import FileRange, InputOrder, OrderOptions

__all__ = ["seeds"]

_VOC = b"""<annotation><size><width>9</width><height>8</height></size><object><name>dog</name>
<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>6</ymax></bndbox></object></annotation>"""
_COCO = {
    "images": [{"id": 1, "file_name": "a.jpg", "width": 9, "height": 8}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 12, "iscrowd": 0}
    ],
    "categories": [{"id": 3, "name": "dog"}],
}
_TFDS = "tensorflow_datasets.core.features"
_TFDS_FEATURES = {
    "pythonClassName": f"{_TFDS}.features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "label": {
                "pythonClassName": f"{_TFDS}.class_label_feature.ClassLabel",
                "classLabel": {"numClasses": "10"},
            },
            "image": {
                "pythonClassName": f"{_TFDS}.image_feature.Image",
                "image": {"shape": {"dimensions": ["28", "28", "1"]}, "encodingFormat": "png"},
            },
        }
    },
}
_TFDS_INFO = {
    "name": "mnist",
    "fileFormat": "tfrecord",
    "splits": [
        {
            "name": "train",
            "shardLengths": ["3", "4"],
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }
    ],
}
_DATUM = {"image": {"type": "image", "shape": [], "dense": 1}, "id": {"type": "int", "shape": []}}
_EXAMPLE = (  # {"id": [7], "t": [b"ab"]}, as protobuf writes it
    b"\n\x1a\n\x0b\n\x02id\x12\x05\x1a\x03\n\x01\x07\n\x0b\n\x01t\x12\x06\n\x04\n\x02ab"
)
_EXIF = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06" + bytes(7)


def seeds() -> dict[str, list[bytes]]:
    """By the target's name."""
    texts = {
        "datum": [json.dumps(_DATUM), json.dumps({"train": {"Split-train/a": 3}})],
        "tfds": [json.dumps(_TFDS_FEATURES), json.dumps(_TFDS_INFO)],
        "rejects": ['{"path": "a.jpg", "code": "EMPTY_FILE", "detail": "0 bytes"}\n'],
        "slices": ["train[:80%]", "train[10:20]+eval", "train[-5:]+eval[:1]", "train[3%:]"],
        "state": [_token()],
        "csv": ['id,text,stars\n1,"a ""b"", c",4.5\n2,é,\n', 'text\n"a\nb"\n'],
        "tsv": ["id\ttext\n1\ta b\n2\t\n"],
        "jsonl": ['{"id": 1, "text": "a", "more": {"x": [1, 2]}}\n{"id": 2, "text": null}\n'],
        "json": ['{"a": {"text": "x", "n": 1}, "b": {"text": "y", "n": 2}}', '[{"text": "x"}]'],
        "coco": [json.dumps(_COCO)],
    }
    return {
        **{name: [text.encode() for text in found] for name, found in texts.items()},
        "manifest": [_manifest()],
        "index": [RecordIndex(np.array([20, 3, 77], np.uint32)).to_bytes(), _npy()],
        "records": [frame(_EXAMPLE) + frame(b"") + frame(_EXAMPLE)],
        "image": _images(),
        "audio": _sounds(),
        "tar": [_tar(tarfile.USTAR_FORMAT), _tar(tarfile.PAX_FORMAT), _tar(tarfile.GNU_FORMAT)],
        "xml": [_VOC],
    }


def _token() -> str:
    options = OrderOptions(batch_size=8, shuffle=16)
    order = InputOrder([FileRange("a", 0, 100)], options, num_workers=2)
    return order.state(5).to_json()


def _manifest() -> bytes:
    path = "Split-train/data_tfrecord-00000-of-00001"
    shard = Shard(path=path, split="train", records=3, bytes=99, crc32c=5, content=7)
    manifest = Manifest(
        shards=(shard,),
        accounting={"train": Accounting(found=4, written=3, rejected=1)},
        producer="ImageExampleGen",
        config={"seed": 1},
        input_fingerprint="0",
        reject_counts={"EMPTY_FILE": 1},
        files={"schema.pbtxt": FileDigest.of(b"feature {}")},
    )
    return manifest.to_json().encode()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.arange(5, dtype=np.uint32))
    return stream.getvalue()


def _images() -> list[bytes]:
    pixels = np.arange(9 * 7 * 3, dtype=np.uint8).reshape(7, 9, 3)
    image, found = Image.fromarray(pixels), []
    for kind, options in {
        "PNG": {},
        "JPEG": {"exif": _EXIF},
        "GIF": {},
        "BMP": {},
        "WEBP": {},
        "TIFF": {},
    }.items():
        stream = io.BytesIO()
        image.save(stream, kind, **options)
        found.append(stream.getvalue())
    stream = io.BytesIO()
    image.save(stream, "JPEG", progressive=True, quality=30)
    return [*found, stream.getvalue()]


def _sounds() -> list[bytes]:
    wave, found = np.sin(np.arange(60) / 3), []
    for kind, subtype in (("WAV", "PCM_16"), ("FLAC", "PCM_16"), ("OGG", "VORBIS")):
        stream = io.BytesIO()
        soundfile.write(stream, wave, 8000, format=kind, subtype=subtype)
        found.append(stream.getvalue())
    frames = b"\xff\xfb\x10\xc4" + bytes(100)  # a header of MPEG 1 layer 3
    return [*found, frames * 2, struct.pack("<4sI4s", b"RIFF", 4, b"WAVE")]


def _tar(form: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        for name, data in {"a.jpg": b"x" * 9, "d" * 90 + "/ü.cls": b"3"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()[: 512 * 8]
