"""What to say where something needs an extra of this distribution that is not installed."""

HOW_TO_GET_TFX = (
    "run pip install 'tfx-shards[tfx]' on Python 3.10 to 3.13 with glibc 2.38 or newer, "
    "or pip install 'tfx-shards[tfx116]' on Python 3.10"
)
