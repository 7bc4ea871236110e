// Implements `store copy FROM TO`: copies a registry between this project and a server. The name of
// a project changes on the way: it is a path in a file, and an id in a shared store.
import { existsSync, realpathSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fail, type Outcome, ok, systemClock } from '@kernmantle/core/base';
import { identify, noted, personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import { deriveVaultKey } from '@kernmantle/core/trust';
import {
  type CopyOptions,
  type CopyPlace,
  copyRegistry,
  readPlace,
  shownPlace,
} from '@kernmantle/fleet';
import { asList, asText } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { interruptible, type Terminal, visible } from '../../terminal/terminal.ts';
import { moveLabels } from './labels.ts';

function parsePlace(text: string, cwd: string): Outcome<CopyPlace> {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    const address = readPlace(text);
    return address.ok ? ok({ address: text }) : fail('usage', address.error.detail.message);
  }
  const path = resolve(cwd, text);
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  return ok({ file: isFolder ? join(path, '.ai', 'threads', 'registry.db') : path });
}

const copyAddress = (place: CopyPlace): string =>
  'file' in place ? place.file : shownPlace(place.address);

type Rename = CopyOptions['rename'];

/** Maps the path of a project to its id on a server, with the digests of its current items. */
function toId({ project, home }: Runtime, earlier: readonly string[]): Rename {
  return (path) => {
    const folder = earlier.includes(path) ? project : path;
    if (existsSync(folder)) {
      return identify({ project: realpathSync(folder), home, clock: systemClock, own: {} });
    }
    const message = `the registry has threads of \`${path}\`, but this folder is not found`;
    const hint = 'if this project was there before, add `--was PATH`';
    return fail('not_found', message, { hint });
  };
}

/** Maps the id of a project on a server to its path here. */
function toPath(runtime: Runtime, others: readonly string[]): Outcome<Rename> {
  const paths = new Map<string, string>();
  const { home } = runtime;
  for (const folder of [runtime.project, ...others]) {
    if (!existsSync(folder)) return fail('usage', `folder \`${folder}\` not found`);
    const project = realpathSync(folder);
    const named = identify({ project, home, clock: systemClock, own: {} });
    if (!named.ok) return named;
    paths.set(named.output.project, project);
  }
  return ok((id) => {
    const project = paths.get(id);
    if (project !== undefined) return ok({ project });
    const hint = 'add `--also DIR` for every other project in which these threads work';
    return fail(
      'not_found',
      `the registry has threads of project \`${id}\`, but its folder is missing`,
      {
        hint,
      },
    );
  });
}

function renameFor(
  runtime: Runtime,
  from: CopyPlace,
  to: CopyPlace,
  { was, also }: { was: readonly string[]; also: readonly string[] },
): Outcome<Pick<CopyOptions, 'rename' | 'project'>> {
  if ('file' in from === 'file' in to) return ok({ rename: (project) => ok({ project }) });
  if ('file' in from) return ok({ rename: toId(runtime, was) });
  const { project: folder, home } = runtime;
  const own = identify({ project: folder, home, clock: systemClock, own: {} });
  if (!own.ok) return own;
  const rename = toPath(runtime, also);
  return rename.ok ? ok({ rename: rename.output, project: own.output.project }) : rename;
}

const PRINT_MS = 1000;

/** Prints progress, at most one line per second. */
function createProgress(terminal: Terminal): (done: number, all: number) => void {
  let printedAt = systemClock.monotonic();
  return (done, all) => {
    if (systemClock.monotonic() - printedAt < PRINT_MS) return;
    printedAt = systemClock.monotonic();
    terminal.note(`${done} of ${all}`);
  };
}

/** Copies the labels of files of this project too, if one side is a server. */
async function withLabels(
  { project, home }: Runtime,
  from: CopyPlace,
  to: CopyPlace,
  identity: Uint8Array,
): Promise<Outcome<null>> {
  const isBack = 'address' in from;
  const address = isBack ? from.address : 'address' in to ? to.address : '';
  if ('file' in from === 'file' in to) return ok(null);
  const own = identify({ project, home, clock: systemClock, own: {} });
  // Copying the threads reports a project without an id.
  if (!own.ok) return ok(null);
  return await moveLabels({ project, home }, own.output.project, { address, identity, isBack });
}

const places = (value: unknown, cwd: string): string[] =>
  asList(value).map((text) => resolve(cwd, text));

export const copyStore = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const { cwd } = terminal;
  const from = parsePlace(asText(args[0]) ?? '', cwd);
  if (!from.ok) return from;
  const to = parsePlace(asText(args[1]) ?? '', cwd);
  if (!to.ok) return to;
  const folders = { was: places(options.was, cwd), also: places(options.also, cwd) };
  const names = renameFor(runtime, from.output, to.output, folders);
  if (!names.ok) return names;
  const key = runtime.keys.tokenKey();
  if (!key.ok) return key;
  const identity = deriveVaultKey(key.output.exportPrivate());
  const labelled = await withLabels(runtime, from.output, to.output, identity);
  if (!labelled.ok) return labelled;
  const copied = await interruptible((signal) =>
    copyRegistry({
      from: from.output,
      to: to.output,
      clock: systemClock,
      identity,
      ...names.output,
      progress: createProgress(terminal),
      signal,
    }),
  );
  const row = personAuditRow(
    commandActor(call),
    'store:copy',
    `${copyAddress(from.output)} -> ${copyAddress(to.output)}`,
  );
  return terminal.finish(noted(runtime, row, copied), ({ rows, trees, kept }) => {
    const counts = Object.entries(rows).map(([table, count]) => `${count} ${table}`);
    terminal.out(`copied ${trees} trees of threads to ${visible(copyAddress(to.output))}`);
    terminal.out(terminal.paint('dim', counts.join(', ')));
    if (kept > 0) terminal.note(`${kept} parts were already copied by an earlier attempt`);
    terminal.note('the old registry is unchanged; use only one of the two, or threads run twice');
  });
});
