"""Steps that can't be taken back: by what is clicked, by the screen, by the goal; figures are in bench/care.py."""

from __future__ import annotations

import pytest

from quality.evidence.consequences import KINDS, LANGUAGES, consequence, consequences, names
from quality.items.screens import Element
from schemas.action_types import Click, Finished, Hotkey, Hover, RightClick, SelectOption, Type
from schemas.actions import Action

ON = Click((500, 500))


def button(label: str, role: str = "button") -> Element:
    return Element((450, 450, 550, 550), role, label, label)


def said(text: str, role: str = "text") -> Element:
    return Element((0, 0, 900, 100), role, text, text)


def kind(*elements: Element, action: Action = ON, goal: str = "", earlier: tuple[str, ...] = ()) -> str | None:
    found = consequence(action, elements, goal, earlier)
    return found.kind if found else None


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        *((label, "delete") for label in ("Delete project", "Konto schließen", "Borrar todo", "删除")),
        *((label, "pay") for label in ("Pay 12.00 EUR", "Order", "Zahlungspflichtig bestellen", "Comprar", "付款")),
        *((label, "send") for label in ("Send", "Antworten", "Enviar a todos", "发送给所有人")),
        *((label, "share") for label in ("Create public link", "Freigeben", "Compartir", "分享")),
        *((label, "permission") for label in ("Allow access", "Zugriff erlauben", "Autorizar", "允许访问")),
        *((label, "sign") for label in ("Sign now", "Jetzt unterschreiben", "Firmar ahora", "立即签署")),
        *((label, "overwrite") for label in ("Replace file", "Überschreiben", "Reemplazar", "覆盖当前版本")),
        *(
            (label, None)
            for label in (
                "Sign in",
                "Orders",
                "Payments overview",
                "Remove from cart",
                "Accept cookies",
                "Save",
                "保存",
            )
        ),
        ("Please delete the old photos before Monday if you can", None),  # a message, no control
    ],
)
def test_a_control_says_what_it_does(label: str, expected: str | None) -> None:
    assert kind(button(label)) == expected


@pytest.mark.parametrize(
    ("refusal", "order", "expected"),
    [
        ("Don't allow", "Don't save", "delete"),
        ("Cancel", "Cancel order", "delete"),
        ("No permitir", "No guardar", "delete"),
        ("不允许", "不保存", "delete"),
        ("取消共享", "取消订阅", "delete"),
        ("Show revoked keys", "Revoke access", "delete"),
        ("Rückgängig: Ersetzen", "Alle ersetzen", "overwrite"),
    ],
)
def test_a_label_that_begins_by_refusing_or_looking_orders_nothing_unless_that_is_the_order(
    refusal: str, order: str, expected: str
) -> None:
    assert kind(button(refusal)) is None and kind(button(order)) == expected


@pytest.mark.parametrize(
    ("noun", "verb"),
    [
        ("Original post", "Save and post"),
        ("Post settings", "Post now"),
        ("Invite declined", "Invite selected"),
        ("Failed to send", "Send again"),
        ("Empty list", "Empty my whole trash"),
        ("外部共享", "立即共享"),
        ("允许的邮箱域名", "允许访问"),
        ("Firma electrónica", "Firma aquí"),
    ],
)
def test_a_word_that_is_a_noun_or_reports_orders_nothing(noun: str, verb: str) -> None:
    assert kind(button(noun)) is None and kind(button(verb)) is not None


@pytest.mark.parametrize("label", ["ic_delete_24dp", "com.shop.app:id/removeButton", "🗑", "Cancel all my orders"])
def test_icons_speak_by_their_identifier_or_picture_and_words_may_stand_between(label: str) -> None:
    assert kind(button(label)) == "delete"
    assert kind(button("delete_me.txt")) == kind(button("ic_sort_24dp")) is None


def test_a_yes_with_other_words_confirms_unless_they_refuse() -> None:
    assert kind(button("Yes, go ahead"), said("Delete this file?", "heading")) == "delete"
    assert kind(button("Yes, keep it"), said("Delete this file?", "heading")) is None


def test_an_entry_of_a_list_may_hold_any_word() -> None:
    assert kind(button("Delete old mails", "link")) is None and kind(button("Send parcel", "textbox")) is None


@pytest.mark.parametrize("label", ["Yes", "Ja", "Sí", "是", "Continue", "OK"])
def test_what_only_confirms_is_read_with_its_screen_then_with_the_goal(label: str) -> None:
    assert kind(button(label), said("Delete this file?", "heading")) == "delete"
    assert kind(button(label), said("By going on you agree to a contract of 24 months.")) == "sign"
    assert kind(button(label), goal="Delete the note") == "delete"
    assert kind(button(label), said("The trial ends by itself."), goal="Look at the trial") is None


def test_context_decides_where_words_do_not() -> None:
    assert kind(button("Remove Lamp"), said("Cart", "heading")) is None and kind(button("Remove Lamp")) == "delete"
    assert kind(button("Location", "switch")) == "permission" and kind(button("Dark theme", "switch")) is None
    assert kind(button("Anna Weber", "link"), said("Forward to", "heading")) == "send"
    assert kind(button("Save"), earlier=("Clear Text",)) == "overwrite"
    assert kind(button("Save"), earlier=("Clear Title",)) is None  # a name is replaced on purpose
    assert kind(button("Save"), earlier=("clear",)) == "overwrite"  # Ctrl+A


@pytest.mark.parametrize("action", [Hover((500, 500)), Type("delete"), Finished("deleted"), Click((10, 990)), None])
def test_only_a_click_on_something_does_anything(action: Action | None) -> None:
    assert kind(button("Delete"), action=action) is None  # type: ignore[arg-type]


def test_an_option_of_a_menu_does_what_it_says_and_one_of_a_form_nothing_yet() -> None:
    for label, expected in (("Delete project", "delete"), ("Pay now", "pay"), ("Rename", None)):
        action = SelectOption((500, 500), label)
        assert kind(button("File", "menu"), action=action) == expected
        assert kind(button("Sort by", "combobox"), action=action) is None
    assert kind(button("Delete"), action=RightClick((500, 500))) is None  # it opens what can be done
    assert kind(button("Delete"), action=SelectOption((10, 990), "Delete")) is None


def test_an_episode_knows_what_came_before(world: object) -> None:
    page = world.page([((150, 290, 210, 350), "Save")])  # type: ignore[attr-defined]
    episode = world.episode((Hotkey(("ctrl", "a")), page), (Type("x"), page), (Click((500, 500)), page))  # type: ignore[attr-defined]
    assert [one and one.kind for one in consequences(episode)] == [None, None, "overwrite"]


def test_a_question_names_what_it_is_about() -> None:
    asked = {
        "delete": ("Shall I delete it?", "Soll ich es löschen?", "¿Lo elimino?", "要删除吗？"),
        "pay": ("It costs 12 euros.", "Soll ich bezahlen?", "¿Pago?", "要付款吗？"),
    }
    assert len(LANGUAGES) == 4 and len(KINDS) == 7
    for kind_of, texts in asked.items():
        assert all(names(kind_of, text) for text in texts)  # type: ignore[arg-type]
        assert not names(kind_of, "Shall I go on?")  # type: ignore[arg-type]
