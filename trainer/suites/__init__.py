"""Evaluation suites by name (`registry`): grounding files, steps of recorded episodes, whole episodes in worlds.

Reading native files is `pipelines.suites`' work; here are the questions put to a model, the score and its breakdown."""
