'use strict';
// Files: data.items = [{id, name, kind, parent, size, day, starred}]; kind 'folder' or a kind of file, parent '' at the top.
(function () {
  const P = window.P;
  const ICONS = { folder: 'folder', image: 'image', audio: 'music', document: 'file', archive: 'box' };
  const size = (kb) => (kb >= 1000 ? `${(kb / 1000).toFixed(1)} MB` : `${kb} kB`);
  const sub = (D, i) => (i.kind === 'folder' ? `${D.items.filter((o) => o.parent === i.id).length} items` : `${size(i.size)}, ${P.dayWords(i.day)}`);
  const SORTS = { Name: P.by('name'), Largest: P.by('size', -1), Newest: P.by('day', -1) };
  const sorted = (items, way) => items.sort((a, b) => ((a.kind === 'folder') !== (b.kind === 'folder') ? (a.kind === 'folder' ? -1 : 1) : SORTS[way || 'Name'](a, b) || P.by('name')(a, b) || P.by('id')(a, b)));
  const inside = (D, id) => D.items.filter((i) => i.parent === id).flatMap((i) => [i.id, ...inside(D, i.id)]);
  const taken = (D, parent, name, not) => D.items.some((i) => i.parent === parent && i.id !== not && P.lower(i.name) === P.lower(name));
  const openIt = (i) => (i.kind === 'folder' ? P.go('main', { id: i.id }) : P.go('file', { id: i.id }));
  P.app('files', {
    title: 'Files', icon: 'folder',
    check: (D, at, args) => (args.id && !P.find(D.items, args.id) ? `no item ${args.id}` : ''),
    screens: {
      main: (D, top) => {
        const id = top.a.id || '', folder = P.find(D.items, id), q = (top.f.q || '').trim();
        const found = sorted(D.items.filter((i) => (q ? P.has(i.name, q) : i.parent === id)), P.stack('files')[0].f.sort);
        return {
          title: folder ? folder.name : 'Files',
          bar: [P.ib('sort', 'Sort', 'sort', () => P.choose('Sort by', Object.keys(SORTS), P.stack('files')[0].f.sort || 'Name', 'files.sort')), P.ib('folder:new', 'New folder', 'plus', () => P.prompt('New folder', 'Name', '', 'files.folder', { parent: id }))],
          select: [top.sel.length === 1 ? P.ib('select:rename', 'Rename', 'edit', () => P.prompt('Rename', 'Name', P.find(D.items, top.sel[0]).name, 'files.rename', { id: top.sel[0] })) : null, P.ib('select:star', 'Star', 'star', () => P.acts['files.star']({ ids: top.sel })), P.ib('select:move', 'Move', 'move', () => P.go('move', { ids: top.sel, at: '' })),
            P.ib('select:delete', 'Delete', 'trash', () => P.confirm('Delete?', `${top.sel.length} will be deleted`, 'Delete', 'files.drop', { ids: top.sel }))],
          head: folder ? null : [P.search(top, 'Search files')],
          body: found.length ? found.map((i) => P.row({ k: `item:${i.id}`, title: i.name, sub: sub(D, i), lead: ICONS[i.kind], trail: i.starred ? P.icon('star_on', 20) : null, ...P.selectable(top, i.id, () => openIt(i)) })) : P.empty(q ? 'Nothing found' : 'This folder is empty'),
        };
      },
      file: (D, top) => {
        const i = P.find(D.items, top.a.id);
        if (!i) return { title: 'File', body: P.empty('This file was deleted') };
        return {
          title: 'File',
          bar: [P.ib('star', i.starred ? 'Remove star' : 'Star', i.starred ? 'star_on' : 'star', () => { i.starred = !i.starred; }), P.ib('rename', 'Rename', 'edit', () => P.prompt('Rename', 'Name', i.name, 'files.rename', { id: i.id })), P.ib('move', 'Move', 'move', () => P.go('move', { ids: [i.id], at: '' })), P.ib('delete', 'Delete', 'trash', () => P.confirm('Delete?', i.name, 'Delete', 'files.drop', { ids: [i.id] }))],
          body: [P.el('div', { class: 'pic large', style: `background:${P.colour(i.id)}` }, P.icon(ICONS[i.kind], 56)), P.row({ k: 'info:name', title: i.name, sub: 'Name', role: 'text' }), P.row({ k: 'info:size', title: size(i.size), sub: 'Size', role: 'text' }), P.row({ k: 'info:day', title: P.dayWords(i.day), sub: 'Changed', role: 'text' }), P.row({ k: 'info:folder', title: i.parent ? P.find(D.items, i.parent).name : 'Files', sub: 'Folder', role: 'text' })],
        };
      },
      move: (D, top) => {
        const at = top.a.at || '', ids = top.a.ids || [], folders = sorted(D.items.filter((i) => i.kind === 'folder' && i.parent === at && !ids.includes(i.id)));
        return { title: at ? P.find(D.items, at).name : 'Move to', body: [P.text('move:what', ids.length === 1 ? `Moving ${P.find(D.items, ids[0]).name}` : `Moving ${ids.length} items`, 'soft'), folders.map((i) => P.row({ k: `into:${i.id}`, title: i.name, lead: 'folder', tap: () => P.go('move', { ids, at: i.id, depth: (top.a.depth || 1) + 1 }) })), folders.length ? null : P.empty('No folders here')], foot: [P.button('move:here', 'Move here', () => P.acts['files.move']({ ids, at, depth: top.a.depth || 1 }))] };
      },
    },
  });
  P.act('files.sort', ({ value }) => { P.stack('files')[0].f.sort = value; });
  P.act('files.star', ({ ids }) => { for (const i of P.data('files').items) if (ids.includes(i.id)) i.starred = true; P.top().sel = []; });
  const bad = (D, parent, name, not) => (!name ? 'A name is needed' : name.includes('/') ? 'A name holds no slash' : taken(D, parent, name, not) ? 'That name is taken' : '');
  P.act('files.folder', ({ parent, value }) => { const D = P.data('files'), name = value.trim(), no = bad(D, parent, name, ''); if (no) { P.say(no); return; } D.items.push({ id: P.newId('f'), name, kind: 'folder', parent, size: 0, day: P.state().now.day, starred: false }); P.say('Folder made'); });
  P.act('files.rename', ({ id, value }) => { const D = P.data('files'), i = P.find(D.items, id), name = value.trim(), no = bad(D, i.parent, name, id); P.top().sel = []; if (no) { P.say(no); return; } i.name = name; P.say('Renamed'); });
  P.act('files.drop', ({ ids }) => { const D = P.data('files'), all = ids.flatMap((id) => [id, ...inside(D, id)]); P.remove(D.items, (i) => all.includes(i.id)); P.top().sel = []; if (P.top().s === 'file') P.up(); P.say('Deleted'); });
  P.act('files.move', ({ ids, at, depth }) => {
    const D = P.data('files'), clash = ids.find((id) => taken(D, at, P.find(D.items, id).name, id)), loop = ids.some((id) => id === at || inside(D, id).includes(at));
    if (clash || loop) { P.say(loop ? 'A folder cannot go into itself' : 'That name is taken'); return; }
    for (const id of ids) P.find(D.items, id).parent = at;
    P.up(depth); P.top().sel = []; P.say('Moved');
  });
})();
