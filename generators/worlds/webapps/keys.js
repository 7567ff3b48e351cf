'use strict';
// Names elements by their path from the nearest ancestor with an id of its own, for pages that are read as they stand
// (static_pages, whose time is held still, names its own once they have settled). Equal pages give equal keys.
(() => {
  const cache = new Map();   // within one reading: nothing moves while a script runs
  const plain = (text) => text.replace(/[^\w-]/g, '_');
  function key(node) {
    if (!node || node.nodeType !== 1) return '';
    let found = cache.get(node);
    if (found === undefined) {
      if (!cache.size) queueMicrotask(() => cache.clear());
      if (node.id && document.getElementById(node.id) === node) found = '#' + plain(node.id);
      else if (node === document.body) found = '/body';
      else if (!node.parentElement) found = '';
      else {
        const kids = node.parentElement.children;
        for (let at = 0; at < kids.length; at++) cache.set(kids[at], kids[at].id && document.getElementById(kids[at].id) === kids[at] ? '#' + plain(kids[at].id) : key(node.parentElement) + '/' + plain(kids[at].localName) + at);
        found = cache.get(node);
      }
      cache.set(node, found);
    }
    return found;
  }
  window.vesperKey = key;
  window.vesperNode = (wanted) => { for (const node of document.querySelectorAll('body *')) if (key(node) === wanted) return node; return null; };
})();
