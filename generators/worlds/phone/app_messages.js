'use strict';
// Messages: data.threads = [{id, name, phone, pinned, muted, archived}], data.texts = [{id, thread, me, text, starred}].
(function () {
  const P = window.P;
  const of = (D, thread) => D.texts.filter((text) => text.thread === thread.id);
  const last = (D, thread) => of(D, thread).at(-1);
  const order = (D) => (a, b) => (a.pinned !== b.pinned ? (a.pinned ? -1 : 1) : (last(D, b) ? D.texts.indexOf(last(D, b)) : -1) - (last(D, a) ? D.texts.indexOf(last(D, a)) : -1));
  const marks = (t) => P.el('span', { class: 'trail' }, t.pinned ? P.icon('pin', 18) : null, t.muted ? P.icon('mute', 18) : null);
  const entry = (D, top, t) => P.row({ k: `thread:${t.id}`, title: t.name, sub: last(D, t) ? last(D, t).text : 'No messages', lead: P.avatar(t.name.slice(0, 1), P.colour(t.name)), trail: marks(t), ...P.selectable(top, t.id, () => P.go('thread', { id: t.id })) });
  const start = (name, phone) => {
    const D = P.data('messages'); let thread = D.threads.find((t) => t.name === name);
    if (!thread) { thread = { id: P.newId('t'), name, phone, pinned: false, muted: false, archived: false }; D.threads.push(thread); }
    return thread;
  };
  const people = (query) => P.data('contacts').people.filter((c) => P.has(P.fullName(c), query || '')).sort((a, b) => P.by('first')(a, b) || P.by('id')(a, b));
  P.app('messages', {
    title: 'Messages', icon: 'message',
    check: (D, at, args) => (at === 'thread' && !P.find(D.threads, args.id) ? `no conversation ${args.id}` : at === 'forward' && !P.find(D.texts, args.id) ? `no message ${args.id}` : ''),
    screens: {
      main: (D, top) => {
        const found = D.threads.filter((t) => !t.archived && (P.has(t.name, top.f.q || '') || of(D, t).some((text) => P.has(text.text, top.f.q || '')))).sort(order(D));
        return {
          bar: [P.ib('more', 'More options', 'more', () => P.menu([['Archived', 'messages.go', { screen: 'archived' }], ['Starred messages', 'messages.go', { screen: 'starred' }]]))],
          select: [P.ib('select:pin', 'Pin', 'pin', () => P.acts['messages.set']({ ids: top.sel, key: 'pinned', said: 'Pinned' })), P.ib('select:mute', 'Mute', 'mute', () => P.acts['messages.set']({ ids: top.sel, key: 'muted', said: 'Muted' })), P.ib('select:archive', 'Archive', 'archive', () => P.acts['messages.set']({ ids: top.sel, key: 'archived', said: 'Archived' })),
            P.ib('select:delete', 'Delete conversations', 'trash', () => P.confirm('Delete conversations?', `${top.sel.length} will be deleted`, 'Delete', 'messages.drop', { ids: top.sel }))],
          head: [P.search(top, 'Search messages')], body: found.length ? found.map((t) => entry(D, top, t)) : P.empty('No conversations'),
          fab: P.fab('add', 'New message', 'edit', () => P.go('new')),
        };
      },
      archived: (D, top) => { const found = D.threads.filter((t) => t.archived); return { title: 'Archived', select: [P.button('select:restore', 'Restore', () => P.acts['messages.set']({ ids: top.sel, key: 'archived', off: true, said: 'Restored' }))], body: found.length ? found.map((t) => entry(D, top, t)) : P.empty('Nothing archived') }; },
      starred: (D) => { const found = D.texts.filter((t) => t.starred); return { title: 'Starred messages', body: found.length ? found.map((t) => P.row({ k: `starred:${t.id}`, title: t.text, sub: P.find(D.threads, t.thread).name, lead: 'star_on', tap: () => P.go('thread', { id: t.thread }) })) : P.empty('No starred messages') }; },
      new: (D, top) => ({ title: 'New message', head: [P.search(top, 'Search people')], body: people(top.f.q).map((c) => P.row({ k: `to:${c.id}`, title: P.fullName(c), sub: c.phone, lead: P.avatar(c.first.slice(0, 1), P.colour(c.id + c.last)), tap: () => P.swap('thread', { id: start(P.fullName(c), c.phone).id }) })) }),
      forward: (D, top) => ({ title: 'Forward to', head: [P.search(top, 'Search people')], body: people(top.f.q).map((c) => P.row({ k: `to:${c.id}`, title: P.fullName(c), sub: c.phone, lead: P.avatar(c.first.slice(0, 1), P.colour(c.id + c.last)), tap: () => P.acts['messages.forward']({ id: top.a.id, name: P.fullName(c), phone: c.phone }) })) }),
      thread: (D, top) => {
        const t = P.find(D.threads, top.a.id);
        if (!t) return { title: 'Conversation', body: P.empty('This conversation was deleted') };
        return {
          title: t.name,
          bar: [P.ib('more', 'More options', 'more', () => P.menu([[t.pinned ? 'Unpin' : 'Pin', 'messages.flip', { id: t.id, key: 'pinned' }], [t.muted ? 'Unmute' : 'Mute', 'messages.flip', { id: t.id, key: 'muted' }], [t.archived ? 'Restore' : 'Archive', 'messages.flip', { id: t.id, key: 'archived' }], ['Delete conversation', 'messages.ask', { id: t.id }]]))],
          body: [P.el('div', { class: 'bubbles' }, of(D, t).map((m) => P.el('button', { k: `text:${m.id}`, role: 'listitem', class: `bubble${m.me ? ' me' : ''}`, hold: () => P.menu([[m.starred ? 'Remove star' : 'Star', 'messages.star', { id: m.id }], ['Forward', 'messages.go', { screen: 'forward', args: { id: m.id } }], ['Delete message', 'messages.erase', { id: m.id }]]) }, m.text, m.starred ? P.icon('star_on', 16) : null))), of(D, t).length ? null : P.empty('No messages yet')],
          foot: [P.field(top.f, 'text', 'Message', { plain: true, enter: () => P.acts['messages.send']() }), P.ib('send', 'Send', 'send', () => P.acts['messages.send']())],
        };
      },
    },
  });
  P.act('messages.with', ({ name, phone }) => { const thread = start(name, phone); P.show('messages'); P.root(); P.go('thread', { id: thread.id }); });
  P.act('messages.go', ({ screen, args }) => P.go(screen, args));
  P.act('messages.set', ({ ids, key, off, said }) => { for (const t of P.data('messages').threads) if (ids.includes(t.id)) t[key] = !off; P.top().sel = []; P.say(said); });
  P.act('messages.flip', ({ id, key }) => { const t = P.find(P.data('messages').threads, id); t[key] = !t[key]; P.say(`${{ pinned: 'Pin', muted: 'Mute', archived: 'Archive' }[key]} ${t[key] ? 'on' : 'off'}`); });
  P.act('messages.ask', ({ id }) => P.confirm('Delete conversation?', P.find(P.data('messages').threads, id).name, 'Delete', 'messages.drop', { ids: [id] }));
  P.act('messages.drop', ({ ids }) => { const D = P.data('messages'); P.remove(D.threads, (t) => ids.includes(t.id)); P.remove(D.texts, (t) => ids.includes(t.thread)); P.top().sel = []; P.root(); P.say('Deleted'); });
  P.act('messages.star', ({ id }) => { const m = P.find(P.data('messages').texts, id); m.starred = !m.starred; });
  P.act('messages.erase', ({ id }) => { P.remove(P.data('messages').texts, (m) => m.id === id); P.say('Message deleted'); });
  const put = (thread, text) => { P.data('messages').texts.push({ id: P.newId('m'), thread, me: true, text, starred: false }); };
  P.act('messages.forward', ({ id, name, phone }) => { const text = P.find(P.data('messages').texts, id).text, thread = start(name, phone); put(thread.id, text); P.root(); P.go('thread', { id: thread.id }); P.top().y = 1e6; P.say('Forwarded'); });
  P.act('messages.send', () => { const top = P.top(); if (!(top.f.text || '').trim()) { P.say('Write something first'); return; } put(top.a.id, top.f.text); top.f.text = ''; top.y = 1e6; });
})();
