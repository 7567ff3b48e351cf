"""What every command that lets a policy act takes: whether its actions are checked before they are carried out."""

import argparse

from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import STEP_CHECKS, with_step_check

TRIES = 3
"""Of independent draws the fourth adds little: a policy that is right in 60 of 100 has been right once in 94."""


def add_step_check(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--check-steps",
        choices=STEP_CHECKS,
        default="",
        help="check actions before they are carried out, and draw refused ones again: by rules that hold a thought "
        "against its action, or by the model at --base-url (no check)",
    )
    parser.add_argument(
        "--tries", type=int, default=TRIES, metavar="K", help=f"with --check-steps: draws a turn at most ({TRIES})"
    )


def checked(options: argparse.Namespace, policies: PolicyMaker) -> PolicyMaker:
    """The policies as the options want them checked. Raises `ValueError` for a model that isn't named."""
    return with_step_check(policies, options.check_steps, options.tries, options.base_url or "", options.model or "")
