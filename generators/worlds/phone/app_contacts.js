'use strict';
// Contacts: data.people = [{id, first, last, phone, email, address, group, favourite}].
(function () {
  const P = window.P;
  const full = (c) => `${c.first} ${c.last}`.trim();
  const GROUPS = ['Family', 'Friends', 'Work', 'None'];
  const FILTERS = ['All', 'Favourites', 'Family', 'Friends', 'Work'];
  const blank = { first: '', last: '', phone: '', email: '', address: '', group: 'None' };
  P.fullName = full;
  function shown(D, top) {
    const filter = top.f.filter || 'All', sort = top.f.sort || 'last';
    return D.people.filter((c) => (filter === 'All' || (filter === 'Favourites' ? c.favourite : c.group === filter)) && (P.has(full(c), top.f.q || '') || c.phone.includes((top.f.q || '').trim())))
      .sort((a, b) => P.by(sort)(a, b) || P.by('first')(a, b) || P.by('id')(a, b));
  }
  P.app('contacts', {
    title: 'Contacts', icon: 'person',
    check: (D, at, args) => (at === 'person' && !P.find(D.people, args.id) ? `no person ${args.id}` : ''),
    form: (D, at, args) => (at === 'edit' ? { ...blank, ...args } : {}),
    screens: {
      main: (D, top) => ({
        bar: [P.ib('sort', 'Sort', 'sort', () => P.choose('Sort by', ['First name', 'Last name'], top.f.sort === 'first' ? 'First name' : 'Last name', 'contacts.sort'))],
        select: [P.ib('select:star', 'Add to favourites', 'star', () => P.acts['contacts.star']()), P.ib('select:delete', 'Delete contacts', 'trash', () => P.confirm('Delete contacts?', `${top.sel.length} will be deleted`, 'Delete', 'contacts.drop', { ids: top.sel }))],
        head: [P.search(top, 'Search contacts')],
        body: [P.chips(FILTERS.map((name) => [`filter:${name}`, name, (top.f.filter || 'All') === name, () => { top.f.filter = name; top.y = 0; }])),
          shown(D, top).map((c) => P.row({ k: `person:${c.id}`, title: full(c), sub: c.phone, lead: P.avatar(c.first.slice(0, 1), P.colour(c.id + c.last)), trail: c.favourite ? P.icon('star_on', 20) : null, ...P.selectable(top, c.id, () => P.go('person', { id: c.id })) })),
          shown(D, top).length ? null : P.empty('No contacts found')],
        fab: P.fab('add', 'Add contact', 'plus', () => P.go('edit', {}, blank)),
      }),
      person: (D, top) => {
        const c = P.find(D.people, top.a.id);
        if (!c) return { title: 'Contact', body: P.empty('This contact was deleted') };
        return {
          title: 'Contact',
          bar: [P.ib('star', c.favourite ? 'Remove from favourites' : 'Add to favourites', c.favourite ? 'star_on' : 'star', () => { c.favourite = !c.favourite; }), P.ib('edit', 'Edit contact', 'edit', () => P.go('edit', { id: c.id }, c)), P.ib('delete', 'Delete contact', 'trash', () => P.confirm('Delete contact?', full(c), 'Delete', 'contacts.drop', { ids: [c.id] }))],
          body: [P.avatar(c.first.slice(0, 1), P.colour(c.id + c.last), 'big'), P.text('name', full(c), 'centre'),
            P.el('div', { class: 'actionsrow' }, P.button('message', 'Message', () => P.acts['messages.with']({ name: full(c), phone: c.phone }))),
            [['phone', 'Phone', 'phone'], ['email', 'Email', 'mail'], ['address', 'Address', 'place'], ['group', 'Group', 'group']].map(([key, title, icon]) => P.row({ k: `info:${key}`, title: c[key] || 'Not set', sub: title, lead: icon, role: 'text' }))],
        };
      },
      edit: (D, top) => ({
        title: top.a.id ? 'Edit contact' : 'New contact', bar: [P.ib('save', 'Save contact', 'check', () => P.acts['contacts.save']())],
        body: [P.field(top.f, 'first', 'First name'), P.field(top.f, 'last', 'Last name'), P.field(top.f, 'phone', 'Phone'), P.field(top.f, 'email', 'Email'), P.field(top.f, 'address', 'Address'), P.pick('pick:group', 'Group', top.f.group, GROUPS)],
      }),
    },
  });
  P.act('contacts.sort', ({ value }) => { P.top().f.sort = value === 'First name' ? 'first' : 'last'; });
  P.act('contacts.star', () => { const top = P.top(); for (const c of P.data('contacts').people) if (top.sel.includes(c.id)) c.favourite = true; P.say('Added to favourites'); top.sel = []; });
  P.act('contacts.drop', ({ ids }) => { P.remove(P.data('contacts').people, (c) => ids.includes(c.id)); P.top().sel = []; P.root(); P.say(ids.length > 1 ? 'Contacts deleted' : 'Contact deleted'); });
  P.act('contacts.save', () => {
    const { f, a } = P.top(), D = P.data('contacts'), entry = Object.fromEntries(Object.keys(blank).map((key) => [key, key === 'group' ? f[key] : f[key].trim()]));
    if (!entry.first || !entry.phone) { P.say('First name and phone are needed'); return; }
    const old = P.find(D.people, a.id);
    if (old) { Object.assign(old, entry); P.up(); } else { const id = P.newId('c'); D.people.push({ id, ...entry, favourite: false }); P.swap('person', { id }); }
    P.say('Contact saved');
  });
})();
