"""Images to batches of arrays, in threads, without a framework.

It is planned which part of each image is kept, at what scale, and its new size: points and extents
are `(images, 2)` integers, rows before columns, in pixels, and what is random follows from a
record's key alone. Only that part is decoded, by libjpeg at 1/2, 1/4 or 1/8 of the scale where the
target is less than that; each image goes through all steps in one thread, while it is in the cache.

JPEGs are decoded by simplejpeg, PNGs by OpenCV, all else by Pillow. Their pixels are those of
`tf.io.decode_jpeg(dct_method="INTEGER_ACCURATE")` and `decode_png`; CMYK and the like within a
level. Tags of EXIF turn nothing: images are turned when they are written.
"""

import contextlib
import io
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trainer_utils.format import ConfigError, DatasetError
from trainer_utils.format import media_formats as media
from trainer_utils.format.planning import splitmix64
from trainer_utils.format.tensors import numpy_dtype
from trainer_utils.machine import Buffers, run_in_threads

if TYPE_CHECKING:
    from trainer_utils.options import InputOptions

Array = npt.NDArray[Any]
Pixels = npt.NDArray[np.uint8]
Pairs = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]
Box = tuple[int, int, int, int]
Data = bytes | memoryview
Image = Data | Pixels
"""Encoded, or `(height, width, channels) uint8`."""

_COLOURS = {1: "GRAY", 3: "RGB"}
_MODES = {1: "L", 3: "RGB"}
_COLOUR_SPACES = ("YCbCr", "Gray")  # in simplejpeg's words
SMALLEST_SCALED = 16  # pixels; of less, simplejpeg's choice of a scale is not clear
_MARGIN = 2  # rows below a part that smoothing of colours looks at
_END = b"\xff\xd9"
_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF")  # of Pillow's; some others run programs
_ATTEMPTS = 10  # at a crop of the area and aspect drawn
_MOST_SCALING = 3  # powers of two: libjpeg decodes at 1/2, 1/4 and 1/8
MOST_VALUES = 1 << 29
"""Of an image: TensorFlow takes no more, either."""
# By name: mean and standard deviation, of all channels or of each.
NORMALIZATIONS: Mapping[str, tuple[Any, Any]] = {
    "unit": (0.0, 255.0),
    "symmetric": (127.5, 127.5),
    # Source: torchvision's constants for ImageNet, times 255.
    "imagenet": ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
}


class ImagePlan(NamedTuple):
    """What becomes of one image.

    Attributes:
        box: what is kept of it: top, left, height, width.
        ratio, scaled_box: a JPEG is decoded at 1 / `ratio`, where the box has these corners.
        target: height and width that what is kept is resized to.
        is_mirrored: whether that is then mirrored.
    """

    box: Box
    ratio: int
    scaled_box: Box
    target: tuple[int, int]
    is_mirrored: bool


