"""Families of pages: what stands on a settings list, a mail list, a form and others, drawn from a seed.

Every element that can be asked for carries its kind, its name and the text that it stands beside as `data-k`, `data-n`
and `data-b`; what a browser makes of the page is read from there. Add a family: a function here and its entry in
`FAMILIES` or, never drawn for training, in `HELD_OUT_FAMILIES`.
"""

import html
from collections.abc import Callable, Mapping
from random import Random

from generators.proving.kit_pages.styles import PageStyle
from generators.proving.kit_pages.vocabulary import Words

WIDE_EM = 42
"""A page with room for so many widths of its text's size is a wide one."""
WORD = "word"
"""Kind of a word of running text: it can be read and is no element."""
NAV_ICONS = ("menu", "back", "search", "more", "user", "bell", "filter", "plus", "settings", "cart", "close")
ITEM_ICONS = ("more", "trash", "edit", "heart", "flag", "download", "lock", "down", "check", "close", "plus")
SIGNS = ("folder", "file", "mail", "phone", "clock", "calendar", "camera", "home", "user", "bell", "settings", "chat")
MEDIA = ("back", "play", "pause", "forward", "heart", "refresh", "upload", "more", "down", "up")


class PageBuilder:
    """HTML of the elements of one page; `icons`: name → SVG."""

    def __init__(self, rng: Random, style: PageStyle, icons: Mapping[str, str]) -> None:
        self.rng, self.style, self.words = rng, style, Words(rng, style.language)
        self._icons = icons

    @property
    def wide(self) -> bool:
        """Whether the page has room for columns."""
        # Measured in its own text's size: large text leaves a wide screen no room for columns.
        return (self.style.viewport[0] - 2 * self.style.margin[0]) / self.style.size_px >= WIDE_EM

    def _tag(self, tag: str, kind: str, name: str, css: str, inside: str, beside: str = "") -> str:
        of = f' data-b="{html.escape(beside)}"' if beside else ""
        return f'<{tag} data-k={kind} data-n="{html.escape(name)}"{of} class="{css}">{inside}</{tag}>'

    def text(self, name: str, css: str = "", beside: str = "") -> str:
        """A text that can be asked for."""
        return self._tag("span", "text", name, css, html.escape(name), beside)

    def button(self, name: str, plain: bool = False) -> str:
        """A button that shows its name."""
        css = f"v-button {self.style.look.css_class('button')}{' plain' if plain else ''}"
        return self._tag("button", "button", name, css, html.escape(name))

    def link(self, name: str) -> str:
        """A link."""
        return self._tag("a", "link", name, "link", html.escape(name))

    def tab(self, name: str, on: bool) -> str:
        """A tab."""
        return self._tag("span", "tab", name, "tab on" if on else "tab", html.escape(name))

    def icon(self, name: str, beside: str = "", round_: bool = False) -> str:
        """An icon, of a row if it stands beside a text."""
        return self._tag("span", "icon", name, "v-icon round" if round_ else "v-icon", self._icons[name], beside)

    def field(self, shown: str, beside: str = "", kind: str = "field") -> str:
        """A text field (or `select`) that shows a text."""
        css = f"v-{kind} {self.style.look.css_class(kind)}"
        return self._tag("div", "field", shown, css, html.escape(shown), beside)

    def switch(self, beside: str) -> str:
        """A switch beside a text."""
        on = self.rng.random() < 0.5
        return self._box("switch", f"switch {'on' if on else 'off'}", beside, "checkbox", on)

    def tick(self, beside: str) -> str:
        """A checkbox beside a text that isn't part of it."""
        on = self.rng.random() < 0.5
        return self._box("box", f"{'checked' if on else 'empty'} checkbox", beside, "checkbox", on)

    def choice(self, name: str, kind: str, on: bool) -> str:
        """A `checkbox` or `radio` together with its text."""
        box = self._input(kind, on)
        return self._tag("label", kind, name, "v-label", f"{box}<span>{html.escape(name)}</span>")

    def slider(self, beside: str) -> str:
        """A slider beside a text."""
        look = self.style.look.css_class("range")
        return (
            f'<input data-k=slider data-n=slider data-b="{html.escape(beside)}" type=range class="slider {look}" '
            f'style="width:9em" value={self.rng.randint(5, 95)}>'
        )

    def _box(self, kind: str, name: str, beside: str, input_kind: str, on: bool) -> str:
        box = self._input(input_kind, on, kind == "switch")
        of = "form-switch" if kind == "switch" and self.style.look.name == "bootstrap" else ""
        return self._tag("span", kind, name, f"v-icon {of}", box, beside)

    def _input(self, kind: str, on: bool, switch: bool = False) -> str:
        css = self.style.look.css_class("check")
        own = f"check{' switch' if switch else ''}{' dot' if kind == 'radio' else ''}"
        role = " role=switch" if switch else ""
        style = ' style="margin:0;float:none"'
        return f'<input type={kind}{role} class="{css or own}"{style}{" checked" if on else ""}>'

    def prose(self, sentences: int) -> str:
        """Running text."""
        found = []
        for _ in range(sentences):
            some = [self.words.text("prose") for _ in range(self.rng.randint(5, 11))]
            found += [*some[:-1], f"{some[-1]}."]
        # Words of prose are marked too: they can be read, so their names are never said to be missing.
        return "".join(self._tag("span", WORD, word, "", html.escape(word)) for word in found)

    def bar(self, title: str = "") -> str:
        """A title bar with icons at its sides."""
        icons = self.rng.sample(NAV_ICONS, self.rng.randint(1, 4))
        first = self.icon(icons.pop()) if self.rng.random() < 0.7 else ""
        name = self.text(title or self.words.text("menu"), "v-title") if self.rng.random() < 0.9 else ""
        paint = self.rng.choice(("paint", "", ""))
        return f"<div class='v-row bar {paint}'>{first}{name}<u></u>{''.join(map(self.icon, icons))}</div>"

    def tabs(self) -> str:
        """A row of tabs."""
        count = self.rng.randint(2, 4)
        on = self.rng.randrange(count)
        some = "".join(self.tab(self.words.text("menu"), number == on) for number in range(count))
        return f"<div class='v-row line wrap'>{some}</div>"

    def panel(self, inside: str, css: str = "") -> str:
        """A card."""
        return f"<div class='v-panel {self.style.look.css_class('panel')} {css}'>{inside}</div>"

    def picture(self, width: str, height: str) -> str:
        """A coloured area that stands for a picture."""
        hue = self.rng.randrange(360)
        colours = f"hsl({hue},60%,45%),hsl({(hue + 70) % 360},50%,60%)"
        return (
            f"<span class=picture style='width:{width};height:{height};background:linear-gradient(135deg,{colours})'>"
            "</span>"
        )


