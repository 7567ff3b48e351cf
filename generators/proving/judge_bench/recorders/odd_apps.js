'use strict';
// The six apps of the odd pages. Handlers only change the model; oddTick() draws it.
(function () {
  const { el } = O, W = window.WORDS;
  const row = (...kids) => el('div', { class: 'row' }, ...kids);
  const grow = (...kids) => el('span', { class: 'grow' }, ...kids);
  const mail = (name) => name.toLowerCase().replace(' ', '.') + '@example.org';

  O.apps.shop = {                 // the price is on the product's own page alone
    make(r, config) {
      const products = r.some(W.product, 6).map((name) => ({ name, price: r.int(4, 90), stock: r.int(1, 40), icon: r.pick(['box', 'star', 'heart', 'camera', 'clock', 'map']), colour: r.pick(window.PALETTES)[0] }));
      for (let i = 1; i < products.length; i++) while (products.slice(0, i).some((p) => p.price === products[i].price)) products[i].price++;
      return { products, amount: {}, cart: {}, viewed: {}, stock: {}, wide: r.chance(0.5), removed: [], restored: [], list: r.chance(0.4) || !!config.rows };
    },
    state: (m) => ({ products: Object.fromEntries(m.products.map((p) => [p.name, p.price])), amount: m.amount, cart: m.cart, viewed: m.viewed, checked: Object.keys(m.stock), list: m.list, removed: m.removed, restored: m.restored }),
    views: {
      main: (m) => ({ title: 'Market', tools: [O.iconButton('cart', 'Cart', 'cart', () => O.go('cart'))], body: m.list
        ? m.products.map((p) => row(el('button', { k: `open:${p.name}`, name: p.name, role: 'listitem', class: 'grow', on: () => O.go('product', { id: p.name }) }, el('span', {}, p.name)), O.button(`add:${p.name}`, 'Add', () => put(m, p, 1))))
        : el('div', { class: 'grid' }, m.products.map((p) => el('button', { k: `open:${p.name}`, name: p.name, role: 'listitem', class: 'tile', on: () => O.go('product', { id: p.name }) }, el('span', { class: 'photo', style: `background:${p.colour}` }, O.icon(p.icon, 40)), el('span', {}, p.name)))) }),
      product: (m, a) => {
        const p = m.products.find((x) => x.name === a.id), n = m.amount[p.name] || 1; m.viewed[p.name] = true;
        return { title: p.name, tools: [O.iconButton('cart', 'Cart', 'cart', () => O.go('cart'))], body: el('div', { class: 'card' }, el('div', { class: 'photo', style: `background:${p.colour}` }, O.icon(p.icon, 48)), el('h2', {}, p.name), el('div', { class: 'price' }, `${p.price}.00 €`),
          el('div', { class: 'line' }, el('span', {}, 'Quantity'), O.stepper('qty', 'quantity', n, (v) => { m.amount[p.name] = Math.max(1, v); })),
          el('div', { class: 'line' }, O.button('add', 'Add to cart', () => put(m, p, n), m.wide ? 'wide' : ''), O.button('stock', 'Check stock', () => O.after(1, () => { m.stock[p.name] = p.stock; }), 'plain')),
          el('div', { class: 'sub' }, p.name in m.stock ? `${m.stock[p.name]} in stock` : 'Stock not checked')) };
      },
      cart: (m) => ({ title: 'Cart', body: Object.keys(m.cart).length ? Object.entries(m.cart).map(([name, n]) => row(grow(el('span', {}, name), el('span', { class: 'sub' }, `${n} ×`)), O.button(`remove:${name}`, 'Remove', () => { delete m.cart[name]; m.removed.push(name); O.say('Removed from the cart', () => { m.cart[name] = n; m.restored.push(name); O.say('Back in the cart'); }); }, 'plain'))) : el('p', {}, 'Your cart is empty.') }),
    },
  };
  function put(m, p, n) { m.cart[p.name] = (m.cart[p.name] || 0) + n; O.say(`${n} × ${p.name} added to the cart`); }

  O.apps.inbox = {                // twelve rows that look alike, each with the same Delete
    make(r) {
      const people = r.some(W.first, 14), subjects = r.some(W.subject, Math.min(14, W.subject.length));
      return { messages: subjects.map((subject, i) => ({ subject, from: `${people[i]} ${r.pick(W.last)}`, gone: false, star: false, read: false })), older: r.some(W.todo, 3), loaded: false, refreshed: false, deleted: [], restored: [], archived: false, written: false, opened: [], words: r.chance(0.5) };
    },
    state: (m) => ({ present: Object.fromEntries(m.messages.map((x) => [x.subject, !x.gone])), stars: Object.fromEntries(m.messages.map((x) => [x.subject, x.star])), refreshed: m.refreshed, deleted: m.deleted, restored: m.restored, loaded: m.loaded, written: m.written, opened: m.opened, older: m.older }),
    views: {
      main: (m) => ({ title: 'Inbox', tools: [O.iconButton('refresh', 'Refresh', 'refresh', () => { m.refreshed = true; }), O.iconButton('write', 'Write a message', 'edit', () => O.go('write'))], body: [
        m.messages.filter((x) => !x.gone).map((x) => row(el('button', { k: `open:${x.subject}`, name: x.subject, role: 'listitem', class: 'grow', on: () => { m.opened.push(x.subject); O.go('message', { id: x.subject }); } }, el('span', { class: 'cut strong' }, x.subject), el('span', { class: 'sub cut' }, x.from)),
          m.words ? O.button(`del:${x.subject}`, 'Delete', () => remove(m, x), 'plain') : O.iconButton(`del:${x.subject}`, 'Delete', 'delete', () => remove(m, x)))),
        m.loaded ? m.older.map((w) => row(grow(el('span', { class: 'strong' }, w), el('span', { class: 'sub' }, 'Last year')))) : O.button('older', 'Load older messages', () => O.load('Loading messages…', () => { m.loaded = true; }), 'plain wide')] }),
      message: (m, a) => { const x = m.messages.find((y) => y.subject === a.id); return { title: x.subject, tools: [O.iconButton('star', 'Star', 'star', () => O.after(1, () => { x.star = true; }))], body: el('div', { class: 'card' }, el('h2', {}, x.subject), el('div', { class: 'sub' }, `From ${x.from}`), el('p', {}, `Hello, this is about “${x.subject}”. Please have a look and tell me what you think.`), el('p', {}, x.star ? 'Starred' : 'Not starred')) }; },
      write: (m) => ({ title: 'New message', body: el('div', { class: 'card' }, el('p', {}, 'Who is it for?'), O.button('discard', 'Discard', () => { m.written = true; O.back(); O.say('Draft discarded'); }, 'plain')) }),
    },
  };
  function remove(m, x) { x.gone = true; m.deleted.push(x.subject); O.say('Message deleted', () => { x.gone = false; m.restored.push(x.subject); O.say('Message is back'); }); }

  O.apps.account = {
    make(r) {
      const first = r.pick(W.first), name = `${first} ${r.pick(W.last)}`;
      return { email: '', secret: '', kind: r.pick(['Personal', 'Business']), signed: null, name, mail: mail(name), submit: r.pick(['Sign in', 'Log in', 'Continue']), changed: null, old: '', fresh: '', tab: 'Overview', city: r.pick(W.city), plan: r.pick(['Basic', 'Plus', 'Premium']), swap: r.chance(0.5) };
    },
    state: (m) => ({ email: m.email, secret: m.secret, kind: m.kind, signed: m.signed, changed: m.changed, tab: m.tab, mail: m.mail, submit: m.submit, old: m.old, fresh: m.fresh }),
    views: {
      main: (m) => {
        if (m.signed) return { title: 'My account', body: [O.seg('tab', ['Overview', 'Plan', 'Security'], m.tab, (t) => { m.tab = t; }), el('div', { class: 'card narrow' }, m.tab === 'Overview' ? [el('h2', {}, `Welcome, ${m.signed.email}`), el('p', {}, `Home town: ${m.city}`)] : m.tab === 'Plan' ? [el('h2', {}, `Your plan: ${m.plan}`), el('p', {}, `${m.signed.kind} account`)] : [el('h2', {}, 'Password'), O.field('old', 'Current password', () => m.old, (v) => { m.old = v; }, true), O.field('new', 'New password', () => m.fresh, (v) => { m.fresh = v; }, true), O.button('change', 'Change password', () => { m.changed = { old: m.old, fresh: m.fresh }; m.old = m.fresh = ''; O.say('Password changed'); })])] };
        const kind = [el('div', { class: 'sub' }, 'Account type'), O.chips('kind', ['Personal', 'Business'], m.kind, (k) => { m.kind = k; })];
        return { title: 'Welcome back', body: el('div', { class: 'card narrow' }, m.swap ? kind : null, O.field('email', 'Email', () => m.email, (v) => { m.email = v; }), O.field('password', 'Password', () => m.secret, (v) => { m.secret = v; }, true), m.swap ? null : kind, O.button('submit', m.submit, () => O.load('Signing in…', () => { m.signed = { email: m.email, secret: m.secret, kind: m.kind }; }), 'wide')) };
      },
    },
  };

  O.apps.planner = {
    make(r) {
      const count = (hi) => r.some(W.todo, r.int(1, hi)), tabs = { Day: count(3), Week: count(6), Month: count(9) };
      while (tabs.Week.length === tabs.Month.length) tabs.Month.push(r.pick(W.todo));
      while ([tabs.Week.length, tabs.Month.length].includes(tabs.Day.length)) tabs.Day.push(r.pick(W.todo));
      return { tabs, tab: r.pick(['Day', 'Week', 'Month']), remind: r.pick(['5 min', '15 min', '1 hour']), minutes: r.int(1, 4) * 10, saved: null, synced: false, refreshed: false, seen: {}, hour: r.int(6, 20) };
    },
    state: (m) => ({ tab: m.tab, remind: m.remind, minutes: m.minutes, saved: m.saved, synced: m.synced, refreshed: m.refreshed, seen: m.seen, counts: Object.fromEntries(Object.entries(m.tabs).map(([k, v]) => [k, v.length])) }),
    views: {
      main: (m) => {
        m.seen[m.tab] = true;
        return { title: 'Planner', tools: [O.iconButton('refresh', 'Refresh', 'refresh', () => { m.refreshed = true; }), O.iconButton('settings', 'Options', 'settings', () => O.go('options'))], body: [O.seg('tab', ['Day', 'Week', 'Month'], m.tab, (t) => { m.tab = t; }),
          el('div', { class: 'card' }, el('h2', {}, `${m.tab} view`), m.tabs[m.tab].map((w) => el('p', {}, `• ${w}`))), el('div', { class: 'line' }, O.button('save', 'Save view', () => save(m)), O.button('sync', 'Sync', () => O.after(1, () => { m.synced = true; }), 'plain')), el('div', { class: 'sub' }, m.synced ? 'Last sync: just now' : `Last sync: ${m.hour}:12`)] };
      },
      options: (m) => ({ title: 'Options', body: el('div', { class: 'card' }, el('h2', {}, 'Reminder'), O.chips('remind', ['5 min', '15 min', '1 hour'], m.remind, (v) => { m.remind = v; }), el('h2', {}, 'Length of a meeting in minutes'), O.stepper('minutes', 'minutes', m.minutes, (v) => { m.minutes = v; }), el('div', { class: 'line' }, O.button('save', 'Save options', () => save(m)))) }),
    },
  };
  function save(m) { m.saved = { tab: m.tab, remind: m.remind, minutes: m.minutes }; O.say('Saved'); }

  O.apps.notes = {
    make(r) { return { title: r.pick(W.todo), text: r.pick(W.subject), look: { colour: r.pick(['Black', 'Purple']), size: r.int(2, 4), bold: false }, past: [], future: [], undone: 0, redone: 0, locked: false, pin: '', kept: null, toolsLow: r.chance(0.4) }; },
    state: (m) => ({ ...m.look, undone: m.undone, redone: m.redone, locked: m.locked, pin: m.pin, kept: m.kept }),
    views: {
      main: (m) => {
        const change = (part) => { m.past.push(m.look); m.look = { ...m.look, ...part }; m.future = []; };
        const hex = Object.fromEntries(W.colour), tools = el('div', { class: 'card' }, el('div', { class: 'line' }, W.colour.slice(0, 4).concat([W.colour[5]]).map(([name, hue]) => el('button', { k: `colour:${name}`, name, role: 'radio', 'aria-checked': String(m.look.colour === name), class: 'swatch' + (m.look.colour === name ? ' on' : ''), style: `background:${hue}`, on: () => change({ colour: name }) }))), el('div', { class: 'line' }, el('span', {}, 'Size'), O.stepper('size', 'size', m.look.size, (v) => change({ size: Math.min(12, v) })), O.button('bold', m.look.bold ? 'Bold ✓' : 'Bold', () => change({ bold: !m.look.bold }), 'plain')));
        const sheet = el('div', { class: 'card sheet' }, el('h2', { style: `font-size:${14 + m.look.size * 3}px;font-weight:${m.look.bold ? 700 : 400};color:${hex[m.look.colour]};background:#fff` }, m.title), el('p', {}, m.text), el('div', { class: 'sub' }, m.kept ? 'All changes are kept' : 'Changes are not kept yet'));
        return { title: 'Note', tools: [O.iconButton('undo', 'Undo', 'undo', () => { if (m.past.length) { m.future.push(m.look); m.look = m.past.pop(); m.undone++; } }), O.iconButton('redo', 'Redo', 'redo', () => { if (m.future.length) { m.past.push(m.look); m.look = m.future.pop(); m.redone++; } }), O.iconButton('lock', 'Lock this note', 'lock', () => O.go('lock'))],
          body: [m.toolsLow ? [sheet, tools] : [tools, sheet], O.button('keep', 'Keep changes', () => O.after(1, () => { m.kept = { ...m.look }; }), 'wide')] };
      },
      lock: (m) => ({ title: 'Lock the note', body: el('div', { class: 'card narrow' }, O.field('pin', 'New PIN', () => m.pin, (v) => { m.pin = v; }, true), O.button('setpin', 'Lock', () => { m.locked = true; O.back(); O.say('The note is locked'); })) }),
    },
  };

  O.apps.orders = {               // a long list of rows that look alike
    make(r, config) {
      const start = r.int(310, 940) * 100, orders = []; let n = start;
      for (let i = 0; i < r.int(22, 30); i++) { n += r.int(1, 4); orders.push({ id: String(n), status: r.chance(0.75) ? 'Open' : 'Shipped', items: r.int(1, 3) }); }
      return { orders, filter: 'All', exported: null, refreshed: false, shipped: [], opened: [], approved: null, pin: '', inline: r.chance(0.5) || !!config.rows };
    },
    state: (m) => ({ status: Object.fromEntries(m.orders.map((o) => [o.id, o.status])), items: Object.fromEntries(m.orders.map((o) => [o.id, o.items])), inline: m.inline, list: m.orders.map((o) => o.id), filter: m.filter, exported: m.exported, refreshed: m.refreshed, shipped: m.shipped, opened: m.opened, approved: m.approved, pin: m.pin }),
    views: {
      main: (m) => ({ title: 'Orders', tools: [O.iconButton('refresh', 'Refresh', 'refresh', () => { m.refreshed = true; })], body: [el('div', { class: 'card' }, O.chips('filter', ['All', 'Open', 'Shipped'], m.filter, (f) => { m.filter = f; }), el('div', { class: 'line' }, O.button('export', 'Export list', () => { const f = m.filter; O.load('Exporting…', () => { m.exported = f; O.say(`${f} orders exported`); }); })), m.exported ? el('div', { class: 'sub' }, `Exported: ${m.exported}`) : null),
        m.orders.filter((o) => m.filter === 'All' || o.status === m.filter).map((o) => row(el('button', { k: `order:${o.id}`, name: `Order ${o.id}`, role: 'listitem', class: 'grow', on: () => { m.opened.push(o.id); O.go('order', { id: o.id }); } }, el('span', {}, `Order ${o.id}`), el('span', { class: 'sub' }, `${o.items} items · ${o.status}`)), m.inline ? O.button(`ship:${o.id}`, 'Ship', () => ship(m, o), 'plain') : null))] }),
      order: (m, a) => { const o = m.orders.find((x) => x.id === a.id); return { title: `Order ${o.id}`, body: el('div', { class: 'card' }, el('h2', {}, `Order ${o.id}`), el('p', {}, `Items: ${o.items}`), el('p', {}, `Status: ${o.status}`), el('div', { class: 'line' }, O.button('ship', 'Mark as shipped', () => ship(m, o)), O.button('approve', 'Approve', () => O.go('approve', { id: o.id }), 'plain')), m.approved && m.approved.id === o.id ? el('p', {}, 'Approved') : null) }; },
      approve: (m, a) => ({ title: 'Approve', body: el('div', { class: 'card narrow' }, el('p', {}, `Order ${a.id}`), O.field('pin', 'PIN', () => m.pin, (v) => { m.pin = v; }, true), O.button('confirm', 'Confirm', () => { m.approved = { id: a.id, pin: m.pin }; O.back(); })) }),
    },
  };
  function ship(m, o) { o.status = 'Shipped'; m.shipped.push(o.id); O.say('One order was shipped'); }
})();
