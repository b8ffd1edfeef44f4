"""Inputs as people have them: exports of labelling tools, downloads of datasets, archives.

    inputs.coco_of_label_studio(tmp_path)        # writes result.json and images/ below tmp_path

Each function writes one small input below a folder. The files are modelled on public bug reports
and on the documented form of each dataset or tool; no file of those datasets is copied. All photos
are crops of the two that scikit-learn ships.
"""

import io
import json
import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from tests.make import archive, encode, jpeg, photo, wav, write_files

LARGE = (320, 240)
SMALL = (64, 48)
CATS_AND_DOGS = ("cat", "dog")


def csv_text(*rows: str) -> str:
    return "".join(f"{row}\n" for row in rows)


def json_lines(rows: Sequence[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


# Object detection


def coco_document(
    names: Sequence[str],
    boxes: Sequence[tuple[Any, int, Sequence[float]]],
    *,
    ids: Sequence[Any],
    size: tuple[int, int] = LARGE,
) -> dict[str, Any]:
    """Return a COCO document; `boxes` are image id, category id and `[x, y, width, height]`."""
    return {
        "images": [
            {"id": image_id, "file_name": name, "width": size[0], "height": size[1]}
            for image_id, name in zip(ids, names, strict=True)
        ],
        "categories": [
            {"id": number + 1, "name": name} for number, name in enumerate(CATS_AND_DOGS)
        ],
        "annotations": [
            {
                "id": number + 1,
                "image_id": image_id,
                "category_id": category,
                "bbox": list(box),
                "area": box[2] * box[3],
                "iscrowd": 0,
                "segmentation": [],
            }
            for number, (image_id, category, box) in enumerate(boxes)
        ],
    }


def coco_of_label_studio(base: Path, count: int = 6, size: tuple[int, int] = LARGE) -> None:
    """Write what Label Studio exports as COCO: `result.json` next to `images/`."""
    names = [f"images/{number:08x}-photo.jpg" for number in range(count)]
    boxes = [
        (n, 1 + n % 2, [size[0] / 32 * (n % 8), size[1] / 12, 20.0, 16.0]) for n in range(count)
    ]
    document = coco_document(names, boxes, ids=range(count), size=size)
    write_files(base, {name: jpeg(number, size=size) for number, name in enumerate(names)})
    write_files(base, {"result.json": json.dumps(document)})


def coco_with_string_ids(base: Path) -> None:
    names = [f"{number:04x}2b-photo.jpg" for number in range(6)]
    ids = [f"img-{number}" for number in range(6)]
    boxes = [(ids[n], 1 + n % 2, [10.0 * n, 20.0, 20.0, 16.0]) for n in range(6)]
    document = coco_document(names, boxes, ids=ids)
    for annotation in document["annotations"]:
        annotation["id"] = f"ann-{annotation['id']}"
    write_files(base, {f"images/{n}": jpeg(k, size=LARGE) for k, n in enumerate(names)})
    write_files(base, {"annotations/instances_x.json": json.dumps(document)})


RED_BLOCK = (50, 200, 150, 280)
"""Left, top, right, bottom in the image as a viewer displays it."""


def rotated_photos_with_boxes(base: Path, stored: tuple[int, int]) -> None:
    """Write JPEGs with EXIF orientation 6, whose boxes are in the displayed frame.

    The document has the size of the stored pixels, as OpenCV reports it with its default flags.
    """
    left, top, right, bottom = RED_BLOCK
    exif = Image.Exif()
    exif[274] = 6
    for number in range(4):
        view = Image.open(io.BytesIO(jpeg(number, size=(stored[1], stored[0]))))
        ImageDraw.Draw(view).rectangle([left, top, right - 1, bottom - 1], fill=(255, 0, 0))
        pixels = view.transpose(Image.Transpose.ROTATE_90)
        data = encode(pixels, "JPEG", exif=exif, quality=95)
        write_files(base, {f"images/p{number}.jpg": data})
    boxes = [(n + 1, 1, [left, top, right - left, bottom - top]) for n in range(4)]
    names = [f"p{number}.jpg" for number in range(4)]
    document = coco_document(names, boxes, ids=range(1, 5), size=stored)
    write_files(base, {"annotations/instances_train.json": json.dumps(document)})


def detection_csv(base: Path, *, second_box: bool = True) -> None:
    """Write TensorFlow's detection CSV: a row per box, in pixels."""
    rows = [f"p{n}.jpg,320,240,cat,{10 + n},20,{100 + n},80" for n in range(4)]
    if second_box:
        rows.append("p0.jpg,320,240,dog,150,100,200,200")
    write_files(base, {f"p{n}.jpg": jpeg(n, size=LARGE) for n in range(4)})
    header = "filename,width,height,class,xmin,ymin,xmax,ymax"
    write_files(base, {"labels.csv": csv_text(header, *rows)})


def voc_document(name: str, size: tuple[int, int], boxes: Mapping[str, Sequence[int]]) -> str:
    objects = "".join(
        f"<object><name>{label}</name><pose>Unspecified</pose><truncated>0</truncated>"
        f"<difficult>0</difficult><bndbox><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin>"
        f"<xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>"
        for label, box in boxes.items()
    )
    return (
        f"<annotation><folder></folder><filename>{name}</filename><size><width>{size[0]}</width>"
        f"<height>{size[1]}</height><depth>3</depth></size><segmented>0</segmented>{objects}"
        "</annotation>"
    )


def voc_of_roboflow(base: Path) -> None:
    """Write VOC as Roboflow exports it: each XML file next to its image, in split folders."""
    files: dict[str, bytes | str] = {
        "README.dataset.txt": "# x > 2023\nhttps://universe.roboflow.com/x\n",
        "README.roboflow.txt": "\nx - v1\n==============\n\nExported via roboflow.com\n",
    }
    for number in range(8):
        folder = "valid" if number % 4 == 3 else "train"
        name = f"a{number}_jpg.rf.{number:08x}.jpg"
        files[f"{folder}/{name}"] = jpeg(number, size=LARGE)
        document = voc_document(name, LARGE, {"cat": (10, 20, 110, 100)})
        files[f"{folder}/{name[:-4]}.xml"] = document
    write_files(base, files)


def yolo_of_ultralytics(base: Path) -> None:
    """Write `images/<split>`, `labels/<split>` and `data.yaml`; image 5 has no label file."""
    names = "names:\n  0: cat\n  1: dog\n"
    yaml = f"path: .\ntrain: images/train\nval: images/val\n{names}"
    files: dict[str, bytes | str] = {"data.yaml": yaml}
    for number in range(8):
        split = "val" if number % 4 == 3 else "train"
        files[f"images/{split}/p{number}.jpg"] = jpeg(number, size=LARGE)
        if number != 5:
            boxes = csv_text(f"{number % 2} 0.5 0.5 0.25 0.25", "1 0.2 0.2 0.1 0.1")
            files[f"labels/{split}/p{number}.txt"] = boxes
    write_files(base, files)


# Captions and other lists


def captions(base: Path, list_name: str = "captions.txt", folder: str = "") -> None:
    """Write Flickr8k's form: five captions per image, one on each row."""
    rows = [
        f'p{n}.jpg,"Caption {k} of photo {n} , with a dog ."' for n in range(4) for k in range(5)
    ]
    write_files(base, {f"{folder}p{n}.jpg": jpeg(n, size=SMALL) for n in range(4)})
    write_files(base, {list_name: csv_text("image,caption", *rows)})


def _hub_split(number: int) -> str:
    return "test" if number % 3 == 2 else "train"


def hub_folder_with_one_list(base: Path) -> None:
    """Write the Hub's ImageFolder with one list, whose paths begin with the split."""
    files = {f"{_hub_split(n)}/{n}.jpg": jpeg(n, size=SMALL) for n in range(6)}
    rows = [{"file_name": name, "text": f"text of {n}"} for n, name in enumerate(files)]
    write_files(base, {**files, "metadata.jsonl": json_lines(rows)})


def hub_folder_with_list_per_split(base: Path) -> None:
    write_files(base, {f"{_hub_split(n)}/{n}.jpg": jpeg(n, size=SMALL) for n in range(6)})
    for split in ("train", "test"):
        rows = [f"{n}.jpg,text of {n}" for n in range(6) if _hub_split(n) == split]
        write_files(base, {f"{split}/metadata.csv": csv_text("file_name,text", *rows)})


CHEST_LABELS = ("Cardiomegaly", "Cardiomegaly|Emphysema", "No Finding")


def chest_xrays(base: Path) -> None:
    """Write NIH ChestX-ray14's form: a header that ends with a comma, `A|B` labels, two folders."""
    header = (
        "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,"
        "View Position,OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
    )
    rows = []
    for number in range(12):
        name = f"{number // 3 + 1:08d}_{number % 3:03d}.png"
        data = photo(number, "PNG", "L", (64, 64))
        write_files(base, {f"images_{1 + number // 6:03d}/images/{name}": data})
        label = CHEST_LABELS[number % 3]
        end = f"{number % 3:03d},{number // 3 + 1},058Y,M,PA,2682,2749,0.143,0.143,"
        rows.append(f"{name},{label},{end}")
    write_files(base, {"Data_Entry_2017.csv": csv_text(header, *rows)})


RETINA_IDS = ("000c14", "0024cd", "00a8e6", "012345", "1e5", "0083ee", "00cc2b", "00f6c1")


def ids_without_endings(base: Path) -> None:
    """Write APTOS's form: ids without endings, some like numbers; float labels, one blank."""
    write_files(base, {f"train_images/{i}.png": photo(n, "PNG") for n, i in enumerate(RETINA_IDS)})
    rows = [f"{i},{'' if n == 3 else float(n % 5)}" for n, i in enumerate(RETINA_IDS)]
    write_files(base, {"train.csv": csv_text("id_code,diagnosis", *rows)})


def list_from_windows(base: Path) -> None:
    """Write a list with semicolons, backslashes, decimal commas, CRLF and cp1252."""
    rows = ["image;label;note;weight"]
    for number in range(6):
        label = ("Aepfel", "Birne")[number % 2]
        write_files(base, {f"bilder/{label}/p{number}.jpg": jpeg(number, size=SMALL)})
        rows.append(f"bilder\\{label}\\p{number}.jpg;{label};schön {number};0,{number}5")
    (base / "liste.csv").write_bytes(("\r\n".join(rows) + "\r\n").encode("cp1252"))


# Folders, links and archives


def linked_split(base: Path, count: int = 8) -> None:
    """Write a split folder `photos/valid` that is a link to a folder next to `photos`."""
    for number in range(count):
        folder = "photos/train" if number < count * 3 // 4 else "valid"
        label = CATS_AND_DOGS[number % 2]
        write_files(base, {f"{folder}/{label}/p{number}.jpg": jpeg(number, size=SMALL)})
    os.symlink("../valid", base / "photos/valid")


def linked_photos(base: Path) -> None:
    """Write photos that are links into a cache, as DVC and the Hub's snapshots have them."""
    for number in range(8):
        target = f"{number:02x}/cdef{number:02d}"
        write_files(base, {f"cache/{target}": jpeg(number, size=SMALL)})
        folder = base / "photos/train" / CATS_AND_DOGS[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        os.symlink(f"../../../cache/{target}", folder / f"p{number}.jpg")


def photos_in_split_folders(base: Path) -> None:
    """Write `Training/` and `Testing/`, as the brain tumour datasets of Kaggle have them."""
    for number in range(12):
        folder = f"{'Testing' if number > 8 else 'Training'}/{('glioma', 'notumor')[number % 2]}"
        write_files(base, {f"{folder}/p{number}.jpg": jpeg(number, size=SMALL)})


def avif_and_heic_among_jpegs(base: Path, *, with_heic: bool = True) -> None:
    """Write class folders with one AVIF photo and one HEIC header without an image."""
    for number in range(12):
        kind = "AVIF" if number == 3 else "JPEG"
        name = f"{CATS_AND_DOGS[number % 2]}/p{number}.{'avif' if kind == 'AVIF' else 'jpg'}"
        write_files(base, {name: photo(number, kind, size=SMALL)})
    if with_heic:
        header = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + b"\0" * 200
        write_files(base, {"cat/IMG_0001.HEIC": header})


def archive_of_a_mac(base: Path) -> None:
    """Write what unpacking a Mac's zip and copying it with Windows leaves between 200 photos."""
    apple_double = b"\0\5\26\7\0\2\0\0Mac OS X        " + b"\0" * 100
    for number in range(200):
        name = f"{CATS_AND_DOGS[number % 2]}/p{number}.jpg"
        write_files(base, {f"photos/{name}": jpeg(number)})
        label, _, file = name.partition("/")
        write_files(base, {f"__MACOSX/photos/{label}/._{file}": apple_double})
    junk: dict[str, bytes | str] = {
        "photos/cat/._p0.jpg": apple_double,
        "photos/.DS_Store": b"\0\0\0\1Bud1" + b"\0" * 60,
        "photos/cat/Thumbs.db": b"\xd0\xcf\x11\xe0" + b"\0" * 60,
        "photos/dog/desktop.ini": "[ViewState]\r\nMode=\r\n",
    }
    write_files(base, junk)


IMAGENET_IDS = ("n01443537", "n01629819", "n01641577")


def tiny_imagenet(base: Path) -> None:
    """Write tiny-imagenet-200: `train/<id>/images/`, and the labels of `val/images/` in a list."""
    files: dict[str, bytes | str] = {}
    lines = []
    for number in range(24):
        label, data = IMAGENET_IDS[number % 3], jpeg(number, size=(64, 64))
        if number < 15:
            files[f"train/{label}/images/{label}_{number}.JPEG"] = data
        elif number < 21:
            files[f"val/images/val_{number}.JPEG"] = data
            lines.append(f"val_{number}.JPEG\t{label}\t0\t32\t44\t62")
        else:
            files[f"test/images/test_{number}.JPEG"] = data
    for label in IMAGENET_IDS:
        boxes = [
            f"{label}_{n}.JPEG\t0\t10\t63\t58" for n in range(15) if IMAGENET_IDS[n % 3] == label
        ]
        files[f"train/{label}/{label}_boxes.txt"] = csv_text(*boxes)
    files["val/val_annotations.txt"] = csv_text(*lines)
    files["wnids.txt"] = csv_text(*IMAGENET_IDS)
    files["words.txt"] = csv_text(*(f"{i}\tname {n}" for n, i in enumerate(IMAGENET_IDS)))
    write_files(base, files)


def web_dataset_with_restarting_keys(base: Path) -> None:
    """Write two archives whose keys restart at 000."""
    for shard in range(2):
        members: dict[str, bytes | str] = {}
        for number in range(3):
            members[f"{number:03d}.jpg"] = jpeg(shard * 3 + number, size=SMALL)
            members[f"{number:03d}.cls"] = str(shard)
        write_files(base, {f"train-{shard}.tar": archive(members)})


def web_dataset_of_timm(base: Path) -> None:
    """Write archives whose names have the split as their second word."""
    for split, count in (("train", 2), ("validation", 1)):
        for shard in range(count):
            members: dict[str, bytes | str] = {}
            for number in range(4):
                members[f"{split}{shard}_{number}.jpg"] = jpeg(number, size=SMALL)
                members[f"{split}{shard}_{number}.cls"] = str(number % 2)
            width = 4 if split == "train" else 2
            name = f"imagenet1k-{split}-{shard:0{width}d}.tar"
            write_files(base, {name: archive(members)})


def sixteen_bit_pngs(base: Path) -> None:
    """Write 16-bit grey PNGs whose values end at 4095, as converted DICOM files have them."""
    for number in range(4):
        values = np.asarray(Image.open(io.BytesIO(photo(number, "PNG", "L", (128, 128)))))
        values = values.astype(np.uint16) * 16
        values[0, :4] = [0, 255, 256, 4095]
        data = encode(Image.fromarray(values), "PNG")
        write_files(base, {f"{'ab'[number % 2]}/p{number}.png": data})


def large_jpeg(base: Path, side: int = 14093) -> None:
    """Write one JPEG of 198.6 megapixels next to a small one."""
    tile = Image.open(io.BytesIO(jpeg(0, size=(512, 400))))
    whole = Image.new("RGB", (side, side))
    for left in range(0, side, 512):
        for top in range(0, side, 400):
            whole.paste(tile, (left, top))
    write_files(base, {"a/big.jpg": encode(whole, "JPEG", quality=60), "a/small.jpg": jpeg(1)})


# Audio


def common_voice(base: Path) -> None:
    """Write Common Voice's lists, which overlap, with quotes that are not CSV's."""
    header = (
        "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment"
    )
    rows = [
        f"c{n % 3}\tcommon_voice_en_{n}.mp3\t{sentence}\t2\t0\t\t\t\ten\t"
        for n, sentence in enumerate(COMMON_VOICE_SENTENCES)
    ]
    other = [f"c9\tcommon_voice_en_{n}.mp3\tother {n}\t0\t0\t\t\t\ten\t" for n in (6, 7)]
    lists = {
        "train": rows[:3],
        "dev": rows[3:4],
        "test": rows[4:],
        "validated": rows,
        "other": other,
    }
    write_files(base, {f"{name}.tsv": csv_text(header, *part) for name, part in lists.items()})
    clips = {f"clips/common_voice_en_{n}.mp3": _mp3(n) for n in range(8)}
    write_files(base, clips)


COMMON_VOICE_SENTENCES = (
    '"Yes?" he said.',
    '"open',
    "plain words",
    "it's fine",
    'he said "no"',
    "last one",
)


def _mp3(number: int) -> bytes:
    import soundfile

    stream = io.BytesIO()
    wave = 0.3 * np.sin(np.arange(8000) * (number + 1) / 20)
    soundfile.write(stream, wave.astype(np.float32), 16000, format="MP3")
    return stream.getvalue()


def wav_of_pipes(base: Path) -> None:
    """Write WAV files whose data size is the placeholder that ffmpeg and sox write to a pipe."""
    for size in (0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF, None):
        folder = "good" if size is None else f"size_{size:x}"
        for number in range(2):
            wave = 8000 * np.sin(np.arange(8000) / 8000 * 2 * np.pi * (300 + 100 * number))
            samples = wave.astype("<i2").tobytes()
            data_size = len(samples) if size is None else size
            riff_size = min(data_size + 36, 0xFFFFFFFF)
            header = b"RIFF" + struct.pack("<I", riff_size) + b"WAVEfmt "
            header += struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
            header += b"data" + struct.pack("<I", data_size)
            write_files(base, {f"{folder}/s{number}.wav": header + samples})


def speech_commands(base: Path, per_word: int = 6) -> None:
    """Write Speech Commands: lists name the clips of two splits, all others are for training."""
    files: dict[str, bytes | str] = {
        "_background_noise_/pink_noise.wav": wav(99, frames=8000),
        "_background_noise_/README.md": "Pink noise.\n",
        "README.md": "## Speech Commands Data Set v0.02\n",
        "LICENSE": "Creative Commons BY 4.0\n",
    }
    lists: dict[str, list[str]] = {"validation": [], "testing": []}
    for offset, word in enumerate(("yes", "no", "up")):
        for number in range(per_word):
            name = f"{word}/{number:08x}_nohash_0.wav"
            files[name] = wav(offset * 1000 + number)
            if number % 6 >= 4:
                lists["validation" if number % 6 == 4 else "testing"].append(name)
    for split, names in lists.items():
        files[f"{split}_list.txt"] = csv_text(*names)
    write_files(base, files)


# Tables and text


def hive_partitions(base: Path, *, spark: bool = True) -> None:
    """Write `label=<value>/part-<n>.csv`, with Spark's marker and checksum."""
    for label in ("pos", "neg"):
        for part in range(2):
            rows = [f"{label} text {part} {n} of some words,{n}" for n in range(4)]
            write_files(base, {f"label={label}/part-{part}.csv": csv_text("text,stars", *rows)})
    if spark:
        write_files(base, {"_SUCCESS": b"", "._SUCCESS.crc": b"crc\0\0\0\2\0\0\0\0\0"})


CHATS: list[list[dict[str, Any]]] = [
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Q{number}?"},
        {"role": "assistant", "content": f"A{number}."},
    ][number % 2 :]
    for number in range(6)
]
TOOL_CALL: dict[str, Any] = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}],
}