def _bars(page: PageBuilder, body: str) -> str:
    """A body with a bar above, with tabs, or bare; on a wide page it may be narrow and stand beside a side menu."""
    if page.wide and page.rng.random() < 0.75:
        names = [page.words.text("menu") for _ in range(page.rng.randint(3, 10))]
        # Either every line of a side menu has a sign or none has, as in real ones.
        signs = page.rng.sample(SIGNS, len(names)) if page.rng.random() < 0.6 else []
        lines = [f"{page.icon(sign, name)}{page.text(name)}" for sign, name in zip(signs, names, strict=False)]
        menu = "".join(f"<div class=v-row>{line}</div>" for line in lines or map(page.text, names))
        main = f"<div style='flex:1;min-width:0;max-width:{page.rng.randint(22, 36)}em'>{body}</div>"
        parts = [f"<div style='width:11em;flex:none'>{menu}</div>", main]
        # Shuffled, so that the side of the menu isn't known unseen.
        page.rng.shuffle(parts)
        body = f"<div style='display:flex'>{''.join(parts)}</div>"
    draw = page.rng.random()
    if draw < 0.5:
        return page.bar() + body
    if draw < 0.7:
        return page.bar() + page.tabs() + body
    return page.tabs() + body if draw < 0.85 else body


def settings(page: PageBuilder) -> str:
    """Rows with a text and a control at the end."""
    rows = []
    for _ in range(page.rng.randint(9, 18)):
        name = page.words.text("setting")
        sign = page.icon(page.rng.choice(SIGNS), name, page.rng.random() < 0.4) if page.rng.random() < 0.4 else ""
        shown = page.text(name)
        if page.rng.random() < 0.3:
            shown = f"<span class=v-col>{shown}{page.text(page.words.text('status'), 'small', name)}</span>"
        end = page.rng.choice(
            (page.switch, page.switch, page.slider, page.tick, lambda of: page.icon("forward", of), lambda of: "")
        )(name)
        rows.append(f"<div class='v-row line'>{sign}{shown}<u></u>{end}</div>")
        if page.rng.random() < 0.15:
            rows.append(f"<div class=v-row>{page.text(page.words.text('menu'), 'strong')}</div>")
    return _bars(page, "".join(rows))


