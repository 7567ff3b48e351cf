'use strict';
// Runs before the scripts of every page. Time stands still until `vesperSettle` lets it pass, chance is seeded by the
// page's name, nothing moves by itself, and a click on a link or a form's submission is told, not followed.
(() => {
  const ROOT = '__ROOT__', START = 1735732800000;   // 2025-01-01T12:00Z
  const later = window.setTimeout.bind(window), frame = window.requestAnimationFrame.bind(window);
  const here = decodeURIComponent(location.href.startsWith(ROOT) ? location.pathname.slice(new URL(ROOT).pathname.length) : 'frame');

  // --- chance: a generator (mulberry32) seeded by the page's name (FNV-1a)
  let seed = 2166136261;
  for (const letter of here) seed = Math.imul(seed ^ letter.codePointAt(0), 16777619);
  Math.random = () => { seed = (seed + 0x6d2b79f5) | 0; let t = Math.imul(seed ^ (seed >>> 15), 1 | seed); t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t; return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
  if (window.crypto) crypto.getRandomValues = (array) => { for (let at = 0; at < array.length; at++) array[at] = Math.floor(Math.random() * 4294967296); return array; };

  // --- time: timers and frames wait in one queue
  let now = 0, next = 1;
  const queue = new Map();
  const add = (call, wait, args, every) => { const id = next++; queue.set(id, { at: now + Math.max(wait || 0, every ? 16 : 4), call, args, every: every ? Math.max(wait || 0, 16) : 0 }); return id; };
  const drop = (id) => { queue.delete(id); };
  const runs = (call) => (typeof call === 'function' ? call : new Function(String(call)));
  window.setTimeout = (call, wait, ...args) => add(runs(call), Number(wait), args, false);
  window.setInterval = (call, wait, ...args) => add(runs(call), Number(wait), args, true);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = window.cancelIdleCallback = drop;
  window.requestAnimationFrame = (call) => add(() => call(now), 16, [], false);
  window.requestIdleCallback = (call) => add(() => call({ didTimeout: false, timeRemaining: () => 10 }), 1, [], false);
  performance.now = () => now;
  const Real = Date;
  window.Date = class extends Real { constructor(...given) { if (given.length) super(...given); else super(START + now); } static now() { return START + now; } };
  function advance(ms) {
    const until = now + ms;
    for (let count = 0; count < 3000; count++) {
      let first = null;
      for (const [id, job] of queue) if (job.at <= until && (!first || job.at < first[1].at)) first = [id, job];
      if (!first) break;
      const [id, job] = first; now = Math.max(now, job.at);
      if (job.every) job.at = now + job.every; else queue.delete(id);
      try { job.call.apply(window, job.args); } catch (error) { console.warn(String(error)); }
    }
    now = until;
    for (let at = 0; at < window.frames.length; at++) try { window.frames[at].vesperAdvance(ms); } catch (error) { /* a frame of another origin keeps its own time */ }
  }
  window.vesperAdvance = advance;

  // --- nothing moves by itself
  const still = new CSSStyleSheet();
  still.replaceSync('*, *::before, *::after { animation: none !important; transition: none !important; scroll-behavior: auto !important; caret-color: transparent !important; }');
  document.adoptedStyleSheets = [still];
  function freeze() {
    if (!document.adoptedStyleSheets.includes(still)) document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
    for (const motion of document.getAnimations()) try { motion.finish(); } catch (error) { motion.cancel(); }
    for (const film of document.querySelectorAll('video, audio')) { film.autoplay = false; film.pause(); }
    for (const drawing of document.querySelectorAll('svg')) if (drawing.pauseAnimations && drawing.querySelector('animate, animateTransform, animateMotion, set')) { drawing.pauseAnimations(); drawing.setCurrentTime(0); }
    for (const image of document.querySelectorAll('img[loading=lazy]')) image.loading = 'eager';
  }

  // --- links and forms: the world follows them, within its folder
  let wish = '', sent = null;
  const address = (url) => URL.canParse(url, document.baseURI) ? new URL(url, document.baseURI).href : String(url);  // what is none leads nowhere: the world says so
  window.addEventListener('click', (event) => {
    const link = event.target.closest && event.target.closest('a[href], area[href]');
    if (!link || event.defaultPrevented) return;
    const to = address(link.href), same = to.split('#')[0] === location.href.split('#')[0];
    if (same && (to.split('#')[1] || link.getAttribute('href').startsWith('#'))) return;
    event.preventDefault(); wish = to;
  });
  window.addEventListener('submit', (event) => {
    if (event.defaultPrevented) return;
    event.preventDefault();
    const form = event.target, values = {};
    for (const field of form.elements) if (field.name !== undefined && 'value' in field && field.type !== 'submit' && field.type !== 'button') values[key(field)] = ['checkbox', 'radio'].includes(field.type) ? field.checked : field.value;
    sent = values; wish = address(form.getAttribute('action') || location.href);
  });
  window.open = (url) => { wish = url ? address(url) : ''; return null; };

  // --- keys: an element's path from the nearest ancestor with an id of its own, given when the page has settled
  const keys = new WeakMap(), taken = new Set();
  const plain = (text) => text.replace(/[^\w-]/g, '_');
  function name(node, above, at) {
    let found = keys.get(node);
    if (found === undefined) {
      found = node.id && document.getElementById(node.id) === node ? '#' + plain(node.id) : above + '/' + node.localName.replace(/[^\w-]/g, '_') + at;
      if (taken.has(found)) { let more = 2; while (taken.has(found + '~' + more)) more++; found += '~' + more; }
      keys.set(node, found); taken.add(found);
    }
    if (node.localName !== 'svg') { let count = 0; for (const kid of node.children) name(kid, found, count++); }
  }
  const nameAll = () => { if (document.body) name(document.body, '', 0); };
  const key = (node) => keys.get(node) || '';
  window.vesperKey = key;
  window.vesperNode = (wanted) => { for (const node of document.querySelectorAll('body *')) if (keys.get(node) === wanted) return node; return null; };

  // --- what was done to the page, beside what it shows
  const dialogs = {}, chosen = {};
  let pressed = '';
  document.addEventListener('click', (event) => {
    const control = event.target.closest && event.target.closest('button, a, input, [role=button], [role=menuitem], [role=option], [data-bs-dismiss], .dropdown-item');
    if (!control) return;
    pressed = key(control);
    if (control.closest('.dropdown-menu, [role=menu]') && !control.matches('[data-bs-toggle=dropdown], input')) chosen[pressed] = (chosen[pressed] || 0) + 1;
  }, true);
  for (const [event, what] of [['show.bs.modal', 'opened'], ['show.bs.offcanvas', 'opened'], ['hide.bs.modal', 'closed_by'], ['hide.bs.offcanvas', 'closed_by']])
    document.addEventListener(event, (told) => {
      const about = dialogs[key(told.target)] || (dialogs[key(told.target)] = { opened: 0, closed_by: '' });
      if (what === 'opened') about.opened++; else about.closed_by = pressed;
    });
  window.addEventListener('keydown', (event) => { if (event.key === 'Escape') pressed = 'key_Escape'; }, true);

  // --- settling: fonts and pictures have loaded, a second of the page's own time has passed, and two frames were drawn
  const pause = () => new Promise((done) => later(done, 0));
  const drawn = () => new Promise((done) => frame(() => frame(() => later(done, 0))));
  const limit = (promise, ms) => Promise.race([promise, new Promise((done) => later(done, ms))]);
  window.vesperSettle = async (ms) => {
    freeze();
    for (let gone = 0; gone < ms; gone += 100) { advance(100); await pause(); if (gone % 500 === 0) await drawn(); }
    const pictures = [...document.images].filter((image) => !image.complete);
    await limit(Promise.all([document.fonts.ready, ...pictures.map((image) => image.decode().catch(() => null))]), 4000);
    advance(50); freeze(); await drawn(); nameAll();
    const told = { wish, sent }; wish = ''; sent = null;
    return told;
  };

  // --- the state
  window.vesperState = () => {
    const found = { hash: location.hash, query: location.search, scroll: Math.round(scrollY), title: document.title, values: {}, checked: {}, selected: {}, expanded: {}, shown: {}, active: {}, scrolled: {}, theme: {}, dialogs: JSON.parse(JSON.stringify(dialogs)), chosen: { ...chosen }, tooltip: '', focus: document.activeElement && document.activeElement !== document.body ? key(document.activeElement) : '' };
    for (const node of document.querySelectorAll('input, textarea, select, [contenteditable=true]')) {
      const at = key(node); if (!at) continue;
      if (node.type === 'checkbox' || node.type === 'radio') found.checked[at] = node.checked;
      else if (node.localName === 'select') found.selected[at] = [...node.selectedOptions].map((option) => option.textContent.trim());
      else if (node.type !== 'hidden') found.values[at] = node.value === undefined ? node.textContent : node.value;
    }
    for (const node of document.querySelectorAll('[aria-expanded], details, summary')) if (key(node)) found.expanded[key(node)] = node.localName === 'details' ? node.open : node.getAttribute('aria-expanded') === 'true';
    for (const node of document.querySelectorAll('.modal, .dropdown-menu, .collapse, .offcanvas, .tab-pane, .alert, .toast, dialog')) if (key(node) && node.checkVisibility()) found.shown[key(node)] = true;
    for (const node of document.querySelectorAll('.active, [aria-selected=true], [aria-current]')) if (key(node)) found.active[key(node)] = true;
    for (const node of document.querySelectorAll('body *')) if (node.scrollTop && key(node)) found.scrolled[key(node)] = Math.round(node.scrollTop);
    for (const one of document.documentElement.attributes) if (one.name.startsWith('data-')) found.theme[one.name] = one.value;
    const tip = document.querySelector('.tooltip, [role=tooltip]'); if (tip) found.tooltip = tip.textContent.replace(/\s+/g, ' ').trim();
    return JSON.stringify(found);
  };

  // --- a wheel's turn at a point: the nearest box that can scroll that way, else the page
  window.vesperScroll = (x, y, dx, dy) => {
    let node = document.elementFromPoint(x, y);
    for (; node && node !== document.body && node !== document.documentElement; node = node.parentElement) {
      const style = getComputedStyle(node), can = dy ? /auto|scroll/.test(style.overflowY) && node.scrollHeight > node.clientHeight + 1 : /auto|scroll/.test(style.overflowX) && node.scrollWidth > node.clientWidth + 1;
      if (!can) continue;
      const before = [node.scrollTop, node.scrollLeft]; node.scrollBy(dx, dy);
      if (node.scrollTop !== before[0] || node.scrollLeft !== before[1]) return true;
      if (/contain|none/.test(style.overscrollBehaviorY)) return false;
    }
    if (getComputedStyle(document.body).overflowY === 'hidden' || getComputedStyle(document.documentElement).overflowY === 'hidden') return false;
    const before = [scrollX, scrollY]; window.scrollBy(dx, dy);
    return scrollX !== before[0] || scrollY !== before[1];
  };
})();
