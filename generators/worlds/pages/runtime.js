'use strict';
// Seeded single-page worlds: window.vesperStart(config) builds an app, every user event changes its model, and
// window.vesperState() gives the truth. Nothing moves by itself: loading ends on vesperTick(), not by the clock.
(function () {
  function rng(seed) {            // mulberry32
    let a = seed >>> 0;
    const next = () => { a = (a + 0x6D2B79F5) >>> 0; let t = a; t = Math.imul(t ^ (t >>> 15), t | 1); t ^= t + Math.imul(t ^ (t >>> 7), t | 61); return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
    const r = { next, int: (lo, hi) => lo + Math.floor(next() * (hi - lo + 1)), pick: (xs) => xs[Math.floor(next() * xs.length)], chance: (p) => next() < p,
      shuffle: (xs) => { const out = xs.slice(); for (let i = out.length - 1; i > 0; i--) { const j = Math.floor(next() * (i + 1)); [out[i], out[j]] = [out[j], out[i]]; } return out; } };
    r.some = (xs, n) => r.shuffle(xs).slice(0, n);
    return r;
  }
  const V = window.V = { apps: {}, rng };
  let S = null;
  V.el = function (tag, attrs, ...kids) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attrs || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === 'on') node.addEventListener('click', value);
      else if (key === 'k') node.dataset.k = value;
      else if (key === 'class') node.className = value;
      else if (key === 'name') node.setAttribute('aria-label', value);
      else node.setAttribute(key, value === true ? '' : value);
    }
    for (const kid of kids.flat(Infinity)) if (kid !== null && kid !== undefined && kid !== false) node.append(kid);
    return node;
  };
  const el = V.el;
  V.icon = function (name, size = 24, colour = 'currentColor', fill = false) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    for (const [k, v] of Object.entries({ viewBox: '0 0 24 24', width: size, height: size, 'data-icon': name })) svg.setAttribute(k, v);
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    for (const [k, v] of Object.entries({ d: window.ICONS[name], fill: fill ? colour : 'none', stroke: colour, 'stroke-width': 2.2, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' })) path.setAttribute(k, v);
    svg.append(path); return svg;
  };
  V.iconButton = (k, name, icon, on, extra) => el('button', { k, name, class: 'iconbtn', role: 'button', on, ...extra }, V.icon(icon, 28));
  V.button = (k, text, on, cls = '') => el('button', { k, class: 'btn ' + (S.L.pill ? 'pill ' : '') + cls, role: 'button', on }, text);
  V.switch = (k, name, on, toggle) => el('button', { k, name, role: 'switch', 'aria-checked': String(on), class: 'switch' + (on ? ' on' : ''), on: toggle }, el('i'));
  V.check = (k, name, on, toggle, radio) => el('button', { k, name, role: radio ? 'radio' : 'checkbox', 'aria-checked': String(on), class: 'check' + (radio ? ' radio' : '') + (on ? ' on' : ''), on: toggle }, on && !radio ? V.icon('check', 22, '#fff') : null);
  V.input = function (k, label, get, set, enter, placeholder) {
    const node = el('input', { k, name: label, type: 'text', role: 'textbox', placeholder: placeholder || '', autocomplete: 'off', spellcheck: 'false' });
    node.value = get(); node.addEventListener('input', () => set(node.value));
    if (enter) node.addEventListener('keydown', (event) => { if (event.key === 'Enter') enter(); });
    return node;
  };
  V.field = (label, control) => el('div', { class: 'field' + (S.L.sideLabel ? ' side-label' : '') }, el('label', {}, label), el('div', {}, control));
  V.select = function (k, label, options, get, set) {      // native <select> on web pages, a page of radios elsewhere
    if (S.config.platform === 'web') {
      const node = el('select', { k, name: label, role: 'combobox' }, options.map((o) => el('option', { value: o }, o)));
      node.value = get(); node.addEventListener('change', () => set(node.value)); return node;
    }
    return el('button', { k, name: label, role: 'combobox', class: 'combo', on: () => V.go('pick', { label, options, get, set, k }) }, get() || 'Choose', V.icon('down'));
  };
  V.slider = function (k, name, get, set) {
    const node = el('div', { k, name, role: 'slider', 'aria-valuenow': get(), class: 'slider' }, el('div', { class: 'track' }), el('div', { class: 'fill', style: `width:${get()}%` }), el('div', { class: 'knob', style: `left:${Math.max(4, Math.min(96, get()))}%` }));
    node.addEventListener('click', (event) => { const b = node.getBoundingClientRect(); set(Math.max(0, Math.min(100, Math.round((event.clientX - b.left) / b.width * 10) * 10))); V.render(); });
    return node;
  };
  V.pages = { pick: (S, a) => ({ title: a.label, body: el('div', { class: S.L.rows }, a.options.map((o) => el('button', { k: `opt:${o}`, role: 'option', name: o, class: 'row' + (S.L.flip ? ' flip' : ''), on: () => { a.set(o); V.back(); } }, el('span', { class: 'grow' }, o), el('span', { class: 'check radio' + (a.get() === o ? ' on' : '') })))) }),
    home: (S) => ({ home: true, body: el('div', { class: 'grid ' + (S.L.cols === 2 ? 'g3' : 'g4') }, S.order.map((app) => el('button', { k: `app:${app}`, name: V.apps[app].title, role: 'button', class: 'app', on: () => V.open(app) }, el('span', { class: 'tile', style: `background:${S.colours[app]}` }, V.icon(V.apps[app].icon, 30)), el('span', {}, V.apps[app].title)))) }) };
  function layout(r) {
    const [accent, soft] = r.pick(window.PALETTES);
    return { accent, soft, bar: r.pick(['', 'light', 'center', 'light center']), rows: r.pick(['', 'cards', 'tight']), flip: r.chance(0.4), pill: r.chance(0.3), sideLabel: false, cols: r.pick([2, 2, 3]), iconsLeft: r.chance(0.35),
      actions: r.pick(['', 'end', 'mid']), wide: r.chance(0.4), top: r.chance(0.35), inputs: r.pick(['', 'round', 'under']), side: r.pick(['', 'right']), pad: r.int(0, 5) * 12, fabLeft: r.chance(0.4), low: r.chance(0.4), taskTop: r.chance(0.3), barLow: r.chance(0.2), hour: r.int(7, 21), minute: r.int(10, 59), slow: r.chance(0.3) };
  }
  window.vesperStart = function (config) {   // {platform, app, seed, start: 'home'|'app', skin}
    const r = rng(config.seed * 7919 + 17), L = layout(rng(config.seed * 104729 + 5));
    S = V.S = { config, L, r, app: null, stack: [], models: {}, loading: null, toast: null, dialog: null, wheels: 0, keys: 0 };
    if (config.platform !== 'phone') L.sideLabel = rng(config.seed + 3).chance(0.5);
    S.order = r.shuffle(Object.keys(V.apps)); S.colours = {};
    for (const app of S.order) S.colours[app] = r.pick(window.PALETTES)[0];
    for (const app of Object.keys(V.apps).sort()) S.models[app] = V.apps[app].make(rng(config.seed * 31 + app.length * 1009 + app.charCodeAt(0)), config);
    document.body.className = config.platform + ' ' + L.inputs;
    document.body.style.setProperty('--accent', L.accent); document.body.style.setProperty('--soft', L.soft);
    window.scrollTo(0, 0); if (document.activeElement) document.activeElement.blur();
    if (config.start === 'home') { S.stack = [{ view: 'home', args: {} }]; V.render(); } else { S.stack = config.platform === 'phone' ? [{ view: 'home', args: {} }] : []; V.open(config.app, true); }
    return true;
  };
  V.open = function (app, quick) { S.app = app; S.toast = null; S.dialog = null; S.stack = S.config.platform === 'phone' ? [{ view: 'home', args: {} }] : []; S.stack.push({ app, view: 'main', args: {} }); if (S.L.slow && !quick) S.loading = app; V.render(true); };
  V.go = function (view, args = {}) { S.toast = null; S.stack.push({ app: S.app, view, args, y: 0 }); keepScroll(); if (S.L.slow && ['product', 'message', 'results', 'article'].includes(view)) S.loading = view; V.render(true); };
  V.back = function () { S.toast = null; if (S.dialog) { S.dialog = null; return V.render(); } if (S.loading) S.loading = null; if (S.stack.length > 1) { S.stack.pop(); const top = S.stack[S.stack.length - 1]; if (top.view === 'home') S.app = null; } V.render(true, true); };
  V.home = function () { if (S.config.platform !== 'phone') return; S.stack = [{ view: 'home', args: {} }]; S.app = null; S.loading = null; S.dialog = null; V.render(true); };
  V.say = function (text) { S.toast = text; V.render(); };
  V.ask = function (question, yes, label) { S.dialog = { question, yes, label }; V.render(); };
  function scroller() { return S.config.platform === 'web' ? document.scrollingElement : document.getElementById('view'); }
  function keepScroll() { const below = S.stack[S.stack.length - 2]; if (below && scroller()) below.y = scroller().scrollTop; }
  V.render = function (fresh, restore) {
    const old = scroller(), y = fresh ? 0 : (old ? old.scrollTop : 0), top = S.stack[S.stack.length - 1], L = S.L, phone = S.config.platform === 'phone', desktop = S.config.platform === 'desktop';
    const page = V.pages[top.view] ? V.pages[top.view](S, top.args) : V.apps[top.app].views[top.view](S.models[top.app], top.args, S);
    const clock = `${L.hour}:${L.minute}`, root = document.getElementById('root'), win = el('div', { class: 'window' }), parts = [];
    if (!page.home) {
      const left = S.stack.length > (phone ? 2 : 1) ? V.iconButton('up', 'Go back', 'back', V.back) : null;
      const tools = page.tools || [], title = el('h1', {}, page.title || V.apps[top.app].title);
      parts.push(el('div', { class: 'bar ' + L.bar, style: L.barLow && !page.tabs ? 'order:3' : '' }, L.iconsLeft ? [left, tools, title] : [left, title, tools]));
    }
    if (page.tabs) parts.push(el('div', { class: 'tabs', role: 'tablist', style: L.top ? '' : 'order:4' }, page.tabs));
    let body = S.loading ? el('div', { class: 'loading' }, V.icon('clock', 64), el('span', {}, 'Loading…')) : [S.toast ? el('div', { class: 'toast', role: 'status' }, S.toast) : null, page.body];
    const view = el('div', { id: 'view', style: page.home ? `padding-top:${24 + L.pad * 2}px` : `padding-top:${8 + L.pad}px` }, body);
    if (!phone && page.side) parts.push(el('div', { class: 'main ' + L.side }, el('div', { class: 'side' }, page.side), view)); else { const main = el('div', { class: 'main' }, view); parts.push(main); }
    win.append(...parts); const screen = [];
    if (phone) screen.push(el('div', { class: 'status' }, el('span', {}, clock), el('span', {}, `${40 + L.minute}%`)));
    screen.push(win);
    if (page.fab && !S.loading) win.append(page.fab);
    if (S.dialog) win.append(el('div', { class: 'overlay ' + (L.low ? 'low' : '') }, el('div', { class: 'dialog', role: 'dialog' }, el('p', {}, S.dialog.question), el('div', { class: 'actions ' + L.actions }, ...(L.flip ? [V.button('dlg:yes', S.dialog.label, answer), V.button('dlg:no', 'Cancel', cancel, 'plain')] : [V.button('dlg:no', 'Cancel', cancel, 'plain'), V.button('dlg:yes', S.dialog.label, answer)])))));
    win.style.position = 'relative';
    if (phone) screen.push(el('div', { class: 'navbar' }, V.nav('sys:back', 'Back', 'back', V.back), V.nav('sys:home', 'Home', 'circle', V.home), V.nav('sys:recent', 'Recents', 'square', () => {})));
    if (desktop) screen.push(el('div', { class: 'taskbar' + (L.taskTop ? ' top' : '') }, S.order.map((app) => el('button', { k: `app:${app}`, name: V.apps[app].title, role: 'button', style: `background:${S.colours[app]}`, on: () => V.open(app) }, V.icon(V.apps[app].icon, 26, '#fff'))), el('span', { class: 'clock' }, clock)));
    root.replaceChildren(...screen);
    if (scroller()) scroller().scrollTop = restore ? (top.y || 0) : y;
  };
  V.nav = (k, name, icon, on) => el('button', { k, name, role: 'button', 'data-system': '1', on }, V.icon(icon, 24, '#fff'));
  function answer() { const yes = S.dialog.yes; S.dialog = null; yes(); V.render(); }
  function cancel() { S.dialog = null; V.render(); }
  window.vesperTick = function () { if (S.loading) { S.loading = null; V.render(true); } };
  window.vesperBack = () => V.back();
  window.vesperHome = () => V.home();
  window.vesperOpen = (app) => V.open(app);
  window.vesperState = function () {
    const top = S.stack[S.stack.length - 1], out = { app: S.app, view: top.view, loading: !!S.loading, item: top.args && top.args.id !== undefined ? top.args.id : null, dialog: !!S.dialog };
    for (const app of Object.keys(V.apps)) out[app] = V.apps[app].state(S.models[app]);
    return JSON.parse(JSON.stringify(out));
  };
  // The finger's path moves what lies under it by exactly that path; a wheel does so by its delta, at once.
  function scrollFrom(x, y, dy) {
    let node = document.elementFromPoint(x, y);
    for (; node && node !== document.documentElement; node = node.parentElement) { const style = getComputedStyle(node); if (/(auto|scroll)/.test(style.overflowY) && node.scrollHeight > node.clientHeight + 1) break; }
    const box = node && node !== document.documentElement ? node : document.scrollingElement, before = box.scrollTop;
    box.scrollTop = before + dy; return box.scrollTop - before;
  }
  window.vesperSwipe = (x1, y1, x2, y2) => scrollFrom(x1, y1, y1 - y2);
  window.addEventListener('wheel', (event) => { event.preventDefault(); scrollFrom(event.clientX, event.clientY, event.deltaY); if (S) S.wheels++; }, { passive: false });
  window.addEventListener('keyup', (event) => { if (event.altKey && event.key === 'ArrowLeft') V.back(); if (S) S.keys++; });
  window.vesperWheels = () => S.wheels;
  // Where the element named k lies, seen or not: used by the scripted oracle to decide which way to scroll.
  window.vesperFind = function (k) {
    const node = [...document.querySelectorAll('[data-k]')].find((n) => n.dataset.k === k); if (!node) return null;
    const b = node.getBoundingClientRect(), box = scroller().getBoundingClientRect(), web = S.config.platform === 'web';
    return { top: b.top, bottom: b.bottom, left: b.left, right: b.right, viewTop: web ? 0 : box.top, viewBottom: web ? innerHeight : box.bottom };
  };
})();