def chats(base: Path) -> None:
    write_files(base, {"chats.jsonl": json_lines([{"messages": chat} for chat in CHATS])})


def chats_with_tool_calls(base: Path) -> None:
    rows = [[*CHATS[0], TOOL_CALL], *CHATS[1:]]
    write_files(base, {"chats.jsonl": json_lines([{"messages": chat} for chat in rows])})


def _write_parquet(path: Path, columns: Mapping[str, Any], fields: Any, features: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table(dict(columns), schema=pa.schema(fields, metadata=metadata))
    pq.write_table(table, path)


def hub_texts_as_parquet(base: Path) -> None:
    """Write the Hub's Parquet of texts: class names in its metadata, -1 for the labels of test."""
    import pyarrow as pa

    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    }
    splits = {"train": [0, 1, 1, 0, 1, 0], "validation": [1, 0], "test": [-1, -1, -1]}
    for split, labels in splits.items():
        texts = [f"{split} words {number} here" for number in range(len(labels))]
        path = base / f"data/{split}-00000-of-00001.parquet"
        fields = [("text", pa.string()), ("label", pa.int64())]
        _write_parquet(path, {"text": texts, "label": labels}, fields, features)


def hub_images_as_parquet(base: Path) -> None:
    """Write a clone of a Hub repository of images in Parquet."""
    import pyarrow as pa

    features = {
        "image": {"_type": "Image"},
        "label": {"names": ["cat", "dog"], "_type": "ClassLabel"},
    }
    struct_of_bytes = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    for split, first in (("train", 0), ("test", 6)):
        images = [{"bytes": jpeg(first + n, size=SMALL), "path": f"{n}.jpg"} for n in range(6)]
        labels = [number % 2 for number in range(6)]
        path = base / f"data/{split}-00000-of-00001.parquet"
        fields = [("image", struct_of_bytes), ("label", pa.int64())]
        _write_parquet(path, {"image": images, "label": labels}, fields, features)
    readme = "---\nlicense: mit\n---\n# x\n"
    write_files(base, {"README.md": readme, ".gitattributes": "*.parquet filter=lfs\n"})


