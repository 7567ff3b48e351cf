// Choosing an option of the list at a point, by what it says. Ours: no text from data is code here.
(() => {
  const plain = (text) => (text || '').replace(/\s+/g, ' ').trim();
  const shown = (node) => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && getComputedStyle(node).visibility !== 'hidden';
  };
  const nodeAt = (x, y) => {
    let node = document.elementFromPoint(x, y);
    for (let inner; node && node.shadowRoot && (inner = node.shadowRoot.elementFromPoint(x, y)) && inner !== node;) node = inner;
    return node;
  };
  const selectAt = (x, y) => {
    const node = nodeAt(x, y);
    if (!node) return null;
    const label = node.closest('label');
    const held = node.closest('select') || (label && label.control);
    return held && held.localName === 'select' ? held : null;
  };
  const named = (nodes, wanted, said) =>
    nodes.find((node) => plain(said(node)) === wanted) || nodes.find((node) => plain(said(node)).toLowerCase() === wanted.toLowerCase());
  const known = (nodes, said) => ({ options: nodes.slice(0, 20).map((node) => plain(said(node)).slice(0, 60)) });

  // A native list is set as a user sets it: its drawn options lie outside of the page.
  const choose = (list, wanted) => {
    const said = (option) => option.label || option.textContent;
    const open = [...list.options].filter((option) => !option.disabled && !(option.parentNode.disabled && option.parentNode.localName === 'optgroup'));
    const found = list.disabled ? null : named(open, wanted, said);
    if (!found) return known(list.disabled ? [] : open, said);
    list.focus();
    if (!found.selected) {
      found.selected = true;
      for (const kind of ['input', 'change']) list.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    return { chosen: true };
  };

  // -> {chosen: true}; {at: [x, y]} of an option that shows and is to be clicked; {options: [...]} where none is meant;
  // {closed: true} where the point holds no native list and no option of that name shows.
  window.vesperChoose = (x, y, text) => {
    const wanted = plain(text), list = selectAt(x, y);
    if (list) return choose(list, wanted);
    const said = (node) => node.getAttribute('aria-label') || node.textContent;
    const options = [...document.querySelectorAll('[role=option], [role=menuitemradio], [role=menuitem]')].filter(shown);
    const found = named(options, wanted, said);
    if (found) {
      found.scrollIntoView({ block: 'nearest' });
      const box = found.getBoundingClientRect();
      return { at: [box.left + box.width / 2, box.top + box.height / 2] };
    }
    return { closed: true, ...known(options, said) };
  };
})();
