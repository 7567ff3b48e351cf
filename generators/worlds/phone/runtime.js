'use strict';
// The phone's core: one JSON document S (data + ui), drawn anew after every event. Nothing else is remembered, so
// phone.reset(snapshot) puts any moment back exactly. No clock but S.now, which phone.wait() moves; no random numbers.
(function () {
  const P = window.P = { apps: {}, order: [], acts: {} };
  let S = null;
  let hands = new Map();      // key -> {tap, hold, slide, field}, of what is drawn now
  let scrollers = new Map();  // element -> the object in S whose y it shows
  const copy = (value) => JSON.parse(JSON.stringify(value));

  // --- the document ---------------------------------------------------------------------------------------------
  P.state = () => S;
  P.data = (app) => S.data[app];
  P.values = () => S.data.settings.values;
  P.newId = (prefix) => prefix + S.data.next++;
  P.find = (list, id) => list.find((item) => item.id === id);
  P.remove = (list, test) => { for (let i = list.length - 1; i >= 0; i--) if (test(list[i])) list.splice(i, 1); };
  P.app = (name, app) => { P.apps[name] = app; P.order.push(name); };
  P.act = (name, act) => { P.acts[name] = act; };
  P.stack = (app) => S.ui.stacks[app] || (S.ui.stacks[app] = [fresh('main')]);
  P.top = () => (P.apps[S.ui.front] ? P.stack(S.ui.front).at(-1) : null);
  function fresh(screen, args) { return { s: screen, a: args || {}, f: {}, sel: [], y: 0 }; }

  // --- moving about ---------------------------------------------------------------------------------------------
  P.go = (screen, args, form) => { const entry = fresh(screen, args); if (form) entry.f = copy(form); P.stack(S.ui.front).push(entry); leave(); };
  P.swap = (screen, args, form) => { P.stack(S.ui.front).pop(); P.go(screen, args, form); };
  P.up = (count = 1) => { const stack = P.stack(S.ui.front); while (count-- > 0 && stack.length > 1) stack.pop(); leave(); };
  P.root = () => { S.ui.stacks[S.ui.front].splice(1); leave(); };
  P.show = (front) => {
    S.ui.front = front; S.ui.y = 0; leave();
    if (P.apps[front]) { P.stack(front); S.ui.recent = [front, ...S.ui.recent.filter((app) => app !== front)]; }
  };
  function leave() { S.ui.focus = ''; S.ui.all = false; S.ui.dialog = null; S.ui.shade = false; }
  P.say = (text) => { S.ui.toast = text; };
  P.ask = (dialog) => { S.ui.focus = ''; S.ui.dialog = { y: 0, ...dialog, args: dialog.args || {} }; };
  P.confirm = (title, text, yes, act, args) => P.ask({ kind: 'confirm', title, text, yes, act, args });
  P.prompt = (title, label, value, act, args) => {
    P.ask({ kind: 'prompt', title, label, yes: 'OK', act, args, f: { text: value } }); S.ui.focus = 'dlg:text';
  };
  P.menu = (items) => P.ask({ kind: 'menu', items });     // items: [label, act, args]
  P.choose = (title, options, value, act, args, columns) => P.ask({ kind: 'choose', title, options, value, act, args, columns: columns || 1 });
  P.settle = (value) => {       // the dialog's answer goes to the act it names
    const dialog = S.ui.dialog; S.ui.dialog = null; S.ui.focus = '';
    P.acts[dialog.act](value === undefined ? dialog.args : { ...dialog.args, value });
  };
  P.act('form.set', ({ name, value }) => { P.top().f[name] = value; });

  function back() {
    if (S.ui.dialog) { S.ui.dialog = null; S.ui.focus = ''; return; }
    if (S.ui.shade) { S.ui.shade = false; return; }
    const top = P.top();
    if (!top) { P.show('home'); return; }
    if (top.sel.length) { top.sel = []; return; }
    if (P.stack(S.ui.front).length > 1) P.up(); else P.show('home');
  }
  function enter() {
    const hand = hands.get(S.ui.focus);
    if (!hand || !hand.field) return;
    if (hand.field.multi) commit('\n'); else if (hand.field.enter) hand.field.enter(); else S.ui.focus = '';
  }
  function erase() {
    const hand = hands.get(S.ui.focus);
    if (!hand || !hand.field) return;
    hand.field.set(S.ui.all ? '' : [...hand.field.get()].slice(0, -1).join('')); S.ui.all = false;
  }
  function commit(text) {
    const hand = hands.get(S.ui.focus);
    if (!hand || !hand.field) return false;
    hand.field.set(S.ui.all ? text : hand.field.get() + text); S.ui.all = false;
    return true;
  }
  const KEYS = {
    BACK: back, HOME: () => P.show('home'), ENTER: enter, DEL: erase,
    APP_SWITCH: () => P.show(S.ui.front === 'recents' ? 'home' : 'recents'),
  };
  function pass(seconds) {
    S.now.sec += seconds;
    while (S.now.sec >= 86400) { S.now.sec -= 86400; S.now.day = P.addDays(S.now.day, 1); }
    for (const app of P.order) if (P.apps[app].pass) P.apps[app].pass(S.data[app], seconds);
  }
  function open(link) {         // vesper://app/screen?name=value
    const match = /^vesper:\/\/([a-z]+)(?:\/([a-z_]+))?\/?(?:\?(.*))?$/.exec(link);
    if (!match) throw new Error(`link: expected vesper://app/screen?name=value, found ${JSON.stringify(link)}`);
    const [, app, screen, query] = match;
    if (!P.apps[app]) throw new Error(`link: no app ${JSON.stringify(app)}; known are ${P.order.join(', ')}`);
    if (screen && !P.apps[app].screens[screen]) throw new Error(`link: ${app} has no screen ${JSON.stringify(screen)}; known are ${Object.keys(P.apps[app].screens).join(', ')}`);
    const args = Object.fromEntries(new URLSearchParams(query || '')), at = screen || 'main';
    const check = P.apps[app].check && P.apps[app].check(S.data[app], at, args);
    if (check) throw new Error(`link: ${app}/${at}: ${check}`);
    P.show(app);
    if (at === 'main') P.root(); else { P.root(); P.go(at, args, P.apps[app].form ? P.apps[app].form(S.data[app], at, args) : {}); }
  }

  // --- the finger: pointer events of touch or mouse; nothing is left to the browser, so nothing depends on timing ---
  const MOVED = 10, HELD_MS = 450;
  let finger = null;
  const under = (x, y) => { const node = document.elementFromPoint(x, y); return node && node.closest('[data-k]'); };
  function scrollerOf(node) {
    for (; node; node = node.parentElement) if (scrollers.has(node) && node.scrollHeight > node.clientHeight) return node;
    return null;
  }
  function down(event) {
    const node = under(event.clientX, event.clientY), hand = node && hands.get(node.dataset.k);
    const hit = document.elementFromPoint(event.clientX, event.clientY), box = scrollerOf(hit);
    finger = { id: event.pointerId, x: event.clientX, y: event.clientY, at: event.timeStamp, key: node ? node.dataset.k : '', moved: false,
      slide: hand && hand.slide ? hand.slide : null, node, box, from: box ? box.scrollTop : 0 };
  }
  function move(event) {
    if (!finger || event.pointerId !== finger.id) return;
    const dx = event.clientX - finger.x, dy = event.clientY - finger.y;
    if (Math.abs(dx) > MOVED || Math.abs(dy) > MOVED) finger.moved = true;
    if (!finger.moved) return;
    if (Math.abs(dy) > Math.abs(dx)) finger.slide = null;   // an upward stroke that begins on a slider scrolls
    if (!finger.slide && finger.box) finger.box.scrollTop = finger.from - dy;
  }
  function up(event) {
    if (!finger || event.pointerId !== finger.id) return;
    move(event);
    const was = finger; finger = null; S.ui.toast = '';
    if (was.slide) { const box = was.node.querySelector('.track').getBoundingClientRect(); was.slide(Math.max(0, Math.min(1, (event.clientX - box.left) / box.width))); } else if (was.moved) {
      if (was.box) scrollers.get(was.box).y = was.box.scrollTop;
      const dy = event.clientY - was.y;
      if (was.y < 40 && dy > 60) { S.ui.shade = true; S.ui.focus = ''; } else if (S.ui.shade && dy < -60) S.ui.shade = false;
      else if (S.ui.front === 'home' && dy < -60 && !S.ui.dialog) P.show('drawer');
    } else tap(was, event.timeStamp - was.at >= HELD_MS);
    P.draw();
  }
  function tap(was, held) {
    const node = under(was.x, was.y), key = node ? node.dataset.k : '', hand = key === was.key ? hands.get(key) : null;
    if (!hand || !hand.field) { if (!key.startsWith('sys:')) { S.ui.focus = ''; S.ui.all = false; } }
    if (!hand) return;
    if (hand.field) { S.ui.focus = key; S.ui.all = held; } else if (held && hand.hold) hand.hold(); else if (hand.tap) hand.tap();
  }
  addEventListener('pointerdown', down, true); addEventListener('pointermove', move, true); addEventListener('pointerup', up, true);
  addEventListener('pointercancel', () => { finger = null; }, true);
  for (const kind of ['touchstart', 'touchend', 'mousedown', 'contextmenu', 'dblclick', 'selectstart']) addEventListener(kind, (event) => event.preventDefault(), { passive: false, capture: true });
  addEventListener('wheel', (event) => {
    event.preventDefault();
    const box = scrollerOf(document.elementFromPoint(event.clientX, event.clientY));
    if (box) { box.scrollTop += event.deltaY; scrollers.get(box).y = box.scrollTop; }
  }, { passive: false });
  addEventListener('keydown', (event) => {
    const key = { Enter: 'ENTER', Backspace: 'DEL', Escape: 'BACK' }[event.key];
    if (key) { event.preventDefault(); window.phone.key(key); }
  });
  addEventListener('input', (event) => {
    const hand = hands.get(event.target.dataset.k);
    if (hand && hand.field) { hand.field.set(event.target.value); S.ui.all = false; P.draw(); }
  });

  // --- drawing --------------------------------------------------------------------------------------------------
  P.hand = (key, hand) => {
    if (hands.has(key)) throw new Error(`phone: two elements have the key ${key}`);
    hands.set(key, hand);
  };
  P.scroller = (node, object) => { scrollers.set(node, object); return node; };
  P.draw = () => {
    hands = new Map(); scrollers = new Map();
    const root = document.getElementById('root');
    document.body.className = `${P.values().dark ? 'dark' : ''} size-${String(P.values().text_size).toLowerCase()}`;
    root.replaceChildren(...P.shell(S));
    for (const [node, object] of scrollers) { node.scrollTop = object.y; object.y = node.scrollTop; }
    const field = [...root.querySelectorAll('input, textarea')].find((node) => node.dataset.k === S.ui.focus);
    if (!field) { S.ui.focus = ''; S.ui.all = false; if (document.activeElement) document.activeElement.blur(); return; }
    field.focus({ preventScroll: true });
    if (S.ui.all) field.select(); else field.setSelectionRange(field.value.length, field.value.length);
    if (field.tagName === 'TEXTAREA') field.scrollTop = field.scrollHeight; else field.scrollLeft = field.scrollWidth;
  };

  // Fills in keys for drawn things that have none (texts inside a row), from their parent's key and their place in it.
  function tree() {
    const found = window.vesperRead(), seen = new Map();
    for (const item of found) {
      if (item.k) continue;
      const parent = item.parent < 0 ? 'screen' : found[item.parent].k, stem = `${parent}/${item.role}`, count = (seen.get(stem) || 0) + 1;
      seen.set(stem, count); item.k = `${stem}${count}`; item.clickable = false;
    }
    return found;
  }
  // Where a keyed element lies, seen or not (`shown`: what can be seen of it, `hit`: a touch in its middle reaches it), and
  // the part of the screen in which it scrolls; null if it isn't drawn.
  function where(key) {
    const node = [...document.querySelectorAll('[data-k]')].find((n) => n.dataset.k === key);
    if (!node) return null;
    const b = node.getBoundingClientRect(), box = scrollerOf(node), view = box ? box.getBoundingClientRect() : { left: 0, top: 0, right: innerWidth, bottom: innerHeight };
    const track = node.querySelector('.track'), t = track ? track.getBoundingClientRect() : b;
    const shown = [Math.max(b.left, view.left, 0), Math.max(b.top, view.top, 0), Math.min(b.right, view.right, innerWidth), Math.min(b.bottom, view.bottom, innerHeight)];
    const hit = shown[0] < shown[2] && shown[1] < shown[3] && under((shown[0] + shown[2]) / 2, (shown[1] + shown[3]) / 2) === node;
    return { shown, hit, role: node.getAttribute('role') || '', name: node.getAttribute('aria-label') || node.innerText.replace(/\s+/g, ' ').trim(), text: (node.value || node.innerText).replace(/\s+/g, ' ').trim(), box: [b.left, b.top, b.right, b.bottom], view: [view.left, view.top, view.right, view.bottom], track: [t.left, t.right], scrolls: !!box };
  }
  const event = (act) => (...args) => { S.ui.toast = ''; const result = act(...args); P.draw(); return result; };
  window.phone = {
    reset: (snapshot) => {
      for (const part of ['data', 'ui', 'now', 'look']) if (!snapshot || typeof snapshot[part] !== 'object') throw new Error(`reset: expected a snapshot with data, ui, now and look; ${part} is missing`);
      S = copy(snapshot); finger = null; P.draw();
      return true;
    },
    state: () => copy(S), tree, where,
    key: event((name) => { if (!KEYS[name]) throw new Error(`key: expected one of ${Object.keys(KEYS).join(', ')}, found ${JSON.stringify(name)}`); KEYS[name](); return true; }),
    open: event((link) => { open(link); return true; }),
    show: event((app) => { if (!P.apps[app]) throw new Error(`show: no app ${JSON.stringify(app)}`); P.show(app); return true; }),
    commit: event(commit), wait: event((seconds) => { pass(seconds); return true; }),
    apps: () => Object.fromEntries(P.order.map((app) => [app, P.apps[app].title])),
    screens: () => Object.fromEntries(P.order.map((app) => [app, Object.keys(P.apps[app].screens)])),
  };
  window.phoneState = window.phone.state;
})();
