'use strict';
// Carries out a site's spec in a page: the same machine as machine.py. Texts are only ever set as text, never as HTML.
// Truth, read out of band: fsmState(), fsmFired(). For the world: fsmOpen, fsmPlaces, fsmBack, fsmLaunch, fsmScroll.
(() => {
  let site, forms, index, values, page, past, focus, selected, fired, wanted = 0, wheeled = 0;
  const el = (id) => document.getElementById(id);
  const FOOT = () => ({ id: 'footer', kind: 'footer', text: `© 2026 ${site.name} · ${site.host}`, detail: '', shown: [], edges: [] });
  const pageOf = (id) => site.pages.find((one) => one.id === id);
  const elements = (p) => [...site.menu.filter((e) => !p.bare && !p.without.includes(e.id)), ...p.elements, FOOT()];
  const trim = (text) => text.replace(/^ +| +$/g, '');
  function truth(value, operator, operand) {
    if (operator === 'eq') return value === operand;
    if (operator === 'ne') return value !== operand;
    if (operator === 'ge') return value >= operand;
    if (operator === 'le') return value <= operand;
    if (operator === 'filled') return trim(String(value)) !== '';
    if (operator === 'empty') return trim(String(value)) === '';
    return forms[operator].test(String(value));
  }
  const holds = (atoms) => atoms.every(([name, operator, operand]) => truth(values[name], operator, operand));
  const fill = (text) => text.replace(/\{([a-z0-9_]+)\}/g, (_, name) => { const v = values[name]; return typeof v === 'boolean' ? (v ? 'yes' : 'no') : String(v); });
  const visible = () => elements(pageOf(page)).filter((e) => holds(e.shown));
  const forget = () => { for (const v of site.variables) if (v.scope === 'page') values[v.name] = v.initial; };

  function effect([name, what, operand]) {
    if (what === 'set') values[name] = operand;
    else if (what === 'toggle') values[name] = !values[name];
    else if (what === 'copy') values[name] = values[operand];
    else { const [low, high] = index[name].values; values[name] = Math.min(Math.max(values[name] + operand, low), high); }
  }
  function turn(to) { page = to; focus = ''; selected = false; forget(); draw(); scrollTo(0, 0); wanted = 0; }
  function work(e) {
    if (e.kind === 'field') { focus = e.id; selected = true; refocus(); return; }
    focus = ''; selected = false;
    const number = e.edges.findIndex((edge) => holds(edge.when));
    if (number < 0) { draw(); return; }
    const edge = e.edges[number], from = page;
    edge.effects.forEach(effect);
    fired.push([from, e.id, number]);
    if (edge.to && edge.to !== from) { past.push(from); turn(edge.to); } else draw();
  }
  function enter() {
    const field = focus && elements(pageOf(page)).find((e) => e.id === focus);
    const aim = field && field.enter && visible().find((e) => e.id === field.enter);
    if (aim) work(aim);
  }
  window.fsmBack = () => { if (past.length) turn(past.pop()); };
  window.fsmLaunch = (url) => {
    const text = url.replace(/^https:\/\//, '').replace(/^http:\/\//, ''), cut = text.indexOf('/');
    if ((cut < 0 ? text : text.slice(0, cut)) !== site.host) return;
    const found = pageOf(cut < 0 ? '' : text.slice(cut + 1).replace(/^\/+|\/+$/g, '')), to = found && found.deep ? found.id : site.pages[0].id;
    if (to === page) { focus = ''; selected = false; draw(); scrollTo(0, 0); wanted = 0; } else { past.push(page); turn(to); }
  };
  window.fsmScroll = (by) => { scrollTo(0, scrollY + by); wanted = scrollY; };
  window.fsmHold = () => { if (scrollY !== wanted) scrollTo(0, wanted); };   // Chromium brings the caret into view while one types
  window.fsmState = () => ({ page, variables: values, past });
  window.fsmFired = () => fired;

  function refocus() {
    const node = focus && document.querySelector(`#page input[data-id="${CSS.escape(focus)}"]`);
    if (!node) { if (document.activeElement) document.activeElement.blur(); getSelection().removeAllRanges(); return; }
    node.focus({ preventScroll: true });
    if (selected) node.select(); else node.setSelectionRange(node.value.length, node.value.length);
  }
  function make(tag, cls, text) { const node = document.createElement(tag); if (cls) node.className = cls; if (text !== undefined) node.textContent = text; return node; }
  function place(node, l, t, w, h) { Object.assign(node.style, { left: `${l}px`, top: `${t}px`, width: `${w}px`, height: `${h}px` }); return node; }
  function node(item, number) {
    const e = item.element, words = fill(e.text), kind = e.kind;
    const out = make(kind === 'field' ? 'input' : 'div', `e ${kind} ${e.style || ''}`);
    if (kind === 'field') { out.type = e.secret ? 'password' : 'text'; out.value = values[e.variable]; out.placeholder = e.hint; out.autocomplete = 'off'; out.spellcheck = false; out.setAttribute('aria-label', words); }
    else if (kind === 'combobox') { out.setAttribute('aria-label', words); out.append(make('span', values[e.variable] ? 'held' : 'held hint', values[e.variable] || e.hint), make('span', 'arrow', '▾')); out.lastChild.ariaHidden = 'true'; }
    else if (kind === 'check' || kind === 'radio') { const on = kind === 'check' ? values[e.variable] === true : values[e.variable] === e.value; out.append(make('span', on ? 'mark on' : 'mark', on ? (kind === 'check' ? '✓' : '●') : ''), make('span', 'name', words)); }
    else if (kind === 'card') { const art = make('div', 'art', words.slice(0, 1)); art.ariaHidden = 'true'; art.style.filter = `hue-rotate(${(number * 47) % 360}deg)`; out.append(art, make('span', 'name', words), make('span', 'detail', fill(e.detail))); }
    else if (kind === 'row') out.append(make('span', 'name', words), make('span', 'detail', fill(e.detail)));
    else out.append(make('span', 'name', words));
    out.dataset.id = e.id; out.setAttribute('role', site.roles[kind]);
    if (kind === 'nav' && e.edges.some((edge) => edge.to === page)) out.classList.add('here');
    return place(out, item.left, item.top, item.width, item.height);
  }
  function draw() {
    const [placed, height] = LAYOUT.layOut(site, visible()), root = el('page'), nodes = [], side = site.theme.menu === 'side', bare = pageOf(page).bare;
    const bar = make('div', side ? 'bar side' : 'bar');
    nodes.push(place(bar, 0, 0, side ? 216 : 1024, side ? height : 64));
    if (bare) { const name = make('div', 'plainbrand', site.name); nodes.push(place(name, 0, 0, side ? 216 : 240, 64)); }
    placed.forEach((item, number) => {
      if (item.element.kind === 'field' || item.element.kind === 'combobox') nodes.push(place(make('label', 'label', fill(item.element.text)), item.left, item.top - 26, item.width, 22));
      nodes.push(node(item, number));
    });
    root.style.height = `${height}px`;
    root.replaceChildren(...nodes);
    document.title = `${pageOf(page).title} - ${site.name}`;
    refocus();
    wanted = scrollY;
  }

  window.fsmPlaces = () => {
    const out = [];
    for (const n of el('page').querySelectorAll('[data-id]')) {
      const b = n.getBoundingClientRect(), top = Math.max(b.top, 0), bottom = Math.min(b.bottom, innerHeight), right = Math.min(b.right, innerWidth);
      if (bottom - top < 8) continue;
      const hit = document.elementFromPoint((b.left + right) / 2, (top + bottom) / 2);
      if (!hit || hit.closest('[data-id]') !== n) continue;
      const role = n.getAttribute('role'), part = (cls) => { const found = n.querySelector(cls); return found ? found.textContent : ''; };
      let name = n.getAttribute('aria-label') || part('.name'), text = [part('.name'), part('.detail')].filter(Boolean).join(' ');
      if (n.localName === 'input') text = (n.type === 'password' ? '•'.repeat([...n.value].length) : n.value) || n.placeholder;
      else if (role === 'combobox') text = part('.held');
      else if (role === 'checkbox' || role === 'radio') text = part('.mark');
      out.push({ key: n.dataset.id, role, name, text, box: [b.left, top, right, bottom], clickable: getComputedStyle(n).cursor !== 'default' });
    }
    return out;
  };

  window.fsmOpen = (spec, start) => {
    site = spec; forms = {}; index = {}; values = {}; past = []; fired = []; focus = ''; selected = false;
    for (const [name, pattern] of Object.entries(spec.forms)) forms[name] = new RegExp(`^(?:${pattern})$`, 'u');
    for (const v of spec.variables) { index[v.name] = v; values[v.name] = v.name in start.variables ? start.variables[v.name] : v.initial; }
    page = start.page || spec.pages[0].id;
    const style = document.documentElement.style, theme = spec.theme;
    for (const name of ['accent', 'dark', 'paper', 'ink', 'font']) style.setProperty(`--${name}`, theme[name]);
    style.setProperty('--radius', `${theme.radius}px`);
    document.body.className = theme.menu;
    draw(); scrollTo(0, 0); wanted = 0;
  };

  addEventListener('mousedown', (event) => { if (!event.target.closest('input')) event.preventDefault(); });
  addEventListener('click', (event) => {
    if (!event.isTrusted || !site) return;
    const at = event.target.closest('[data-id]'), e = at && visible().find((one) => one.id === at.dataset.id);
    if (e && getComputedStyle(at).cursor !== 'default') work(e); else { focus = ''; selected = false; refocus(); }
  });
  addEventListener('input', (event) => {
    const id = event.target.dataset.id, e = elements(pageOf(page)).find((one) => one.id === id);
    if (!e || !e.variable) return;
    values[e.variable] = event.target.value; selected = false;
    if (event.inputType === 'insertText') fired.push([page, e.id, 0]);
  });
  addEventListener('keydown', (event) => {
    const chord = event.ctrlKey || event.metaKey || event.altKey;
    if (event.key === 'Enter') { event.preventDefault(); if (!chord) enter(); }
    else if (event.altKey && event.key === 'ArrowLeft') { event.preventDefault(); fsmBack(); }
    else if (event.ctrlKey && event.key.toLowerCase() === 'a') { event.preventDefault(); if (focus) { selected = true; refocus(); } }
    else if (chord || (event.key.length > 1 && !['Backspace', 'Delete', 'Shift', 'Unidentified'].includes(event.key))) event.preventDefault();
  }, true);
  addEventListener('wheel', () => { wheeled = performance.now(); }, { passive: true });
  addEventListener('scroll', () => { if (performance.now() - wheeled < 500) wanted = scrollY; else fsmHold(); });
  addEventListener('contextmenu', (event) => event.preventDefault());
  addEventListener('dragstart', (event) => event.preventDefault());
})();
