"""Test headers of JPEG files of every kind, and chunks of PNG files written by Pillow."""

import os
import subprocess
import sys

from components.inputs.rejects import RejectedInputError
from components.media.image_structure import scan_png
from tests.components.media import variants

_SWEEP = """
import random, sys
from components.inputs.rejects import RejectedInputError
from components.media.image_structure import scan_jpeg
from components.media.images import store_image
from components.media.options import ImageOptions
from tests.components.media.variants import jpegs

NAMES = ("JPEG 2", "JPEG, progressive", "JPEG, grey", "JPEG, lossless", "JPEG, lossless grey",
         "JPEG in RGB", "JPEG in CMYK, Adobe 2")
OPTIONS = [ImageOptions(resize_shorter_side=4), ImageOptions(),
           ImageOptions(encoding="raw", resize_shorter_side=3)]
FACTORS = (0, 0x11, 0x21, 0x12, 0x22, 0x41, 0x14, 0x44, 0x31, 0x13, 0x51, 0xFF)
chance = random.Random(0)
tried = stored = 0


def attempt(data):
    global tried, stored
    for options in OPTIONS:
        tried += 1
        try:
            store_image(data, options, filename="x")
            stored += 1
        except RejectedInputError:
            pass


for name, data in jpegs():
    if name not in NAMES:
        continue
    frame = min(p for m in (0xC0, 0xC2, 0xC3) if (p := data.find(bytes([0xFF, m]))) > 0)
    components = data[frame + 9]
    for marker in range(0xC0, 0xD0):
        for precision in (0, 7, 8, 12, 16):
            changed = bytearray(data)
            changed[frame + 1], changed[frame + 4] = marker, precision
            attempt(bytes(changed))
    for marker in (0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA, 0xCB):
        for _ in range(60):
            changed = bytearray(data)
            changed[frame + 1] = marker
            for number in range(components):
                changed[frame + 11 + 3 * number] = chance.choice(FACTORS)
            if chance.random() < 0.5:
                edges = (0, 1, 2, 30, 45, 60, 90, 255, 1000)
                size = [chance.choice(edges), chance.choice(edges)]
                changed[frame + 5 : frame + 9] = b"".join(n.to_bytes(2, "big") for n in size)
            attempt(bytes(changed))
print(tried, stored)
"""


def test_no_jpeg_header_crashes_the_process():
    """Try coding processes, frames and precisions of every kind: resized, raw and unchanged."""
    done = subprocess.run(
        [sys.executable, "-c", _SWEEP],
        env=os.environ | {"MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tried, stored = map(int, done.stdout.split()[-2:])
    assert tried > 5000
    assert stored > 300


# PNG ------------------------------------------------------------------------------------------

PLAIN = variants.png(variants.PIXELS[:6, :9])


def test_each_flipped_bit_of_a_png_is_rejected_or_doubted():
    for place in range(8, len(PLAIN)):
        for bit in range(8):
            damaged = bytearray(PLAIN)
            damaged[place] ^= 1 << bit
            try:
                assert scan_png(bytes(damaged)).doubt is not None, (place, bit)
            except RejectedInputError:
                continue
