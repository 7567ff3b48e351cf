'use strict';
// The layout rule for a screen of 320 x 448 CSS pixels, in place of that of layout.js: one column, the menu in lines under
// the brand, text of 16 px. The order of the elements is the same.
(() => {
  const WIDTH = 320, HEIGHT = 448, LEFT = 8, INNER = 304, CHAR = 9, LINE = 31, LABEL = 24;
  const INLINE = { button: [26, 38], tab: [28, 38], link: [10, 30] };
  const FIXED = { heading: 34, row: 54, check: 34, radio: 34, option: 34, combobox: 38, field: 38 };
  const GAP = { heading: 6, notice: 8, row: 4, check: 2, radio: 2, option: 0, combobox: 8, field: 8 };
  const CARD = 112, CARD_GAP = 8;
  const length = (text) => [...text].length;
  const lines = (text, each) => Math.max(1, Math.ceil(length(text) / each));
  function extra(last, kind) {
    if (kind === 'option') return last === 'combobox' ? -GAP.combobox : 0;
    return last === 'option' ? 8 : ['check', 'radio', 'row'].includes(last) && kind !== last && kind !== 'footer' ? 6 : 0;
  }
  LAYOUT.layOut = (site, shown) => {
    const placed = [], put = (element, l, t, w, h) => placed.push({ element, left: l, top: t, width: w, height: h });
    let menuX = 4, menuY = 36, bar = 36;
    for (const e of shown) {
      if (e.kind !== 'nav') continue;
      const w = Math.min(INNER, 12 + CHAR * length(e.text));
      if (menuX > 4 && menuX + w > WIDTH - 4) { menuX = 4; menuY += 32; }
      put(e, menuX, menuY, w, 32); menuX += w; bar = menuY + 32;
    }
    document.documentElement.style.setProperty('--bar', `${bar}px`);
    let x = LEFT, y = bar + 8, row = 0, last = '';
    function block(e) {
      if (e.kind === 'footer') { y = Math.max(y + 8, HEIGHT - 32); put(e, LEFT, y, INNER, 32); y += 32; return; }
      if (e.kind === 'text') { const h = 22 * lines(e.text, LINE); put(e, LEFT, y, INNER, h); y += h + 6; return; }
      if (e.kind === 'notice') { const h = 10 + 22 * lines(e.text, LINE - 4); put(e, LEFT, y, INNER, h); y += h + GAP.notice; return; }
      if (e.kind === 'field' || e.kind === 'combobox') y += LABEL;
      const w = e.kind === 'check' || e.kind === 'radio' ? Math.min(INNER, 44 + CHAR * length(e.text)) : INNER;
      put(e, LEFT, y, w, FIXED[e.kind]);
      y += FIXED[e.kind] + GAP[e.kind];
    }
    for (const e of shown) {
      if (e.kind === 'nav') continue;
      if (e.kind === 'brand') { put(e, 0, 0, WIDTH, 36); continue; }
      y += extra(last, e.kind);
      if (e.kind in INLINE || e.kind === 'card') {
        let w, h, gap;
        if (e.kind === 'card') [w, h, gap] = [(INNER - CARD_GAP) / 2, CARD, CARD_GAP];
        else { const [padding, high] = INLINE[e.kind]; [w, h, gap] = [Math.min(INNER, padding + CHAR * length(e.text)), high, 8]; }
        if (row && (last !== e.kind || x + w > LEFT + INNER)) { x = LEFT; y += row; row = 0; }
        put(e, x, y, w, h);
        x += w + gap; row = h + 6;
      } else { x = LEFT; y += row; row = 0; block(e); }
      last = e.kind;
    }
    return [placed, Math.max(y + row, HEIGHT)];
  };
})();
