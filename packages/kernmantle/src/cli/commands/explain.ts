import {
  fail,
  getOwn,
  isObject,
  type Json,
  listAt,
  type Outcome,
  plainText,
  textAt,
} from '@kernmantle/core/base';
import { reports } from '@kernmantle/core/reports';
import type { Runtime } from '@kernmantle/core/runtime';
import { asText } from '../command.ts';
import { inProject } from '../project.ts';
import { type Terminal, valueText, visible } from '../terminal/terminal.ts';
import { findThread } from '../threads/open-threads.ts';

/** Explains the files and the permissions of a thread. A project without threads gets no registry. */
async function ofThread(runtime: Runtime, word: string): Promise<Outcome<Json>> {
  if (!runtime.registry.isThere()) {
    return fail('not_found', `no thread has run in \`${runtime.project}\` yet`);
  }
  const threads = await runtime.threads();
  if (!threads.ok) return threads;
  const { store } = threads.output;
  const row = await findThread(store, word);
  if (!row.ok) return row;
  const { explainThread } = await reports.whatRan();
  return await explainThread(runtime, store, row.output);
}

async function ofItem(runtime: Runtime, kind: string, id: string): Promise<Outcome<Json>> {
  const { explainItem } = await reports.explain();
  return await explainItem(runtime, kind, id);
}

/** Parts that are printed below the outline in their own format. */
const PARTS = ['limits', 'permissions', 'guards', 'rules', 'items', 'policies', 'tools'];

/** Replaces the state by a sentence about whether `km run` accepts the directive. */
function inWords(explained: Json): Json {
  if (!isObject(explained) || explained.can_spawn_thread === undefined) return explained;
  const missing = listAt(explained, 'missing').map((part) => `<${plainText(part)}>`);
  const canRun = missing.length === 0 ? 'yes' : `no, it lacks ${missing.join(' and ')}`;
  return Object.fromEntries(
    Object.entries(explained).flatMap(([name, part]) => {
      if (name === 'missing') return [];
      return [name === 'can_spawn_thread' ? ['can be run', canRun] : [name, part]];
    }),
  );
}

/** Prints nested values as an indented outline: names left, values right. */
function outline(value: Json, terminal: Terminal): void {
  if (!isObject(value)) return terminal.out(valueText(value));
  for (const [name, part] of Object.entries(value)) {
    if (PARTS.includes(name)) continue;
    if (part === null || (Array.isArray(part) && part.length === 0)) continue;
    const words = isObject(part)
      ? Object.entries(part).map(([key, inner]) => `${key}: ${valueText(inner)}`)
      : [part].flat().map(valueText);
    terminal.out(`${terminal.paint('dim', name.padEnd(17))} ${words.join(', ')}`);
  }
}

function showLimits(limits: Json, terminal: Terminal): void {
  terminal.out(terminal.paint('bold', 'limits'));
  for (const [name, limit] of Object.entries(isObject(limits) ? limits : {})) {
    const from = terminal.paint('dim', plainText(getOwn(limit, 'from')));
    const value = valueText(getOwn(limit, 'value') ?? null).padEnd(10);
    terminal.out(`  ${name.padEnd(15)} ${value} ${from}`);
  }
}

function showGrants(permissions: Json, terminal: Terminal): void {
  const granted = getOwn(permissions, 'granted');
  terminal.out(terminal.paint('bold', 'may'));
  for (const grant of Array.isArray(granted) ? granted : []) {
    const scopes = getOwn(grant, 'scope') ?? null;
    const scope = isObject(scopes) ? Object.entries(scopes) : [];
    const uses = getOwn(grant, 'uses');
    const counted = uses === undefined ? [] : [['uses', uses] as const];
    const conditions = [...scope, ...counted]
      .map(([field, glob]) => `${field} ${valueText(glob)}`)
      .join(', ');
    const capability = valueText(getOwn(grant, 'capability') ?? '').padEnd(15);
    terminal.out(`  ${capability} ${conditions || 'any'}`);
    for (const cap of listAt(grant, 'capped')) {
      const much = getOwn(cap, 'extent') === 'whole' ? 'but not at all' : 'but in part';
      const why = `the ${textAt(cap, 'from')} policy ${textAt(cap, 'message')}`;
      terminal.out(terminal.paint('red', `    ${much}: ${visible(why)}`));
    }
  }
  if (Array.isArray(granted) && granted.length === 0) terminal.out('  nothing');
}

