"""Addresses that a browser opens as one page are one in rewards and in the success of a step."""

from __future__ import annotations

import pytest

from schemas.action_types import Launch
from trainer.rl.rewards import score_action, step_success

SAME = (
    ("https://shop.example", "https://shop.example/"),
    ("shop.example", "https://shop.example"),
    ("shop.example/a?b=1", "http://shop.example/a?b=1"),
    ("HTTPS://Shop.Example/a", "https://shop.example/a"),
    ("www.shop.example", "shop.example"),
    ("https://shop.example:443/", "shop.example."),
    ("https://shop.example?q=1", "https://shop.example/?q=1"),
    ("https://shop.example#top", "https://shop.example/#top"),
    ("localhost:8000", "http://localhost:8000/"),
    ("https://bücher.example/", "https://xn--bcher-kva.example"),
    ("https://shop.example/a%2fb", "https://shop.example/a%2Fb"),
    ("http://shop.example:80/", "https://shop.example:443"),
    ("//shop.example/a", "https:shop.example/a"),
    ("https:\\\\shop.example", "shop.example"),
    ("https://shop.example/a/../b/./c", "https://shop.example/b/c"),
    ("https://shop.example/%7eann", "https://shop.example/~ann"),
    ("ABOUT:blank", "about:blank"),
    ("https://shop.example/ü?q=ö", "https://shop.example/%C3%BC?q=%c3%b6"),
)
OTHER = (
    ("https://shop.example/a", "https://shop.example/b"),
    ("https://shop.example/a", "https://shop.example/A"),
    ("https://shop.example/a/b", "https://shop.example/a%2Fb"),
    ("shop.example", "shop.example.org"),
    ("shop.example:8000", "shop.example"),
    ("https://shop.example:80", "https://shop.example"),
    ("http://shop.example:443", "http://shop.example"),
    ("https://shop.example/a/", "https://shop.example/a"),
    ("https://shop.example/a//b", "https://shop.example/a/b"),
    ("mailto:a@shop.example", "shop.example"),
    ("ftp://shop.example", "https://shop.example"),
    ("https://shop.example/a?b=1", "https://shop.example/a?b=2"),
)


@pytest.mark.parametrize(
    ("one", "other", "same"), [(*pair, True) for pair in SAME] + [(*pair, False) for pair in OTHER]
)
def test_an_address_is_what_a_browser_opens(one: str, other: str, same: bool) -> None:
    for said, truth in ((one, other), (other, one)):
        assert step_success(Launch(url=said), Launch(url=truth)) is same
        assert score_action(Launch(url=said), Launch(url=truth)) == 1.0 + same
