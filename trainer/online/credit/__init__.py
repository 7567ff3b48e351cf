"""Credit within a trajectory: what each reply's own advantage is, by estimators that a setting names.

An estimator is one function: rollouts of a group, their rewards (None = lost), the loss's options and its own options
by name → for each reply of each rollout its own advantage, None where the reply shares its trajectory's.
"""

Estimates = list[list[float | None]]

MEMBERS = {
    "trajectory": "trainer.online.credit.trajectory:trajectory",
    "shared_screens": "trainer.online.credit.shared_screens:shared_screens",
    "step_labels": "trainer.online.credit.step_labels:step_labels",
}
