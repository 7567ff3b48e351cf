"""The MiniWoB++ pages that a script can solve: the suite of the same name measures agents on these."""

import re

SCRIPTED_PAGES = tuple(
    re.findall(
        r"\S+",
        """
    choose-list click-button click-button-sequence click-checkboxes click-checkboxes-large click-checkboxes-transfer
    click-collapsible-2-nodelay click-collapsible-nodelay click-dialog-2 click-link click-menu click-menu-2
    click-option click-scroll-list click-tab click-tab-2 click-tab-2-hard click-test-2 click-widget email-inbox
    email-inbox-delete email-inbox-forward email-inbox-important email-inbox-nl-turk email-inbox-reply
    email-inbox-star-reply enter-date enter-password enter-text enter-text-2 enter-text-dynamic enter-time
    focus-text-2 form-sequence-2 login-user login-user-popup multi-layouts multi-orderings navigate-tree phone-book
    read-table search-engine simple-arithmetic social-media social-media-all social-media-some unicode-test
    use-autocomplete-nodelay use-spinner
    """,
    )
)
"""As the judge bench has an oracle for each (`judge_bench.recorders.miniwob_oracles_sites.SOLVERS`)."""
