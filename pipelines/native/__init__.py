"""Native forms: what the files of a dataset, or of several, look like, read into values that adapters map."""
