"""A function on many shards of work: in this process, in several, or on a Dask cluster."""
