"""SchemaExport: a standard Schema artifact with Datum's JSON beside it."""
