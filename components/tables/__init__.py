"""Read CSV, TSV, JSON lines and Parquet into Arrow in pieces, with types and vocabularies."""
