"""Names of formats and kinds for settings and layouts. It is light, because settings import it."""

LISTS = ("csv", "tsv", "jsonl", "parquet")
MEDIA = ("image", "audio")
WORDS = {"image": "image", "audio": "audio file"}  # the kinds in messages
