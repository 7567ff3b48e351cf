"""The assets `worth/*`: their names, tables and checks, as plain data that the graph reads without torch."""

import pyarrow as pa

from pipelines.store.manifest import CheckSpec
from schemas.tables import Column, Table

GROUP, CODE_VERSION = "worth", "1"
SOURCES, RULES, MIXTURE = ASSETS = ("worth/sources", "worth/rules", "worth/mixture")
PROPOSAL, PAGE, MARKDOWN = "proposal.json", "page.html", "worth.md"
COMPARED = CheckSpec("something was compared", "No two variants of the corpus have rows: there is nothing to compare")
CHECKS = (COMPARED,)
LEFT_OUT, ALONE, RULE, GENERATION, DERIVER, OBJECTIVE, MIXTURE_KIND = (
    "source beside the others",
    "source added to the base",
    "rule",
    "generated trajectories",
    "deriver",
    "objective added to the base",
    "mixture",
)
"""Kinds of comparison."""
HELPS, HARMS, SAYS_NOTHING, SAME_ROWS = "helps", "harms", "says nothing", "the same rows"


class Worth(Table, version=1):
    """What one source, rule, deriver or mixture is worth: the probes with it against the probes without it."""

    kind = Column(pa.string(), "what is compared: a source, rule, deriver, objective or mixture, and how")
    subject = Column(pa.string(), "what the points are of")
    treatment = Column(pa.string(), "the variant with it")
    control = Column(pa.string(), "the variant without it")
    points = Column(pa.float64(), "right answers in a hundred: treatment less control, on the same questions and seeds")
    low = Column(pa.float64(), "lower end of its 95 % interval; null where too few clusters agree", null=True)
    high = Column(pa.float64(), "upper end of its 95 % interval", null=True)
    says = Column(pa.string(), "helps or harms where the interval leaves 0 out; says nothing; or the same rows")
    loss = Column(pa.float64(), "loss of the true answers: control less treatment, so that more is better")
    loss_low = Column(pa.float64(), "lower end of its 95 % interval", null=True)
    loss_high = Column(pa.float64(), "upper end of its 95 % interval", null=True)
    loss_says = Column(pa.string(), "as says, by the loss")
    questions = Column(pa.int64(), "held-out questions that were answered")
    clusters = Column(pa.int64(), "screens and episodes that they are of")
    seeds = Column(pa.int64(), "training seeds")
    tokens = Column(pa.int64(), "tokens that a probe of the treatment trained on, the most of the seeds")
    rows = Column(pa.int64(), "rows that the subject gives")
    distinct = Column(pa.int64(), "different rows that a probe of the treatment saw, the most of the seeds")


class WorthCosts(Table, version=1):
    """What a row of `worth` cost, beside it: time and money enter no version."""

    kind = Column(pa.string(), "as in worth")
    subject = Column(pa.string(), "as in worth")
    judge_tokens = Column(pa.int64(), "tokens of the answers of the judge behind it, whichever night paid them")
    judge_minutes = Column(pa.float64(), "time of these answers")
    probe_minutes = Column(pa.float64(), "time of the probes with it and without it, when they were run")