def mail(page: PageBuilder) -> str:
    """Senders, subjects and times."""
    rows = []
    for _ in range(page.rng.randint(8, 14)):
        name, subject = page.words.text("name"), page.words.text("line")
        sign = page.tick(name) if page.rng.random() < 0.5 else "<span class=face></span>"
        text = f"<span class=v-col>{page.text(name, 'strong')}{page.text(subject, 'small', name)}</span>"
        last = page.icon(page.rng.choice(("flag", "heart", "trash", "more")), name)
        time = page.text(page.words.time(), "small", name) if page.rng.random() < 0.6 else ""
        rows.append(f"<div class='v-row line'>{sign}{text}<u></u>{time}{last}</div>")
    tools = "".join(page.icon(name) for name in page.rng.sample(ITEM_ICONS, page.rng.randint(2, 5)))
    compose = f"<div class='v-row end'>{page.button(page.words.text('action'))}</div>"
    return _bars(page, f"<div class='v-row line'>{tools}</div>{''.join(rows)}{compose}")


def shop(page: PageBuilder) -> str:
    """Cards of things with a price and a button."""
    columns = page.rng.choice((3, 4)) if page.wide else 2
    cards = []
    for _ in range(page.rng.randint(4, 12)):
        name = page.words.text("thing")
        end = page.icon("heart", name) if page.rng.random() < 0.5 else page.icon("cart", name, True)
        price = page.text(page.words.price(), "strong", name)
        buy = f"<div class=v-row>{page.button(page.words.text('action'))}</div>" if page.rng.random() < 0.6 else ""
        head = page.picture("100%", f"{page.rng.randint(3, 8)}em")
        rows = f"<div class=v-row>{page.text(name)}</div><div class=v-row>{price}<u></u>{end}</div>{buy}"
        cards.append(page.panel(head + rows))
    find = f"<div class=v-row>{page.field(page.words.text('thing'))}{page.icon('search', '', True)}</div>"
    grid = f"<div class=v-grid style='grid-template-columns:repeat({columns},minmax(0,1fr))'>{''.join(cards)}</div>"
    return _bars(page, (find if page.rng.random() < 0.7 else "") + grid)


def form(page: PageBuilder) -> str:
    """Labelled fields, choices and buttons."""
    blocks, above = [], page.rng.random() < 0.5
    for _ in range(page.rng.randint(5, 10)):
        name = page.words.text("field")
        kind = page.rng.choice(("field", "field", "select"))
        shown = page.words.text({"field": "name", "select": "option"}[kind])
        row = f"{page.text(name, '', '')}{'' if above else '<u></u>'}{page.field(shown, name, kind)}"
        blocks.append(f"<div class='v-row{' wrap' if above else ''}'>{row}</div>")
    for kind in page.rng.sample(("checkbox", "radio"), page.rng.randint(1, 2)):
        some = "".join(
            f"<div class=v-row>{page.choice(page.words.text('option'), kind, page.rng.random() < 0.4)}</div>"
            for _ in range(page.rng.randint(2, 4))
        )
        blocks.append(some)
    # Blocks in any order: with a fixed one the place of a control would be known without looking.
    page.rng.shuffle(blocks)
    side = page.rng.choice(("", "mid", "end"))
    some = "".join(page.button(page.words.text("action"), plain) for plain in (False, True)[: page.rng.randint(1, 2)])
    body = f"{''.join(blocks)}<div class='v-row wrap {side}'>{some}{page.link(page.words.text('action'))}</div>"
    return _bars(page, page.panel(body) if page.rng.random() < 0.4 else body)


