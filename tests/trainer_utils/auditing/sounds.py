"""Sounds as they are recorded, made from numbers, and what becomes of them on their way."""

import io

import numpy as np
import soundfile
from scipy import signal

RATE = 16_000


def make_sound(number: int, seconds: float = 1.5, rate: int = RATE) -> np.ndarray:
    """`(frames, 1) float32`: speech, a melody, chirps of birds, or a noise, by the number."""
    rng = np.random.default_rng(number)
    count = int(seconds * rate)
    made = (_speech, _melody, _chirps, _noise)[number % 4](rng, count, rate)
    room = 0.002 * rng.standard_normal(count)
    return (0.5 * made / np.abs(made).max() + room).astype(np.float32)[:, np.newaxis]


def _speech(rng: np.random.Generator, count: int, rate: int) -> np.ndarray:
    """Syllables: harmonics under formants, hisses before some of them, pauses between."""
    made, place = np.zeros(count), 0
    pitch = rng.uniform(90, 240)
    while place < count:
        length = int(rate * rng.uniform(0.08, 0.3))
        time = np.arange(length) / rate
        glide = pitch * (1 + rng.uniform(-0.2, 0.2) + rng.uniform(-0.5, 0.5) * time)
        phase = 2 * np.pi * np.cumsum(glide) / rate
        formants = rng.uniform((250, 800, 2200), (850, 2200, 3200))
        voice = np.zeros(length)
        for harmonic in range(1, int(3800 / pitch)):
            gains = 1 / (1 + ((harmonic * pitch - formants) / 120) ** 2)
            voice += gains @ (1, 0.6, 0.3) * np.sin(harmonic * phase)
        voice *= np.hanning(length)
        if rng.random() < 0.4:
            hiss = signal.lfilter([1, -0.9], [1], rng.standard_normal(length // 3))
            voice[: len(hiss)] += 0.3 * hiss * np.hanning(len(hiss))
        end = min(count, place + length)
        made[place:end] += voice[: end - place]
        place += length + int(rate * rng.exponential(0.05))
    return made


def _melody(rng: np.random.Generator, count: int, rate: int) -> np.ndarray:
    made, beat = np.zeros(count), int(rate * rng.uniform(0.12, 0.3))
    for place in range(0, count, beat):
        for note in rng.integers(0, 30, rng.integers(1, 4)):
            time = np.arange(count - place) / rate
            for overtone, gain in enumerate(rng.uniform(0.1, 1, 5), 1):
                pitch = 130 * 2 ** (note / 12) * overtone
                made[place:] += gain * np.sin(2 * np.pi * pitch * time) * np.exp(-5 * time)
    return made


def _chirps(rng: np.random.Generator, count: int, rate: int) -> np.ndarray:
    made = 0.02 * rng.standard_normal(count)
    for place in rng.integers(0, count, int(10 * count / rate)):
        length = min(count - place, int(rate * rng.uniform(0.03, 0.15)))
        if length < 8:
            continue
        sweep = np.linspace(rng.uniform(800, 3300), rng.uniform(800, 3300), length)
        made[place : place + length] += np.hanning(length) * np.sin(
            2 * np.pi * np.cumsum(sweep) / rate
        )
    return made


def _noise(rng: np.random.Generator, count: int, rate: int) -> np.ndarray:
    """Rain, wind and engines: coloured noise whose loudness wanders."""
    lowest, highest = np.sort(rng.uniform(150, 3500, 2))
    colour = signal.butter(2, (lowest, highest + 200), "band", fs=rate)
    swell = np.interp(np.arange(count), np.linspace(0, count, 12), rng.uniform(0.5, 1, 12))
    return signal.lfilter(*colour, rng.standard_normal(count)) * swell


def encoded(samples: np.ndarray, rate: int, kind: str = "WAV", **how: object) -> bytes:
    stream = io.BytesIO()
    subtype = {"WAV": "PCM_16", "FLAC": "PCM_16"}.get(kind)
    soundfile.write(stream, samples, rate, format=kind, subtype=subtype, **how)
    return stream.getvalue()


def decoded(data: bytes) -> tuple[np.ndarray, int]:
    return soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)


def resampled(samples: np.ndarray, rate: int, wished: int) -> np.ndarray:
    common = np.gcd(rate, wished)
    return signal.resample_poly(samples, wished // common, rate // common, axis=0)


def copies_of(samples: np.ndarray, rate: int, rng: np.random.Generator) -> list[tuple[str, bytes]]:
    """What becomes of a sound, by how; each as a file."""
    start, stop = (
        int(share * len(samples)) for share in (rng.uniform(0, 0.1), rng.uniform(0.9, 1))
    )
    gain = float(10 ** rng.uniform(-1.3, 0.25))
    low, high = ((wished, resampled(samples, rate, wished)) for wished in (8000, 44_100))
    stereo = np.repeat(high[1], 2, axis=1)
    return [
        ("flac", encoded(samples, rate, "FLAC")),
        ("ogg", encoded(samples, rate, "OGG")),
        ("ogg at its worst", encoded(samples, rate, "OGG", compression_level=1.0)),
        ("mp3", encoded(samples, rate, "MP3")),
        ("mp3 at its worst", encoded(samples, rate, "MP3", compression_level=0.9)),
        (f"gain {gain:.2f}", encoded(gain * samples, rate)),
        ("8 kHz", encoded(low[1], low[0])),
        ("44.1 kHz, stereo, mp3", encoded(stereo, high[0], "MP3")),
        ("without a tenth before", encoded(samples[len(samples) // 10 :], rate)),
        (f"from {start} to {stop}", encoded(samples[start:stop], rate)),
        (
            f"from {start} to {stop}, gain {gain:.2f}, 8 kHz, ogg",
            encoded(gain * resampled(samples[start:stop], rate, 8000), 8000, "OGG"),
        ),
    ]
