'use strict';
// Settings (switches, sliders, choices), a profile form, and a gallery of mixed widgets for still screens.
(function () {
  const { el } = V, W = window.WORDS;
  V.apps.settings = {
    title: 'Settings', icon: 'settings',
    make(r) {
      const switches = r.some(W.switch, r.int(5, 9)).map((name) => ({ name, on: r.chance(0.4) })), sliders = r.some(W.slider, 2).map((name) => ({ name, value: r.int(1, 9) * 10 }));
      const choices = r.some(Object.keys(W.choice), r.int(2, 3)).map((name) => ({ name, options: r.shuffle(W.choice[name]), value: null })); for (const c of choices) c.value = r.pick(c.options);
      return { switches, sliders, choices, order: r.shuffle([...switches.map((_, i) => ['switch', i]), ...sliders.map((_, i) => ['slider', i]), ...choices.map((_, i) => ['choice', i])]) };
    },
    state: (m) => ({ switches: Object.fromEntries(m.switches.map((x) => [x.name, x.on])), sliders: Object.fromEntries(m.sliders.map((x) => [x.name, x.value])), choices: Object.fromEntries(m.choices.map((x) => [x.name, x.value])), options: Object.fromEntries(m.choices.map((x) => [x.name, x.options])) }),
    views: {
      main: (m, a, S) => ({ body: el('div', { class: S.L.rows }, m.order.map(([kind, i]) => {
        const cls = 'row' + (S.L.flip ? ' flip' : '');
        if (kind === 'switch') { const x = m.switches[i]; return el('div', { class: cls }, el('span', { class: 'grow' }, x.name), V.switch(`switch:${x.name}`, x.name, x.on, () => { x.on = !x.on; V.render(); })); }
        if (kind === 'choice') { const x = m.choices[i]; return el('button', { k: `choice:${x.name}`, name: x.name, role: 'listitem', class: cls, on: () => V.go('pick', { label: x.name, options: x.options, get: () => x.value, set: (v) => { x.value = v; } }) }, el('span', { class: 'grow col' }, el('span', {}, x.name), el('span', { class: 'sub' }, x.value)), V.icon('right')); }
        const x = m.sliders[i]; return el('div', { class: 'row' }, el('div', { class: 'grow' }, el('span', {}, `${x.name} ${x.value}%`), V.slider(`slider:${x.name}`, x.name, () => x.value, (v) => { x.value = v; }))); })) }),
    },
  };
  const FIELDS = { Name: 'person', Email: 'mail', Phone: 'phone', City: 'city', Street: 'street', Company: 'company' };
  V.apps.profile = {
    title: 'Profile', icon: 'edit',
    make(r, config) {
      const fields = r.some(Object.keys(FIELDS), r.int(3, config.platform === 'phone' ? 4 : 5)); const fill = r.chance(0.5);
      return { fields, values: Object.fromEntries(fields.map((f) => [f, ''])), country: '', topic: '', agree: false, updates: fill, submitted: null, submit: r.pick(['Save', 'Submit', 'Send form', 'Continue']), topics: r.some(W.topic, 3), countries: r.some(W.country, 5), order: r.shuffle(['fields', 'country', 'topic', 'agree']), hasTopic: r.chance(0.6) };
    },
    state: (m) => ({ values: m.values, country: m.country, topic: m.topic, agree: m.agree, submitted: m.submitted, fields: m.fields, topics: m.topics, countries: m.countries, submit: m.submit, hasTopic: m.hasTopic }),
    views: {
      main: (m, a, S) => {
        const parts = { fields: m.fields.map((f) => V.field(f, V.input(`field:${f}`, f, () => m.values[f], (v) => { m.values[f] = v; }))), country: V.field('Country', V.select('field:Country', 'Country', ['', ...m.countries].slice(S.config.platform === 'web' ? 0 : 1), () => m.country, (v) => { m.country = v; })),
          topic: m.hasTopic ? el('div', {}, el('div', { class: 'section' }, 'Topic'), m.topics.map((t) => el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, V.check(`topic:${t}`, t, m.topic === t, () => { m.topic = t; V.render(); }, true), el('span', { class: 'grow' }, t)))) : null,
          agree: el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, V.check('agree', 'I agree', m.agree, () => { m.agree = !m.agree; V.render(); }), el('span', { class: 'grow' }, 'I agree')) };
        const save = () => { m.submitted = { values: { ...m.values }, country: m.country, topic: m.topic, agree: m.agree }; V.go('thanks'); };
        return { title: 'Your profile', body: [m.order.map((p) => parts[p]), el('div', { class: 'actions ' + S.L.actions }, V.button('submit', m.submit, save, S.L.wide ? 'wide' : ''))] };
      },
      thanks: (m, a, S) => ({ title: 'Done', body: [el('h2', {}, 'Thank you'), el('p', {}, 'Your details were saved.'), Object.entries(m.submitted.values).filter(([, v]) => v).map(([f, v]) => el('p', {}, `${f}: ${v}`))] }),
    },
  };
  V.apps.tools = {
    title: 'Tools', icon: 'box',
    make(r) {
      const icons = r.some(Object.keys(window.ICONS).filter((n) => !['square', 'circle', 'right', 'down', 'minus'].includes(n)), 10), names = r.shuffle(W.switch), words = r.shuffle([...W.todo, ...W.subject, ...W.news]);
      const blocks = []; for (let i = 0; i < r.int(4, 6); i++) blocks.push({ kind: r.pick(['icons', 'buttons', 'check', 'switch', 'text', 'input', 'image', 'slider', 'radio', 'chips']), n: r.int(2, 4), icons: icons.slice(i, i + 4), names: names.slice(i * 3, i * 3 + 3), words: words.slice(i * 4, i * 4 + 4), on: r.int(0, 3), value: r.int(1, 9) * 10, colour: r.pick(W.colour)[1] });
      return { blocks, title: words[40] || 'Tools', tool: r.some(icons, 2), pressed: [] };
    },
    state: (m) => ({ pressed: m.pressed }),
    views: {
      main: (m, a, S) => { const press = (w) => () => { m.pressed.push(w); V.render(); }; return { title: m.title, tools: m.tool.map((i) => V.iconButton(`tool:${i}`, i, i, press(i))), body: m.blocks.map((b, j) => {
        if (b.kind === 'icons') return el('div', { class: 'actions ' + S.L.actions }, b.icons.map((i) => V.iconButton(`b${j}:${i}`, i, i, press(i), { style: `color:${b.colour}` })));
        if (b.kind === 'buttons') return el('div', { class: 'actions ' + S.L.actions }, b.words.slice(0, Math.min(2, b.n)).map((w, i) => V.button(`b${j}:${i}`, w, press(w), i ? 'plain' : '')));
        if (b.kind === 'check') return b.names.map((w, i) => el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, V.check(`b${j}:${i}`, w, i === b.on, press(w)), el('span', { class: 'grow' }, w)));
        if (b.kind === 'radio') return b.names.map((w, i) => el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, V.check(`b${j}:${i}`, w, i === b.on, press(w), true), el('span', { class: 'grow' }, w)));
        if (b.kind === 'switch') return b.names.map((w, i) => el('div', { class: 'row' + (S.L.flip ? ' flip' : '') }, el('span', { class: 'grow' }, w), V.switch(`b${j}:${i}`, w, i <= b.on, press(w))));
        if (b.kind === 'input') return V.field(b.names[0], V.input(`b${j}:in`, b.names[0], () => '', () => {}, null, b.words[0]));
        if (b.kind === 'image') return el('div', { class: 'actions mid' }, el('div', { role: 'img', name: b.icons[0], k: `b${j}:img` }, V.icon(b.icons[0], 96, b.colour)));
        if (b.kind === 'slider') return el('div', { class: 'row' }, el('div', { class: 'grow' }, el('span', {}, `${b.names[0]} ${b.value}%`), V.slider(`b${j}:sl`, b.names[0], () => b.value, () => {})));
        if (b.kind === 'chips') return el('div', { class: 'chips' }, b.names.map((w, i) => el('button', { k: `b${j}:${i}`, role: 'button', class: 'chip' + (i === b.on ? ' on' : ''), on: press(w) }, w)));
        return b.words.slice(0, b.n - 1).map((w, i) => el('p', { class: i ? '' : 'strong' }, w)); }) }; },
    },
  };
})();
