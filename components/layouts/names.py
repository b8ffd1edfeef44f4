"""Names of formats and kinds that settings and layouts share; light, since settings import it."""

LISTS = ("csv", "tsv", "jsonl", "parquet")
MEDIA = ("image", "audio")
