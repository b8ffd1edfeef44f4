"""Fuzzes one target with `atheris`, where it is installed, and shows what was not our own error.

    python -m tests.faults.fuzz manifest -max_total_time=600

Every input that libFuzzer keeps goes to the folder that is named after the target, if one is.
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["trainer_utils", "components", "tarfile", "defusedxml"]):
    from tests.faults.fuzz_targets import TARGETS, is_ours

from tests.faults.fuzz_seeds import seeds


def main(name: str, options: list[str]) -> None:
    """Runs until an input gives another error than ours, or the time that was asked for is over.

    Args:
        name: of a target.
        options: of libFuzzer.
    """
    target = TARGETS[name]

    def run(data: bytes) -> None:
        try:
            target(data)
        except BaseException as error:
            if not is_ours(error):
                raise

    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds()[name]):
            Path(folder, str(number)).write_bytes(seed)
        atheris.Setup([sys.argv[0], *options, folder], run)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