TIMES = [
    *(1700000000123456789 + number for number in range(4)),
    1700000000123456000,
    1700000000000000000,
    None,
]


def parquet_with_nanoseconds(base: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    base.mkdir(parents=True, exist_ok=True)
    texts = [f"row {number} of text" for number in range(7)]
    table = pa.table({"text": texts, "at": pa.array(TIMES, pa.timestamp("ns"))})
    pq.write_table(table, base / "t.parquet", version="2.6")


# Further exports and downloads


def coco_of_roboflow(base: Path) -> None:
    """Write Roboflow's COCO: `_annotations.coco.json` next to the images of each split."""
    for split, numbers in (("train", range(6)), ("valid", range(6, 8)), ("test", range(8, 10))):
        names = [f"p{number}_jpg.rf.{number:08x}.jpg" for number in numbers]
        boxes = [(place, 1 + place % 2, [32, 24, 64, 48]) for place in range(len(names))]
        document = coco_document(names, boxes, ids=range(len(names)))
        files = {f"{split}/{n}": jpeg(k, size=LARGE) for k, n in zip(numbers, names, strict=True)}
        write_files(base, files)
        write_files(base, {f"{split}/_annotations.coco.json": json.dumps(document)})
    write_files(base, {"README.roboflow.txt": "x - v1\n"})


def automl_boxes(base: Path) -> None:
    """Write AutoML Vision's list without a header: two of four corners, relative."""
    write_files(base, {f"images/{number}.jpg": jpeg(number, size=LARGE) for number in range(6)})
    rows = [
        f"{'TRAIN' if number < 4 else 'TEST'},images/{number}.jpg,cat,0.1,0.1,,,0.5,0.5,,"
        for number in range(6)
    ]
    write_files(base, {"annotations.csv": csv_text(*rows)})


def classes_numbered_alike(base: Path, wrapper: str = "") -> None:
    """Write class folders whose files all have the same numbers, as Caltech-101 has them."""
    for offset, label in enumerate(("accordion", "camera", "lamp")):
        for number in range(5):
            name = f"{wrapper}{label}/image_{number:04d}.jpg"
            write_files(base, {name: jpeg(offset * 50 + number)})


def captions_of_coco(base: Path) -> None:
    """Write COCO's captions: no boxes, five captions per image."""
    names = [f"{number:012d}.jpg" for number in range(4)]
    document = {
        "images": [
            {"id": number, "file_name": name, "width": 64, "height": 48}
            for number, name in enumerate(names)
        ],
        "annotations": [
            {"id": 5 * n + k, "image_id": n, "caption": f"caption {k} of {n}"}
            for n in range(4)
            for k in range(5)
        ],
    }
    write_files(base, {f"train2017/{n}": jpeg(k, size=SMALL) for k, n in enumerate(names)})
    write_files(base, {"annotations/captions_train2017.json": json.dumps(document)})


def instructions(base: Path) -> None:
    """Write Alpaca's form: one JSON array of instructions."""
    rows = [{"instruction": f"do {n}", "input": "", "output": f"done {n}"} for n in range(6)]
    write_files(base, {"alpaca_data.json": json.dumps(rows)})


def nested_copy_of_splits(base: Path) -> None:
    """Write Kaggle's chest X-rays: the folder of the splits contains a copy of itself."""
    for split in ("train", "val", "test"):
        for offset, label in enumerate(("NORMAL", "PNEUMONIA")):
            for number in range(3):
                name = f"{split}/{label}/{label}-{number}.jpeg"
                data = jpeg(offset * 9 + number)
                write_files(base, {f"chest/{name}": data, f"chest/chest/{name}": data})
