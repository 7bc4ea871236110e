// Implements `memory ls|show|endorse|forget|export`: a person reads the texts that threads kept, and confirms or
// removes one.
import { compact, fail, ok, onOneLine, shorten } from '@kernmantle/core/base';
import { memoryForPeople, type ShownMemory } from '@kernmantle/core/runtime';
import { MEMORY_SCOPES, noMemory } from '@kernmantle/core/store';
import { asText, type CommandRun } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { confirm, type Terminal, visible } from '../terminal/terminal.ts';
import { age } from '../threads/status-text.ts';

const COLOURS = { confirmed: 'green', note: 'dim', stranger: 'red' } as const;
const WORDS = { confirmed: 'confirmed', note: 'note', stranger: 'from strangers' } as const;

function showLine(
  { id, standing, created, subject, text }: ShownMemory,
  { out, paint }: Terminal,
): void {
  const what = shorten(onOneLine(visible(subject === '' ? text : `${subject}: ${text}`)), 200);
  const word = paint(COLOURS[standing], WORDS[standing]);
  out(`${paint('bold', id)} ${word} ${paint('dim', `${age(Date.now() - created)} ago`)} ${what}`);
}

function showRow(row: ShownMemory, terminal: Terminal): void {
  const { scope, owner, thread, seq, marks, expires, endorsed_by: word, hash, text } = row;
  showLine({ ...row, text: '' }, terminal);
  const fields = {
    scope: owner === '' ? scope : `${scope} ${owner}`,
    thread: `${thread}, event ${seq}`,
    labels: marks.taint.join(', ') || 'none',
    sources: marks.sources.join(', ') || 'none',
    ends: expires === undefined ? 'never' : new Date(expires).toISOString(),
    'word of': word?.hash === hash ? `${word.by} (${word.how})` : 'nobody',
    hash,
  };
  for (const [name, value] of Object.entries(fields)) {
    terminal.out(`  ${terminal.paint('dim', name)} ${visible(value)}`);
  }
  for (const line of text.split('\n')) terminal.out(`  | ${visible(line)}`);
}

export const listRows: CommandRun = inProject(async (runtime, { options, terminal }) => {
  const word = asText(options.scope);
  const scope = MEMORY_SCOPES.find((one) => one === word);
  if (word !== undefined && !scope) {
    return fail('usage', `\`--scope ${word}\` must be one of ${MEMORY_SCOPES.join(', ')}`);
  }
  return terminal.finish(
    await (await memoryForPeople()).listMemories(runtime, compact({ scope })),
    (rows) => {
      for (const row of rows) showLine(row, terminal);
      if (rows.length === 0) terminal.note('no thread has kept a text here yet');
    },
  );
});

/** Prints one row as one line of JSON for each row, with or without `--json`. */
export const exportRows: CommandRun = inProject(async (runtime, { terminal }) =>
  terminal.finish(await (await memoryForPeople()).listMemories(runtime), (rows) => {
    for (const row of rows) terminal.out(JSON.stringify(row));
  }),
);

const withRow = (
  work: (
    row: ShownMemory,
    ...parts: Parameters<Parameters<typeof inProject>[0]>
  ) => ReturnType<CommandRun>,
): CommandRun =>
  inProject(async (runtime, call) => {
    const id = asText(call.args[0]) ?? '';
    const rows = await (await memoryForPeople()).listMemories(runtime, { id });
    if (!rows.ok) return rows;
    const [row] = rows.output;
    return row ? await work(row, runtime, call) : noMemory(id);
  });

export const showMemory = withRow(async (row, _runtime, { terminal }) =>
  terminal.finish(ok(row), () => showRow(row, terminal)),
);

export const forgetMemory = withRow(async ({ id }, runtime, call) => {
  const done = await (await memoryForPeople()).changeMemory(
    runtime,
    { kind: 'forget', id },
    commandActor(call),
  );
  return call.terminal.finish(done, () => call.terminal.note(`${id} forgotten`));
});

export const endorseMemory = withRow(async (row, runtime, call) => {
  const { options, terminal } = call;
  const { id } = row;
  let hash = asText(options.hash);
  if (hash === undefined) {
    if (!terminal.isInteractive || options.json === true) {
      const hint = `read it with \`km memory show ${id}\`, then add \`--hash ${row.hash}\``;
      return fail('usage', 'an endorsement needs the hash of the text that you read', { hint });
    }
    showRow(row, terminal);
    if (!(await confirm(terminal, 'Is this text true, and may threads rely on it?'))) {
      return fail('cancelled', `${id} was not endorsed`);
    }
    hash = row.hash;
  }
  const done = await (await memoryForPeople()).changeMemory(
    runtime,
    { kind: 'endorse', id, hash },
    commandActor(call),
  );
  return terminal.finish(done, () => terminal.note(`${id} endorsed`));
});
