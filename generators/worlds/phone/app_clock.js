'use strict';
// Clock: data.alarms = [{id, time, label, days, vibrate, on}], data.cities = [{id, name, offset}], data.timer = {total, left, running}.
(function () {
  const P = window.P;
  const SHORT = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
  const CITIES = { Athens: 2, Auckland: 13, Berlin: 1, Cairo: 2, Chicago: -6, Delhi: 5, Dubai: 4, Lima: -5, Lisbon: 0, Madrid: 1, Moscow: 3, Nairobi: 3, 'New York': -5, Oslo: 1, Paris: 1, Rome: 1, Seoul: 9, Sydney: 11, Tokyo: 9, Toronto: -5 };
  const pad = (n) => String(n).padStart(2, '0');
  const words = (days) => (days.length === 7 ? 'Every day' : days.length ? SHORT.filter((d) => days.includes(d)).join(' ') : 'Once');
  const local = (offset) => { const minutes = (Math.floor(P.state().now.sec / 60) + offset * 60 + 2880) % 1440; return `${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`; };
  const blank = { time: '07:00', label: '', days: [], vibrate: true };
  const tabs = (top) => P.tabs([['Alarm', 'alarm'], ['World clock', 'world'], ['Timer', 'timer']].map(([title, tab]) => [`tab:${tab}`, title, (top.f.tab || 'alarm') === tab, () => { top.f.tab = tab; top.y = 0; top.sel = []; }]));
  const VIEWS = {
    alarm: (D, top) => ({
      select: [P.ib('select:delete', 'Delete alarms', 'trash', () => P.confirm('Delete alarms?', `${top.sel.length} will be deleted`, 'Delete', 'clock.drop', { ids: top.sel }))],
      body: D.alarms.slice().sort((a, b) => P.by('time')(a, b) || P.by('id')(a, b)).map((a) => P.el('div', { class: 'line' }, P.row({ k: `alarm:${a.id}`, title: P.el('span', { class: 'time24' }, a.time), sub: [a.label, words(a.days)].filter(Boolean).join(', '), ...P.selectable(top, a.id, () => P.go('alarm', { id: a.id }, a)) }),
        P.el('button', { k: `switch:${a.id}`, name: `Alarm ${a.time}${a.label ? ` ${a.label}` : ''}`, role: 'switch', 'aria-checked': String(a.on), class: 'ib', style: 'width:60px', tap: () => { a.on = !a.on; } }, P.toggle(a.on)))),
      fab: P.fab('add', 'Add alarm', 'plus', () => P.go('alarm', {}, blank)),
    }),
    world: (D, top) => ({
      select: [P.ib('select:delete', 'Remove cities', 'trash', () => { P.remove(D.cities, (c) => top.sel.includes(c.id)); top.sel = []; P.say('Removed'); })],
      body: D.cities.map((c) => P.row({ k: `city:${c.id}`, title: c.name, sub: `${c.offset < 0 ? '' : '+'}${c.offset} h`, lead: 'globe', trail: P.el('span', { class: 'trail' }, local(c.offset)), ...P.selectable(top, c.id, () => P.say('Hold a city to remove it')) })),
      fab: P.fab('add', 'Add city', 'plus', () => P.go('city')),
    }),
    timer: (D) => { const t = D.timer; return { body: [P.text('timer:left', `${pad(Math.floor(t.left / 60))}:${pad(t.left % 60)}`, 'big'),
      P.el('div', { class: 'actionsrow' }, [[30, '+30 s'], [60, '+1 min'], [300, '+5 min'], [600, '+10 min']].map(([more, title]) => P.button(`timer:+${more}`, title, () => { t.total += more; t.left += more; }, 'plain'))),
      P.el('div', { class: 'actionsrow' }, P.button('timer:reset', 'Reset', () => { t.total = 0; t.left = 0; t.running = false; }, 'plain'), P.button('timer:start', t.running ? 'Pause' : 'Start', () => { if (!t.left) { P.say('Set a time first'); return; } t.running = !t.running; }))] }; },
  };
  P.app('clock', {
    title: 'Clock', icon: 'clock',
    check: (D, at, args) => (at === 'alarm' && args.id && !P.find(D.alarms, args.id) ? `no alarm ${args.id}` : ''),
    form: (D, at, args) => (at === 'alarm' ? (args.id ? P.find(D.alarms, args.id) : blank) : {}),
    pass: (D, seconds) => { const t = D.timer; if (!t.running) return; t.left = Math.max(0, t.left - seconds); if (!t.left) { t.running = false; t.total = 0; P.say('Timer is up'); } },
    screens: {
      main: (D, top) => ({ title: 'Clock', head: tabs(top), ...VIEWS[top.f.tab || 'alarm'](D, top) }),
      alarm: (D, top) => ({
        title: top.a.id ? 'Edit alarm' : 'New alarm', bar: [top.a.id ? P.ib('delete', 'Delete alarm', 'trash', () => P.confirm('Delete alarm?', top.f.time, 'Delete', 'clock.drop', { ids: [top.a.id] })) : null, P.ib('save', 'Save alarm', 'check', () => P.acts['clock.save']())],
        body: [P.time(top.f, 'time', 'Time'), P.field(top.f, 'label', 'Label'), P.head('Repeat'),
          P.el('div', { class: 'chips days' }, SHORT.map((d, i) => P.el('button', { k: `repeat:${d}`, name: P.DAYS[i], role: 'checkbox', 'aria-checked': String(top.f.days.includes(d)), class: `chip${top.f.days.includes(d) ? ' on' : ''}`, tap: () => { top.f.days = top.f.days.includes(d) ? top.f.days.filter((o) => o !== d) : SHORT.filter((o) => o === d || top.f.days.includes(o)); } }, d.slice(0, 2)))),
          P.switchRow('vibrate', 'Vibrate', top.f.vibrate, () => { top.f.vibrate = !top.f.vibrate; })],
      }),
      city: (D, top) => ({ title: 'Add city', head: [P.search(top, 'Search cities')], body: Object.keys(CITIES).filter((name) => P.has(name, top.f.q || '')).map((name) => P.row({ k: `add:${name}`, title: name, lead: 'globe', tap: () => { if (D.cities.some((c) => c.name === name)) { P.say('Already there'); return; } D.cities.push({ id: P.newId('w'), name, offset: CITIES[name] }); P.up(); P.say(`${name} added`); } })) }),
    },
  });
  P.act('clock.save', () => {
    const { f, a } = P.top(), D = P.data('clock'), entry = { time: f.time, label: f.label.trim(), days: f.days, vibrate: f.vibrate, on: true }, old = P.find(D.alarms, a.id);
    if (old) Object.assign(old, entry); else D.alarms.push({ id: P.newId('a'), ...entry });
    P.up(); P.say(`Alarm set for ${f.time}`);
  });
  P.act('clock.drop', ({ ids }) => { const D = P.data('clock'); P.remove(D.alarms, (a) => ids.includes(a.id)); P.top().sel = []; if (P.top().s === 'alarm') P.up(); P.say('Deleted'); });
})();
