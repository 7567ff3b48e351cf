"""Steps that can't be taken back: by what is clicked, by the screen, by the goal; figures are in bench/care.py."""

from __future__ import annotations

import pytest

from quality.evidence.consequence_kinds import KINDS
from quality.evidence.consequence_words import LANGUAGES
from quality.evidence.consequences import consequence, consequences, names
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
    ("order", "twin"),
    [
        # French, Portuguese: an infinitive orders, behind "à" and "para" it says what something is for
        ("Supprimer la note", "Voir les notes supprimées"),
        ("Signer", "Document à signer"),
        ("Glisser pour envoyer", "Échec de l'envoi"),
        ("Excluir conta", "Conta excluída"),
        ("Assinar documento", "Documento para assinar"),
        # Japanese, Korean: the verb stands last, so a word before another belongs to that one
        ("写真を削除", "削除済みの写真"),
        ("送信する", "送信先"),
        ("削除して続行", "削除しない"),
        ("통화 시작하기", "통화 기록"),
        ("공유", "공유 문서함"),
        ("지금 주문", "필터링한 주문"),
        ("계정 삭제 요청", "삭제된 계정"),
        # words of refusal that are the order's own
        ("수신 거부", "거부"),
        ("Ne pas enregistrer", "Ne pas autoriser"),
        ("Cancelar reserva", "Cancelar"),
        # a label may be longer where what it orders stands at an edge
        ("Compartilhar o link de pagamento com o cliente", "Veja como os clientes compartilham o link de pagamento"),
    ],
)
def test_four_more_languages_order_by_their_own_grammar(order: str, twin: str) -> None:
    assert kind(button(order)) is not None and kind(button(twin)) is None


def below(row: int, label: str, role: str = "button") -> Element:
    return Element((450, 450 + 60 * row, 550, 500 + 60 * row), role, label, label)


def test_a_dialogs_only_way_on_does_what_its_heading_orders() -> None:
    ask, out = said("Leave this team?", "heading"), below(1, "Cancel")
    assert kind(ask, button("Go for it"), out) == "delete"
    assert kind(ask, button("Go for it")) is None, "nothing says that it is a dialog"
    assert kind(ask, button("Go for it"), out, below(2, "Read the rules")) is None, "there are two ways on"
    assert kind(ask, button("Go for it"), below(8, "Cancel")) is None, "what stands far off is no part of it"
    assert kind(ask, button("Cancel"), below(1, "Back")) is None, "a way out leads nowhere"
    assert kind(said("Edit the payment address", "heading"), button("Store"), out) is None
    assert kind(said("Save the payment?", "heading"), button("Save"), out) is None, "saving replaces nothing by itself"
    # What the label names goes before the heading; a text must ask, as what explains may name anything.
    assert kind(said("Order 12", "heading"), button("Remboursement partiel"), below(1, "Annuler")) == "pay"
    assert kind(said("Quit?", "heading"), said("Unsaved changes will be lost?"), button("Quit it"), out) == "delete"
    assert kind(said("Hello", "heading"), said("We never share your data."), button("Wave"), out) is None


def test_an_amount_says_what_is_confirmed_where_no_word_does() -> None:
    assert kind(button("Confirm"), said("Trip to Lyon"), said("€ 84.00")) == "pay"
    assert kind(button("確定"), said("合計 1,480円")) == "pay"
    assert kind(button("Confirm"), said("Trip to Lyon"), said("84 km")) is None


def test_words_under_a_filter_or_in_the_trash_do_nothing_that_lasts() -> None:
    assert kind(button("Clear all"), said("Filter orders by", "heading")) is None
    assert kind(button("Refund", "menuitem"), said("Filter orders by", "heading")) is None
    assert kind(button("Restore"), said("Trash", "heading")) is None and kind(button("Restore")) == "overwrite"
    assert kind(button("Delete forever"), said("Trash", "heading")) == "delete"


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
        "delete": (
            "Shall I delete it?",
            "Soll ich es löschen?",
            "¿Lo elimino?",
            "要删除吗？",
            "Le supprimer ?",
            "削除しますか",
            "삭제할까요?",
        ),
        "pay": (
            "It costs 12 euros.",
            "Soll ich bezahlen?",
            "¿Pago?",
            "要付款吗？",
            "Dois-je payer ?",
            "支払いますか",
            "Devo pagar?",
        ),
    }
    assert len(LANGUAGES) == 8 and len(KINDS) == 7
    for kind_of, texts in asked.items():
        assert all(names(kind_of, text) for text in texts)  # type: ignore[arg-type]
        assert not names(kind_of, "Shall I go on?")  # type: ignore[arg-type]
