'use strict';
// The layout rule of layout.py, word for word.
const LAYOUT = (() => {
  const HEIGHT = 640, FIELD_WIDTH = 480, LINE = 84, CHAR = 9, LABEL = 26, CARD = 168, CARD_GAP = 20;
  const INLINE = { button: [44, 44], tab: [40, 44], link: [20, 32] };
  const FIXED = { heading: 56, notice: 52, row: 60, check: 36, radio: 36, option: 40, combobox: 44, field: 44 };
  const GAP = { heading: 12, notice: 16, row: 8, check: 4, radio: 4, option: 0, combobox: 16, field: 16 };
  function extra(last, kind) {
    if (kind === 'option') return last === 'combobox' ? -GAP.combobox : 0;
    return last === 'option' ? 16 : ['check', 'radio', 'row'].includes(last) && kind !== last && kind !== 'footer' ? 12 : 0;
  }
  const length = (text) => [...text].length;

  function layOut(site, shown) {
    const side = site.theme.menu === 'side';
    const [left, width] = side ? [248, 736] : [112, 800];
    const placed = [];
    let [menuX, menuY] = side ? [0, 88] : [264, 0];
    let x = left, y = side ? 32 : 92, row = 0, last = '';
    const put = (element, l, t, w, h) => placed.push({ element, left: l, top: t, width: w, height: h });
    function block(e) {
      if (e.kind === 'footer') { y = Math.max(y + 16, HEIGHT - 48); put(e, left, y, width, 48); y += 48; return; }
      if (e.kind === 'text') { const h = 24 * Math.ceil(length(e.text) / LINE); put(e, left, y, width, h); y += h + 12; return; }
      if (e.kind === 'field' || e.kind === 'combobox') y += LABEL;
      let w = width;
      if (['field', 'combobox', 'option'].includes(e.kind)) w = FIELD_WIDTH;
      else if (e.kind === 'check' || e.kind === 'radio') w = 48 + CHAR * length(e.text);
      put(e, left, y, w, FIXED[e.kind]);
      y += FIXED[e.kind] + GAP[e.kind];
    }
    for (const e of shown) {
      y += extra(last, e.kind);
      if (e.kind === 'brand') put(e, 0, 0, side ? 216 : 240, 64);
      else if (e.kind === 'nav' && side) { put(e, 0, menuY, 216, 44); menuY += 44; }
      else if (e.kind === 'nav') { const w = 28 + CHAR * length(e.text); put(e, menuX, 0, w, 64); menuX += w; }
      else if (e.kind in INLINE || e.kind === 'card') {
        let w, h, gap;
        if (e.kind === 'card') [w, h, gap] = [Math.floor((width - 2 * CARD_GAP) / 3), CARD, CARD_GAP];
        else { const [padding, high] = INLINE[e.kind]; [w, h, gap] = [padding + CHAR * length(e.text), high, 12]; }
        if (row && (last !== e.kind || x + w > left + width)) { x = left; y += row; row = 0; }
        put(e, x, y, w, h);
        x += w + gap; row = h + gap;
      } else { x = left; y += row; row = 0; block(e); }
      last = e.kind;
    }
    return [placed, Math.max(y + row, HEIGHT)];
  }
  return { layOut };
})();
