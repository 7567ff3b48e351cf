"""People in the loop: what to review, where answers are kept, how far people agree, and what follows for the judge."""