def plan_images(
    options: "InputOptions",
    sizes: Sequence[tuple[int, int]],
    keys: Keys | None = None,
    *,
    scales: bool = True,
) -> list[ImagePlan]:
    """A plan for each image, of a height and width.

    `keys` are `(images,) uint64`, where the options are random; `scales` says whether JPEGs may be
    decoded at a smaller scale, if the options allow it.
    """
    whole = np.array(sizes, np.int64).reshape(-1, 2)
    begin, extent, ratios = np.zeros_like(whole), whole, np.ones_like(whole)
    mirrored = np.zeros(len(whole), bool)
    chain = options.augmentation
    if chain.is_random:
        assert keys is not None
        if chain.crops:
            begin, extent = _random_boxes(
                whole, keys, options.image.crop_area, options.image.crop_aspect
            )
        if chain.flips:
            mirrored = are_mirrored(keys)
    if options.image_size is None:
        targets = extent
    else:
        size = np.array(options.image_size)
        if options.image.resize == "crop" and not chain.crops:
            # The largest box of that aspect; of an odd rest, the smaller half comes before it.
            of_aspect = (whole[:, ::-1] * size + size[::-1] // 2) // size[::-1]
            extent = np.clip(of_aspect, 1, whole)
            begin = (whole - extent) // 2
        targets = np.broadcast_to(size, whole.shape)
        if options.pads:  # rounded down as `tf.image.resize_with_pad` does
            targets = np.clip(extent * size[::-1] // extent[:, ::-1], 1, size)
        if scales and options.image.dct_scaling:  # the largest that leaves more than that both ways
            fits = ((extent - 1) // targets).min(axis=1, keepdims=True)
            powers = np.log2(np.maximum(fits, 1)).astype(np.int64)
            ratios = 1 << np.minimum(powers, _MOST_SCALING)
    first, last = ((corner + ratios // 2) // ratios for corner in (begin, begin + extent))
    last = np.where(begin + extent == whole, -(-whole // ratios), last)
    boxes = (np.concatenate(box, axis=1) for box in ((begin, extent), (first, last - first)))
    columns: list[Any] = [*boxes, ratios[:, 0], targets, mirrored]
    return [
        ImagePlan(tuple(box), ratio, tuple(scaled), tuple(target), flips)
        for box, scaled, ratio, target, flips in zip(*(c.tolist() for c in columns), strict=True)
    ]


def are_mirrored(keys: Keys) -> npt.NDArray[np.bool_]:
    """Whether the image of each key is mirrored, where images are: half of them."""
    return draw_uniforms(keys, count=1, purpose=1)[:, 0] < 0.5


def draw_uniforms(keys: Keys, *, count: int, purpose: int = 0) -> npt.NDArray[np.float64]:
    """`(images, count)` numbers in [0, 1) for each key, multiples of 2**-53, on every machine.

    The purpose, from 0, goes into the state, rather than along one sequence, which
    would overlap.
    """
    state = splitmix64(
        keys ^ splitmix64(np.zeros(1, np.uint64), np.array([purpose + 1], np.uint64))
    )
    bits = splitmix64(state[:, np.newaxis], np.arange(1, count + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)) * 2.0**-53


def _random_boxes(
    whole: Pairs, keys: Keys, area: tuple[float, float], aspect: tuple[float, float]
) -> tuple[Pairs, Pairs]:
    """Boxes of random shares of images, of random aspects, at random places: begin and extent.

    Of the first attempt that lies within the image; where none of ten does, as in a very long
    image, the middle with the nearest aspect.

    Source: "Going deeper with convolutions" (Szegedy et al., 2014), the augmentation of Inception.
    """
    uniforms = draw_uniforms(keys, count=4 * _ATTEMPTS).reshape(len(keys), _ATTEMPTS, 4)
    low, high = (math.log(limit) for limit in aspect)
    pixels = (area[0] + (area[1] - area[0]) * uniforms[..., 0]) * whole.prod(axis=1)[:, np.newaxis]
    aspects = np.exp(low + (high - low) * uniforms[..., 1])
    drawn = np.rint(np.sqrt(np.stack([pixels / aspects, pixels * aspects], axis=-1)))
    fits = ((drawn >= 1) & (drawn <= whole[:, np.newaxis])).all(axis=-1)
    chosen = np.arange(len(keys)), fits.argmax(axis=1)
    extent = drawn[chosen].astype(np.int64)
    begin = (uniforms[..., 2:][chosen] * (whole - extent + 1)).astype(np.int64)
    limits = np.rint(whole[:, ::-1] * (1 / aspect[0], aspect[1])).astype(np.int64)
    middle = np.clip(limits, 1, whole)
    found = fits.any(axis=1)[:, np.newaxis]
    return np.where(found, begin, (whole - middle) // 2), np.where(found, extent, middle)


class Normalization:
    """(value - mean) / deviation, by a name or `(mean, deviation)`, in floats of `dtype`."""

    def __init__(self, given: Any, *, channels: int, dtype: str) -> None:
        pair: Any = NORMALIZATIONS[given] if isinstance(given, str) else given
        mean, deviation = (np.asarray(part, np.float64).reshape(-1) for part in pair)
        if {mean.size, deviation.size} - {1, channels}:
            raise ConfigError.of("normalize", given, allowed=f"numbers for {channels} channels")
        try:
            self.dtype = numpy_dtype(dtype)
        except ImportError as error:
            rule = "float32 or float16 where ml_dtypes is not installed"
            cure = "pip install ml_dtypes, which TensorFlow and jax bring"
            raise ConfigError.of("dtype", dtype, allowed=rule, advice=cure) from error
        # What each value becomes: `(1, 256, 1 or channels)`. Floats of 16 bits as integers of the
        # same bits, since OpenCV does not know them.
        table = ((np.arange(256)[:, np.newaxis] - mean) / deviation).astype(self.dtype)
        table = table if table.itemsize == 4 else table.view(np.uint16)
        self._table = np.ascontiguousarray(table[np.newaxis])
        # What makes a pixel of itself and a 1 after it: `(channels, channels + 1)`.
        scales = np.diag(np.broadcast_to(1 / deviation, channels))
        self._matrix = np.column_stack([scales, np.broadcast_to(-mean / deviation, channels)])

    def write(self, pixels: Array, *, to: Array) -> None:
        """Normalize `(height, width, channels)` integers into an array of that shape and `dtype`.

        Of uint8 there are 256 values, so it is a look-up in one pass; of channels that differ, in
        float32, OpenCV's own multiplication takes two thirds of its time (85 and 126 us of 224 x
        224). Of uint16, 65,535 is what 255 is of uint8.
        """
        import cv2

        if pixels.dtype == np.uint16:
            scales, shifts = np.diag(self._matrix) / 257, self._matrix[:, -1]
            to[...] = (pixels * scales + shifts).astype(self.dtype)
            return
        if self._table.shape[-1] == 1:  # all channels are alike, which takes less
            pixels, to = pixels.reshape(len(pixels), -1), to.reshape(len(to), -1)
        elif self.dtype == np.float32:
            np.copyto(to, pixels)
            cv2.transform(to, self._matrix, to)
            return
        cv2.LUT(pixels, self._table, to.view(self._table.dtype))


def plain_jpeg_size(data: Data) -> tuple[int, int] | None:
    """Height and width of a JPEG that simplejpeg reads as all decoders do."""
    import simplejpeg

    if data[: len(media.JPEG)] != media.JPEG:
        return None
    try:
        height, width, colours, _ = simplejpeg.decode_jpeg_header(data)
    except (KeyError, ValueError):  # the former of samplings that it does not know, as 4:4:1
        return None
    return (height, width) if colours in _COLOUR_SPACES else None


def decode_jpeg_part(
    data: Data, size: tuple[int, int], plan: ImagePlan, *, channels: int
) -> Pixels | None:
    """What is kept of a plain JPEG, at the scale that is enough; None: decode it otherwise."""
    import simplejpeg

    (height, width), ratio = size, plan.ratio
    if ratio > 1 and max(size) < SMALLEST_SCALED:
        return None
    top, left, rows, columns = plan.scaled_box
    needed = (top + rows + _MARGIN) * ratio
    given = _cut_to(data, needed) if needed < height else data
    if given is not data:
        height = needed
    try:
        pixels: Pixels = simplejpeg.decode_jpeg(
            given,
            _COLOURS[channels],
            min_height=-(-height // ratio) if ratio > 1 else 0,
            min_width=-(-width // ratio) if ratio > 1 else 0,
            strict=given is data,
        )
    except ValueError:
        return None
    return pixels[top : top + rows, left : left + columns]


def _cut_to(data: Data, rows: int) -> Data | bytearray:
    """A JPEG less high, if that spares decoding its rest; else as it is.

    A scan's blocks come from the top of the image to the bottom, and a decoder stops after the last
    row and only warns of what follows. What is not known to be whole to its end is left as it is.
    """
    frame = None
    for start, marker, _ in media.jpeg_segments(data) if data[-2:] == _END else ():
        if marker in media.FRAMES and frame is None:
            frame = media.frame_at(data, start, marker)
        elif marker == media.SOS and frame is not None:
            has_all = data[start + 4 : start + 5] == bytes([frame.components])
            if has_all and frame.process in (media.BASELINE, media.EXTENDED):  # row by row
                cut = bytearray(data)
                cut[frame.height_offset : frame.height_offset + 2] = rows.to_bytes(2, "big")
                return cut
    return data


def image_size(data: Data) -> tuple[int, int]:
    """Height and width, which the head says; raises what Pillow raises."""
    if data[: len(media.PNG)] == media.PNG and len(data) >= 24:
        return int.from_bytes(data[20:24], "big"), int.from_bytes(data[16:20], "big")
    with _opened(data) as image:
        width, height = image.size
    return height, width


def decode_image(data: Data, *, channels: int, keeps_values: bool = False, bits: int = 8) -> Array:
    """Decode an image of any format to `(height, width, channels)`; of a film, its first picture.

    With `keeps_values` a grey or indexed image's stay as they are, as in maps of class ids. With
    16 `bits` a PNG of 16 bits a channel is uint16. All else is uint8. Raises whatever its decoder
    does where it cannot be decoded, or its end is missing.
    """
    import cv2

    if data[: len(media.PNG)] == media.PNG and not keeps_values:
        kind = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        flags = kind | cv2.IMREAD_IGNORE_ORIENTATION
        flags |= cv2.IMREAD_ANYDEPTH if bits == 16 else 0
        found: Any = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if found is None:  # which it says where memory ends, too
            with _opened(data) as image:
                image.load()
            raise ValueError("a PNG that is damaged or not whole")
        if channels == 3:
            cv2.cvtColor(found, cv2.COLOR_BGR2RGB, found)
        decoded: Array = np.asarray(found).reshape(*found.shape[:2], channels)
        return decoded
    with _opened(data) as image:
        if image.format == "JPEG" and channels == 1:
            image.draft("L", image.size)  # its own luminance
        if image.mode.startswith("I;16"):  # Pillow would cut off what is more than 255
            pixels = (np.asarray(image) >> 8).astype(np.uint8)
        elif keeps_values and image.mode in ("L", "P"):
            pixels = np.asarray(image)
        else:
            pixels = np.asarray(image.convert(_MODES[channels]))
    return pixels.reshape(*pixels.shape[:2], -1)


def _opened(data: Data) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:  # whose text is the address of an object
        raise ValueError(f"{bytes(data[:8])!r}…, none of {', '.join(_FORMATS)}") from error


class _OpenCVThreads:
    """OpenCV's number of threads, which is one for all of a process.

    While images are decoded here, in threads of this package, it is 1. Afterwards it is what the
    program had set.
    """

    def __init__(self) -> None:
        self._lock, self._users, self._before = threading.Lock(), 0, 1

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Let OpenCV compute in the calling thread alone until the block ends."""
        import cv2

        with self._lock:
            if self._users == 0:
                self._before = cv2.getNumThreads()
                cv2.setNumThreads(1)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    cv2.setNumThreads(self._before)

    def forget_users(self) -> None:
        """Start again, in a child that has none of its parent's threads."""
        self._lock, self._users = threading.Lock(), 0


_opencv_threads = _OpenCVThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_opencv_threads.forget_users)


class ImageDecoder:
    """Decodes images as options say, to 1 or 3 channels.

    Of a `label_map` the nearest value is taken, and none are mixed; it is cut, mirrored and moved
    as the image of the same key is. With 16 `bits` pixels are uint16, those of 8 bits times 257.
    """

    def __init__(
        self, options: "InputOptions", *, channels: int, label_map: bool = False, bits: int = 8
    ) -> None:
        self._options, self._channels, self._label_map = options, channels, label_map
        self._bits = bits
        self._normalization = None
        if options.image.normalize is not None and not label_map:
            self._normalization = Normalization(
                options.image.normalize, channels=channels, dtype=options.image.dtype
            )
        self._buffers = Buffers()

    @property
    def shape(self) -> tuple[int | None, int | None, int]:
        """Of one image, as far as is known."""
        height, width = self._options.image_size or (None, None)
        return height, width, self._channels

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the arrays."""
        if self._normalization is not None:
            return self._normalization.dtype
        return np.dtype(np.uint16 if self._bits == 16 else np.uint8)

    def decode(self, images: Sequence[Image], keys: Keys | None = None) -> Array:
        """A batch `(batch, height, width, channels)`, integers or floats, which stays as it is.

        Args:
            images: of any sizes; of one, where the options have no `image_size`.
            keys: `(batch,) uint64`, one for a record and epoch; needed where options are random.

        Raises:
            DatasetError: they differ in size.
            Exception: what the decoder of an image raises that cannot be decoded.
        """
        found = [self._size(image) for image in images]
        sizes, are_plain = [size for size, _ in found], [is_plain for _, is_plain in found]
        plans = plan_images(self._options, sizes, keys, scales=not self._label_map)
        for (height, width), plan, is_jpeg in zip(sizes, plans, are_plain, strict=True):
            ratio = plan.ratio if is_jpeg else 1  # a JPEG is decoded at that scale
            if height * width * self._channels >= MOST_VALUES * ratio**2:
                raise ValueError(f"one of {height} x {width} pixels")
        targets = {plan.target for plan in plans} or {(0, 0)}
        size = self._options.image_size or min(targets)
        if self._options.image_size is None and len(targets) > 1:
            raise DatasetError(
                f"images: expected one size in a batch, got {sorted(targets)[:3]}. Set image_size, "
                "or read them one by one, with batch_size=None."
            )
        batch = self._buffers.take((len(images), *size, self._channels), self.dtype)

        def work(row: int) -> None:
            part = self._part(images[row], sizes[row], plans[row], are_plain[row])
            pixels = self._fitted(part, plans[row], batch[row])
            if keys is not None:
                pixels = self._options.augmentation.change(
                    pixels, keys[row], label_map=self._label_map
                )
            if self._normalization is not None:
                self._normalization.write(np.ascontiguousarray(pixels), to=batch[row])
            elif not np.may_share_memory(pixels, batch[row]):
                batch[row] = pixels

        with _opencv_threads.one():
            run_in_threads(work, len(images))
        return batch

    def _size(self, image: Image) -> tuple[tuple[int, int], bool]:
        """Height and width, and whether that is a plain JPEG's."""
        if isinstance(image, np.ndarray):
            return (image.shape[0], image.shape[1]), False
        of_jpeg = None if self._label_map else plain_jpeg_size(image)
        size = of_jpeg or image_size(image)
        if not math.prod(size):
            raise ValueError(f"one of {size[0]} x {size[1]} pixels")
        return size, of_jpeg is not None

    def _part(self, image: Image, size: tuple[int, int], plan: ImagePlan, is_plain: bool) -> Array:
        """Return what is kept of an image, in as many channels and bits as are asked for."""
        part = self._decoded_part(image, size, plan, is_plain)
        if self._bits == 16 and part.dtype == np.uint8:
            part = part.astype(np.uint16) * np.uint16(257)  # 255 becomes 65,535
        return part

    def _decoded_part(
        self, image: Image, size: tuple[int, int], plan: ImagePlan, is_plain: bool
    ) -> Array:
        import cv2

        if isinstance(image, np.ndarray):
            whole: Array = image
        else:
            if is_plain:
                part = decode_jpeg_part(image, size, plan, channels=self._channels)
                if part is not None:
                    return part
            whole = decode_image(
                image, channels=self._channels, keeps_values=self._label_map, bits=self._bits
            )
        top, left, height, width = plan.box
        pixels = whole[top : top + height, left : left + width]
        if pixels.shape[-1] == self._channels:
            return pixels
        if pixels.shape[-1] == 1:
            return np.repeat(pixels, self._channels, axis=-1)
        grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
        return np.asarray(grey, pixels.dtype)[..., np.newaxis]

    def _fitted(self, part: Array, plan: ImagePlan, row: Array) -> Array:
        """What is kept, in its new size; in its row of the batch, where that spares a copy."""
        import cv2

        height, width = plan.target
        size = self._options.image_size if self._options.pads else None
        to = row if self._normalization is None else None
        pixels = part
        if part.shape[:2] != plan.target:
            inner = None if size or plan.is_mirrored else to
            method = cv2.INTER_NEAREST_EXACT if self._label_map else cv2.INTER_LINEAR
            resized = cv2.resize(part, (width, height), inner, interpolation=method)
            pixels = np.asarray(resized, part.dtype).reshape(height, width, -1)
        if size is not None:
            whole = np.zeros((*size, self._channels), part.dtype)
            top, left = ((a - n) // 2 for a, n in zip(size, plan.target, strict=True))
            whole[top : top + height, left : left + width] = pixels
            pixels = whole
        if plan.is_mirrored:
            pixels = np.asarray(cv2.flip(pixels, 1, to), part.dtype).reshape(pixels.shape)
        return pixels
