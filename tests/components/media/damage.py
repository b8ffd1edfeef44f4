"""Damaged files, derived from intact ones: bits flipped, parts cut, doubled, zeroed and swapped."""

import random
from collections.abc import Iterator, Sequence

from PIL import Image
from sklearn.datasets import load_sample_images

from tests.make import encode


def whole_files() -> list[bytes]:
    """Return some dozens of JPEG, PNG, GIF and BMP files of real photos."""
    files: list[bytes] = []
    for photo in load_sample_images().images:
        for top, left in ((0, 0), (100, 200), (200, 350)):
            image = Image.fromarray(photo[top : top + 160, left : left + 200])
            grey = image.convert("L")
            clear = image.copy()
            clear.putalpha(grey)
            for options in (
                {},
                {"progressive": True},
                {"optimize": True},
                {"subsampling": 0, "quality": 92},
                {"restart_marker_blocks": 4},
            ):
                files.append(encode(image, "JPEG", **options))
            files.append(encode(grey, "JPEG"))
            files += [encode(one, "PNG") for one in (image, grey, clear)]
            files.append(encode(image.convert("P", palette=Image.Palette.ADAPTIVE), "GIF"))
            files.append(encode(image, "BMP"))
    return files


def damaged(
    files: Sequence[bytes], number: int, *, seed: int, head_bytes: int = 800
) -> Iterator[bytes]:
    """Yield `number` files, each with one kind of damage; half of them in their headers."""
    chance = random.Random(seed)
    for _ in range(number):
        yield _damaged(bytearray(chance.choice(files)), files, chance, head_bytes)


def _damaged(
    data: bytearray, files: Sequence[bytes], chance: random.Random, head_bytes: int
) -> bytes:
    end = min(len(data), head_bytes) if chance.random() < 0.5 else len(data)
    place = chance.randrange(2, end)
    other = chance.choice(files)
    start, stop = sorted((chance.randrange(len(other)), chance.randrange(len(other))))
    match chance.randrange(8):
        case 0:
            for _ in range(chance.randrange(1, 9)):
                data[chance.randrange(2, end)] ^= 1 << chance.randrange(8)
        case 1:
            for _ in range(chance.randrange(1, 5)):
                data[chance.randrange(2, end)] = chance.randrange(256)
        case 2:
            del data[chance.randrange(20, len(data)) :]
        case 3:
            del data[place : place + chance.randrange(1, 200)]
        case 4:
            data[place : place + chance.randrange(300)] = other[start : min(stop, start + 300)]
        case 5:
            data[place : place + 100] = bytes(len(data[place : place + 100]))
        case 6:
            data[place:place] = data[place : place + chance.randrange(1, 300)]
        case _:
            data[chance.randrange(20, len(data)) :] = other[start:]
    return bytes(data)
