"""Who scores, 0 to 10: rules, models, ensembles and cascades behind one contract, and the stage that asks them."""