def dashboard(page: PageBuilder) -> str:
    """Cards with figures, and a table."""
    columns = page.rng.choice((3, 4)) if page.wide else 2
    cards = []
    for _ in range(page.rng.randint(2, 2 * columns)):
        name = page.words.text("status")
        figure = page.text(page.words.number(), "v-title", name)
        cards.append(page.panel(f"<div class=v-row>{page.text(name, 'small')}</div><div class=v-row>{figure}</div>"))
    table = _table(page, page.rng.randint(4, 9), 4 if page.wide else 2)
    grid = f"<div class=v-grid style='grid-template-columns:repeat({columns},minmax(0,1fr))'>{''.join(cards)}</div>"
    parts = [grid, page.panel(table), f"<div class=v-row>{page.button(page.words.text('action'), True)}</div>"]
    page.rng.shuffle(parts)
    return _bars(page, "".join(parts))


def _table(page: PageBuilder, rows: int, columns: int) -> str:
    heads = "".join(f"<span class=cell>{page.text(page.words.text('field'), 'strong')}</span>" for _ in range(columns))
    found = [heads, "<span></span>"]
    for _ in range(rows):
        name = page.words.text("name")
        makers = (page.words.number, page.words.price, page.words.time, lambda: page.words.text("status"))
        cells = [page.text(name), *(page.text(make(), "", name) for make in makers[: columns - 1])]
        end = page.icon(page.rng.choice(ITEM_ICONS), name)
        found += [f"<span class=cell>{cell}</span>" for cell in cells] + [f"<span class=cell>{end}</span>"]
    return (
        f"<div class=v-grid style='grid-template-columns:repeat({columns},auto) 2em;gap:.2em;align-items:center'>"
        f"{''.join(found)}</div>"
    )


