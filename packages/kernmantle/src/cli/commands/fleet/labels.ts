// Copies the labels of the files of a project together with its threads. Without them, untrusted
// content would look trusted on the next machine. Labels are only added, and always before the
// threads.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';
import { fail, messageOf, type Outcome, ok, systemClock } from '@kernmantle/core/base';
import { type Runtime, recordsFolder } from '@kernmantle/core/runtime';
import type { Store } from '@kernmantle/core/store';
import { openServerStore } from '@kernmantle/fleet';

/** Every line begins with its path, even a damaged line that still counts. */
const PLACE = /^\{"path":("(?:[^"\\]|\\.)*")/;
/** Prefix of paths inside the project, because its folder differs between machines. */
const HERE = './';

function moved(line: string, change: (path: string) => string): string {
  const [head, place = '""'] = PLACE.exec(line) ?? [];
  if (head === undefined) return line;
  return `{"path":${JSON.stringify(change(String(JSON.parse(place))))}${line.slice(head.length)}`;
}

const toShared = (root: string, path: string): string =>
  path === root || path.startsWith(root + sep)
    ? HERE + path.slice(root.length + 1).replaceAll(sep, '/')
    : path;
const fromShared = (root: string, path: string): string =>
  path === HERE ? root : path.startsWith(HERE) ? root + sep + path.slice(HERE.length) : path;

const fileOf = ({ project, home }: Pick<Runtime, 'project' | 'home'>): string =>
  join(recordsFolder(project, home), 'labels.jsonl');

const linesIn = (file: string): string[] =>
  existsSync(file)
    ? readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
    : [];

type Lines = Pick<NonNullable<Store['fleet']>, 'labelRows' | 'addLabelRows'>;
const MANY = 1000;

async function linesThere(there: Lines, id: string): Promise<Outcome<string[]>> {
  const lines: string[] = [];
  for (let after = 0; ; ) {
    const page = await there.labelRows(id, after);
    if (!page.ok) return page;
    const last = page.output.at(-1);
    if (!last) return ok(lines);
    lines.push(...page.output.map(({ text }) => text));
    after = last.number;
  }
}

async function addThere(
  there: Lines,
  id: string,
  lines: readonly string[],
): Promise<Outcome<null>> {
  for (let at = 0; at < lines.length; at += MANY) {
    const added = await there.addLabelRows(id, lines.slice(at, at + MANY));
    if (!added.ok) return added;
  }
  return ok(null);
}

function addHere(file: string, lines: readonly string[]): Outcome<null> {
  try {
    // The leading line break separates an incomplete last line from the new ones.
    if (lines.length > 0) appendFileSync(file, `\n${lines.join('\n')}\n`, { flush: true });
    return ok(null);
  } catch (error) {
    return fail('unavailable', `\`${file}\` cannot be written: ${messageOf(error)}`);
  }
}

/** Copies the missing labels in their order. `isBack` copies from the server to the project. */
export async function moveLabels(
  runtime: Pick<Runtime, 'project' | 'home'>,
  id: string,
  server: { address: string; identity: Uint8Array; isBack: boolean },
): Promise<Outcome<null>> {
  const { address, identity, isBack } = server;
  const { project } = runtime;
  const file = fileOf(runtime);
  const here = linesIn(file).map((line) => moved(line, (path) => toShared(project, path)));
  if (!isBack && here.length === 0) return ok(null);
  const opened = await openServerStore(address, { clock: systemClock, identity });
  if (!opened.ok) return opened;
  const { fleet, close } = opened.output;
  try {
    if (!fleet) return ok(null);
    const there = await linesThere(fleet, id);
    if (!there.ok) return there;
    const [from, to] = isBack ? [there.output, new Set(here)] : [here, new Set(there.output)];
    const missing = from.filter((line) => !to.has(line));
    return isBack
      ? addHere(
          file,
          missing.map((line) => moved(line, (path) => fromShared(project, path))),
        )
      : await addThere(fleet, id, missing);
  } finally {
    await close();
  }
}
