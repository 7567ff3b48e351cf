"""Rows of shards → batches of tensors: streams, packing, labels and the weights of tokens."""
