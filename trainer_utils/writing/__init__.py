"""Write datasets: shards with record indices, small files, and the manifest last."""
