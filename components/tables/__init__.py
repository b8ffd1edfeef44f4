"""CSV, TSV, JSON lines and Parquet to Arrow, in pieces: reading, typing, vocabularies."""
