"""Who runs the parts of a stage: this process, worker processes here, Beam, Ray, or an engine of your own."""
