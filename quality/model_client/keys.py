"""Which key goes to which address: a key is a secret between its owner and one server."""

import os
from urllib.parse import urlsplit

KEY, OPENAI_KEY, OPENAI_URL = "VESPER_JUDGE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"
NO_KEY = "none"
"""What is sent where there is no key: the SDK insists on one, and servers without keys pass it over."""


def key_for(base_url: str) -> str:
    """The key that an address is sent, `NO_KEY` without one.

    `VESPER_JUDGE_API_KEY` is for whatever endpoint was configured. `OPENAI_API_KEY` belongs to OpenAI: it goes to
    https://api.openai.com, or to the address that `OPENAI_BASE_URL` names beside it, and to no other.
    """
    if key := os.environ.get(KEY):
        return key
    found = urlsplit(base_url)
    own = (found.scheme, found.hostname, found.port or 443) == ("https", "api.openai.com", 443)
    paired = (os.environ.get(OPENAI_URL) or "").rstrip("/")
    # Both must agree to the letter, or a key would go where nobody meant it to.
    return (os.environ.get(OPENAI_KEY) if own or paired == base_url.rstrip("/") else None) or NO_KEY


def key_withheld(base_url: str) -> str:
    """What to say of an address that wants a key and was sent none though there is `OPENAI_API_KEY`; else empty."""
    if key_for(base_url) != NO_KEY or not os.environ.get(OPENAI_KEY):
        return ""
    return f"${OPENAI_KEY} is sent to api.openai.com and ${OPENAI_URL} alone: set ${KEY} for this address"
