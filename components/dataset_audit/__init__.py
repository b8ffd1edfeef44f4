"""DatasetAudit: what is amiss in a dataset, as TFX's anomalies and as JSON."""
