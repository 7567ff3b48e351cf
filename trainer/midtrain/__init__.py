"""Mid-training: supervised next-token loss on the answers of the mixture."""
