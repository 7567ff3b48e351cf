"""What vectors are deaf to: texts that say different things are never one, and the same said otherwise still is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from quality.evidence.meaning import Meaning, conflict, meaning
from quality.evidence.words import plain

ROOT = Path(__file__).parents[3]

OTHER = """
Open the settings and turn on Bluetooth | Open the settings and turn off Bluetooth
Enable notifications | Disable notifications
Select all rows | Deselect all rows
Show notes with tags | Show notes without tags
Include taxes | Exclude taxes
Do not send the draft | Send the draft
Don't accept cookies | Accept cookies
Sort by name ascending | Sort by name descending
Turn on the fan and turn off the heater | Turn off the fan and turn on the heater
Choose tea, not coffee | Choose coffee, not tea
Activer le wifi | Désactiver le wifi
Enciende la luz | Apaga la luz
Schalte das Licht ein | Schalte das Licht aus
take a train from vienna to graz | take a train from graz to vienna
Move Alpha to Beta | Move Beta to Alpha
Move "A" to "B" | Move "B" to "A"
Tell ida that max is late | Tell max that ida is late
Copy the file in Downloads to Music | Copy the file in Music to Downloads
Wake me at 7:30 | Wake me at 7:35
Set a timer for 5 minutes | Set a timer for 5 hours
Set a timer for five minutes | Set a timer for 6 minutes
Set it to -5 | Set it to 5
Set volume to 30% | Set volume to 30
Heat to 20 °C | Heat to 20 °F
Pay $50 to Ann | Pay €50 to Ann
Buy 2 apples and 3 pears | Buy 3 apples and 2 pears
Book a room for 2026-05-03 | Book a room for 2026-05-04
Meet on monday | Meet on tuesday
Wake me at 5 am | Wake me at 5 p.m.
Search for "red shoes" | Search for "blue shoes"
Email Ann about the plan | Email Bob about the plan
Open the C++ file | Open the C# file
Use code LUCKY7 | Use code LUCKY8
Buy the pan. Then write to Ann Lee | Buy the pan. Then write to Bob Lee
React with 👍 | React with 👎
👍 | 👎
Open the 设置 app | Open the 地图 app
打开日历 | 关闭日历
เปิดไฟ | ปิดไฟ
लाइट चालू करें | लाइट बंद करें
की | का
شغّل الضوء | أطفئ الضوء
הדלק את האור | כבה את האור
불 켜기 | 불 끄기
明かりをオンにする | 明かりをオフにする
Включи свет | Выключи свет
Bật đèn | Tắt đèn
"""

SAME = """
Open the settings and turn on Bluetooth | Please open the settings and then turn on the Bluetooth
Open the settings and turn on Wi-Fi | OPEN THE SETTINGS, AND TURN ON WI-FI!
Open The Settings And Turn On Wi-Fi | open settings and turn wifi on
Remove the mail with the subject "Hi" | Delete the message with the subject "Hi"
Take a train from Vienna to Graz on May 3 | On May 3, take a train from Vienna to Graz
Turn on Bluetooth | Enable Bluetooth
Turn off Bluetooth | Disable bluetooth
Search for "red shoes" | Look up “red shoes”
Tap the Save button | Click on "Save"
Set a timer for five minutes | Set a 5 min timer
Don't send the draft | Do not send the draft
Use the code LUCKY7 and buy it | Please use the code Lucky7 and buy it
Send Ann a message | Send a message to Ann
Pay $1,000 to Ann | Pay Ann $1000
Buy milk, bread, and butter | Buy bread, milk and butter
Lower the volume | Turn the volume down
Wake me at 5 p.m. | Wake me at 5 pm
Send ❤️ to Ann | Send ❤ to Ann, please
เปิดไฟ | เปิดไฟ!
打开日历 | 打开日历。
लाइट चालू करें | लाइट चालू करें।
"""


def rows(table: str) -> list[tuple[str, ...]]:
    return [tuple(line.split(" | ")) for line in table.strip().splitlines()]


@pytest.mark.parametrize(("one", "two"), rows(OTHER))
def test_texts_that_say_different_things_are_in_conflict(one: str, two: str) -> None:
    assert conflict(meaning(one), meaning(two)) and conflict(meaning(two), meaning(one))


@pytest.mark.parametrize(("one", "two"), rows(SAME))
def test_the_same_said_otherwise_is_not(one: str, two: str) -> None:
    assert conflict(meaning(one), meaning(two)) == conflict(meaning(two), meaning(one)) == ""


def test_a_meaning_survives_its_line() -> None:
    for text in ("", "Move “A” from 5 pm to Ann 👍, not to ann@example.com", "打开 Wi-Fi"):
        assert Meaning.from_json(meaning(text).as_json()) == meaning(text)


def test_vowel_signs_are_part_of_a_word() -> None:
    assert plain("लाइट चालू करें।") == "लाइट चालू करें" and plain("की") != plain("का")


@pytest.mark.slow
def test_whoever_takes_vectors_of_texts_is_known() -> None:
    """Cosines of texts decide in `quality.duplicates.same_text` and, under the same guard, in the contamination index;
    elsewhere they only rank or weigh. A new user of `Embedder.encode` has to say here which it is."""
    users = set()
    for folder in ("pipelines", "quality", "generators", "trainer", "dagster_project"):
        for path in (ROOT / folder).rglob("*.py"):
            calls = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
            encoding = (f for f in calls if isinstance(f, ast.Attribute) and f.attr == "encode")
            if any(ast.unparse(f.value).lower().endswith("embedder") for f in encoding):
                users.add(path.relative_to(ROOT).as_posix())
    assert users == {
        "quality/duplicates/same_text.py",
        "quality/contamination/suite_index.py",
        "quality/judges/nano/look.py",
        "generators/policies/demonstrations.py",
    }
