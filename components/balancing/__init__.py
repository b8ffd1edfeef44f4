"""The work of ShardBalancer without TFX: inputs, plan, parts, and the final comparison."""
