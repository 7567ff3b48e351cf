'use strict';
// Calendar: data.events = [{id, title, day, start, end, place, remind}].
(function () {
  const P = window.P;
  const REMIND = ['None', '5 minutes', '15 minutes', '1 hour', '1 day'];
  const time = (e) => `${e.start} to ${e.end}`;
  const sorted = (events) => events.sort((a, b) => P.by('day')(a, b) || P.by('start')(a, b) || P.by('id')(a, b));
  const row = (e, top, withDay) => P.row({ k: `event:${e.id}`, title: e.title, sub: withDay ? `${P.dayWords(e.day)}, ${time(e)}` : time(e), lead: P.el('span', { class: 'tick', style: `background:${P.colour(e.id + e.title)};border:0;width:8px;height:40px` }), ...P.selectable(top, e.id, () => P.go('event', { id: e.id })) });
  const next = (month, by) => (by > 0 ? P.addDays(`${month}-28`, 4) : P.addDays(`${month}-01`, -1)).slice(0, 7);
  const pager = (month, set) => P.el('div', { class: 'monthbar' }, P.ib('month:last', 'Previous month', 'left', () => set(next(month, -1))), P.el('b', { k: 'month', role: 'heading' }, `${P.MONTHS[Number(month.slice(5)) - 1]} ${month.slice(0, 4)}`), P.ib('month:next', 'Next month', 'right', () => set(next(month, 1))));
  const blank = (day) => ({ title: '', day, start: '09:00', end: '10:00', place: '', remind: 'None' });
  P.app('calendar', {
    title: 'Calendar', icon: 'calendar',
    check: (D, at, args) => (at === 'event' && !P.find(D.events, args.id) ? `no event ${args.id}` : args.day && !/^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/.test(args.day) ? `no day ${args.day}, expected YYYY-MM-DD` : ''),
    form: (D, at, args) => (at === 'edit' ? { ...blank(P.state().now.day), ...args } : {}),
    screens: {
      main: (D, top) => {
        const today = P.state().now.day, day = top.f.day || today, month = top.f.month || day.slice(0, 7), events = sorted(D.events.filter((e) => e.day === day));
        return {
          bar: [P.ib('search:open', 'Search events', 'search', () => P.go('search')), P.ib('agenda', 'Agenda', 'list', () => P.go('agenda')), P.ib('today', 'Today', 'calendar', () => { top.f.day = today; top.f.month = today.slice(0, 7); })],
          select: [P.ib('select:delete', 'Delete events', 'trash', () => P.confirm('Delete events?', `${top.sel.length} will be deleted`, 'Delete', 'calendar.drop', { ids: top.sel }))],
          body: [pager(month, (value) => { top.f.month = value; }), P.month(month, day, today, (d) => D.events.some((e) => e.day === d), (d) => { top.f.day = d; top.f.month = d.slice(0, 7); top.sel = []; }), P.head(P.dayWords(day)), events.map((e) => row(e, top)), events.length ? null : P.text('free', 'No events', 'soft')],
          fab: P.fab('add', 'Add event', 'plus', () => P.go('edit', {}, blank(day))),
        };
      },
      search: (D, top) => { const q = (top.f.q || '').trim(), found = q ? sorted(D.events.filter((e) => P.has(e.title, q) || P.has(e.place, q))) : []; return { title: 'Search events', head: [P.search(top, 'Title or place')], body: found.length ? found.map((e) => row(e, { sel: [] }, true)) : P.empty(q ? 'No events found' : 'Write what to look for') }; },
      agenda: (D, top) => ({ title: 'Agenda', select: [P.ib('select:delete', 'Delete events', 'trash', () => P.confirm('Delete events?', `${top.sel.length} will be deleted`, 'Delete', 'calendar.drop', { ids: top.sel }))], body: sorted(D.events.filter((e) => e.day >= P.state().now.day)).map((e) => row(e, top, true)) }),
      event: (D, top) => {
        const e = P.find(D.events, top.a.id);
        if (!e) return { title: 'Event', body: P.empty('This event was deleted') };
        return {
          title: 'Event', bar: [P.ib('edit', 'Edit event', 'edit', () => P.go('edit', { id: e.id }, e)), P.ib('delete', 'Delete event', 'trash', () => P.confirm('Delete event?', e.title, 'Delete', 'calendar.drop', { ids: [e.id] }))],
          body: [P.text('event:title', e.title, 'centre'), [['day', P.dayWords(e.day), 'Day', 'calendar'], ['time', time(e), 'Time', 'clock'], ['place', e.place || 'Not set', 'Place', 'place'], ['remind', e.remind, 'Reminder', 'bell']].map(([key, value, title, icon]) => P.row({ k: `info:${key}`, title: value, sub: title, lead: icon, role: 'text' }))],
        };
      },
      edit: (D, top) => ({
        title: top.a.id ? 'Edit event' : 'New event', bar: [P.ib('save', 'Save event', 'check', () => P.acts['calendar.save']())],
        body: [P.field(top.f, 'title', 'Title'), P.valueRow('pick:day', 'Day', P.dayWords(top.f.day), () => P.go('day', {}, { day: top.f.day, month: top.f.day.slice(0, 7) }), 'calendar'), P.time(top.f, 'start', 'Start'), P.time(top.f, 'end', 'End'), P.field(top.f, 'place', 'Place'), P.pick('pick:remind', 'Reminder', top.f.remind, REMIND)],
      }),
      day: (D, top) => { const day = top.f.day || P.state().now.day, month = top.f.month || day.slice(0, 7); return { title: 'Choose a day', body: [pager(month, (value) => { top.f.month = value; }), P.month(month, day, P.state().now.day, () => false, (d) => { P.up(); P.top().f.day = d; })] }; },
    },
  });
  P.act('calendar.drop', ({ ids }) => { P.remove(P.data('calendar').events, (e) => ids.includes(e.id)); P.top().sel = []; if (P.top().s === 'event') P.up(); P.say('Deleted'); });
  P.act('calendar.save', () => {
    const { f, a } = P.top(), D = P.data('calendar');
    if (!f.title.trim()) { P.say('A title is needed'); return; }
    if (f.end <= f.start) { P.say('The end must be after the start'); return; }
    const entry = { title: f.title.trim(), day: f.day, start: f.start, end: f.end, place: f.place.trim(), remind: f.remind }, old = P.find(D.events, a.id);
    if (old) Object.assign(old, entry); else D.events.push({ id: P.newId('e'), ...entry });
    P.up(); P.say('Event saved');
  });
})();
