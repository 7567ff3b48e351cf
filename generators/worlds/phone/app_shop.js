'use strict';
// Shop: data.products = [{id, name, category, cents, tenths (its rating times ten), colours, stock}], data.cart = [{product, colour, count}],
// data.wishes = [{product}], data.orders = [{id, items, name, address, delivery, payment, cents, cancelled}].
(function () {
  const P = window.P;
  const ICONS = { Home: 'sun', Clothes: 'tag', Sports: 'rotate', Books: 'note', Music: 'music' };
  const SORTS = { Name: P.by('name'), 'Lowest price': P.by('cents'), 'Highest price': P.by('cents', -1), 'Best rated': P.by('tenths', -1) };
  const DELIVERY = { Standard: 399, Express: 999, 'Pick up': 0 };
  const item = (D, id) => P.find(D.products, id);
  const sum = (D, rows) => rows.reduce((total, row) => total + item(D, row.product).cents * row.count, 0);
  const pic = (p, cls = '') => P.el('span', { class: `pic ${cls}`, style: `background:${P.colour(p.id + p.name)}` }, P.icon(ICONS[p.category], cls ? 64 : 28));
  const row = (p) => P.row({ k: `product:${p.id}`, title: p.name, sub: p.stock ? `Rated ${(p.tenths / 10).toFixed(1)}` : 'Sold out', lead: pic(p), trail: P.el('span', { class: 'trail' }, P.money(p.cents)), tap: () => P.go('product', { id: p.id }, { colour: p.colours[0], count: 1 }) });
  const cartButton = (D) => P.ib('cart', 'Cart', 'cart', () => P.go('cart'));
  function shown(D, top) {
    const filter = top.f.filter || 'All';
    return D.products.filter((p) => (filter === 'All' || p.category === filter) && P.has(p.name, top.f.q || '')).sort((a, b) => SORTS[top.f.sort || 'Name'](a, b) || P.by('name')(a, b));
  }
  const blank = { name: '', address: '', delivery: 'Standard', payment: 'Card' };
  P.app('shop', {
    title: 'Shop', icon: 'bag',
    check: (D, at, args) => (at === 'product' && !item(D, args.id) ? `no product ${args.id}` : at === 'order' && !P.find(D.orders, args.id) ? `no order ${args.id}` : ''),
    form: (D, at, args) => (at === 'product' ? { colour: item(D, args.id).colours[0], count: 1 } : at === 'checkout' ? blank : {}),
    screens: {
      main: (D, top) => ({
        bar: [P.ib('sort', 'Sort', 'sort', () => P.choose('Sort by', Object.keys(SORTS), top.f.sort || 'Name', 'form.set', { name: 'sort' })), cartButton(D), P.ib('more', 'More options', 'more', () => P.menu([['Orders', 'shop.go', { screen: 'orders' }], ['Wish list', 'shop.go', { screen: 'wishes' }]]))],
        head: [P.search(top, 'Search products')],
        body: [P.chips(['All', ...Object.keys(ICONS)].map((name) => [`filter:${name}`, name, (top.f.filter || 'All') === name, () => { top.f.filter = name; top.y = 0; }])), shown(D, top).map(row), shown(D, top).length ? null : P.empty('No products found')],
      }),
      product: (D, top) => {
        const p = item(D, top.a.id), wished = D.wishes.some((w) => w.product === p.id);
        return {
          title: 'Product', bar: [P.ib('wish', wished ? 'Remove from wish list' : 'Add to wish list', wished ? 'heart_on' : 'heart', () => { if (wished) P.remove(D.wishes, (w) => w.product === p.id); else D.wishes.push({ product: p.id }); P.say(wished ? 'Removed from wish list' : 'Added to wish list'); }), cartButton(D)],
          body: [pic(p, 'large'), P.text('product:name', p.name, 'para title'), P.row({ k: 'product:price', title: P.money(p.cents), sub: `Rated ${(p.tenths / 10).toFixed(1)} of 5`, role: 'text', lead: 'star' }), P.row({ k: 'product:stock', title: p.stock ? `${p.stock} in stock` : 'Sold out', role: 'text', lead: 'box' }), P.head('Colour'), P.chips(p.colours.map((c) => [`colour:${c}`, c, top.f.colour === c, () => { top.f.colour = c; }])),
            P.el('div', { class: 'line' }, P.el('span', { class: 'grow' }, 'Quantity'), P.stepper('count', 'pieces', top.f.count, (value) => { top.f.count = value; }))],
          foot: p.stock ? [P.button('cart:add', 'Add to cart', () => P.acts['shop.add']({ product: p.id, colour: top.f.colour, count: top.f.count }))] : null,
        };
      },
      cart: (D) => ({
        title: 'Cart',
        body: D.cart.length ? [D.cart.map((c) => P.el('div', { class: 'line' }, P.row({ k: `cart:${c.product}:${c.colour}`, title: item(D, c.product).name, sub: `${c.colour}, ${P.money(item(D, c.product).cents)}`, role: 'text' }), P.stepper(`count:${c.product}:${c.colour}`, item(D, c.product).name, c.count, (value) => { c.count = value; }), P.ib(`remove:${c.product}:${c.colour}`, `Remove ${item(D, c.product).name}`, 'trash', () => { P.remove(D.cart, (o) => o === c); P.say('Removed'); }))), P.row({ k: 'cart:total', title: P.money(sum(D, D.cart)), sub: 'Total', role: 'text' })] : P.empty('The cart is empty'),
        foot: D.cart.length ? [P.button('cart:clear', 'Empty cart', () => P.confirm('Empty the cart?', '', 'Empty', 'shop.clear'), 'plain'), P.button('checkout', 'Checkout', () => P.go('checkout', {}, blank))] : null,
      }),
      checkout: (D, top) => ({
        title: 'Checkout', body: [P.field(top.f, 'name', 'Name'), P.field(top.f, 'address', 'Address'), P.head('Delivery'), Object.entries(DELIVERY).map(([name, cents]) => P.radioRow(`delivery:${name}`, name, top.f.delivery === name, () => { top.f.delivery = name; }, P.money(cents))), P.head('Payment'), ['Card', 'Invoice', 'Cash'].map((name) => P.radioRow(`payment:${name}`, name, top.f.payment === name, () => { top.f.payment = name; }))],
        foot: [P.button('order:place', `Order for ${P.money(sum(D, D.cart) + DELIVERY[top.f.delivery])}`, () => { if (!top.f.name.trim() || !top.f.address.trim()) { P.say('Name and address are needed'); return; } P.confirm('Place this order?', `${P.money(sum(D, D.cart) + DELIVERY[top.f.delivery])}, ${top.f.delivery}, ${top.f.payment}`, 'Order', 'shop.order'); })],
      }),
      orders: (D) => ({ title: 'Orders', body: D.orders.length ? D.orders.slice().reverse().map((o) => P.row({ k: `order:${o.id}`, title: o.items.map((i) => item(D, i.product).name).join(', '), sub: `${P.money(o.cents)}${o.cancelled ? ', cancelled' : ''}`, lead: 'box', tap: () => P.go('order', { id: o.id }) })) : P.empty('No orders yet') }),
      order: (D, top) => { const o = P.find(D.orders, top.a.id); return { title: 'Order', body: [o.items.map((i) => P.row({ k: `ordered:${i.product}:${i.colour}`, title: `${i.count} x ${item(D, i.product).name}`, sub: i.colour, lead: pic(item(D, i.product)), role: 'text' })), [['name', 'Name'], ['address', 'Address'], ['delivery', 'Delivery'], ['payment', 'Payment']].map(([key, title]) => P.row({ k: `info:${key}`, title: o[key], sub: title, role: 'text' })), P.row({ k: 'info:cents', title: P.money(o.cents), sub: o.cancelled ? 'Total (cancelled)' : 'Total', role: 'text' })], foot: o.cancelled ? null : [P.button('order:cancel', 'Cancel order', () => P.confirm('Cancel this order?', P.money(o.cents), 'Cancel order', 'shop.cancel', { id: o.id }), 'danger')] }; },
      wishes: (D) => ({ title: 'Wish list', body: D.wishes.length ? D.wishes.map((w) => row(item(D, w.product))) : P.empty('The wish list is empty') }),
    },
  });
  P.act('shop.go', ({ screen }) => P.go(screen));
  P.act('shop.add', ({ product, colour, count }) => { const D = P.data('shop'), old = D.cart.find((c) => c.product === product && c.colour === colour); if (old) old.count = Math.min(9, old.count + count); else D.cart.push({ product, colour, count }); P.say('Added to cart'); });
  P.act('shop.clear', () => { P.data('shop').cart.splice(0); });
  P.act('shop.cancel', ({ id }) => { P.find(P.data('shop').orders, id).cancelled = true; P.say('Order cancelled'); });
  P.act('shop.order', () => {
    const D = P.data('shop'), f = P.top().f, id = P.newId('o');
    D.orders.push({ id, items: D.cart.slice(), name: f.name.trim(), address: f.address.trim(), delivery: f.delivery, payment: f.payment, cents: sum(D, D.cart) + DELIVERY[f.delivery], cancelled: false });
    D.cart = []; P.root(); P.go('order', { id }); P.say('Thank you for your order');
  });
})();
