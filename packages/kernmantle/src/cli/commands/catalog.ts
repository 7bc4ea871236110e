import { basename } from 'node:path';
import { ok } from '@kernmantle/core/base';
import type { CatalogEntry } from '@kernmantle/core/items';
import { noted, personAuditRow } from '@kernmantle/core/runtime';
import { asText } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { visible } from '../terminal/terminal.ts';

/** Parses `npm:NAME`, the address of a git repository, or a folder. */
function entryOf(place: string, name: string | undefined): CatalogEntry {
  const named = (fallback: string): string =>
    name ?? (fallback.replace(/[^A-Za-z0-9_-]+/g, '-').replace(/^-+|-+$/g, '') || 'catalog');
  if (place.startsWith('npm:')) {
    const location = place.slice('npm:'.length);
    return { name: named(location), type: 'npm', location };
  }
  const isGit = /^(https?|ssh|git|file):\/\/|^[^/]+@[^/]+:|\.git$/.test(place);
  const last = basename(place.replace(/\/+$/, '')).replace(/\.git$/, '');
  return { name: named(last), type: isGit ? 'git' : 'folder', location: place };
}

export const addCatalog = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const entry = entryOf(asText(args[0]) ?? '', asText(options.name));
  const level = options.user === true ? 'user' : 'project';
  const row = personAuditRow(commandActor(call), 'catalog:add', entry.name);
  const added = noted(runtime, row, await runtime.catalogs.add(entry, level));
  return terminal.finish(added, ({ name, items = 0 }) => {
    terminal.out(`added ${name}: ${items} items`);
    terminal.note('find them with `km search WORDS --source catalog`');
  });
});

export const listCatalogs = inProject(async (runtime, { terminal }) => {
  const { catalogs, diagnostics } = runtime.catalogs.list();
  return terminal.finish(ok({ catalogs, diagnostics }), () => {
    terminal.diagnostics(diagnostics);
    for (const { name, type, location, level, items, updated } of catalogs) {
      const state = updated === undefined ? 'never read' : `${items ?? 0} items, read ${updated}`;
      terminal.out(
        `${name} ${terminal.paint('dim', `${type} ${visible(location)} (${level}), ${state}`)}`,
      );
    }
    if (catalogs.length === 0) terminal.note('no catalogs; add one with `km catalog add PLACE`');
  });
});

export const updateCatalogs = inProject(async (runtime, { terminal }) => {
  return terminal.finish(await runtime.catalogs.update(), (catalogs) => {
    for (const { name, items = 0 } of catalogs) terminal.out(`${name}: ${items} items`);
    if (catalogs.length === 0) terminal.note('no catalogs; add one with `km catalog add PLACE`');
  });
});
