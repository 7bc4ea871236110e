// Writes this project into the settings of an MCP client. The change is shown first, the file is
// backed up, and the rest of the file is unchanged.
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import {
  fail,
  isInside,
  messageOf,
  type Outcome,
  ok,
  readRegularFile,
} from '@kernmantle/core/base';
import { noted, personAuditRow } from '@kernmantle/core/runtime';
import { asText } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { confirm, type Terminal, visible } from '../../terminal/terminal.ts';
import { entryOf, type SettingsFile, targetOf } from './client-settings.ts';
import { withMember } from './json-member.ts';

const MAX_BYTES = 16 * 1024 * 1024;

/** Returns the real path of a file that may not exist yet. Undefined if a part of the path is not a folder. */
function realPlace(file: string): string | undefined {
  const there = lstatSync(file, { throwIfNoEntry: false });
  if (there) return realpathSync(file);
  const folder = dirname(file);
  return folder === file ? undefined : join(realPlace(folder) ?? folder, basename(file));
}

/** Returns the real path and the text of the file. A link out of the expected folder is refused. */
export function readTarget({
  file,
  within,
}: Pick<SettingsFile, 'file' | 'within'>): Outcome<{ place: string; text: string }> {
  let place: string | undefined;
  try {
    place = realPlace(file);
    if (place === undefined || !isInside(place, realPlace(within) ?? within)) {
      return fail('permission_denied', `\`${file}\` is a link out of \`${within}\``, { file });
    }
  } catch (error) {
    return fail('config_invalid', `\`${file}\` cannot be read: ${messageOf(error)}`, { file });
  }
  const read = readRegularFile(place, { max: MAX_BYTES });
  if ('bytes' in read) return ok({ place, text: read.bytes.toString('utf8') });
  if (read.problem.errno === 'ENOENT') return ok({ place, text: '' });
  return fail('config_invalid', `\`${file}\`: ${read.problem.message}`, { file });
}

/** Returns only the changed lines, because other lines can contain keys of the user. */
export function changedLines(before: string, after: string): string[] {
  const [old, now] = [before, after].map((text) => (text === '' ? [] : text.split('\n')));
  if (!old || !now) return [];
  let start = 0;
  while (start < Math.min(old.length, now.length) && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) {
    end += 1;
  }
  return [
    `@@ line ${start + 1} @@`,
    ...old.slice(start, old.length - end).map((line) => `-${line}`),
    ...now.slice(start, now.length - end).map((line) => `+${line}`),
  ];
}

/** Writes a new file and renames it, so that a reader gets the old or the new text. */
function replaceFile(place: string, text: string, mode: number): void {
  const draft = `${place}.${process.pid}.tmp`;
  try {
    const handle = openSync(draft, 'wx', 0o600);
    try {
      writeFileSync(handle, text);
      fchmodSync(handle, mode);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(draft, place);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Writes a backup, then the new text. Fails if the file changed after it was shown. */
export function writeTarget(
  place: string,
  before: string,
  after: string,
): Outcome<{ backup?: string }> {
  try {
    mkdirSync(dirname(place), { recursive: true });
    const read = readRegularFile(place, { max: MAX_BYTES });
    const now = 'bytes' in read ? read.bytes.toString('utf8') : '';
    if (now !== before) return fail('conflict', `\`${place}\` has changed; run the command again`);
    if (!('bytes' in read)) {
      replaceFile(place, after, 0o644);
      return ok({});
    }
    const mode = statSync(place).mode & 0o777;
    const backup = `${place}.${new Date().toISOString().replaceAll(/[:.]/g, '-')}.bak`;
    replaceFile(backup, before, mode);
    replaceFile(place, after, mode);
    return ok({ backup });
  } catch (error) {
    return fail('config_invalid', `\`${place}\` cannot be written: ${messageOf(error)}`);
  }
}

export function showChange(terminal: Terminal, file: string, lines: readonly string[]): void {
  terminal.note(file);
  for (const line of lines) {
    const colour = line.startsWith('+') ? 'green' : line.startsWith('-') ? 'red' : 'dim';
    terminal.note(terminal.paint(colour, visible(line)));
  }
}

export const run = inProject(async (runtime, call) => {
  const { options, terminal } = call;
  const target = targetOf(runtime.project, call);
  if (!target.ok) return target;
  const { client, file, settings, next } = target.output;
  const { section } = settings;
  const name = asText(options.name) ?? 'kernmantle';
  const entry = entryOf(runtime.project, terminal.env, settings.extra);
  const whole = { [section]: { [name]: entry } };
  if (options.print === true) {
    return terminal.finish(ok({ client, file, settings: whole }), () => {
      terminal.note(`for \`${file}\`:`);
      terminal.out(JSON.stringify(whole, null, 2));
    });
  }
  const read = readTarget(target.output);
  if (!read.ok) return read;
  const { place, text } = read.output;
  const changed = withMember(text, section, name, entry);
  if (!changed.ok) {
    const message = `\`${file}\` was not changed: ${changed.error.detail.message}`;
    const hint = `add by hand: ${JSON.stringify(whole)}`;
    return fail(changed.error.code, message, { file, hint });
  }
  if (changed.output === text) {
    const same = ok({ client, file, state: 'unchanged' });
    return terminal.finish(same, () => terminal.out(`${file} is up to date`));
  }
  const lines = changedLines(text, changed.output);
  if (!terminal.json) showChange(terminal, file, lines);
  const isWanted = options.yes === true || (await confirm(terminal, `Change ${file}?`));
  if (!isWanted) {
    const hint = 'write it with `--yes`, or print the change with `--print`';
    return fail('needs_input', `\`${file}\` was not changed`, { file, diff: lines, hint });
  }
  const row = personAuditRow(commandActor(call), 'mcp:install', file, client);
  const done = noted(runtime, row, writeTarget(place, text, changed.output));
  const result = done.ok
    ? ok({ client, file, state: 'written', ...done.output, diff: lines })
    : done;
  return terminal.finish(result, ({ backup }: { backup?: string }) => {
    terminal.out(`wrote ${file}${backup === undefined ? '' : `; the old file is ${backup}`}`);
    terminal.note(next);
  });
});
