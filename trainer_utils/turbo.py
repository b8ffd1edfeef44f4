"""Batches of encoded images decoded by simplejpeg and OpenCV, in threads, in place.

    decoder = TurboDecoder(reading, channels=3)
    pixels = decoder.decode(encoded, seeds)     # (batch,) string to (batch, height, width, 3)

Their pixels are TensorFlow's: those of JPEGs to the bit, after the resize within a level. What is no
plain JPEG (other formats, CMYK, damage) is decoded by TensorFlow, with its results and errors.
`pip install 'tfx-shards[turbo]'` brings both packages.
"""

import contextlib
import dataclasses
import functools
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.buffers import Buffers
from trainer_utils.crops import Box, centre_box, dct_ratio_index, inner_extent, is_mirrored
from trainer_utils.jpeg_head import JpegHead
from trainer_utils.machine import usable_cores

if TYPE_CHECKING:
    from trainer_utils.images import ImageReading

__all__ = ["TurboDecoder", "batches_at_once", "is_turbo_installed"]

_COLOURS = {1: "GRAY", 3: "RGB"}
_PLAIN = ("YCbCr", "Gray")
_SMALLEST_SCALED = 16  # pixels; of less, simplejpeg's choice of a scale is not clear
_MARGIN = 2  # rows below a part that smoothing of colours looks at

Pixels = npt.NDArray[np.uint8]


@functools.cache
def is_turbo_installed() -> bool:
    """Whether the packages are there."""
    return all(importlib.util.find_spec(name) for name in ("simplejpeg", "cv2"))


def batches_at_once(rows: int | None) -> int:
    """How many batches are decoded at a time, so that no core waits for the last image of one."""
    return 2 + usable_cores() // max(rows or 1, 1)


@dataclasses.dataclass(frozen=True)
class _Plan:
    """What becomes of one image; `begin` and `extent` of the decoded part, None: all of it."""

    head: JpegHead | None
    ratio: int
    window: tuple[int, int, int, int] | None
    target: tuple[int, int]
    is_mirrored: bool


