"""raw → unified: a source's files through its adapter, part by part."""
