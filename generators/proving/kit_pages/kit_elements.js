// The elements of a page that can be asked for: kind, name, what they stand beside, box in pixels, and whether the
// middle of the box shows the element itself, and not something in front of it or the edge that cuts it off.
() => [...document.querySelectorAll('[data-k]')].map((one) => {
  const box = one.getBoundingClientRect();
  const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
  const inside = box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
  return {
    kind: one.dataset.k, name: one.dataset.n, beside: one.dataset.b || '',
    box: [Math.floor(box.left), Math.floor(box.top), Math.ceil(box.right), Math.ceil(box.bottom)],
    shown: inside && !!hit && (hit === one || one.contains(hit)),
  };
})
