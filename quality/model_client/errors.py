"""What is raised where a model can't be asked, or gives no answer that counts."""


class ModelError(RuntimeError):
    """A model can't work: endpoint dead, refused, or no valid answer within its retry policy."""
