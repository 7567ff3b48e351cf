'use strict';
// A shop: catalogue -> product -> cart -> checkout, with a search.
(function () {
  const { el } = V, W = window.WORDS;
  V.apps.shop = {
    title: 'Shop', icon: 'cart',
    make(r, config) {
      const products = r.some(W.product, r.int(7, 12)).map((name, id) => ({ id, name, price: r.int(4, 95), icon: r.pick(['box', 'heart', 'star', 'camera', 'bell', 'clock', 'lock', 'map', 'play']), tint: r.pick(W.colour)[1], colours: r.some(W.colour, 3).map((c) => c[0]), sizes: r.chance(0.5) ? W.size.slice(0, 3) : [] }));
      const cart = config.cart ? r.some(products, 2).map((p) => ({ id: p.id, name: p.name, colour: p.colours[0], size: null, count: 1 })) : [];
      return { products, cart, query: '', name: '', city: '', ordered: null, chosen: {}, add: r.pick(['Add to cart', 'Add to basket', 'Put in cart']), buy: r.pick(['Place order', 'Order now', 'Buy now']), liked: [] };
    },
    state: (m) => ({ products: m.products, cart: m.cart, query: m.query, ordered: m.ordered, liked: m.liked }),
    views: {
      main: (m, a, S) => ({ title: 'Shop', tools: tools(m, S), side: [el('p', { class: 'strong' }, 'Pages'), V.button('side:cart', 'My cart', () => V.go('cart'), 'plain'), V.button('side:search', 'Find', () => V.go('search'), 'plain')], body: grid(m.products, S) }),
      search: (m, a, S) => ({ title: 'Search', body: [V.field('Search', V.input('shop:query', 'Search', () => m.query, (v) => { m.query = v; }, () => V.go('results', { id: m.query }), 'Product name')), el('div', { class: 'actions ' + S.L.actions }, V.button('shop:go', 'Search', () => V.go('results', { id: m.query })))] }),
      results: (m, a, S) => { const hits = m.products.filter((p) => p.name.toLowerCase().includes(String(a.id).toLowerCase())); return { title: 'Results', tools: [cartButton(m)], body: [el('p', {}, `${hits.length} found for "${a.id}"`), grid(hits, S)] }; },
      product: (m, a, S) => {
        const p = m.products[a.id], c = m.chosen[a.id] = m.chosen[a.id] || { colour: p.colours[0], size: p.sizes[0] || null, count: 1 };
        const chips = (kind, options) => el('div', { class: 'chips' }, options.map((o) => el('button', { k: `${kind}:${o}`, name: o, role: 'radio', 'aria-checked': String(c[kind] === o), class: 'chip' + (c[kind] === o ? ' on' : ''), on: () => { c[kind] = o; V.render(); } }, o)));
        const add = V.button('add', m.add, () => { m.cart.push({ id: p.id, name: p.name, colour: c.colour, size: c.size, count: c.count }); V.say('Added to your cart'); }, S.L.wide ? 'wide' : '');
        const count = el('div', { class: 'actions' }, V.iconButton('less', 'Fewer', 'minus', () => { c.count = Math.max(1, c.count - 1); V.render(); }), el('span', { class: 'badge' }, String(c.count)), V.iconButton('more', 'More', 'plus', () => { c.count += 1; V.render(); }));
        const parts = [el('div', { class: 'actions mid' }, V.icon(p.icon, 72, p.tint)), el('h2', {}, p.name), el('p', { class: 'price' }, `$${p.price}.00`), el('div', { class: 'section' }, 'Colour'), chips('colour', p.colours), p.sizes.length ? [el('div', { class: 'section' }, 'Size'), chips('size', p.sizes)] : null];
        return { title: 'Product', tools: [V.iconButton('like', 'Like', 'heart', () => { m.liked.push(p.id); V.say('Added to your wish list'); }), cartButton(m)], body: S.L.top ? [el('div', { class: 'actions ' + S.L.actions }, add), parts, count] : [parts, count, el('div', { class: 'actions ' + S.L.actions }, add)] };
      },
      cart: (m, a, S) => ({ title: 'Cart', body: [m.cart.length ? el('div', { class: S.L.rows }, m.cart.map((x, i) => el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, el('span', { class: 'grow' }, `${x.count} x ${x.name}, ${x.colour}`), V.iconButton(`drop:${x.name}`, `Remove ${x.name}`, 'delete', () => { m.cart.splice(i, 1); V.render(); })))) : el('p', {}, 'Your cart is empty'), el('div', { class: 'actions ' + S.L.actions }, V.button('checkout', 'Checkout', () => V.go('checkout'), S.L.wide ? 'wide' : ''))] }),
      checkout: (m, a, S) => ({ title: 'Checkout', body: [V.field('Name', V.input('pay:name', 'Name', () => m.name, (v) => { m.name = v; })), V.field('City', V.input('pay:city', 'City', () => m.city, (v) => { m.city = v; })), el('div', { class: 'actions ' + S.L.actions }, V.button('order', m.buy, () => { m.ordered = { name: m.name, city: m.city, items: m.cart.map((x) => x.name) }; m.cart = []; V.go('thanks'); }, S.L.wide ? 'wide' : ''))] }),
      thanks: (m, a, S) => ({ title: 'Order placed', body: [V.icon('check', 72, S.L.accent), el('h2', {}, 'Thank you'), el('p', {}, `Your order goes to ${m.ordered.name || 'you'}, ${m.ordered.city || 'home'}.`)] }),
    },
  };
  const cartButton = (m) => V.iconButton('cart', 'Cart', 'cart', () => V.go('cart'));
  function tools(m, S) { const xs = [V.iconButton('shop:search', 'Search products', 'search', () => V.go('search')), cartButton(m)]; return S.L.flip ? xs.reverse() : xs; }
  function grid(products, S) {
    const cls = S.config.platform === 'phone' ? (S.L.cols === 3 ? '' : 'g2') : (S.L.cols === 3 ? 'g4' : 'g3');
    return el('div', { class: 'grid ' + cls }, products.map((p) => el('button', { k: `product:${p.id}`, name: p.name, role: 'listitem', class: 'card', on: () => V.go('product', { id: p.id }) }, el('span', { class: 'pic' }, V.icon(p.icon, 44, p.tint)), el('span', { class: 'strong' }, p.name), el('span', { class: 'price' }, `$${p.price}.00`))));
  }
})();
