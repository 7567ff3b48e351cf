// The centre of every letter on the screen, in pixels of the picture. '' stands where something else may be written: a
// letter that is covered or behind an ellipsis, and the lines of a field, whose value no text node holds.
() => {
  const found = [], scale = devicePixelRatio, line = 18 / scale, wide = 10 / scale;
  const add = (letter, x, y) => { if (x >= 0 && y >= 0 && x < innerWidth && y < innerHeight) found.push([letter, x * scale, y * scale]); };
  const clipOf = (node) => {
    const clip = { left: 0, top: 0, right: innerWidth, bottom: innerHeight, dots: Infinity };
    for (let up = node; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up), box = up.getBoundingClientRect();
      if (style.overflowX === 'visible' && style.overflowY === 'visible') continue;
      clip.left = Math.max(clip.left, box.left); clip.top = Math.max(clip.top, box.top);
      clip.right = Math.min(clip.right, box.right); clip.bottom = Math.min(clip.bottom, box.bottom);
      if (style.textOverflow === 'ellipsis' && up.scrollWidth > up.clientWidth) clip.dots = Math.min(clip.dots, box.right - 1.5 * wide);
    }
    return clip;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const parent = node.parentElement;
    if (!node.data.trim() || !parent || parent.closest('script, style, option, textarea')) continue;
    const style = getComputedStyle(parent);
    if (style.visibility === 'hidden' || style.display === 'none' || /^rgba.*, 0\)$/.test(style.color)) continue;
    const clip = clipOf(parent);
    for (let at = 0; at < node.length; at++) {
      if (!node.data[at].trim()) continue;
      const range = document.createRange();
      range.setStart(node, at); range.setEnd(node, at + 1);
      const box = range.getBoundingClientRect();
      if (!box.width || !box.height) continue;
      const x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2, hit = document.elementFromPoint(x, y);
      if (x < clip.left || x > clip.right || y < clip.top || y > clip.bottom) continue;
      add(x < clip.dots && hit && (hit === parent || hit.contains(parent) || parent.contains(hit)) ? node.data[at] : '', x, y);
    }
  }
  for (const field of document.querySelectorAll('input, textarea, select')) {
    if (['checkbox', 'radio', 'hidden'].includes(field.type)) continue;
    const box = field.getBoundingClientRect();
    for (let y = box.top + line / 2; y < box.bottom; y += line)
      for (let x = box.left + wide / 2; x < box.right; x += wide) add('', x, y);
  }
  return found;
}
