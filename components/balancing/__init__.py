"""What ShardBalancer does, without TFX: inputs, plan, parts, and what is compared at the end."""
