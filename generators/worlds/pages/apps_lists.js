'use strict';
// Mail, to-do, news, contacts: lists that open, tick, star, delete, search.
(function () {
  const { el } = V, W = window.WORDS;
  const rowClass = (S) => 'row' + (S.L.flip ? ' flip' : '');
  V.apps.mail = {
    title: 'Mail', icon: 'mail',
    make(r) { const people = r.shuffle(W.first), last = r.shuffle(W.last); return { query: '', sent: [], draft: '', archived: [], messages: r.some(W.subject, r.int(7, 11)).map((subject, i) => ({ id: i, subject, sender: `${people[i]} ${last[i]}`, starred: r.chance(0.2), deleted: false })) }; },
    state: (m) => ({ messages: m.messages, sent: m.sent, query: m.query, archived: m.archived }),
    views: {
      main: (m, a, S) => ({ title: 'Inbox', tools: [V.iconButton('mail:search', 'Search mail', 'search', () => V.go('search'))], side: [V.button('mail:compose2', 'Inbox', () => {}, 'plain')],
        body: el('div', { class: S.L.rows }, m.messages.filter((x) => !x.deleted).map((x) => row(m, x, S))) }),
      search: (m, a, S) => ({ title: 'Search', body: [V.field('Search', V.input('mail:query', 'Search', () => m.query, (v) => { m.query = v; }, () => V.go('results', { id: m.query }), 'Sender or subject')), el('div', { class: 'actions ' + S.L.actions }, V.button('mail:go', 'Search', () => V.go('results', { id: m.query })))] }),
      results: (m, a, S) => { const hits = m.messages.filter((x) => !x.deleted && (x.subject + ' ' + x.sender).toLowerCase().includes(String(a.id).toLowerCase())); return { title: 'Results', body: [el('p', {}, `${hits.length} found for "${a.id}"`), el('div', { class: S.L.rows }, hits.map((x) => row(m, x, S)))] }; },
      message: (m, a, S) => { const x = m.messages[a.id]; const tools = [V.iconButton('msg:star', x.starred ? 'Remove star' : 'Add star', 'star', () => { x.starred = !x.starred; V.render(); }), V.iconButton('msg:delete', 'Delete', 'delete', () => V.ask('Delete this message?', () => { x.deleted = true; S.stack.pop(); }, 'Delete')), V.iconButton('msg:archive', 'Archive', 'archive', () => { m.archived.push(a.id); V.say("Message archived"); })];
        return { title: 'Message', tools: S.L.flip ? tools.reverse() : tools, body: [el('h2', {}, x.subject), el('p', { class: 'strong' }, `From ${x.sender}`), el('p', {}, `Hello, this is about ${x.subject.toLowerCase()}. Please let me know what you think. Thank you, ${x.sender.split(' ')[0]}`), el('div', { class: 'actions ' + S.L.actions }, V.button('msg:reply', 'Reply', () => V.go('reply', { id: a.id })))] }; },
      reply: (m, a, S) => ({ title: 'Reply', body: [el('p', {}, `To ${m.messages[a.id].sender}`), V.field('Message', V.input('reply:text', 'Message', () => m.draft, (v) => { m.draft = v; }, null, 'Write here')), el('div', { class: 'actions ' + S.L.actions }, V.button('reply:send', 'Send', () => { m.sent.push({ to: a.id, text: m.draft }); m.draft = ''; S.stack.pop(); V.say('Message sent'); }))] }),
    },
  };
  function row(m, x, S) {
    const star = el('button', { k: `star:${x.id}`, name: `Star ${x.subject}`, role: 'checkbox', 'aria-checked': String(x.starred), class: 'iconbtn', on: () => { x.starred = !x.starred; V.render(); } }, V.icon('star', 28, x.starred ? '#c77700' : '#555', x.starred));
    return el('div', { class: rowClass(S) }, el('button', { k: `mail:${x.id}`, name: `${x.sender} ${x.subject}`, role: 'listitem', class: 'grow col', on: () => V.go('message', { id: x.id }) }, el('span', { class: 'strong clip' }, x.sender), el('span', { class: 'sub clip' }, x.subject)), star);
  }
  V.apps.todo = {
    title: 'Tasks', icon: 'list',
    make(r) { return { draft: '', filter: 'All', addTop: r.chance(0.5), items: r.some(W.todo, r.int(5, 12)).map((text, i) => ({ id: i, text, done: r.chance(0.2), deleted: false })) }; },
    state: (m) => ({ items: m.items, filter: m.filter }),
    views: {
      main: (m, a, S) => {
        const add = () => { if (m.draft.trim()) { m.items.push({ id: m.items.length, text: m.draft, done: false, deleted: false }); m.draft = ''; V.render(); } };
        const box = el('div', { class: 'row' }, el('div', { class: 'grow' }, V.input('todo:new', 'New task', () => m.draft, (v) => { m.draft = v; }, add, 'New task')), V.iconButton('todo:add', 'Add task', 'plus', add));
        const rows = m.items.filter((x) => !x.deleted && (m.filter === 'All' || x.done === (m.filter === 'Done'))).map((x) => el('div', { class: rowClass(S) }, V.check(`tick:${x.id}`, x.text, x.done, () => { x.done = !x.done; V.render(); }), el('span', { class: 'grow clip' + (x.done ? ' done' : '') }, x.text), V.iconButton(`del:${x.id}`, `Delete ${x.text}`, 'delete', () => { x.deleted = true; V.render(); })));
        return { tabs: ['All', 'Open', 'Done'].map((t) => el('button', { k: `tab:${t}`, role: 'tab', class: m.filter === t ? 'on' : '', on: () => { m.filter = t; V.render(); } }, t)), body: m.addTop ? [box, el('div', { class: S.L.rows }, rows)] : [el('div', { class: S.L.rows }, rows), box] };
      },
    },
  };
  V.apps.news = {
    title: 'News', icon: 'news',
    make(r) { return { saved: [], likes: [], items: r.some(W.news, r.int(6, 9)).map((title, i) => ({ id: i, title, by: `${r.pick(W.first)} ${r.pick(W.last)}`, minutes: r.int(2, 9), city: r.pick(W.city) })) }; },
    state: (m) => ({ saved: m.saved, likes: m.likes, items: m.items }),
    views: {
      main: (m, a, S) => ({ title: 'Headlines', body: el('div', { class: S.L.rows }, m.items.map((x) => el('button', { k: `news:${x.id}`, name: x.title, role: 'listitem', class: rowClass(S), on: () => V.go('article', { id: x.id }) }, V.icon('news', 30, S.L.accent), el('span', { class: 'grow' }, x.title)))) }),
      article: (m, a, S) => { const x = m.items[a.id]; const tools = [V.iconButton('art:save', 'Save article', 'archive', () => { m.saved.push(a.id); V.say('Article saved'); }), V.iconButton('art:like', 'Like', 'heart', () => { m.likes.push(a.id); V.say('You like this'); })];
        return { title: 'Article', tools: S.L.flip ? tools.reverse() : tools, body: [el('h2', {}, x.title), el('p', { class: 'sub' }, `By ${x.by}, ${x.minutes} min`), [1, 2, 3].map((n) => el('p', {}, `${x.city} ${['has waited for this for years', 'will hear more in the coming weeks', 'thanks everyone who took part'][n - 1]}. People said they were pleased and asked for more.`)), el('div', { class: 'actions ' + S.L.actions }, V.button('art:share', 'Share', () => V.say('Link copied'), 'plain'))] }; },
    },
  };
  V.apps.contacts = {
    title: 'Contacts', icon: 'person',
    make(r) { const last = r.shuffle(W.last); const rows = r.some(W.first, r.int(9, 14)).map((first, i) => ({ name: `${first} ${last[i]}`, city: r.pick(W.city), phone: `0${r.int(200, 899)} ${r.int(1000, 9999)}`, favourite: false })); rows.sort((p, q) => p.name < q.name ? -1 : 1); rows.forEach((x, i) => { x.id = i; }); return { people: rows, called: [] }; },
    state: (m) => ({ people: m.people, called: m.called }),
    views: {
      main: (m, a, S) => ({ body: el('div', { class: S.L.rows }, m.people.map((x) => el('button', { k: `person:${x.id}`, name: x.name, role: 'listitem', class: rowClass(S), on: () => V.go('person', { id: x.id }) }, V.icon('person', 30, S.L.accent), el('span', { class: 'grow' }, x.name)))) }),
      person: (m, a, S) => { const x = m.people[a.id]; const acts = [V.button('call', 'Call', () => { m.called.push(a.id); V.say(`Calling ${x.name}`); }), V.button('fav', x.favourite ? 'Unfavourite' : 'Favourite', () => { x.favourite = !x.favourite; V.render(); }, 'plain')];
        return { title: 'Contact', body: [el('h2', {}, x.name), el('p', {}, `Phone ${x.phone}`), el('p', {}, `City ${x.city}`), el('div', { class: 'actions ' + S.L.actions }, S.L.flip ? acts.reverse() : acts)] }; },
    },
  };
})();
