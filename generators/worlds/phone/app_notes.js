'use strict';
// Notes: data.notes = [{id, title, body, label, pinned, items}] (items: the lines of a checklist, [{text, done}]; else []).
(function () {
  const P = window.P;
  const LABELS = ['None', 'Home', 'Work', 'Ideas'];
  const brief = (n) => (n.items.length ? `${n.items.filter((i) => i.done).length} of ${n.items.length} done` : n.body.split('\n')[0]);
  function shown(D, top) {
    const filter = top.f.filter || 'All', q = top.f.q || '';
    return D.notes.filter((n) => (filter === 'All' || n.label === filter) && (P.has(n.title, q) || P.has(n.body, q)))
      .sort((a, b) => (a.pinned !== b.pinned ? (a.pinned ? -1 : 1) : top.f.sort === 'title' ? P.by('title')(a, b) : D.notes.indexOf(b) - D.notes.indexOf(a)));
  }
  P.app('notes', {
    title: 'Notes', icon: 'note',
    check: (D, at, args) => (at === 'note' && !P.find(D.notes, args.id) ? `no note ${args.id}` : ''),
    form: (D, at, args) => (at === 'edit' ? { title: '', body: '', label: 'None', ...args } : {}),
    screens: {
      main: (D, top) => ({
        bar: [P.ib('sort', 'Sort', 'sort', () => P.choose('Sort by', ['Newest', 'Title'], top.f.sort === 'title' ? 'Title' : 'Newest', 'notes.sort'))],
        select: [P.ib('select:pin', 'Pin notes', 'pin', () => P.acts['notes.pin']({ ids: top.sel })), P.ib('select:label', 'Label notes', 'tag', () => P.choose('Label', LABELS, '', 'notes.label', { ids: top.sel })), P.ib('select:delete', 'Delete notes', 'trash', () => P.confirm('Delete notes?', `${top.sel.length} will be deleted`, 'Delete', 'notes.drop', { ids: top.sel }))],
        head: [P.search(top, 'Search notes')],
        body: [P.chips(['All', ...LABELS.slice(1)].map((name) => [`filter:${name}`, name, (top.f.filter || 'All') === name, () => { top.f.filter = name; top.y = 0; }])),
          shown(D, top).map((n) => P.row({ k: `note:${n.id}`, title: n.title, sub: brief(n), lead: n.items.length ? 'list' : 'note', trail: n.pinned ? P.icon('pin', 20) : null, ...P.selectable(top, n.id, () => P.go('note', { id: n.id })) })), shown(D, top).length ? null : P.empty('No notes found')],
        fab: P.fab('add', 'New note', 'plus', () => P.menu([['Text note', 'notes.new', {}], ['Checklist', 'notes.new', { list: true }]])),
      }),
      note: (D, top) => {
        const n = P.find(D.notes, top.a.id);
        if (!n) return { title: 'Note', body: P.empty('This note was deleted') };
        return {
          title: 'Note',
          bar: [P.ib('pin', n.pinned ? 'Unpin note' : 'Pin note', 'pin', () => { n.pinned = !n.pinned; P.say(n.pinned ? 'Pinned' : 'Unpinned'); }), P.ib('edit', 'Edit note', 'edit', () => P.go('edit', { id: n.id, list: n.items.length > 0 }, n)), P.ib('delete', 'Delete note', 'trash', () => P.confirm('Delete note?', n.title, 'Delete', 'notes.drop', { ids: [n.id] }))],
          body: [P.text('note:title', n.title, 'centre'), P.text('note:label', n.label === 'None' ? 'No label' : `Label: ${n.label}`, 'soft'),
            top.a.list || n.items.length ? n.items.map((i, at) => P.checkRow(`item:${at}`, i.text, i.done, () => { i.done = !i.done; })) : P.text('note:body', n.body, 'para')],
          foot: top.a.list || n.items.length ? [P.field(top.f, 'item', 'Add an entry', { plain: true, enter: () => P.acts['notes.item']() }), P.ib('item:add', 'Add entry', 'plus', () => P.acts['notes.item']())] : null,
        };
      },
      edit: (D, top) => ({
        title: top.a.id ? 'Edit note' : top.a.list ? 'New checklist' : 'New note', bar: [P.ib('save', 'Save note', 'check', () => P.acts['notes.save']())],
        body: [P.field(top.f, 'title', 'Title'), top.a.list ? null : P.field(top.f, 'body', 'Text', { multi: true }), P.pick('pick:label', 'Label', top.f.label, LABELS)],
      }),
    },
  });
  P.act('notes.sort', ({ value }) => { P.top().f.sort = value === 'Title' ? 'title' : 'new'; });
  P.act('notes.new', ({ list }) => P.go('edit', list ? { list: true } : {}, { title: '', body: '', label: 'None' }));
  P.act('notes.pin', ({ ids }) => { for (const n of P.data('notes').notes) if (ids.includes(n.id)) n.pinned = true; P.top().sel = []; P.say('Pinned'); });
  P.act('notes.label', ({ ids, value }) => { for (const n of P.data('notes').notes) if (ids.includes(n.id)) n.label = value; P.top().sel = []; P.say(`Label: ${value}`); });
  P.act('notes.drop', ({ ids }) => { P.remove(P.data('notes').notes, (n) => ids.includes(n.id)); P.top().sel = []; P.root(); P.say('Deleted'); });
  P.act('notes.item', () => { const top = P.top(); if (!(top.f.item || '').trim()) { P.say('Write something first'); return; } P.find(P.data('notes').notes, top.a.id).items.push({ text: top.f.item.trim(), done: false }); top.f.item = ''; });
  P.act('notes.save', () => {
    const { f, a } = P.top(), D = P.data('notes');
    if (!f.title.trim()) { P.say('A title is needed'); return; }
    const old = P.find(D.notes, a.id), entry = { title: f.title.trim(), body: f.body, label: f.label };
    if (old) { Object.assign(old, entry); P.up(); } else { const id = P.newId('n'); D.notes.push({ id, ...entry, pinned: false, items: [] }); P.swap('note', a.list ? { id, list: true } : { id }); }
    P.say('Note saved');
  });
})();
