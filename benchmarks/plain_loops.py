"""Run plain loops of TensorFlow's TFRecordWriter over photos, in a number of processes.

    with PlainLoops(2) as loops:
        loops.run(photos, target)          # one file a process; no split, no order, no check

The processes start and import TensorFlow before the measurement, so that no peer gains by starting
earlier. `encode` is written like a stock ExampleGen.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import tensorflow as tf

__all__ = ["PlainLoops", "encode", "run_loop"]


def encode(path: str) -> tf.train.Example:
    """Encode one image like the author of a stock ExampleGen."""
    feature = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[Path(path).read_bytes()])),
        "label": tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[Path(path).parent.name.encode()])
        ),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature))


def run_loop(photos: Path, target: Path, *, share: int = 0, shares: int = 1) -> None:
    """Write a share of the photos with the least possible work."""
    with tf.io.TFRecordWriter(str(target / f"data-{share}")) as writer:
        for path in sorted(photos.rglob("*.jpg"))[share::shares]:
            writer.write(encode(str(path)).SerializeToString())


class PlainLoops:
    """Processes that wait for work.

    Args:
        count: the number of processes.
    """

    def __init__(self, count: int) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, str(share), str(count)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for share in range(count)
        ]
        self._wait()

    def run(self, photos: Path, target: Path) -> None:
        """Write all photos, with all processes in parallel."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([str(photos), str(target)]) + "\n")
            process.stdin.flush()
        self._wait()

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the processes have spent so far."""
        files = [Path(f"/proc/{process.pid}/stat") for process in self._processes]
        stats = [file.read_text().rpartition(")")[2] for file in files]
        ticks = sum(int(part) for stat in stats for part in stat.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def _wait(self) -> None:
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("a plain loop ended")

    def __enter__(self) -> "PlainLoops":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.communicate("")


if __name__ == "__main__":
    share, shares = map(int, sys.argv[1:])
    print("ready", flush=True)
    for line in sys.stdin:
        photos, target = map(Path, json.loads(line))
        run_loop(photos, target, share=share, shares=shares)
        print("ready", flush=True)