class TurboDecoder:
    """Decodes batches as `reading` says.

    Args:
        reading: with a size, or for images that are all of one.
        channels: 1 or 3.
        formats: all that may come, where the dataset says so.
    """

    def __init__(
        self, reading: "ImageReading", *, channels: int, formats: Sequence[str] = ()
    ) -> None:
        import cv2

        cv2.setNumThreads(1)  # the threads are ours
        self._reading = reading
        self._channels = channels
        self._normalization = reading.normalization(channels)
        self._buffers = Buffers()
        plain = dataclasses.replace(reading, normalize=None, decoder="tensorflow")
        self._by_tensorflow = tf.function(
            lambda encoded, seed: plain.decode(
                encoded, channels=channels, seed=seed, formats=formats
            ),
            input_signature=[tf.TensorSpec((), tf.string), tf.TensorSpec((2,), tf.int64)],
            autograph=False,
        )

    @property
    def _dtype(self) -> tf.DType:
        return tf.as_dtype("uint8" if self._normalization is None else self._normalization.dtype)

    def decode(self, encoded: tf.Tensor, seeds: tf.Tensor | None) -> tf.Tensor:
        """Decodes images in one call.

        Args:
            encoded: `(batch,) string`.
            seeds: `(batch, 2) int64`, where the reading is random.

        Returns:
            `(batch, height, width, channels)`, of the dtype that the reading says.
        """
        arguments = [encoded] if seeds is None else [encoded, seeds]
        pixels = tf.numpy_function(self._decoded, arguments, self._dtype)
        size = self._reading.size or (None, None)
        return tf.ensure_shape(pixels, [encoded.shape[0], *size, self._channels])

    def _decoded(
        self, encoded: npt.NDArray[Any], seeds: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[Any]:
        images = encoded.tolist()
        plans = self._plans(images, seeds)
        if seeds is None:
            seeds = np.zeros((len(images), 2), np.int64)
        size = self._reading.size or _common_size(plans)
        dtype = self._dtype.as_numpy_dtype
        if size is None:  # of images whose size TensorFlow's decoder alone can tell
            made = [self._by_tensorflow(*one).numpy() for one in zip(images, seeds, strict=True)]
            batch = self._buffers.take((len(images), *made[0].shape), dtype)
            for row, pixels in zip(batch, made, strict=True):
                self._finish(pixels, row)
            return batch
        batch = self._buffers.take((len(images), *size, self._channels), dtype)

        def work(numbers: Iterator[int]) -> None:
            worker = _Worker(self, (*size, self._channels))
            for number in numbers:
                worker.decode(images[number], plans[number], seeds[number], batch[number])

        _run(work, len(images))
        return batch

    def _finish(self, pixels: Pixels, row: npt.NDArray[Any]) -> None:
        if self._normalization is None:
            row[:] = pixels
        else:
            self._normalization.write(pixels, to=row)

    def _plans(self, images: list[bytes], seeds: npt.NDArray[np.int64] | None) -> list[_Plan]:
        """The geometry of a whole batch at once, as `trainer_utils.crops` has it."""
        reading = self._reading
        heads = [_plain_head(data) for data in images]
        sizes = [(head.height, head.width) if head else (1, 1) for head in heads]
        whole = np.array(sizes, np.int32).reshape(-1, 2)
        mirrored = np.zeros(len(images), bool)
        box = Box(np.zeros_like(whole), whole)
        if reading.is_random:
            *drawn, mirrored = (part.numpy() for part in self._draw(whole, seeds))
            box = Box(*drawn) if reading.augment else box
        elif reading.resize == "crop" and reading.size is not None:
            box = centre_box(whole, reading.size)
        targets = ratios = np.broadcast_to(np.int32(1), whole.shape)
        if reading.size is None:
            targets = whole
        elif reading.pads:
            targets = inner_extent(box.extent, reading.size)
        else:
            targets = np.broadcast_to(np.array(reading.size, np.int32), whole.shape)
        if reading.size is not None and reading.dct_scaling:
            ratios = 1 << dct_ratio_index(box.extent, targets)[:, np.newaxis]
        scaled = np.concatenate(box.at_scale(ratios), axis=1).tolist()
        return [
            _Plan(head, ratio, None if reading.keeps_whole else tuple(window), tuple(target), flip)
            for head, ratio, window, target, flip in zip(
                heads, ratios[:, 0].tolist(), scaled, targets.tolist(), mirrored, strict=True
            )
        ]

    @functools.cached_property
    def _draw(self) -> Any:
        """What is random of images of these sizes and seeds: begin, extent, is it mirrored."""
        reading = self._reading

        def one(each: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, ...]:
            extent, seed = each
            box = Box(tf.zeros_like(extent), extent)
            if reading.augment:
                box = reading.box_of(tf.concat([extent, [3]], axis=0), seed)
            return (*box, is_mirrored(seed) if reading.flips else tf.constant(False))

        kinds = (tf.TensorSpec((2,), tf.int32),) * 2 + (tf.TensorSpec((), tf.bool),)
        return tf.function(
            lambda *each: tf.map_fn(one, each, fn_output_signature=kinds),
            input_signature=[tf.TensorSpec((None, 2), kind) for kind in (tf.int32, tf.int64)],
            autograph=False,
        )


class _Worker:
    """What one thread decodes with: memory for one image, used again for the next."""

    def __init__(self, decoder: TurboDecoder, shape: tuple[int, ...]) -> None:
        self._decoder = decoder
        self._reading = decoder._reading
        self._channels = shape[-1]
        self._decoded = np.empty(0, np.uint8)
        self._fitted, self._turned = np.empty((2, *shape), np.uint8)

    def decode(self, data: bytes, plan: _Plan, seed: Any, row: npt.NDArray[Any]) -> None:
        """Decodes one image into its row of the batch."""
        import cv2

        part = None if plan.head is None else self._part(data, plan)
        if part is None:
            self._decoder._finish(self._decoder._by_tensorflow(data, seed).numpy(), row)
            return
        is_last = self._decoder._normalization is None
        fitted = row if is_last and not plan.is_mirrored else self._fitted
        height, width = plan.target
        inner = fitted
        if self._reading.pads:
            fitted[:] = 0
            top, left = ((all - n) // 2 for all, n in zip(fitted.shape, plan.target, strict=False))
            inner = fitted[top : top + height, left : left + width]
        cv2.resize(part, (width, height), inner, interpolation=cv2.INTER_LINEAR)
        if plan.is_mirrored:
            turned = row if is_last else self._turned
            cv2.flip(fitted, 1, turned)
            fitted = turned
        if not is_last:
            self._decoder._finish(fitted, row)

    def _part(self, data: bytes, plan: _Plan) -> Pixels | None:
        """What is kept of an image, at the scale that is enough; None: TensorFlow is to say."""
        import simplejpeg

        head, ratio = plan.head, plan.ratio
        assert head is not None
        if ratio > 1 and max(head.height, head.width) < _SMALLEST_SCALED:
            return None
        rows, given = head.height, data
        if plan.window is not None:
            top, left, height, width = plan.window
            rows = min((top + height + _MARGIN) * ratio, rows)
            given = head.cut_to(data, rows)
        is_whole = given is data
        rows, columns = (-(-side // ratio) for side in (head.height if is_whole else rows, head.width))
        if self._decoded.size < rows * columns * self._channels:
            self._decoded = np.empty(rows * columns * self._channels, np.uint8)
        try:
            pixels: Pixels = simplejpeg.decode_jpeg(
                given,
                _COLOURS[self._channels],
                # As TensorFlow does by default, and as our reading of whole images asks it not to.
                fastdct=self._reading.augment is not None,
                min_height=rows if ratio > 1 else 0,
                min_width=columns if ratio > 1 else 0,
                buffer=self._decoded,
                strict=is_whole,
            )
        except ValueError:
            return None
        return pixels if plan.window is None else pixels[top : top + height, left : left + width]


def _plain_head(data: bytes) -> JpegHead | None:
    """The head of a JPEG that both decoders read alike."""
    import simplejpeg

    head = JpegHead.of(data)
    try:
        known = head and simplejpeg.decode_jpeg_header(data)
    except ValueError:
        return None
    return head if known and known[2] in _PLAIN else None


def _common_size(plans: list[_Plan]) -> tuple[int, int] | None:
    """The size of images that keep their own, which must be one; None where one has no head."""
    targets = {plan.target if plan.head else None for plan in plans}
    if None in targets:
        return None
    if len(targets) > 1:
        raise ValueError(f"images of one size were expected in a batch, got {sorted(targets)}")
    return targets.pop()


_lock = threading.Lock()
_users = 0
_pool: ThreadPoolExecutor | None = None


@contextlib.contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """Threads, one a core, shared by all batches that are being decoded; they end with the last."""
    global _pool, _users
    with _lock:
        _users += 1
        if _pool is None:
            _pool = ThreadPoolExecutor(usable_cores(), thread_name_prefix="tfx-shards-decode")
        pool = _pool
    try:
        yield pool
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _pool = None
                pool.shutdown(wait=False)


def _run(work: Any, count: int) -> None:
    """Has all threads work off the numbers up to `count`; raises what came of the first bad one."""
    numbers = iter(range(count))
    with _threads() as pool:
        started = [pool.submit(work, numbers) for _ in range(min(usable_cores(), count))]
        errors = [future.exception() for future in started]
    for error in filter(None, errors):
        # TensorFlow knows ValueError, and makes of it the InvalidArgumentError that it was.
        raise ValueError(getattr(error, "message", str(error))) from error