def chat(page: PageBuilder) -> str:
    """Bubbles on both sides and a field for the next message."""
    rows = []
    for _ in range(page.rng.randint(7, 14)):
        mine, said = page.rng.random() < 0.5, page.words.text("line")
        bubble = f"<span class='bubble{' mine' if mine else ''}'>{page.text(said)}</span>"
        time = page.text(page.words.time(), "small", said) if page.rng.random() < 0.4 else ""
        face = "" if mine else "<span class=face></span>"
        rows.append(f"<div class='v-row{' end' if mine else ''}'>{face}{bubble}{time}</div>")
    tools = "".join(page.icon(name) for name in page.rng.sample(("plus", "camera", "upload", "phone"), 2))
    send = page.button(page.words.text("action"))
    write = f"<div class='v-row bar'>{tools}{page.field(page.words.text('field'))}{send}</div>"
    # The field stands anywhere, for the same reason: real chats have it
    # at the end, and that could be learned blind.
    rows.insert(page.rng.choice((0, len(rows), len(rows) // 2)), write)
    title = page.text(page.words.text("name"), "v-title")
    head = f"<div class='v-row bar'>{page.icon('back')}<span class=face></span>{title}</div>"
    return (head if page.rng.random() < 0.7 else "") + "".join(rows)


def calendar(page: PageBuilder) -> str:
    """A month of days, and what happens on one of them."""
    first = page.rng.randrange(7)
    days = "<span></span>" * first + "".join(
        f"<span class='cell'>{page.text(str(day))}</span>" for day in range(1, 29 + page.rng.randrange(4))
    )
    month = f"<div class=v-grid style='grid-template-columns:repeat(7,1fr)'>{days}</div>"
    events = []
    for _ in range(page.rng.randint(3, 7)):
        name = page.words.text("line")
        end = page.rng.choice((page.switch, page.tick, lambda of: page.icon(page.rng.choice(ITEM_ICONS), of)))(name)
        time = page.text(page.words.time(), "small", name)
        events.append(f"<div class='v-row line'>{time}{page.text(name)}<u></u>{end}</div>")
    title = page.text(page.words.text("menu"), "v-title")
    head = f"<div class=v-row>{page.icon('back')}{title}{page.icon('forward')}</div>"
    parts = [head + month, "".join(events), f"<div class=v-row>{page.button(page.words.text('action'))}</div>"]
    page.rng.shuffle(parts)
    return _bars(page, "".join(parts))


def article(page: PageBuilder) -> str:
    """Headings, running text, pictures and links."""
    blocks = []
    for _ in range(page.rng.randint(3, 6)):
        blocks.append(f"<div class=v-row>{page.text(page.words.text('line'), 'v-title')}</div>")
        if page.rng.random() < 0.4:
            blocks.append(f"<div class=v-row>{page.picture('100%', f'{page.rng.randint(4, 9)}em')}</div>")
        blocks.append(f"<div class=prose>{page.prose(page.rng.randint(1, 4))}</div>")
        links = "".join(page.link(page.words.text("action")) for _ in range(page.rng.randint(0, 2)))
        signs = "".join(page.icon(name) for name in page.rng.sample(ITEM_ICONS, page.rng.randint(0, 3)))
        blocks.append(f"<div class='v-row wrap'>{links}{signs}</div>")
    return _bars(page, "".join(blocks))


def dialog(page: PageBuilder) -> str:
    """A list with a dialog in front of it."""
    behind = [
        f"<div class='v-row line'>{page.text(page.words.text('menu'))}</div>" for _ in range(page.rng.randint(2, 9))
    ]
    close = page.icon("close") if page.rng.random() < 0.6 else ""
    head = f"<div class=v-row>{page.text(page.words.text('line'), 'v-title')}<u></u>{close}</div>"
    middle = page.rng.choice(
        (
            lambda: f"<div class=prose>{page.prose(2)}</div>",
            lambda: "".join(
                f"<div class=v-row>{page.choice(page.words.text('option'), 'radio', number == 1)}</div>"
                for number in range(page.rng.randint(2, 5))
            ),
            lambda: f"<div class=v-row>{page.field(page.words.text('field'))}</div>",
        )
    )()
    some = [page.button(page.words.text("action"), plain) for plain in (True, False)]
    page.rng.shuffle(some)
    box = page.panel(
        f"{head}{middle}<div class='v-row wrap {page.rng.choice(('', 'mid', 'end'))}'>{''.join(some)}</div>"
    )
    side, cut = page.rng.randint(1, 3), page.rng.randint(0, len(behind))
    front = f"<div class='over' style='margin:1em {side}em'>{box}</div>"
    return _bars(page, "".join([*behind[:cut], front, *behind[cut:], settings(page)]))


def files(page: PageBuilder) -> str:
    """Files and folders with their sizes."""
    rows = []
    for _ in range(page.rng.randint(9, 16)):
        name = page.words.text(page.rng.choice(("thing", "menu")))
        sign = page.icon(page.rng.choice(("folder", "file")), name)
        size = page.text(f"{page.words.number(900)} MB", "small", name)
        end = page.icon(page.rng.choice(ITEM_ICONS), name)
        rows.append(f"<div class='v-row line'>{page.tick(name)}{sign}{page.text(name)}<u></u>{size}{end}</div>")
    return _bars(page, "".join(rows))


def player(page: PageBuilder) -> str:
    """A picture, controls, and what is played next."""
    title = page.words.text("line")
    picture = f"<div class='v-row mid'>{page.picture('14em', f'{page.rng.randint(7, 14)}em')}</div>"
    names = (
        f"<div class='v-row mid'>{page.text(title, 'v-title')}</div><div class='v-row mid'>{page.slider(title)}</div>"
    )
    signs = "".join(page.icon(name, "", True) for name in page.rng.sample(MEDIA, page.rng.randint(3, 5)))
    rows = []
    for _ in range(page.rng.randint(4, 9)):
        name = page.words.text("line")
        end = page.icon(page.rng.choice(("play", "heart", "more", "download")), name)
        time = page.text(page.words.time(), "small", name)
        rows.append(f"<div class='v-row line'>{page.text(name)}<u></u>{time}{end}</div>")
    parts = [picture + names, f"<div class='v-row mid'>{signs}</div>", "".join(rows)]
    page.rng.shuffle(parts)
    return _bars(page, "".join(parts))


Family = Callable[[PageBuilder], str]
FAMILIES: dict[str, Family] = {
    one.__name__: one for one in (settings, mail, shop, form, dashboard, chat, calendar, article, dialog)
}
HELD_OUT_FAMILIES: dict[str, Family] = {one.__name__: one for one in (files, player)}
"""Never drawn for training."""
