// Implements `memory ls|show|endorse|forget|export`: a person reads the texts that threads kept, and confirms or
// removes one.
import { compact, fail, ok, onOneLine, shorten } from '@kernmantle/core/base';
import { openMemory, type ShownMemory } from '@kernmantle/core/runtime';
import { MEMORY_SCOPES, noMemory } from '@kernmantle/core/store';
import type { PersonMemory } from '../../program.ts';
import { asText, type CommandCall, type CommandRun, type Ending } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { confirm, type Terminal, visible } from '../terminal/terminal.ts';
import { age } from '../threads/status-text.ts';

const STANDINGS = {
  confirmed: ['green', 'confirmed'],
  note: ['dim', 'note'],
  stranger: ['red', 'from strangers'],
} as const;

function showLine(
  { id, standing, created, subject, text }: ShownMemory,
  { out, paint }: Terminal,
): void {
  const what = shorten(onOneLine(visible(subject === '' ? text : `${subject}: ${text}`)), 200);
  const [colour, name] = STANDINGS[standing];
  const word = paint(colour, name);
  out(`${paint('bold', id)} ${word} ${paint('dim', `${age(Date.now() - created)} ago`)} ${what}`);
}

function showRow(row: ShownMemory, terminal: Terminal): void {
  const { scope, owner, thread, seq, marks, expires, endorsed_by: word, hash, text } = row;
  showLine({ ...row, text: '' }, terminal);
  const fields = {
    scope: `${scope} ${owner}`.trim(),
    thread: `${thread}, event ${seq}`,
    labels: marks.taint.join(', ') || 'none',
    sources: marks.sources.join(', ') || 'none',
    ends: expires === null ? 'never' : new Date(expires).toISOString(),
    'word of': word?.hash === hash ? `${word.by} (${word.how})` : 'nobody',
    hash,
  };
  for (const [name, value] of Object.entries(fields)) {
    terminal.out(`  ${terminal.paint('dim', name)} ${visible(value)}`);
  }
  for (const line of text.split('\n')) terminal.out(`  | ${visible(line)}`);
}

const memoryCommand = (
  work: (memory: PersonMemory, call: CommandCall) => Promise<Ending>,
): CommandRun => inProject(async (runtime, call) => await work(await openMemory(runtime), call));

export const listRows = memoryCommand(async (memory, { options, terminal }) => {
  const word = asText(options.scope);
  const scope = MEMORY_SCOPES.find((one) => one === word);
  if (word !== undefined && !scope) {
    return fail('usage', `\`--scope ${word}\` must be one of ${MEMORY_SCOPES.join(', ')}`);
  }
  return terminal.finish(await memory.list(compact({ scope })), (rows) => {
    for (const row of rows) showLine(row, terminal);
    if (rows.length === 0) terminal.note('no thread has kept a text here yet');
  });
});

/** Prints one line of JSON for each row, with or without `--json`. */
export const exportRows = memoryCommand(async (memory, { terminal }) =>
  terminal.finish(await memory.list(), (rows) => {
    for (const row of rows) terminal.out(JSON.stringify(row));
  }),
);

const withRow = (
  work: (row: ShownMemory, memory: PersonMemory, call: CommandCall) => Promise<Ending>,
): CommandRun =>
  memoryCommand(async (memory, call) => {
    const id = asText(call.args[0]) ?? '';
    const rows = await memory.list({ id });
    const [row] = rows.ok ? rows.output : [];
    return row ? await work(row, memory, call) : rows.ok ? noMemory(id) : rows;
  });

export const showMemory = withRow(async (row, _memory, { terminal }) =>
  terminal.finish(ok(row), () => showRow(row, terminal)),
);

export const forgetMemory = withRow(async ({ id }, memory, call) =>
  call.terminal.finish(await memory.forget(id, commandActor(call)), () =>
    call.terminal.note(`${id} forgotten`),
  ),
);

export const endorseMemory = withRow(async (row, memory, call) => {
  const { options, terminal } = call;
  const { id } = row;
  const hash = asText(options.hash);
  if (hash === undefined) {
    if (!terminal.isInteractive || options.json === true) {
      const hint = `read it with \`km memory show ${id}\`, then add \`--hash ${row.hash}\``;
      return fail('usage', 'an endorsement needs the hash of the text that you read', { hint });
    }
    showRow(row, terminal);
    if (!(await confirm(terminal, 'Is this text true, and may threads rely on it?'))) {
      return fail('cancelled', `${id} was not endorsed`);
    }
  }
  const done = await memory.endorse(id, hash ?? row.hash, commandActor(call));
  return terminal.finish(done, () => terminal.note(`${id} endorsed`));
});
