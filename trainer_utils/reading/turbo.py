"""Batches of encoded images decoded by simplejpeg and OpenCV, in threads, in place.

    decoder = TurboDecoder(reading, channels=3)
    pixels = decoder.decode(encoded, seeds)     # (batch,) string to (batch, height, width, 3)

Their pixels are TensorFlow's: those of JPEGs to the bit, after the resize within a level. What is
no plain JPEG (other formats, CMYK, damage) is decoded by TensorFlow, with its results and errors.
`pip install 'tfx-shards[turbo]'` brings both packages.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from trainer_utils.reading.buffers import Buffers, Scratch
from trainer_utils.reading.decoding_threads import run_in_threads
from trainer_utils.reading.image_plans import DecodePlan, Planner, decode_part
from trainer_utils.reading.normalizing import Normalization
from trainer_utils.reading.remade import Remade

if TYPE_CHECKING:
    from trainer_utils.reading.images import ImageReading

__all__ = ["TurboDecoder", "normalize_images"]

T = TypeVar("T")
Pixels = npt.NDArray[np.uint8]


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
        self._planner = Planner(reading)
        self._channels = channels
        self._normalization = reading.normalization(channels)
        self._buffers = Remade(Buffers)
        # Traced where it is first needed.
        self._tensorflows = Remade(functools.partial(_traced, reading, channels, formats))

    def by_tensorflow(self, data: bytes, seed: npt.NDArray[np.int64]) -> Pixels:
        """One image, `uint8`; raises ValueError, of which TensorFlow makes its own error again."""
        try:
            pixels: Pixels = self._tensorflows.get()(tf.constant(data), tf.constant(seed)).numpy()
        except tf.errors.OpError as error:
            raise ValueError(error.message) from error
        return pixels

    @property
    def dtype(self) -> tf.DType:
        """Of the pixels."""
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
        pixels = tf.numpy_function(self._decoded, arguments, self.dtype)
        return tf.ensure_shape(pixels, [encoded.shape[0], *self.shape])

    @property
    def shape(self) -> list[int | None]:
        """Of one image, as far as is known."""
        return [*(self._reading.size or (None, None)), self._channels]

    def _decoded(
        self, encoded: npt.NDArray[np.object_], seeds: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.generic]:
        return self.decode_images(encoded.tolist(), seeds)

    def decode_images(
        self,
        images: list[bytes],
        seeds: npt.NDArray[np.int64] | None = None,
        *,
        name_of: Callable[[int], str] = "image {} of the batch".format,
    ) -> npt.NDArray[np.generic]:
        """As `decode`, outside of a graph.

        Args:
            images, seeds: as of `decode`.
            name_of: what an error says that one of them is, by its row.

        Raises:
            ValueError: one cannot be decoded.
        """

        def named(row: int, work: Callable[[], T]) -> T:
            try:
                return work()
            except ValueError as error:
                raise ValueError(f"{name_of(row)}: {error}") from error

        plans = self._planner.of(images, seeds)
        if seeds is None:
            seeds = np.zeros((len(images), 2), np.int64)
        dtype = self.dtype.as_numpy_dtype
        if not images:  # some replicas get none of the last batch
            return np.zeros((0, *(self._reading.size or (0, 0)), self._channels), dtype)
        size = self._reading.size or _common_size(plans)
        if size is None:  # of images whose size only TensorFlow's decoder knows
            made = [
                named(row, functools.partial(self.by_tensorflow, *one))
                for row, one in enumerate(zip(images, seeds, strict=True))
            ]
            batch = self._buffers.get().take((len(images), *made[0].shape), dtype)
            for row, pixels in zip(batch, made, strict=True):
                self.finish(pixels, row)
            return batch
        batch = self._buffers.get().take((len(images), *size, self._channels), dtype)

        def make_work() -> Callable[[int], None]:
            worker = _Worker(self, (*size, self._channels))
            return lambda n: named(
                n, lambda: worker.decode(images[n], plans[n], seeds[n], batch[n])
            )

        run_in_threads(make_work, len(images))
        return batch

    def finish(self, pixels: Pixels, row: npt.NDArray[Any]) -> None:
        """Writes a finished image into its row, normalised where it is to be."""
        if self._normalization is None:
            row[:] = pixels
        else:
            self._normalization.write(pixels, to=row)


def _traced(reading: "ImageReading", channels: int, formats: Sequence[str]) -> Any:
    """TensorFlow's way with one image, for `by_tensorflow`."""
    plain = dataclasses.replace(reading, normalize=None, decoder="tensorflow")
    decode = tf.function(
        lambda encoded, seed: plain.decode(encoded, channels=channels, seed=seed, formats=formats),
        input_signature=[tf.TensorSpec((), tf.string), tf.TensorSpec((2,), tf.int64)],
        autograph=False,
    )
    return decode.get_concrete_function()


def normalize_images(pixels: tf.Tensor, normalization: Normalization) -> tf.Tensor:
    """`(batch, height, width, channels) uint8` as floats, in one call, in threads."""
    buffers = Remade(Buffers)
    dtype = tf.as_dtype(normalization.dtype)

    def normalize(images: Pixels) -> npt.NDArray[np.generic]:
        batch = buffers.get().take(images.shape, dtype.as_numpy_dtype)
        run_in_threads(lambda: lambda n: normalization.write(images[n], to=batch[n]), len(images))
        return batch

    return tf.ensure_shape(tf.numpy_function(normalize, [pixels], dtype), pixels.shape)


class _Worker:
    """What one thread decodes with: memory for one image, used again for the next."""

    def __init__(self, decoder: TurboDecoder, shape: tuple[int, ...]) -> None:
        self._decoder = decoder
        self._reading = decoder._reading
        self._channels = shape[-1]
        self._decoded = Scratch()
        self._fitted, self._turned = np.empty((2, *shape), np.uint8)

    def decode(
        self,
        data: bytes,
        plan: DecodePlan,
        seed: npt.NDArray[np.int64],
        row: npt.NDArray[Any],
    ) -> None:
        """Decodes one image into its row of the batch."""
        import cv2

        # As TensorFlow does by default, and as our reading of whole images asks it not to.
        fast = self._reading.augment is not None
        part = decode_part(
            data, plan, channels=self._channels, fast=fast, memory=self._decoded.take
        )
        if part is None:
            self._decoder.finish(self._decoder.by_tensorflow(data, seed), row)
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
            self._decoder.finish(fitted, row)


def _common_size(plans: list[DecodePlan]) -> tuple[int, int] | None:
    """The size of images that keep their own, which must be one; None where one has no head."""
    if not all(plan.head for plan in plans):
        return None
    sizes = {plan.target for plan in plans}
    if len(sizes) > 1:
        raise ValueError(
            f"images: expected one size in a batch, got {sorted(sizes)}. Set image_size, or read "
            "them one by one, with batch_size=None."
        )
    return sizes.pop()
