'use strict';
// What screens are made of. Every widget has a key; `tap`, `hold` and `slide` are what fingers do to it.
(function () {
  const P = window.P;
  const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
  const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
  P.DAYS = DAYS; P.MONTHS = MONTHS;
  // days are text, YYYY-MM-DD; Date only counts here, in UTC, it is never asked for the time
  const utc = (day) => new Date(`${day}T00:00:00Z`);
  P.addDays = (day, count) => { const d = utc(day); d.setUTCDate(d.getUTCDate() + count); return d.toISOString().slice(0, 10); };
  P.weekday = (day) => (utc(day).getUTCDay() + 6) % 7;
  P.dayWords = (day) => `${DAYS[P.weekday(day)].slice(0, 3)} ${Number(day.slice(8))} ${MONTHS[Number(day.slice(5, 7)) - 1]}`;
  P.money = (cents) => `$${(cents / 100).toFixed(2)}`;
  P.lower = (text) => text.toLowerCase();
  P.has = (text, part) => P.lower(text).includes(P.lower(part.trim()));
  P.by = (name, way = 1) => (a, b) => (a[name] < b[name] ? -way : a[name] > b[name] ? way : 0);

  const el = P.el = function (tag, attrs, ...kids) {   // attrs: k, name, tap, hold, slide, field, class, and plain ones
    const node = document.createElement(tag), { k, name, tap, hold, slide, field, ...plain } = attrs || {};
    if (k) { node.dataset.k = k; P.hand(k, { tap, hold, slide, field }); }
    if (name) node.setAttribute('aria-label', name);
    for (const [key, value] of Object.entries(plain)) if (value !== undefined && value !== null && value !== false) node.setAttribute(key, value === true ? '' : value);
    for (const kid of kids.flat(Infinity)) if (kid !== null && kid !== undefined && kid !== false) node.append(kid);
    return node;
  };
  P.icon = function (name, size = 24) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    for (const [key, value] of Object.entries({ viewBox: '0 0 24 24', width: size, height: size, 'data-icon': name })) svg.setAttribute(key, value);
    if (!window.GLYPHS[name]) throw new Error(`phone: no glyph ${name}`);
    for (const [key, value] of Object.entries({ d: window.GLYPHS[name], fill: /_on$/.test(name) ? 'currentColor' : 'none', stroke: 'currentColor', 'stroke-width': 2, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' })) path.setAttribute(key, value);
    svg.append(path); return svg;
  };
  P.text = (k, text, cls = '') => el('div', { k, role: 'text', class: cls }, text);
  P.head = (text) => el('div', { k: `head:${text}`, role: 'heading', class: 'section' }, text);
  P.empty = (text) => el('div', { k: 'empty', role: 'text', class: 'empty' }, text);
  P.ib = (k, name, icon, tap) => el('button', { k, name, role: 'button', class: 'ib', tap }, P.icon(icon));
  P.button = (k, text, tap, cls = '') => el('button', { k, role: 'button', class: `btn ${cls}`, tap }, text);
  P.fab = (k, name, icon, tap) => el('button', { k, name, role: 'button', class: 'fab', tap }, P.icon(icon, 28));
  P.toggle = (on) => el('span', { class: `switch${on ? ' on' : ''}` }, el('i'));
  P.tick = (on, round) => el('span', { class: `tick${round ? ' round' : ''}${on ? ' on' : ''}` }, on && !round ? P.icon('check', 18) : null);
  P.avatar = (text, colour, size = '') => el('span', { class: `avatar ${size}`, style: `background:${colour}` }, text);
  P.COLOURS = ['#3f6fb5', '#2e7d5b', '#a1486f', '#b0632b', '#6a55b0', '#2f7f8c', '#a8433c', '#5d6776'];
  P.colour = (text) => P.COLOURS[[...text].reduce((sum, char) => sum + char.codePointAt(0), 0) % P.COLOURS.length];

  // {k, title, sub, lead, trail, tap, hold, on, role, name}
  P.row = (r) => el('button', { k: r.k, name: r.name, role: r.role || 'listitem', class: `row${r.on ? ' on' : ''} ${r.cls || ''}`, 'aria-selected': r.on ? 'true' : null, 'aria-checked': r.checked === undefined ? null : String(r.checked), tap: r.tap, hold: r.hold },
    r.lead ? (typeof r.lead === 'string' ? el('span', { class: 'lead' }, P.icon(r.lead)) : r.lead) : null,
    el('span', { class: 'grow' }, el('span', { class: `title${r.done ? ' done' : ''}` }, r.title), r.sub ? el('span', { class: 'sub' }, r.sub) : null), r.trail || null);
  P.switchRow = (k, title, on, tap, sub) => P.row({ k, title, sub, name: title, role: 'switch', checked: on, tap, trail: P.toggle(on) });
  P.checkRow = (k, title, on, tap) => P.row({ k, title, name: title, role: 'checkbox', checked: on, tap, lead: P.tick(on), done: on });
  P.radioRow = (k, title, on, tap, sub) => P.row({ k, title, sub, name: title, role: 'radio', checked: on, tap, lead: P.tick(on, true) });
  P.valueRow = (k, title, value, tap, lead) => P.row({ k, title, sub: value, name: title, role: 'button', tap, lead });
  P.slider = (k, title, value, set, steps = 10) => el('div', { k, name: title, role: 'slider', 'aria-valuenow': String(value), class: 'slider', slide: (share) => set(Math.round(share * steps) * (100 / steps)) },
    el('span', { class: 'cap' }, title, el('b', {}, `${value}%`)), el('span', { class: 'track' }, el('i', { style: `width:${value}%` }), el('u', { style: `left:${value}%` })));
  P.chips = (chips) => el('div', { class: 'chips' }, chips.map(([k, title, on, tap]) => el('button', { k, role: 'button', class: `chip${on ? ' on' : ''}`, 'aria-pressed': String(!!on), tap }, title)));
  P.tabs = (tabs) => el('div', { class: 'tabs', role: 'tablist' }, tabs.map(([k, title, on, tap]) => el('button', { k, role: 'tab', class: on ? 'on' : '', 'aria-selected': String(!!on), tap }, title)));
  P.stepper = (k, name, value, set, low = 1, high = 9) => el('div', { class: 'stepper' },
    el('button', { k: `${k}:less`, name: `Fewer ${name}`, role: 'button', class: 'ib', tap: () => set(Math.max(low, value - 1)) }, P.icon('minus')), el('b', { k: `${k}:count`, role: 'text' }, String(value)),
    el('button', { k: `${k}:more`, name: `More ${name}`, role: 'button', class: 'ib', tap: () => set(Math.min(high, value + 1)) }, P.icon('plus')));

  // A text field over f[name]; a cross empties it. Two keys: <k> and <k>:clear.
  P.field = function (f, name, label, { multi = false, enter = null, k = `field:${name}`, plain = false, icon = null } = {}) {
    const value = f[name] || '', field = { get: () => f[name] || '', set: (text) => { f[name] = text; }, enter, multi };
    const node = el(multi ? 'textarea' : 'input', { k, name: label, role: 'textbox', placeholder: plain ? label : '', autocomplete: 'off', spellcheck: 'false', field });
    node.value = value;
    const clear = value ? el('button', { k: `${k}:clear`, name: `Clear ${label}`, role: 'button', class: 'ib', tap: () => { f[name] = ''; P.state().ui.focus = k; } }, P.icon('close', 20)) : null;
    return el('div', { class: `field${multi ? ' multi' : ''}${plain ? ' plain' : ''}` }, plain ? null : el('span', { class: 'cap' }, label), el('div', { class: 'input' }, icon ? P.icon(icon, 22) : null, node, clear));
  };
  P.search = (top, label) => P.field(top.f, 'q', label, { k: 'search', plain: true, icon: 'search' });
  P.pick = (k, label, value, options, act = 'form.set', args = null, columns = 1) => el('button', { k, name: label, role: 'combobox', class: 'pick', tap: () => P.choose(label, options, value, act, args || { name: k.replace(/^pick:/, '') }, columns) },
    el('span', { class: 'cap' }, label), el('span', { class: 'val' }, value || 'Choose', P.icon('down', 18)));
  const HOURS = Array.from({ length: 24 }, (_, i) => String(i).padStart(2, '0')), MINUTES = Array.from({ length: 12 }, (_, i) => String(i * 5).padStart(2, '0'));
  // Hour and minute of f[name] ("HH:MM") in two grids; keys pick:<name>:hour and pick:<name>:minute.
  P.time = (f, name, label) => el('div', { class: 'time' }, el('span', { class: 'cap' }, label),
    [['hour', HOURS, 0], ['minute', MINUTES, 3]].map(([part, options, from], index) => [index ? el('b', {}, ':') : null,
      el('button', { k: `pick:${name}:${part}`, name: `${label} ${part}`, role: 'combobox', class: 'digits', tap: () => P.choose(`${label}: ${part}`, options, f[name].slice(from, from + 2), 'form.time', { name, from }, 6) }, f[name].slice(from, from + 2))]));
  P.act('form.time', ({ name, from, value }) => { const f = P.top().f; f[name] = from ? f[name].slice(0, 3) + value : value + f[name].slice(2); });

  // Several at once: hold an entry, tap others, then an action in the bar.
  P.selecting = (top) => top.sel.length > 0;
  P.selectable = (top, id, tap) => {
    const flip = () => { top.sel = top.sel.includes(id) ? top.sel.filter((other) => other !== id) : [...top.sel, id]; };
    return { on: top.sel.includes(id), hold: flip, tap: top.sel.length ? flip : tap };
  };
  // A month as a grid of days: keys day:YYYY-MM-DD.
  P.month = function (month, chosen, today, marked, tap) {
    const first = `${month}-01`, cells = [], lead = P.weekday(first);
    for (let i = 0; i < lead; i++) cells.push(el('span'));
    for (let day = first; day.slice(0, 7) === month; day = P.addDays(day, 1)) {
      const at = day; cells.push(el('button', { k: `day:${at}`, name: P.dayWords(at), role: 'button', class: `day${at === chosen ? ' on' : ''}${at === today ? ' today' : ''}`, tap: () => tap(at) }, String(Number(at.slice(8))), marked(at) ? el('i') : null));
    }
    return el('div', { class: 'month' }, ['Mo', 'Tu', 'We', 'Th', 'Fr', 'Sa', 'Su'].map((word) => el('span', { class: 'wd' }, word)), cells);
  };
})();
