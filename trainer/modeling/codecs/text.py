"""The text of the corpus itself: the reference."""

from trainer.modeling.codecs import ActionTexts

TEXT = ActionTexts(write=lambda action: None, read=lambda coded: None)
