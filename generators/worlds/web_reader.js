'use strict';
// Reads any page as accessibility would: visible elements with role, name, text and a box clipped to what shows. On the
// screen each is hit-tested at the point that an action at its centre would hit; below it (`all`) they are only listed.
(() => {
  const squeeze = (text) => (text || '').replace(/\s+/g, ' ').trim();
  const CONTROL = 'a[href], button, input:not([type=hidden]), select, textarea, summary, label, option, [role=button], [role=link], [role=tab], [role=menuitem], [role=option], [role=checkbox], [role=switch], [role=radio], [role=combobox], [contenteditable=true], [onclick], [data-bs-toggle]:not([data-bs-toggle=tooltip]), [data-bs-dismiss], [tabindex="0"]';
  const TYPES = { checkbox: 'checkbox', radio: 'radio', button: 'button', submit: 'button', reset: 'button', image: 'button', number: 'spinbutton', range: 'slider', search: 'searchbox', file: 'button', color: 'colorwell' };
  const TAGS = { A: 'link', BUTTON: 'button', SELECT: 'combobox', TEXTAREA: 'textbox', OPTION: 'option', SUMMARY: 'button', IMG: 'image', SVG: 'image', H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading', H6: 'heading', LI: 'listitem', TD: 'cell', TH: 'columnheader' };
  const visible = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const ownText = (node) => { let text = ''; for (const kid of node.childNodes) if (kid.nodeType === 3) text += kid.nodeValue; return squeeze(text); };
  const isField = (node) => /^(input|textarea|select)$/.test(node.localName);
  const ticks = (node) => node.localName === 'input' && (node.type === 'checkbox' || node.type === 'radio');

  function roleOf(node) {
    const given = node.getAttribute('role');
    if (given) return given === 'img' ? 'image' : given;
    if (node.localName === 'input') return TYPES[node.type] || 'textbox';
    return TAGS[node.tagName.toUpperCase()] || (node.matches('[data-bs-toggle], [data-bs-dismiss], [onclick], [tabindex="0"]') ? 'button' : 'text');
  }
  function nameOf(node) {   // https://www.w3.org/TR/accname-1.2/ in short: labelledby, aria-label, label, content, title, placeholder
    const by = node.getAttribute('aria-labelledby'), said = by && squeeze(by.split(/\s+/).map((id) => (document.getElementById(id) || { textContent: '' }).textContent).join(' '));
    if (said) return said;
    if (squeeze(node.getAttribute('aria-label'))) return squeeze(node.getAttribute('aria-label'));
    if (isField(node)) {
      const label = node.labels && [...node.labels].map((one) => squeeze(one.innerText || one.textContent)).join(' ').trim();
      if (label) return label;
      if (['submit', 'button', 'reset'].includes(node.type)) return node.value;
      return squeeze(node.title || node.getAttribute('placeholder'));
    }
    const image = node.querySelector('img[alt], svg title');
    return squeeze(node.localName === 'svg' ? (node.querySelector('title') || {}).textContent : node.innerText) || squeeze(node.getAttribute('alt')) || squeeze(node.getAttribute('title')) || squeeze(node.getAttribute('data-bs-original-title')) || (image ? squeeze(image.getAttribute('alt') || image.textContent) : '');
  }
  function caption(node) {   // what a person reads as a field's name: its label, else the label that stands right above it
    const words = (label) => (!ticks(node) && ownText(label)) || squeeze(label.innerText);
    const label = node.labels && node.labels[0] && words(node.labels[0]);
    if (label) return label;
    for (let box = node, depth = 0; box && depth < 3; box = box.parentElement, depth++)
      for (let kin = box.previousElementSibling; kin; kin = kin.previousElementSibling) { if (kin.querySelector('input, select, textarea')) return ''; if (kin.matches('label, .form-label, legend')) return words(kin); }
    return '';
  }
  const FAR = 2.6;   // screens: what lies farther down (or up) isn't listed, as nobody scrolls that long here
  const cut = (b, c) => [Math.max(b[0], c[0]), Math.max(b[1], c[1]), Math.min(b[2], c[2]), Math.min(b[3], c[3])];
  const size = (b) => Math.max(0, b[2] - b[0]) * Math.max(0, b[3] - b[1]);
  const rectOf = (node) => { const b = node.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  function textBox(node) { const range = document.createRange(); let box = null; for (const kid of node.childNodes) if (kid.nodeType === 3 && kid.nodeValue.trim()) { range.selectNodeContents(kid); const b = range.getBoundingClientRect(); box = box ? [Math.min(box[0], b.left), Math.min(box[1], b.top), Math.max(box[2], b.right), Math.max(box[3], b.bottom)] : [b.left, b.top, b.right, b.bottom]; } return box; }

  window.vesperSee = (all) => JSON.stringify(see(all));
  function see(all) {
    const W = innerWidth, H = innerHeight, clips = new Map(), out = [], screen = all ? [0, -1e6, W, 1e6] : [0, 0, W, H];
    function clipOf(node) {   // what the boxes around a node let through
      if (!node || node === document.body || node === document.documentElement) return screen;
      let found = clips.get(node);
      if (!found) {
        const style = getComputedStyle(node), outer = style.position === 'fixed' ? screen : clipOf(node.parentElement);
        found = style.overflowX !== 'visible' || style.overflowY !== 'visible' ? cut(rectOf(node), outer) : outer; clips.set(node, found);
      }
      return found;
    }
    const snap = (value, full) => Math.min((Math.floor(value * 1000 / full + 0.5) * full) / 1000, full - 1);
    for (const node of document.body.querySelectorAll('*')) {
      if (/^(script|style|noscript|template|br|hr)$/.test(node.localName) || (node.namespaceURI.endsWith('svg') && node.localName !== 'svg')) continue;
      if (!ticks(node)) { const near = node.getBoundingClientRect(); if (near.width < 3 || near.height < 3 || near.top > (all ? FAR : 1) * H || near.bottom < (all ? 1 - FAR : 0) * H) continue; }
      const control = node.matches(CONTROL), text = node.localName === 'svg' ? '' : ownText(node), picture = /^(img|svg)$/.test(node.localName) && !node.parentElement.closest('a[href], button, svg');
      if (!control && !text && !picture) continue;
      let about = node, box = rectOf(node);
      if (!visible(node) || box[2] - box[0] < 3 || box[3] - box[1] < 3) {
        about = ticks(node) ? node.closest('label') : null;   // a hidden box is worked by the label around it
        if (!about || !visible(about)) continue;
        box = rectOf(about);
      } else if (node.localName === 'label') { if (node.control && (!visible(node.control) || rectOf(node.control)[2] - rectOf(node.control)[0] < 3) && ticks(node.control)) { if (node.contains(node.control)) continue; } else if (!text) continue; }
      if (!control && text) box = textBox(node) || box;
      const whole = size(box);
      box = cut(box, clipOf(about.parentElement)); if (!all) box = cut(box, screen);
      if (box[2] - box[0] < 3 || box[3] - box[1] < 3) continue;
      const at = [snap((box[0] + box[2]) / 2, W), snap((box[1] + box[3]) / 2, H)], shows = box[1] < H && box[3] > 0 && box[0] < W && box[2] > 0, inside = at[1] >= 0 && at[1] < H && at[0] >= 0;
      if (!all || (shows && inside)) {
        const hit = document.elementFromPoint(at[0], at[1]), label = hit && hit.closest('label');
        if (!hit || !(hit === about || about.contains(hit) || (!control && hit.contains(about)) || (ticks(node) && label && label.control === node))) { if (!all) continue; }
      }
      const role = roleOf(node), name = control || picture ? nameOf(node) : text, disabled = node.disabled || node.matches('.disabled, [aria-disabled=true]');
      const shown = !isField(node) ? squeeze(node.innerText) : ticks(node) ? '' : node.localName === 'select' ? [...node.selectedOptions].map((one) => squeeze(one.textContent)).join(', ') : node.type === 'password' && node.value ? '\u2022'.repeat(node.value.length) : node.value || node.placeholder || '';
      const target = node.getAttribute('data-bs-target') || (node.getAttribute('data-bs-toggle') && (node.getAttribute('href') || '').startsWith('#') ? node.getAttribute('href') : '');
      let aim = null; try { aim = target && target.length > 1 ? document.querySelector(target) : null; } catch (error) { /* not a selector */ }
      const menu = node.closest('.dropdown-menu, [role=menu], nav, .navbar, .nav, .list-group'), dialog = node.closest('.modal, .offcanvas, dialog'), toggle = node.getAttribute('data-bs-toggle') || '';
      const drop = toggle === 'dropdown' && node.parentElement.querySelector('.dropdown-menu');
      out.push({ k: vesperKey(node), role, name: name.slice(0, 200), text: shown.slice(0, 200), box, clickable: control && node.localName !== 'label' && !disabled, share: whole ? size(box) / whole : 0,
        leads: drop ? [...drop.querySelectorAll('a[href]')].filter((one) => !one.getAttribute('href').startsWith('#') && one.href.startsWith('file:')).length : 0, picks: drop ? [...drop.querySelectorAll('a.dropdown-item, button.dropdown-item, [role=menuitem]')].filter((one) => (one.getAttribute('href') || '#').startsWith('#') && !one.dataset.bsToggle && squeeze(one.textContent)).length : 0,
        answers: aim ? [...aim.querySelectorAll('[data-bs-dismiss]')].filter((one) => squeeze(one.textContent)).length : 0,
        tag: node.localName, type: node.type || '', href: node.localName === 'a' ? node.href : '', anchor: (node.getAttribute('href') || '').startsWith('#'), toggle, aim: aim ? vesperKey(aim) : '', menu: menu ? vesperKey(menu) : '', drops: drop ? vesperKey(drop) : '',
        bar: !!node.closest('header, nav, .navbar') && !node.closest('.dropdown-menu.show'), entry: !!node.closest('.dropdown-menu, [role=menu]'), dialog: dialog ? vesperKey(dialog) : '', dismiss: node.getAttribute('data-bs-dismiss') || '', caption: isField(node) ? caption(node).slice(0, 80) : '', switch: !!node.closest('.form-switch'), checked: node.checked === true, value: isField(node) && !ticks(node) ? String(node.value) : '',
        readonly: !!node.readOnly || !!node.disabled, multiple: !!node.multiple, active: node.matches('.active, [aria-selected=true], [aria-current]'), expanded: node.getAttribute('aria-expanded') || '', focused: document.activeElement === node, form: node.form && node.form.getAttribute ? vesperKey(node.form) : '', group: node.type === 'radio' ? node.name : '', title: node.getAttribute('title') || node.getAttribute('data-bs-original-title') || '', tip: toggle === 'tooltip', inside: (() => { const outer = node.parentElement.closest('a[href], button, [role=button], [onclick]'); return outer ? vesperKey(outer) : ''; })(), shows });
    }
    return out;
  }
  window.vesperHits = (key, x, y) => {
    const node = vesperNode(key), hit = document.elementFromPoint(x, y), label = hit && hit.closest('label');
    return !!node && !!hit && (node === hit || node.contains(hit) || (ticks(node) && label && label.control === node));
  };
  window.vesperLands = (key, x, y) => {   // as vesperHits, but not on a control inside the element
    const node = vesperNode(key), hit = document.elementFromPoint(x, y);
    if (!node || !hit || !vesperHits(key, x, y)) return false;
    const control = hit.closest(CONTROL);
    return !node.matches(CONTROL) || ticks(node) || control === node || (control && control.localName === 'label' && control.contains(node));
  };
  window.vesperWhere = (key) => { const node = vesperNode(key), of = node && (visible(node) || !ticks(node) ? node : node.closest('label')); if (!of) return null; const b = of.getBoundingClientRect(); return { top: b.top, bottom: b.bottom, height: innerHeight }; };
})();
