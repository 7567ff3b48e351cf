'use strict';
// Runs before a MiniWoB++ page's own scripts: a clock that moves only when told to (timers, animations and dates), a
// note on which elements listen to clicks, and a reader of every visible, hit-tested element.
(() => {
  const RealDate = Date; let now = 1500000000000, serial = 1; const timers = new Map();
  const frame = window.requestAnimationFrame.bind(window);
  window.vesperDrawn = () => new Promise((done) => frame(() => frame(() => done(true))));
  const add = (run, wait, every) => { timers.set(serial, { at: now + Math.max(1, wait || 0), run, every: every ? Math.max(1, wait || 0) : 0, id: serial }); return serial++; };
  window.setTimeout = (run, wait, ...args) => add(() => (typeof run === 'function' ? run(...args) : null), wait, false);
  window.setInterval = (run, wait, ...args) => add(() => run(...args), wait, true);
  window.clearTimeout = window.clearInterval = (id) => { timers.delete(id); };
  window.requestAnimationFrame = (run) => add(() => run(now - 1500000000000), 16, false);
  window.cancelAnimationFrame = window.clearTimeout;
  window.Date = class extends RealDate { constructor(...a) { if (a.length) super(...a); else super(now); } static now() { return now; } };
  if (window.performance) window.performance.now = () => now - 1500000000000;
  window.vesperPass = (ms) => {
    const end = now + ms;
    for (let turns = 0; turns < 5000; turns++) {
      let next = null; for (const t of timers.values()) if (t.at <= end && (!next || t.at < next.at || (t.at === next.at && t.id < next.id))) next = t;
      if (!next) break;
      now = next.at; if (next.every) next.at = now + next.every; else timers.delete(next.id);
      next.run();
    }
    now = end;
  };
  const listen = EventTarget.prototype.addEventListener, listening = new WeakSet();
  EventTarget.prototype.addEventListener = function (kind, ...rest) { if (this instanceof Element && (kind === 'click' || kind === 'mousedown')) listening.add(this); return listen.call(this, kind, ...rest); };

  // Links are never followed: they would be drawn as visited ones the next time.
  listen.call(document, 'click', (event) => { if (event.target.closest && event.target.closest('a[href]')) event.preventDefault(); }, true);

  const CONTROLS = new Set(['BUTTON', 'A', 'INPUT', 'SELECT', 'TEXTAREA', 'OPTION']), ROLE = { BUTTON: 'button', A: 'link', SELECT: 'combobox', TEXTAREA: 'textbox', OPTION: 'option', H1: 'heading', H2: 'heading' };
  const ROWS = '.media, .email-thread, tr, li, p, .row, .field, .ui-entry, .widget, #area > div';
  const ownText = (node) => { let text = ''; for (const kid of node.childNodes) if (kid.nodeType === 3) text += kid.nodeValue; return text.replace(/\s+/g, ' ').trim(); };
  const words = (node) => (node.textContent || '').replace(/\s+/g, ' ').trim();
  const path = (node) => { const parts = []; for (let n = node; n && n !== document.body; n = n.parentElement) parts.unshift(Array.prototype.indexOf.call(n.parentElement.children, n)); return parts.join('.'); };
  const usable = (node) => CONTROLS.has(node.tagName) || (listening.has(node) && !node.matches('.ui-menu, .ui-dialog, #tree')) || node.classList.contains('ui-menu-item-wrapper') || ['tab', 'menuitem', 'option'].includes(node.getAttribute('role')) && !node.matches('.ui-menu') || typeof node.onclick === 'function';
  const outside = (node) => node.closest('#query, #reward-display, #click-canvas, #sync-task-cover, script, style');
  function clip(node) {
    let b = node.getBoundingClientRect(), box = [Math.max(b.left, 0), Math.max(b.top, 0), Math.min(b.right, innerWidth), Math.min(b.bottom, innerHeight)];
    if (node.tagName === 'OPTION') return box;
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement) { const s = getComputedStyle(up); if (s.overflowX !== 'visible' || s.overflowY !== 'visible') { b = up.getBoundingClientRect(); box = [Math.max(box[0], b.left), Math.max(box[1], b.top), Math.min(box[2], b.right), Math.min(box[3], b.bottom)]; } }
    return box;
  }
  window.vesperPlaces = () => {
    const out = [];
    for (const node of document.querySelectorAll('body *')) {
      const clickable = usable(node), text = ownText(node), id = node.id || '';
      if ((!clickable && !text) || node.id === 'area' || node.id === 'wrap' || outside(node)) continue;
      const style = getComputedStyle(node); if (style.visibility === 'hidden' || style.display === 'none' || Number(style.opacity) === 0) continue;
      const box = clip(node), full = node.getBoundingClientRect(); if (box[2] - box[0] < 3 || box[3] - box[1] < 3) continue;
      if ((box[3] - box[1]) < 0.5 * full.height && full.height < 120) continue;
      const hit = document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
      if (!hit || !(hit === node || node.contains(hit) || hit.contains(node) && !clickable || node.tagName === 'OPTION' && hit.tagName === 'SELECT' || hit.closest('label') && hit.closest('label').contains(node))) continue;
      const typed = ['INPUT', 'TEXTAREA'].includes(node.tagName) && !['checkbox', 'radio', 'button', 'submit'].includes(node.type), secret = node.type === 'password';
      const label = node.labels && node.labels[0] ? words(node.labels[0]) : '', cls = (node.getAttribute('class') || '').trim();
      const shown = typed ? (secret ? '•'.repeat(node.value.length) : node.value || '') : node.tagName === 'SELECT' ? (node.selectedIndex >= 0 ? words(node.options[node.selectedIndex]) : '') : clickable && !['checkbox', 'radio'].includes(node.type) ? words(node) : text;
      const given = node.getAttribute('role'), role = node.tagName === 'INPUT' ? ({ checkbox: 'checkbox', radio: 'radio', button: 'button', submit: 'button' }[node.type] || 'textbox') : ['tab', 'menuitem'].includes(given) ? given : ROLE[node.tagName] || (clickable ? (words(node) ? 'button' : 'icon') : 'text');
      const row = node.closest(ROWS), bare = typed || node.tagName === 'SELECT' ? '' : (words(node) || '').slice(0, 24);
      const name = node.getAttribute('aria-label') || label || (typed ? node.placeholder : shown) || (typed || node.tagName === 'SELECT' ? id : id || cls.split(' ')[0]);
      out.push({ key: (id ? '#' + id : path(node)) + (bare ? '|' + bare : ''), role, name, text: shown, box, clickable, id, cls, tag: node.tagName.toLowerCase(), value: node.value === undefined ? '' : String(node.value), focused: document.activeElement === node, row: row ? path(row) : '', whole: words(row || node) });
    }
    return out;
  };
  window.vesperTruth = () => {
    const found = { inputs: {}, checked: {}, selected: {}, active: [], focused: null };
    const seen = {}, nameOf = (n) => { const base = n.id || n.name || n.tagName.toLowerCase(); seen[base] = (seen[base] || 0) + 1; return seen[base] > 1 ? `${base} ${seen[base]}` : base; };
    for (const n of document.querySelectorAll('#wrap input, #wrap textarea, #wrap select, body > div input')) {
      if (outside(n)) continue; const name = nameOf(n);
      if (n.tagName === 'SELECT') found.selected[name] = [...n.selectedOptions].map((o) => o.textContent);
      else if (['checkbox', 'radio'].includes(n.type)) found.checked[name] = n.checked; else found.inputs[name] = n.value;
      if (n === document.activeElement) found.focused = name;
    }
    for (const n of document.querySelectorAll('.active, .clicked, .ui-tabs-active, .ui-accordion-header-active')) if (!outside(n)) found.active.push(path(n));
    found.done = WOB_DONE_GLOBAL; found.reward = WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null;
    return found;
  };
  window.vesperScroll = (x, y, dy) => {
    let node = document.elementFromPoint(x, y);
    for (; node && node !== document.documentElement; node = node.parentElement) { const s = getComputedStyle(node); if ((/(auto|scroll)/.test(s.overflowY) || node.tagName === 'TEXTAREA') && node.scrollHeight > node.clientHeight + 1) break; }
    const box = node && node !== document.documentElement ? node : document.scrollingElement;
    box.scrollTop += dy;
  };
  // Begins the episode of a seed, without cover, clock and marks of clicks.
  window.vesperBegin = async (seed, limit, style) => {
    const urls = new Set();  // pictures shown on hover: loaded now, or the page would jump under the pointer
    for (const sheet of document.styleSheets) {
      let rules = []; try { rules = [...sheet.cssRules]; } catch (error) { continue; }
      for (const rule of rules) for (const found of (rule.cssText || '').matchAll(/url\("([^"]+)"\)/g)) urls.add(new URL(found[1], sheet.href || location.href).href);
    }
    window.vesperKept = [...urls].map((url) => Object.assign(new Image(), { src: url }));
    await Promise.all(window.vesperKept.map((image) => image.decode().catch(() => null)));
    const sheet = document.createElement('style'); sheet.textContent = style; document.head.append(sheet);
    if (window.jQuery) jQuery.fx.off = true;
    core.EPISODE_MAX_TIME = limit; Math.seedrandom(seed);
    document.body.removeEventListener('click', core.canvasDrawClick);
    core.startEpisodeReal(); core.startEpisode = () => {};
    vesperPass(1000);
  };
  window.vesperTreePath = (name) => {   // the folders on the way to the only entry of this name
    const found = [...document.querySelectorAll('#tree span')].filter((n) => n.textContent === name); if (found.length !== 1) return null;
    const way = []; for (let li = found[0].closest('li'); li; li = li.parentElement.closest('li')) way.unshift(li.querySelector('span').textContent);
    return way;
  };
})();
