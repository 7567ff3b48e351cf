'use strict';
// What stands around the apps: status bar, home, drawer, recents, quick settings, dialogs, toast, system keys.
(function () {
  const P = window.P, el = P.el;
  const clock = (S) => `${String(Math.floor(S.now.sec / 3600)).padStart(2, '0')}:${String(Math.floor(S.now.sec / 60) % 60).padStart(2, '0')}`;
  function status(S) {
    const v = S.data.settings.values, icons = [];
    for (const [on, icon, name] of [[v.dnd, 'moon', 'Do not disturb'], [S.data.clock.alarms.some((alarm) => alarm.on), 'clock', 'Alarm'], [v.airplane, 'plane', 'Airplane mode'], [v.bluetooth, 'bluetooth', 'Bluetooth'], [v.wifi && !v.airplane, 'wifi', 'Wi-Fi']]) if (on) icons.push(el('span', { k: `status:${icon}`, role: 'image', name: `${name} on` }, P.icon(icon, 16)));
    return el('div', { class: 'status' }, el('span', { k: 'status:time', role: 'text' }, clock(S)), el('span', { class: 'icons' }, icons, el('span', { k: 'status:battery', role: 'text' }, `${S.now.battery}%`)));
  }
  const tile = (app, S, size = 30) => el('span', { class: 'tile', style: `background:${S.look.colours[app]}` }, P.icon(P.apps[app].icon, size));
  const launcher = (S, place, app) => el('button', { k: `${place}:${app}`, name: P.apps[app].title, role: 'button', class: 'launcher', tap: () => P.show(app) }, tile(app, S), el('span', {}, P.apps[app].title));
  const WALLS = { Ocean: ['#12395c', '#2f7fa0'], Forest: ['#173a2a', '#4c8a5a'], Desert: ['#6b3a1f', '#c98b4f'], Night: ['#14162b', '#3b3f78'], Rose: ['#4a1836', '#a8587f'] };
  P.WALLS = Object.keys(WALLS);
  function home(S) {
    const [a, b] = WALLS[S.data.settings.values.wallpaper];
    return el('div', { class: 'home', style: `background:linear-gradient(160deg,${a},${b})` }, el('div', { class: 'bigclock' }, el('b', { k: 'home:clocktext', role: 'text' }, clock(S)), el('span', { k: 'home:date', role: 'text' }, P.dayWords(S.now.day))),
      el('div', { class: 'grid4' }, S.look.home.map((app) => launcher(S, 'home', app))),
      el('button', { k: 'home:drawer', name: 'All apps', role: 'button', class: 'updrawer', tap: () => P.show('drawer') }, P.icon('up', 26)),
      el('div', { class: 'dock' }, S.look.dock.map((app) => launcher(S, 'home', app))));
  }
  function drawer(S) {
    const titles = P.order.slice().sort((a, b) => (P.apps[a].title < P.apps[b].title ? -1 : 1));
    return el('div', { class: 'drawer' }, el('h1', { k: 'drawer:title', role: 'heading' }, 'All apps'), el('div', { class: 'grid4' }, titles.map((app) => launcher(S, 'drawer', app))));
  }
  function recents(S) {
    const close = (apps) => { for (const app of apps) delete S.ui.stacks[app]; S.ui.recent = S.ui.recent.filter((app) => !apps.includes(app)); };
    return el('div', { class: 'drawer' }, el('h1', { k: 'recents:title', role: 'heading' }, 'Recent apps'),
      P.scroller(el('div', { class: 'scroll' }, S.ui.recent.map((app) => el('div', { class: 'card' }, el('button', { k: `recent:${app}`, name: P.apps[app].title, role: 'button', class: 'cardmain', tap: () => P.show(app) }, tile(app, S, 24), el('span', { class: 'title' }, P.apps[app].title)),
        P.ib(`recent:${app}:close`, `Close ${P.apps[app].title}`, 'close', () => close([app])))), S.ui.recent.length ? P.button('recents:clear', 'Clear all', () => { close([...S.ui.recent]); P.show('home'); }, 'plain') : P.empty('No recent apps')), S.ui));
  }
  function app(S) {
    const name = S.ui.front, top = P.top(), def = P.apps[name], screen = def.screens[top.s](S.data[name], top), deep = P.stack(name).length > 1;
    const bar = P.selecting(top) && screen.select
      ? el('div', { class: 'bar select' }, P.ib('select:cancel', 'Cancel selection', 'close', () => { top.sel = []; }), el('h1', { k: 'select:count', role: 'heading' }, `${top.sel.length} selected`), screen.select)
      : el('div', { class: 'bar' }, deep ? P.ib('up', 'Go back', 'back', () => P.up()) : null, el('h1', { k: 'title', role: 'heading' }, screen.title || def.title), screen.bar || null);
    const body = P.scroller(el('div', { class: 'scroll body' }, screen.body, screen.fab ? el('div', { class: 'room' }) : null), top);
    return el('div', { class: 'app', style: `--accent:${S.look.colours[name]}` }, bar, screen.head ? el('div', { class: 'headbox' }, screen.head) : null, body, screen.fab || null, screen.foot ? el('div', { class: 'foot' }, screen.foot) : null);
  }
  function dialog(S) {
    const d = S.ui.dialog, no = P.button('dlg:no', 'Cancel', () => { S.ui.dialog = null; S.ui.focus = ''; }, 'flat'), shut = () => { S.ui.dialog = null; S.ui.focus = ''; };
    let inner;
    if (d.kind === 'menu') inner = d.items.map(([label, act, args]) => el('button', { k: `menu:${label}`, role: 'menuitem', class: 'row', tap: () => { shut(); P.acts[act](args || {}); } }, el('span', { class: 'grow' }, label)));
    else if (d.kind === 'choose') inner = [el('h2', { k: 'dlg:title', role: 'heading' }, d.title), P.scroller(el('div', { class: d.columns > 1 ? 'options grid' : 'options', style: d.columns > 1 ? `grid-template-columns:repeat(${d.columns},1fr)` : '' }, d.options.map((option) => (d.columns > 1
      ? el('button', { k: `opt:${option}`, role: 'option', class: option === d.value ? 'cell on' : 'cell', tap: () => P.settle(option) }, option) : P.radioRow(`opt:${option}`, option, option === d.value, () => P.settle(option))))), d), el('div', { class: 'actions' }, no)];
    else if (d.kind === 'prompt') inner = [el('h2', { k: 'dlg:title', role: 'heading' }, d.title), P.field(d.f, 'text', d.label, { k: 'dlg:text', enter: () => P.settle(d.f.text) }), el('div', { class: 'actions' }, no, P.button('dlg:yes', d.yes, () => P.settle(d.f.text), 'flat'))];
    else inner = [el('h2', { k: 'dlg:title', role: 'heading' }, d.title), d.text ? el('p', { k: 'dlg:message', role: 'text' }, d.text) : null, el('div', { class: 'actions' }, d.alert ? null : no, P.button('dlg:yes', d.yes, () => (d.act ? P.settle() : shut()), 'flat'))];
    return el('div', { class: `overlay ${d.kind}`, k: 'dlg:outside', name: 'Outside the dialog', role: 'none', tap: () => { if (!d.alert) shut(); } }, el('div', { class: 'dialog', k: 'dlg', role: 'dialog', name: d.title || 'Menu' }, inner));
  }
  function shade(S) {
    const v = S.data.settings.values;
    return el('div', { class: 'overlay shade', k: 'shade:outside', name: 'Close quick settings', role: 'none', tap: () => { S.ui.shade = false; } }, el('div', { class: 'panel', k: 'shade', role: 'dialog', name: 'Quick settings' },
      el('div', { class: 'tiles' }, [['wifi', 'Wi-Fi', 'wifi'], ['bluetooth', 'Bluetooth', 'bluetooth'], ['dnd', 'Do not disturb', 'moon'], ['airplane', 'Airplane mode', 'plane'], ['dark', 'Dark theme', 'contrast'], ['rotate', 'Auto-rotate', 'rotate']].map(([key, title, icon]) =>
        el('button', { k: `shade:${key}`, name: title, role: 'switch', 'aria-checked': String(v[key]), class: v[key] ? 'quick on' : 'quick', tap: () => P.acts['settings.flip']({ key }) }, P.icon(icon, 22), el('span', {}, title)))),
      P.slider('shade:brightness', 'Brightness', v.brightness, (value) => { v.brightness = value; })));
  }
  P.shell = (S) => {
    const fronts = { home, drawer, recents }, parts = [status(S), (fronts[S.ui.front] || app)(S)];
    if (S.ui.shade) parts.push(shade(S));
    if (S.ui.dialog) parts.push(el('div', { class: 'layer', style: `--accent:${S.look.colours[S.ui.front] || '#3f6fb5'}` }, dialog(S)));
    if (S.ui.toast) parts.push(el('div', { class: 'toast', k: 'toast', role: 'status' }, S.ui.toast));
    const dim = S.data.settings.values.brightness;
    parts.push(el('div', { class: 'keys' }, [['sys:back', 'Back', 'back', 'BACK'], ['sys:home', 'Home', 'circle', 'HOME'], ['sys:recent', 'Recent apps', 'square', 'APP_SWITCH']].map(([k, name, icon, key]) => el('button', { k, name, role: 'button', 'data-system': '1', tap: () => window.phone.key(key) }, P.icon(icon, 22)))));
    if (dim < 50) parts.push(el('div', { class: 'dim', style: `opacity:${((50 - dim) / 100).toFixed(2)}` }));
    return parts;
  };
  // One path a glyph on a grid of 24, drawn here; names that end in _on are filled.
  const STAR = 'M12 3 L14.6 9.2 L21 9.8 L16 14 L17.6 20.5 L12 17 L6.4 20.5 L8 14 L3 9.8 L9.4 9.2 Z', HEART = 'M12 20 C3 13 3 5 8 5 C10.5 5 12 7.5 12 7.5 C12 7.5 13.5 5 16 5 C21 5 21 13 12 20 Z';
  window.GLYPHS = {
    back: 'M15 4 L7 12 L15 20', circle: 'M12 5 A7 7 0 1 0 12.01 5', square: 'M6 6 H18 V18 H6 Z', up: 'M5 15 L12 8 L19 15', down: 'M6 9 L12 15 L18 9', right: 'M9 5 L16 12 L9 19', left: 'M15 5 L8 12 L15 19',
    search: 'M10.5 4 A6.5 6.5 0 1 0 10.51 4 M15.5 15.5 L20 20', close: 'M6 6 L18 18 M18 6 L6 18', plus: 'M12 5 V19 M5 12 H19', minus: 'M5 12 H19', check: 'M5 12.5 L10 17.5 L19 7', more: 'M12 5 V5.1 M12 12 V12.1 M12 19 V19.1', sort: 'M4 7 H20 M7 12 H17 M10 17 H14',
    star: STAR, star_on: STAR, heart: HEART, heart_on: HEART, pin: 'M9 3 H15 L14.5 10 L18 14 H6 L9.5 10 Z M12 14 V21', edit: 'M4 20 L5 15.5 L16 4.5 L19.5 8 L8.5 19 Z', trash: 'M5 7 H19 M9 7 V4 H15 V7 M7 7 L8 20 H16 L17 7 M10.5 11 V16 M13.5 11 V16',
    person: 'M12 4 A4 4 0 1 0 12.01 4 M4 21 C4 14 20 14 20 21', message: 'M4 5 H20 V16 H11 L6.5 20 V16 H4 Z', note: 'M6 3 H15 L19 7 V21 H6 Z M9.5 11 H15.5 M9.5 15 H15.5', clock: 'M12 3 A9 9 0 1 0 12.01 3 M12 7 V12 L15.5 14', gear: 'M12 8.5 A3.5 3.5 0 1 0 12.01 8.5 M12 2.5 V5.5 M12 18.5 V21.5 M2.5 12 H5.5 M18.5 12 H21.5 M5.3 5.3 L7.4 7.4 M16.6 16.6 L18.7 18.7 M18.7 5.3 L16.6 7.4 M7.4 16.6 L5.3 18.7',
    folder: 'M3 6 H10 L12 8.5 H21 V19 H3 Z', bag: 'M5 8 H19 L20 21 H4 Z M8.5 8 C8.5 2 15.5 2 15.5 8', calendar: 'M4 6 H20 V20 H4 Z M4 10.5 H20 M8.5 3.5 V7 M15.5 3.5 V7', phone: 'M5 4 H9 L11 9 L8.5 11 C9.5 13.5 11 15 13.5 16 L15.5 13.5 L20 15.5 V19.5 C12 21 4 12 5 4', mail: 'M3 6 H21 V18 H3 Z M3 6.5 L12 13 L21 6.5',
    place: 'M12 21 C5 13 6 4 12 4 C18 4 19 13 12 21 M12 9 A1.5 1.5 0 1 0 12.01 9', group: 'M9 5 A3.5 3.5 0 1 0 9.01 5 M2.5 20 C2.5 13 15.5 13 15.5 20 M16 6 A3 3 0 0 1 16 12 M18 14.5 C20.5 15.5 21.5 17.5 21.5 20', send: 'M4 4 L21 12 L4 20 L7 12 Z M7 12 H21', archive: 'M3 5 H21 V9 H3 Z M5 9 V20 H19 V9 M10 13 H14', bell: 'M6 17 V11 C6 3 18 3 18 11 V17 H4.5 H19.5 M10 20 H14', mute: 'M6 17 V11 C6 3 18 3 18 11 V17 H4.5 H19.5 M4 4 L20 20',
    wifi: 'M3 9 C8 4 16 4 21 9 M6.5 13 C10 10 14 10 17.5 13 M12 18 V18.1', bluetooth: 'M7 7.5 L17 16.5 L12 20.5 V3.5 L17 7.5 L7 16.5', plane: 'M12 3 V8 L21 14 L12 12.5 V18 L15 20.5 L12 20 L9 20.5 L12 18 V12.5 L3 14 L12 8', moon: 'M18 15 A8 8 0 1 1 10 4 A6.5 6.5 0 0 0 18 15 Z', contrast: 'M12 4 A8 8 0 1 0 12.01 4 M12 4 V20', rotate: 'M19 12 A7 7 0 1 1 16 6.3 M16 2.5 V6.5 H12', sun: 'M12 8 A4 4 0 1 0 12.01 8 M12 2.5 V4 M12 20 V21.5 M2.5 12 H4 M20 12 H21.5', sound: 'M4 9.5 H8 L13 5 V19 L8 14.5 H4 Z M16.5 9 C18 11 18 13 16.5 15', lock: 'M5 11 H19 V20 H5 Z M8 11 V7.5 C8 2.5 16 2.5 16 7.5 V11', battery: 'M3 8 H18 V16 H3 Z M21 10.5 V13.5', globe: 'M12 3 A9 9 0 1 0 12.01 3 M3 12 H21 M12 3 C7 8 7 16 12 21 C17 16 17 8 12 3', grid: 'M4 4 H10 V10 H4 Z M14 4 H20 V10 H14 Z M4 14 H10 V20 H4 Z M14 14 H20 V20 H14 Z',
    image: 'M4 5 H20 V19 H4 Z M4 16 L9 11 L13 15 L16 12.5 L20 16 M15.5 8.5 V8.6', music: 'M9 18 V6 L19 4 V16 M6.5 16 A2.5 2.5 0 1 0 6.51 16 M16.5 14 A2.5 2.5 0 1 0 16.51 14', file: 'M6 3 H15 L19 7 V21 H6 Z M15 3 V7 H19', move: 'M3 6 H10 L12 8.5 H21 V19 H3 Z M9 14 H15 M13 11.5 L15.5 14 L13 16.5', box: 'M4 7.5 L12 3.5 L20 7.5 V16.5 L12 20.5 L4 16.5 Z M4 7.5 L12 11.5 L20 7.5 M12 11.5 V20.5', cart: 'M3 4 H6 L8 15 H18 L20 7 H7 M9 19 V19.1 M17 19 V19.1', list: 'M9 6 H20 M9 12 H20 M9 18 H20 M4.5 6 V6.1 M4.5 12 V12.1 M4.5 18 V18.1', tag: 'M4 4 H11 L20.5 13.5 L13.5 20.5 L4 11 Z M8 8 V8.1', play: 'M7 4.5 L19 12 L7 19.5 Z', pause: 'M8 5 V19 M16 5 V19',
  };
})();
