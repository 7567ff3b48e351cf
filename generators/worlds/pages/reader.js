'use strict';
// Reads every visible, hit-tested, clipped element of a page in one call. Works on any page, ours or MiniWoB++'s.
window.vesperRead = function () {
  const W = innerWidth, H = innerHeight, out = [];
  const INTERACTIVE = new Set(['BUTTON', 'A', 'INPUT', 'SELECT', 'TEXTAREA', 'OPTION', 'LABEL']), ROLE = { BUTTON: 'button', A: 'link', SELECT: 'combobox', TEXTAREA: 'textbox', OPTION: 'option', H1: 'heading', H2: 'heading', IMG: 'image', LABEL: 'text' };
  const cut = (b, c) => [Math.max(b[0], c[0]), Math.max(b[1], c[1]), Math.min(b[2], c[2]), Math.min(b[3], c[3])];
  const ownText = (node) => { let text = ''; for (const kid of node.childNodes) if (kid.nodeType === 3) text += kid.nodeValue; return text.replace(/\s+/g, ' ').trim(); };
  function textBox(node) { const range = document.createRange(); let box = null; for (const kid of node.childNodes) if (kid.nodeType === 3 && kid.nodeValue.trim()) { range.selectNodeContents(kid); const b = range.getBoundingClientRect(); box = box ? [Math.min(box[0], b.left), Math.min(box[1], b.top), Math.max(box[2], b.right), Math.max(box[3], b.bottom)] : [b.left, b.top, b.right, b.bottom]; } return box; }
  function roleOf(node, icon) { const given = node.getAttribute('role'); if (given) return given === 'img' ? 'image' : given; if (node.tagName === 'INPUT') return { checkbox: 'checkbox', radio: 'radio', button: 'button', submit: 'button' }[node.type] || 'textbox'; return ROLE[node.tagName] || (icon ? 'icon' : 'text'); }
  function walk(node, clip, parent, depth) {
    const style = getComputedStyle(node); if (style.display === 'none' || Number(style.opacity) === 0) return;
    const b = node.getBoundingClientRect(), rect = [b.left, b.top, b.right, b.bottom]; let index = parent;
    const icon = node.dataset ? node.dataset.icon : null, svg = node.tagName === 'svg', text = svg ? '' : ownText(node);
    const interactive = INTERACTIVE.has(node.tagName) || (node.dataset && node.dataset.k !== undefined) || node.hasAttribute('role');
    const glyph = svg && node.closest('[data-k]') && !node.closest('[data-k]').innerText.trim();   // the drawing on an icon button is that button
    if (style.visibility !== 'hidden' && !glyph && (interactive || text || icon) && node.tagName !== 'SCRIPT' && node.tagName !== 'STYLE') {
      const tight = !interactive && text ? textBox(node) : null, box = cut(tight || rect, clip), area = (box[2] - box[0]) * (box[3] - box[1]), full = (rect[2] - rect[0]) * (rect[3] - rect[1]);
      if (box[2] - box[0] >= 2 && box[3] - box[1] >= 2) {
        const hit = document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
        const own = hit && (hit === node || node.contains(hit) || (hit.contains(node) && !interactive) || (hit.closest && hit.closest('label') && hit.closest('label').contains(node)));
        if (own) {
          const name = node.getAttribute('aria-label') || (node.labels && node.labels[0] ? ownText(node.labels[0]) : '') || (interactive ? node.textContent.replace(/\s+/g, ' ').trim() : text) || node.getAttribute('placeholder') || icon || '';
          const role = roleOf(node, icon), shown = node.tagName === 'INPUT' || node.tagName === 'TEXTAREA' ? node.value || node.placeholder || '' : node.tagName === 'SELECT' ? node.value : (node.innerText === undefined ? '' : node.innerText.replace(/\s+/g, ' ').trim());
          const inner = icon || (interactive && node.querySelector('svg') && !shown ? node.querySelector('svg').dataset.icon : null);
          index = out.length; out.push({ k: (node.dataset && node.dataset.k) || '', role, name, text: shown, box, id: node.id || '', tag: node.tagName.toLowerCase(), cls: node.getAttribute('class') || '', icon: inner || '', parent, depth, visible_share: full > 0 && !tight ? Math.min(1, area / full) : 1,
            clickable: interactive && !['text', 'dialog', 'status', 'tablist', 'image'].includes(role), editable: role === 'textbox', checkable: ['checkbox', 'radio', 'switch'].includes(role), checked: node.getAttribute('aria-checked') === 'true' || node.checked === true, focused: document.activeElement === node, scrollable: false, value: node.value === undefined ? '' : String(node.value), system: !!(node.dataset && node.dataset.system) });
        }
      }
    }
    let next = clip; if (style.overflowX !== 'visible' || style.overflowY !== 'visible') next = node === document.body || node === document.documentElement ? clip : cut(rect, clip);
    if (!svg) for (const kid of node.children) walk(kid, next, index, depth + 1);
  }
  walk(document.body, [0, 0, W, H], -1, 0);
  return out;
};
// HTML and nodes of the whole page, numbered as a browser numbers them, for sources that carry HTML.
window.vesperPage = function () {
  const nodes = []; let next = 1; const keep = ['id','class','name','type','role','aria-label','placeholder','value','aria-checked'];
  const esc = (s) => s.replace(/&/g,'&amp;').replace(/"/g,'&quot;').replace(/</g,'&lt;').replace(/>/g,'&gt;');
  function walk(n) {
    if (n.nodeType === 3) { const t = n.nodeValue.replace(/\s+/g,' ').trim(); return t ? `<text backend_node_id="${next++}">${esc(t)}</text>` : ''; }
    if (n.nodeType !== 1 || n.tagName === 'SCRIPT' || n.tagName === 'LINK' || n.tagName === 'META' || n.tagName === 'TITLE') return '';
    const uid = next++, b = n.getBoundingClientRect(), a = {};
    for (const k of keep) if (n.getAttribute(k)) a[k.replace(/-/g,'_')] = n.getAttribute(k);
    if (n.tagName === 'INPUT' && n.value) a.value = n.value;
    n.setAttribute('backend_node_id', uid);
    const tag = n.tagName.toLowerCase();
    if (b.width > 0 && b.height > 0) nodes.push({ uid, tag, attributes: a, rect: [b.left + scrollX, b.top + scrollY, b.width, b.height], key: n.dataset.k || '', text: (n.innerText || n.value || '').replace(/\s+/g,' ').trim(), clickable: n.dataset.k !== undefined });
    if (tag === 'svg') return `<svg backend_node_id="${uid}"/>`;
    const inner = [...n.childNodes].map(walk).join(''), attrs = Object.entries(a).filter(([k]) => k !== 'class').map(([k, v]) => ` ${k}="${esc(v)}"`).join('');
    return `<${tag} backend_node_id="${uid}"${attrs}>${inner}</${tag}>`;
  }
  const cleaned = walk(document.documentElement);
  return { width: document.documentElement.clientWidth, height: Math.max(document.documentElement.scrollHeight, innerHeight), raw: document.documentElement.outerHTML, cleaned, nodes };
};
