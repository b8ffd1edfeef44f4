"""What it costs to look at a photo: µs for each way to verify, beside opening it with Pillow.

    python benchmarks/image_checks.py

Photos of 500 x 375 that are kept as they are. How many damaged files are found is a test's to say:
`tests/components/media/test_variants.py`.
"""

import functools
import io
import time
from collections.abc import Callable
from typing import Any

from PIL import Image
from sklearn.datasets import load_sample_images

from components.media.images import store_image
from components.media.options import ImageOptions

_KINDS: dict[str, dict[str, Any]] = {
    "JPEG": {"format": "JPEG", "quality": 93},
    "progressive JPEG": {"format": "JPEG", "quality": 93, "progressive": True},
    "PNG": {"format": "PNG"},
    "GIF": {"format": "GIF"},
    "BMP": {"format": "BMP"},
}


def microseconds(work: Callable[[], object], times: int = 100, runs: int = 7) -> float:
    """The best of some runs, for one call."""
    best = float("inf")
    for _ in range(runs):
        started = time.perf_counter()
        for _ in range(times):
            work()
        best = min(best, time.perf_counter() - started)
    return best / times * 1e6


def _open(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def main() -> None:
    """Measures and prints."""
    photo = Image.fromarray(load_sample_images().images[0]).resize((500, 375))
    print("| µs a photo | KB | `structure` | `decode` | Pillow's `open` |")
    print("|---|---:|---:|---:|---:|")
    for name, options in _KINDS.items():
        stream = io.BytesIO()
        (photo.quantize() if name == "GIF" else photo.copy()).save(stream, **options)
        data = stream.getvalue()
        ways: list[Callable[[], object]] = [
            functools.partial(store_image, data, ImageOptions(verify=verify), filename="x")
            for verify in ("structure", "decode")
        ]
        ways.append(functools.partial(_open, data))
        figures = " | ".join(f"{microseconds(way):.0f}" for way in ways)
        print(f"| {name} | {len(data) // 1000} | {figures} |")


if __name__ == "__main__":
    main()
