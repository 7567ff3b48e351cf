"""The nano judge: a small network on pixels, UI tree and sentence embeddings, trained on the judge bench."""
