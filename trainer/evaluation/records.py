"""The table of an evaluation: one row a held-out sample, what was replied to it, and how it did."""

import pyarrow as pa

from schemas.tables import Column, Table


class Records(Table, version=1):
    """A reply with its measures and controls. What only grounding has is null for navigation, and the reverse; a file
    has no column that none of its samples has."""

    sample_id = Column(pa.string(), "the held-out sample")
    source = Column(pa.string(), "name of the dataset")
    platform = Column(pa.string(), "mobile, web or desktop")
    objective = Column(pa.string(), "grounding or navigation")
    domain = Column(pa.string(), "grounding, or navigation/ and the platform")
    cluster = Column(pa.string(), "what isn't independent: the screen, of navigation the episode")
    reply = Column(pa.string(), "what the checkpoint said, as text")
    answer = Column(pa.string(), "what it should have said")
    format = Column(pa.float64(), "1 if the reply has the form that was asked for")
    reward = Column(pa.float64(), "of the reply, as offline RL counts it")
    blind = Column(pa.float64(), "hit or step of the blind table, which sees no screen")
    hit = Column(
        pa.float64(), "grounding: 1 if the point lies in a target box, or refuses where that is right", null=True
    )
    refusal = Column(pa.float64(), "grounding: 1 if a refusal is right", null=True)
    random_element = Column(pa.float64(), "grounding: chance that a random element of the screen is a hit", null=True)
    elements_known = Column(
        pa.float64(), "grounding: 1 if the screen's elements are known, 0 if their area counts", null=True
    )
    swapped = Column(pa.float64(), "grounding: hit of the reply to another screen; null where there is none", null=True)
    step = Column(pa.float64(), "navigation: 1 if the action is right, with its target and text", null=True)
    type = Column(pa.float64(), "navigation: 1 if it is of the right type", null=True)
    blind_type = Column(pa.float64(), "navigation: type of the blind table", null=True)
