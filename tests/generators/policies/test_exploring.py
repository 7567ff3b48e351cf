"""What the explorer goes by: how screens are told apart by what shows, and what is worth typing into a field."""

from __future__ import annotations

from random import Random

from generators.policies.exploration import fingerprint
from generators.policies.exploring import worth_typing
from generators.tasks.world_interface import ScreenElement


def test_fingerprints_mask_numbers_and_own_words_but_not_standing() -> None:
    def place(role: str, name: str, text: str) -> ScreenElement:
        return ScreenElement((0, 0, 10, 10), role, text, name, "")

    assert fingerprint([place("link", "Cart (1)", "")]) == fingerprint([place("link", "Cart (7)", "")])
    assert fingerprint([place("link", "Cart (0)", "")]) != fingerprint([place("link", "Cart (7)", "")])
    assert fingerprint([place("checkbox", "Terms", "✓")]) != fingerprint([place("checkbox", "Terms", "")])
    mine = [fingerprint([place("textbox", "Name", word)], [word]) for word in ("Mira", "Otto")]
    assert mine[0] == mine[1] != fingerprint([place("textbox", "Name", "")])


def test_it_types_by_label_and_what_is_quoted() -> None:
    shown = [ScreenElement((0, 0, 1, 1), "text", 'Use the code "SPRING10" today', "", "")]
    texts = worth_typing("Your email", shown, Random(0))
    assert "@" in texts[0] and texts[1:] == ["SPRING10"]
