"""ShardBalancer: any Examples artifact to equal, globally shuffled shards."""