function showGuards(explained: Json, terminal: Terminal): void {
  const guards = listAt(explained, 'guards');
  if (guards.length > 0) terminal.out(terminal.paint('bold', 'guards'));
  for (const guard of guards) {
    const [name, on, when, verdict] = ['name', 'on', 'when', 'verdict'].map((field) =>
      textAt(guard, field),
    );
    const condition = when === '' ? '' : ` when ${when}`;
    const from = terminal.paint('dim', textAt(guard, 'from'));
    terminal.out(`  ${visible(`${name || '-'}  ${on}${condition}: ${verdict}`)}  ${from}`);
  }
  const rules = listAt(explained, 'rules');
  if (rules.length > 0) terminal.out(terminal.paint('bold', 'rules'));
  for (const rule of rules) {
    const from = terminal.paint('dim', textAt(rule, 'from'));
    terminal.out(`  ${textAt(rule, 'name').padEnd(26)} ${textAt(rule, 'state').padEnd(5)} ${from}`);
  }
}

/** Prints the files that ran, by hash, and whether they are unchanged today. */
function showRan(explained: Json, terminal: Terminal): void {
  for (const [part, title] of [
    ['items', 'ran'],
    ['policies', 'under'],
  ] as const) {
    const files = listAt(explained, part);
    if (files.length > 0) terminal.out(terminal.paint('bold', title));
    for (const file of files) {
      const what = textAt(file, part === 'items' ? 'id' : 'level').padEnd(15);
      const hash = textAt(file, 'sha256').slice(0, 16);
      const sign = textAt(file, 'signature') || (getOwn(file, 'signed') === true ? 'signed' : '');
      const key = textAt(file, 'key');
      const now = textAt(file, 'now');
      const changed = now === '' || now === 'same' ? '' : terminal.paint('yellow', `now ${now}`);
      const words = [
        what,
        textAt(file, 'file'),
        hash && `sha256 ${hash}`,
        sign,
        key && `key ${key}`,
      ];
      const line = visible(words.filter(Boolean).join('  '));
      terminal.out(`  ${line}${changed === '' ? '' : `  ${changed}`}`);
    }
  }
}

function showTools(explained: Json, terminal: Terminal): void {
  const tools = listAt(explained, 'tools');
  if (tools.length > 0) terminal.out(terminal.paint('bold', 'with'));
  for (const tool of tools) {
    const parts = ['hosts', 'env', 'modules'].flatMap((name) => {
      const list = listAt(tool, name).map(valueText);
      return list.length > 0 ? [`${name} ${list.join(', ')}`] : [];
    });
    const words = [textAt(tool, 'effect'), textAt(tool, 'signature'), ...parts].join('; ');
    terminal.out(
      `  ${visible(textAt(tool, 'id')).padEnd(24)} ${terminal.paint('dim', visible(words))}`,
    );
  }
}

export const run = inProject(async (runtime, { args, options, terminal }) => {
  const thread = asText(options.thread);
  const [kind, id] = [asText(args[0]), asText(args[1])];
  if (thread !== undefined && kind !== undefined) {
    return fail('usage', '`--thread` cannot be used with a kind and an id');
  }
  if (thread === undefined && (kind === undefined || id === undefined)) {
    return fail(
      'usage',
      'kind and id are missing; use `km explain directive NAME` or `--thread ID`',
    );
  }
  const explained =
    thread === undefined
      ? await ofItem(runtime, kind ?? '', id ?? '')
      : await ofThread(runtime, thread);
  return terminal.finish(explained, (output) => {
    const [limits, permissions] = [getOwn(output, 'limits'), getOwn(output, 'permissions')];
    outline(inWords(output), terminal);
    showRan(output, terminal);
    if (limits) showLimits(limits, terminal);
    if (permissions) showGrants(permissions, terminal);
    showTools(output, terminal);
    showGuards(output, terminal);
  });
});
