'use strict';
// Seeded apps on which sound work looks odd: clicks that change nothing, effects that come late, banners that move by
// themselves. Time is a count of actions: nothing moves but by oddTick(), which ends every action.
(function () {
  function rng(seed) {            // mulberry32
    let a = seed >>> 0;
    const next = () => { a = (a + 0x6D2B79F5) >>> 0; let t = a; t = Math.imul(t ^ (t >>> 15), t | 1); t ^= t + Math.imul(t ^ (t >>> 7), t | 61); return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
    const r = { next, int: (lo, hi) => lo + Math.floor(next() * (hi - lo + 1)), pick: (xs) => xs[Math.floor(next() * xs.length)], chance: (p) => next() < p };
    r.some = (xs, n) => { const out = xs.slice(); for (let i = out.length - 1; i > 0; i--) { const j = Math.floor(next() * (i + 1)); [out[i], out[j]] = [out[j], out[i]]; } return out.slice(0, n); };
    return r;
  }
  const O = window.O = { apps: {}, rng };
  let S = null;
  const el = O.el = function (tag, attrs, ...kids) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attrs || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === 'on') node.addEventListener('click', value);
      else if (key === 'k') node.dataset.k = value;
      else if (key === 'class') node.className = value;
      else if (key === 'name') node.setAttribute('aria-label', value);
      else node.setAttribute(key, value);
    }
    for (const kid of kids.flat(Infinity)) if (kid !== null && kid !== undefined && kid !== false) node.append(kid);
    return node;
  };
  O.icon = function (name, size = 24, colour = 'currentColor') {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    for (const [k, v] of Object.entries({ viewBox: '0 0 24 24', width: size, height: size, 'data-icon': name })) svg.setAttribute(k, v);
    for (const [k, v] of Object.entries({ d: window.ICONS[name] || O.drawn[name], fill: 'none', stroke: colour, 'stroke-width': 2.2, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' })) path.setAttribute(k, v);
    svg.append(path); return svg;
  };
  O.drawn = { refresh: 'M19 12 A7 7 0 1 1 16.5 6.6 M17 3 V7.5 H12.5', undo: 'M8 5 L4 9 L8 13 M4 9 H14 A5 5 0 0 1 14 19 H9', redo: 'M16 5 L20 9 L16 13 M20 9 H10 A5 5 0 0 0 10 19 H15' };
  O.iconButton = (k, name, icon, on) => el('button', { k, name, role: 'button', class: 'icon', on }, O.icon(icon, 26));
  O.button = (k, text, on, cls = '') => el('button', { k, role: 'button', class: 'btn ' + cls, on }, text);
  O.seg = (prefix, options, now, set) => el('div', { class: 'seg', role: 'tablist' }, options.map((o) => el('button', { k: `${prefix}:${o}`, role: 'tab', name: o, 'aria-checked': String(o === now), class: o === now ? 'on' : '', on: () => set(o) }, o)));
  O.chips = (prefix, options, now, set) => el('div', { class: 'line' }, options.map((o) => el('button', { k: `${prefix}:${o}`, role: 'radio', name: o, 'aria-checked': String(o === now), class: 'chip' + (o === now ? ' on' : ''), on: () => set(o) }, o)));
  O.stepper = (prefix, label, value, set) => el('div', { class: 'step' }, el('button', { k: `${prefix}:minus`, name: `Decrease ${label}`, role: 'button', on: () => set(Math.max(0, value - 1)) }, '−'), el('b', {}, String(value)), el('button', { k: `${prefix}:plus`, name: `Increase ${label}`, role: 'button', on: () => set(value + 1) }, '+'));
  O.field = function (k, label, get, set, secret) {
    const node = el('input', { k, name: label, type: secret ? 'password' : 'text', role: 'textbox', class: secret ? 'secret' : '', autocomplete: 'off', spellcheck: 'false' });
    node.value = get(); node.addEventListener('input', () => set(node.value));
    return el('div', { class: 'field' }, el('label', {}, label), node);
  };
  O.after = (ticks, run) => S.due.push({ at: S.tick + 1 + ticks, run });   // ticks = 0: seen on the very next screen
  O.load = (text, run) => { S.loading = text; O.after(S.config.waits, () => { S.loading = null; run(); }); };
  O.say = (text, undo) => { S.toast = { text, undo, until: S.tick + 2 }; };
  O.go = (view, args = {}) => { S.stack.push({ view, args, y: scrolled() }); S.fresh = true; };
  O.back = () => { if (S.stack.length > 1) { S.restore = S.stack.pop().y; } };
  const scrolled = () => { const view = document.getElementById('view'); return view ? view.scrollTop : 0; };
  const SLIDES = ['Summer sale', 'New in town', 'Free delivery', 'Weekend deals', 'Members save more'], NAV = [['home', 'Home'], ['star', 'Saved'], ['bell', 'News'], ['person', 'Me']];
  const HEADLINES = '· Traffic is light on all main roads · Ferry leaves every hour · Markets closed higher · Rain in the north tonight · Library open until nine ';
  function moving() {             // the part that moves by itself: a function of the seed and of how many actions were done
    const t = S.tick + S.L.phase;
    if (S.config.anim === 'carousel') return el('div', { class: 'slide', style: `background:${window.PALETTES[t % 8][0]}` }, el('b', {}, SLIDES[t % 5]), `Offer ${t % 5 + 1} of 5`, el('div', { class: 'dots' }, SLIDES.map((_, i) => el('i', { class: i === t % 5 ? 'on' : '' }))));
    if (S.config.anim === 'bars') { const r = rng(S.config.seed * 977 + t); return el('div', { class: 'card' }, el('div', { class: 'sub' }, 'Live activity'), el('div', { class: 'bars' }, Array.from({ length: 14 }, () => el('i', { style: `height:${r.int(8, 76)}px` })))); }
    if (S.config.anim === 'progress') { const p = Math.min(100, 6 + S.tick * 7); return el('div', { class: 'card' }, el('div', { class: 'sub' }, p < 100 ? `Backing up photos… ${p}%` : 'All photos are backed up'), el('div', { class: 'track' }, el('i', { style: `width:${p}%` }))); }
    return null;
  }
  const ticker = () => S.config.anim === 'ticker' ? el('div', { class: 'ticker' }, el('span', { style: `left:${-(S.tick + S.L.phase) * 61 % 480}px` }, HEADLINES.repeat(4))) : null;
  function render() {
    const kept = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.k : null;
    const y = S.fresh ? 0 : S.restore !== null ? S.restore : scrolled(), top = S.stack[S.stack.length - 1], app = O.apps[S.config.app];
    S.fresh = false; S.restore = null;
    let page = { title: S.section, body: el('div', { class: 'card' }, el('h2', {}, S.section), el('p', {}, 'There is nothing here yet.')) };
    if (S.section === 'Home') page = app.views[top.view](S.model, top.args, S);
    const left = S.section === 'Home' && S.stack.length > 1 ? O.iconButton('back', 'Go back', 'back', O.back) : null;
    const body = S.loading ? el('div', { class: 'loading' }, el('div', { class: 'ring' }, [0, 1, 2, 3].map((i) => el('i', { class: i === S.tick % 4 ? 'on' : '' }))), el('span', {}, S.loading)) : [S.L.bannerLow ? null : moving(), page.body, S.L.bannerLow ? moving() : null];
    const frame = el('div', { class: 'frame' }, el('div', { class: 'bar' }, left, el('h1', {}, page.title), page.tools || []), S.L.bannerLow ? null : ticker(), el('div', { id: 'view' }, body), S.L.bannerLow ? ticker() : null);
    const nav = el('div', { class: 'nav' }, NAV.map(([icon, name]) => el('button', { k: `nav:${name}`, name, role: 'button', class: S.section === name ? 'on' : '', on: () => { S.section = name; S.fresh = true; } }, O.icon(icon, 24), el('span', {}, name))));
    const toast = S.toast ? el('div', { class: 'toast ' + S.L.toast, role: 'status' }, el('span', {}, S.toast.text), S.toast.undo ? el('button', { k: 'toast:undo', role: 'button', on: S.toast.undo }, 'Undo') : null) : null;
    document.getElementById('root').replaceChildren(...(S.config.platform === 'desktop' ? [nav, frame] : [frame, nav]), ...(toast ? [toast] : []));
    document.getElementById('view').scrollTop = y;
    const again = kept && document.querySelector(`[data-k="${CSS.escape(kept)}"]`);
    if (again && again.tagName === 'INPUT') { again.focus({ preventScroll: true }); again.setSelectionRange(again.value.length, again.value.length); }
    const view = document.getElementById('view');
    if (S.section === 'Home' && !S.loading && view.scrollTop + view.clientHeight >= view.scrollHeight - 2) S.ends[top.view] = true;
  }
  window.oddStart = function (config) {   // {platform, app, seed, anim, waits}
    const r = rng(config.seed * 104729 + 71), [accent, soft] = r.pick(window.PALETTES);
    const L = { toast: r.pick(['low', 'high']), bannerLow: r.chance(0.35), phase: r.int(0, 9) };
    S = O.S = { config, L, tick: 0, due: [], loading: null, toast: null, section: 'Home', stack: [{ view: 'main', args: {}, y: 0 }], fresh: true, restore: null, ends: {} };
    S.model = O.apps[config.app].make(rng(config.seed * 31 + 7), config);
    document.body.className = [config.platform, r.chance(0.25) ? 'dark' : '', r.chance(0.2) ? 'serif' : '', r.chance(0.4) ? 'plainbar' : '', r.chance(0.3) ? 'middle' : '', r.chance(0.3) ? 'mirrored' : ''].filter(Boolean).join(' ');
    for (const [k, v] of Object.entries({ accent, soft, round: r.pick([0, 6, 10, 14]) + 'px', gap: r.pick([4, 8, 12]) + 'px' })) document.body.style.setProperty('--' + k, v);
    if (document.activeElement) document.activeElement.blur();
    render();
  };
  window.oddTick = function () {
    S.tick++;
    if (S.toast && S.tick >= S.toast.until) S.toast = null;
    const now = S.due.filter((d) => d.at <= S.tick); S.due = S.due.filter((d) => d.at > S.tick);
    for (const d of now) d.run();
    render();
  };
  window.oddBack = () => { if (S.section !== 'Home') S.section = 'Home'; else if (!S.loading) O.back(); };
  window.oddState = () => JSON.parse(JSON.stringify({ ...O.apps[S.config.app].state(S.model), section: S.section, view: S.stack[S.stack.length - 1].view, item: S.stack[S.stack.length - 1].args.id ?? null, loading: !!S.loading, ends: S.ends }));
  window.oddScroll = function (x, y, dy) {   // moves what lies under the point by exactly dy
    let node = document.elementFromPoint(x, y); const view = document.getElementById('view');
    if (node && view.contains(node)) view.scrollTop += dy;
  };
  window.oddFind = function (k) {
    const node = document.querySelector(`[data-k="${CSS.escape(k)}"]`); if (!node) return null;
    const b = node.getBoundingClientRect(), box = document.getElementById('view').getBoundingClientRect();
    return { top: b.top, bottom: b.bottom, viewTop: box.top, viewBottom: box.bottom };
  };
})();
