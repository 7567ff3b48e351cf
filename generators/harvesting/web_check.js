'use strict';
// The independent check: real clicks are caught before the page sees them, and what they landed on is written down. Says
// nothing of `elementFromPoint`; an element is found again by its place in the document alone.
(() => {
  if (window.vesperCaught) return;
  const caught = window.vesperCaught = [];
  const FIELD = 'input:not([type=checkbox]):not([type=radio]):not([type=button]):not([type=submit]):not([type=reset]):not([type=file]):not([type=color]):not([type=image]), textarea';
  const steps = (node) => { const found = []; for (; node && node.parentElement; node = node.parentElement) found.unshift([...node.parentElement.children].indexOf(node)); return found.join('.'); };
  const at = (path) => { let node = document.documentElement; for (const step of path.split('.')) node = node && node.children[Number(step)]; return node; };
  window.vesperSteps = (keys) => {   // key → place in the document, and the row, card or entry around it
    const nodes = new Map(); for (const node of document.querySelectorAll('body *')) nodes.set(vesperKey(node), node);
    return keys.map((key) => {
      const node = nodes.get(key); if (!node) return null;
      const own = /^(tr|li)$/.test(node.localName) ? node : node.parentElement, row = own && own.closest('tr, li, [role=row], [role=listitem], .list-group-item, .card, article, fieldset');
      const word = !row ? '' : row.matches('tr, [role=row]') ? 'row' : row.matches('li, [role=listitem], .list-group-item') ? 'entry' : row.matches('fieldset') ? 'group' : 'card';
      return { path: steps(node), group: row ? steps(row) : '', word };
    });
  };
  window.vesperWords = () => { const all = [document.body.textContent, document.title]; for (const node of document.querySelectorAll('[aria-label], [title], [alt], [placeholder], [value], [data-bs-original-title]')) for (const name of ['aria-label', 'title', 'alt', 'placeholder', 'value', 'data-bs-original-title']) all.push(node.getAttribute(name) || ''); return all.join('\n').slice(0, 2000000); };
  window.vesperListen = () => {
    caught.length = 0;   // clicks of another window say nothing of what stands at the same point now
    for (const kind of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click', 'dblclick', 'auxclick', 'contextmenu', 'submit', 'mouseover', 'mouseenter', 'mousemove', 'mouseout', 'mouseleave', 'pointerover', 'pointerenter', 'pointermove', 'pointerout', 'pointerleave', 'focus', 'focusin', 'change', 'input', 'toggle'])
      window.addEventListener(kind, (event) => {
        const target = event.composedPath()[0];
        event.stopImmediatePropagation();
        if (kind === 'mousedown') { caught.push({ target, x: event.clientX, y: event.clientY }); if (!(target.closest && target.closest(FIELD))) event.preventDefault(); }
        else if (['click', 'submit', 'auxclick', 'contextmenu', 'dblclick'].includes(kind)) event.preventDefault();
      }, true);
  };
  window.vesperTook = (clicks) => clicks.map(([path, x, y]) => {   // how each click confirmed its element
    const node = at(path), event = caught.find((one) => Math.abs(one.x - x) <= 1 && Math.abs(one.y - y) <= 1);
    if (!node) return 'gone';
    if (!event) return node.closest(':disabled') && node.contains(document.elementFromPoint(x, y)) ? 'hit' : 'no event';   // what is disabled is told of no click
    const target = event.target, label = target.closest && target.closest('label');
    if (node === target || node.contains(target)) return 'event';
    if (label && (label.control === node || label === node)) return 'event';
    return `other: ${target.localName}`;
  });
  window.vesperFocused = (path) => { const node = at(path); return !!node && node === document.activeElement; };
})();
