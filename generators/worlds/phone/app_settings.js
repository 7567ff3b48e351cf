'use strict';
// Settings: data.values = {key: switch, percent or choice}, data.notify = {app: {allow, sound, badge}}, data.networks = [{id, name, password}].
(function () {
  const P = window.P;
  const flip = (key, title, sub) => P.switchRow(`set:${key}`, title, P.values()[key], () => P.acts['settings.flip']({ key }), sub);
  const percent = (key, title) => P.slider(`set:${key}`, title, P.values()[key], (value) => { P.values()[key] = value; });
  const choice = (key, title, options) => P.valueRow(`set:${key}`, title, P.values()[key], () => P.choose(title, options, P.values()[key], 'settings.set', { key }));
  const go = (screen, title, icon, sub) => P.row({ k: `go:${screen}`, title, sub, lead: icon, name: title, role: 'button', tap: () => P.go(screen) });
  const PAGES = {
    network: ['Network and internet', 'wifi', () => [go('wifi', 'Wi-Fi', 'wifi', P.values().wifi ? P.values().network || 'Not connected' : 'Off'), flip('mobile_data', 'Mobile data'), flip('airplane', 'Airplane mode'), go('hotspot', 'Hotspot', 'wifi', P.values().hotspot ? 'On' : 'Off'), flip('data_saver', 'Data saver')]],
    devices: ['Connected devices', 'bluetooth', () => [flip('bluetooth', 'Bluetooth'), flip('nfc', 'NFC'), flip('casting', 'Casting')]],
    display: ['Display', 'sun', () => [percent('brightness', 'Brightness'), flip('dark', 'Dark theme'), flip('rotate', 'Auto-rotate'), choice('text_size', 'Text size', ['Normal', 'Large', 'Huge']), choice('wallpaper', 'Wallpaper', P.WALLS), choice('timeout', 'Screen timeout', ['15 seconds', '30 seconds', '1 minute', '5 minutes', '10 minutes'])]],
    sound: ['Sound', 'sound', () => [percent('ring_volume', 'Ring volume'), percent('media_volume', 'Media volume'), percent('alarm_volume', 'Alarm volume'), flip('vibrate', 'Vibrate for calls'), flip('dnd', 'Do not disturb'), choice('ringtone', 'Ringtone', ['Bells', 'Piano', 'Guitar', 'Birds', 'Drums'])]],
    notifications: ['Notifications', 'bell', () => P.order.map((app) => P.row({ k: `notify:${app}`, title: P.apps[app].title, sub: P.data('settings').notify[app].allow ? 'On' : 'Off', lead: P.apps[app].icon, tap: () => P.go('notify', { app }) }))],
    battery: ['Battery', 'battery', () => [P.text('battery:left', `${P.state().now.battery}%`, 'big'), flip('saver', 'Battery saver'), flip('adaptive', 'Adaptive battery'), flip('show_percent', 'Show percentage')]],
    security: ['Security and privacy', 'lock', () => [choice('lock', 'Screen lock', ['None', 'Swipe', 'PIN', 'Pattern']), flip('location', 'Location'), flip('camera_access', 'Camera access'), flip('mic_access', 'Microphone access'), flip('find_phone', 'Find my phone')]],
    system: ['System', 'globe', () => [choice('language', 'Language', ['English', 'Deutsch', 'Français', 'Español', 'Italiano']), choice('time_zone', 'Time zone', ['London', 'Paris', 'New York', 'Tokyo', 'Sydney']), flip('auto_update', 'Automatic updates'), flip('backup', 'Backup'), go('about', 'About phone', 'phone')]],
  };
  const FIND = [['Wi-Fi', 'wifi'], ['Mobile data', 'network'], ['Airplane mode', 'network'], ['Hotspot', 'hotspot'], ['Data saver', 'network'], ['Bluetooth', 'devices'], ['NFC', 'devices'], ['Casting', 'devices'], ['Brightness', 'display'], ['Dark theme', 'display'], ['Auto-rotate', 'display'], ['Text size', 'display'], ['Wallpaper', 'display'], ['Screen timeout', 'display'], ['Ring volume', 'sound'], ['Media volume', 'sound'], ['Alarm volume', 'sound'], ['Do not disturb', 'sound'], ['Ringtone', 'sound'], ['Battery saver', 'battery'], ['Screen lock', 'security'], ['Location', 'security'], ['Camera access', 'security'], ['Language', 'system'], ['Time zone', 'system'], ['Backup', 'system'], ['About phone', 'about']];
  const screens = {
    main: (D, top) => ({
      head: [P.search(top, 'Search settings')],
      body: (top.f.q || '').trim() ? [FIND.filter(([title]) => P.has(title, top.f.q)).map(([title, screen]) => P.row({ k: `found:${title}`, title, sub: PAGES[screen] ? PAGES[screen][0] : null, lead: 'gear', tap: () => P.go(screen) })), FIND.some(([title]) => P.has(title, top.f.q)) ? null : P.empty('No settings found')]
        : Object.entries(PAGES).map(([screen, [title, icon]]) => go(screen, title, icon)),
    }),
    wifi: (D) => ({ title: 'Wi-Fi', body: [flip('wifi', 'Use Wi-Fi'), P.values().wifi ? [P.head('Networks'), D.networks.map((n) => P.row({ k: `network:${n.id}`, title: n.name, sub: P.values().network === n.name ? 'Connected' : n.password ? 'Secured' : 'Open', lead: n.password ? 'lock' : 'wifi', on: P.values().network === n.name, tap: () => { if (P.values().network === n.name) P.confirm('Forget this network?', n.name, 'Forget', 'settings.set', { key: 'network', value: '' }); else if (n.password) P.prompt(n.name, 'Password', '', 'settings.join', { id: n.id }); else { P.values().network = n.name; P.say(`Connected to ${n.name}`); } } }))] : P.empty('Wi-Fi is off')] }),
    hotspot: () => ({ title: 'Hotspot', body: [flip('hotspot', 'Use hotspot'), P.valueRow('set:hotspot_name', 'Hotspot name', P.values().hotspot_name, () => P.prompt('Hotspot name', 'Name', P.values().hotspot_name, 'settings.set', { key: 'hotspot_name' })), choice('hotspot_band', 'Band', ['2.4 GHz', '5 GHz'])] }),
    notify: (D, top) => ({ title: P.apps[top.a.app].title, body: [['allow', 'Allow notifications'], ['sound', 'Sound'], ['badge', 'App icon badge']].map(([key, title]) => P.switchRow(`notify:${key}`, title, D.notify[top.a.app][key], () => { D.notify[top.a.app][key] = !D.notify[top.a.app][key]; })) }),
    about: (D) => ({ title: 'About phone', body: [['Model', D.about.model], ['Serial number', D.about.serial], ['Phone number', D.about.number], ['Storage', D.about.storage], ['System version', D.about.version]].map(([title, value]) => P.row({ k: `about:${title}`, title: value, sub: title, role: 'text' })) }),
  };
  for (const [screen, [title, , body]] of Object.entries(PAGES)) screens[screen] = () => ({ title, body: body() });
  P.app('settings', { title: 'Settings', icon: 'gear', screens, check: (D, at, args) => (at === 'notify' && !D.notify[args.app] ? `no app ${args.app}` : '') });
  P.act('settings.flip', ({ key }) => { const v = P.values(); v[key] = !v[key]; if (key === 'wifi' && !v.wifi) v.network = ''; });
  P.act('settings.set', ({ key, value }) => { P.values()[key] = value; });
  P.act('settings.join', ({ id, value }) => { const n = P.find(P.data('settings').networks, id); if (value !== n.password) { P.say('Wrong password'); return; } P.values().network = n.name; P.say(`Connected to ${n.name}`); });
})();
