// The slash commands of a chat, in one table, and the reading of a typed line: its command, or its text with the files
// that it names.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { didYouMean, fail, type Outcome, ok, onOneLine, shorten } from '@kernmantle/core/base';
import { type Attachment, answersInForce, type LastingAnswer } from '@kernmantle/core/harness';
import { conversation, decodeAll, project } from '@kernmantle/core/journal';
import { openMemory, withdrawAnswer } from '@kernmantle/core/runtime';
import { LIMITS, limitsOf } from '../commands/run.ts';
import { amountsOf } from '../threads/result-text.ts';
import { age, costText } from '../threads/status-text.ts';
import type { Completion } from './editor.ts';
import type { ChatSession } from './session.ts';

/** The actions of a command besides those of its session. */
export interface ChatUi {
  readonly session: ChatSession;
  say(text: string): void;
  /** Ends the chat. The thread stays as it is. */
  quit(): void;
  /** Makes the newest paste the person's own words. */
  own(): boolean;
  /** Adds a file to the next line. */
  attach(path: string): void;
  /** Shows the state of the opened thread. */
  opened(): Promise<void>;
  /** Resumes the thread without a line. */
  resume(): void;
}

interface ChatCommand {
  readonly about: string;
  run(ui: ChatUi, words: string): Promise<Outcome<unknown>> | Outcome<unknown>;
}

const say = ({ say }: ChatUi, lines: readonly string[]): Outcome<null> => {
  say(lines.join('\n'));
  return ok(null);
};

async function chatRow({ session }: ChatUi) {
  const id = session.id();
  return id === undefined
    ? fail('not_found', 'the chat has no thread yet; write a line first')
    : await session.store.thread(id);
}

/** Returns an answer as text, such as `tool fs/write_file path src/**`. */
function answerText({ operation, covers }: LastingAnswer): string {
  const parts = [...covers].map(([name, { scope, value }]) => {
    const text = scope ?? (typeof value === 'string' ? value : JSON.stringify(value));
    return `${name} ${onOneLine(text)}`;
  });
  return `${operation.replace(/^tool /, '')}: ${parts.join(', ')}`;
}

async function rights(ui: ChatUi, words: string): Promise<Outcome<unknown>> {
  const row = await chatRow(ui);
  if (!row.ok) return row;
  const { store, by } = ui.session;
  const answers = await answersInForce(store, row.output.id);
  const [verb, number = ''] = words.split(' ');
  if (verb !== 'drop') {
    const lines = answers.map((one, index) => `  ${index + 1}  ${answerText(one)}`);
    const none = 'no answer lasts; every change asks';
    return say(ui, lines.length === 0 ? [none] : [...lines, '`/rights drop N` takes one back']);
  }
  const answer = answers[Number(number) - 1];
  if (!answer) return fail('not_found', `answer ${number} not found; \`/rights\` lists them`);
  const taken = await withdrawAnswer(store, answer.approval, by);
  return taken.ok ? say(ui, [`taken back: ${answerText(answer)}`]) : taken;
}

async function limits(ui: ChatUi, words: string): Promise<Outcome<unknown>> {
  const row = await chatRow(ui);
  if (words === '') {
    if (!row.ok) return row;
    return say(
      ui,
      amountsOf(row.output).map(({ name, used, max }) => `  ${name.padEnd(12)}${used} of ${max}`),
    );
  }
  const named = words.split(/\s+/).map((word) => word.split('='));
  const bad = named.find(([name = '', value]) => value === undefined || !/^[a-z_]+$/.test(name));
  if (bad) return fail('invalid_input', 'write a limit as `/limits spend=10`');
  const options = named.map(([name = '', value]): [string, string] => [
    name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    value ?? '',
  ]);
  const read = limitsOf(Object.fromEntries(options));
  if (!read.ok) return read;
  if (Object.keys(read.output ?? {}).length !== named.length) {
    return fail('invalid_input', `limits are ${Object.keys(LIMITS).join(', ')}`);
  }
  ui.session.set({ ...(read.output && { limits: read.output }) });
  if (row.ok && row.output.status === 'limit') ui.resume();
  return say(ui, ['the limits apply from the next line']);
}

async function labels(ui: ChatUi): Promise<Outcome<unknown>> {
  const row = await chatRow(ui);
  const stored = row.ok ? await ui.session.store.read(row.output.id) : row;
  const events = stored.ok ? decodeAll(stored.output) : stored;
  if (!events.ok) return events;
  const { taint, sources } = project(conversation, events.output).marks();
  const from = sources.length === 0 ? [] : [`  from ${sources.slice(0, 20).join(', ')}`];
  return say(ui, [`  ${taint.join(', ') || 'none'}`, ...from]);
}

/** Shows one event of the thread in full. Without a number it is the last result of a tool. */
async function show(ui: ChatUi, words: string): Promise<Outcome<unknown>> {
  const row = await chatRow(ui);
  if (!row.ok) return row;
  const wanted = Number(words);
  const range =
    words === '' ? { types: ['tool_result'], limit: 10_000 } : { after: wanted - 1, limit: 1 };
  const read = await ui.session.store.read(row.output.id, range);
  const event = read.ok ? read.output.at(-1) : undefined;
  if (!event || (words !== '' && event.seq !== wanted)) {
    return fail('not_found', words === '' ? 'no result yet' : `event ${words} not found`);
  }
  const { content = event.data } = event.data;
  const text = typeof content === 'string' ? content : JSON.stringify(content, null, 2);
  return say(ui, [`event ${event.seq}, ${event.type}`, text]);
}

async function resume(ui: ChatUi, words: string): Promise<Outcome<unknown>> {
  if (words !== '') {
    const row = await ui.session.open(words);
    if (row.ok) await ui.opened();
    return row;
  }
  const page = await ui.session.store.query({ runner: 'chat', limit: 10 });
  if (!page.ok) return page;
  const lines = page.output.rows.map(
    ({ id, title = '', status, updated }) =>
      `  ${id}  ${age(Date.now() - updated)} ago, ${status}  ${title}`,
  );
  return say(ui, lines.length === 0 ? ['no chat yet'] : [...lines, '`/resume ID` goes on']);
}

async function memory(ui: ChatUi): Promise<Outcome<unknown>> {
  const rows = await (await openMemory(ui.session.runtime)).list();
  if (!rows.ok) return rows;
  const lines = rows.output.map(
    ({ id, standing, subject, text }) =>
      `  ${id}  ${standing}  ${shorten(onOneLine(subject === '' ? text : `${subject}: ${text}`), 200)}`,
  );
  const more = '`km memory endorse ID` confirms a row, `km memory forget ID` removes it';
  return say(ui, lines.length === 0 ? ['no thread has kept a text here yet'] : [...lines, more]);
}

const COMMANDS: Readonly<Record<string, ChatCommand>> = {
  help: {
    about: 'list the commands and the keys',
    run: (ui) =>
      say(ui, [
        ...Object.entries(COMMANDS).map(([name, { about }]) => `  /${name.padEnd(9)}${about}`),
        '  @path     attach a file; Tab completes',
        '  Enter sends; Alt-Enter, Ctrl-J or a final \\ breaks the line',
        '  Esc or Ctrl-C interrupts; twice Ctrl-C, or Ctrl-D, leaves',
      ]),
  },
  compact: {
    about: 'make room: old turns become a summary; say what to keep: /compact the open questions',
    async run(ui, words) {
      const done = await ui.session.makeRoom(words);
      return done.ok ? say(ui, ['the conversation makes room before its next turn']) : done;
    },
  },
  model: {
    about: 'use another model or tier from the next line: /model fast',
    run(ui, words) {
      if (words === '') return fail('invalid_input', 'name a tier or a model: `/model fast`');
      ui.session.set({ model: words });
      return say(ui, [`the next line goes to ${words}`]);
    },
  },
  limits: { about: 'show the limits, or set one: /limits spend=10', run: limits },
  cost: {
    about: 'show the cost so far',
    async run(ui) {
      const row = await chatRow(ui);
      return row.ok ? say(ui, [`  ${costText(row.output.cost)}`]) : row;
    },
  },
  rights: { about: 'list your answers that last, or take one back: /rights drop 1', run: rights },
  labels: { about: 'show the labels of all that the model has read', run: labels },
  attach: {
    about: 'attach a file to the next line: /attach FILE',
    run(ui, words) {
      const file = fileOf(ui.session.runtime.project, words);
      if (file.ok) ui.attach(file.output.path);
      return file.ok ? say(ui, [`attached ${words}`]) : file;
    },
  },
  own: {
    about: 'make the newest paste your own words, before you send it',
    run: (ui) =>
      ui.own() ? ok(null) : fail('not_found', 'the line has no paste; write `/own` at its end'),
  },
  fork: {
    about: 'go on in a fork with the next line; this conversation stays as it is',
    run(ui) {
      const forked = ui.session.fork();
      return forked.ok ? say(ui, ['the next line goes on in a fork']) : forked;
    },
  },
  memory: { about: 'list what threads have kept here', run: memory },
  resume: { about: 'list the chats, or go on with one: /resume ID', run: resume },
  show: { about: 'show an event in full, or the last result: /show 214', run: show },
  clear: {
    about: 'begin a new conversation',
    async run(ui) {
      await ui.session.open(undefined);
      return say(ui, ['the next line begins a new conversation']);
    },
  },
  quit: {
    about: 'leave; `km chat --resume last` goes on',
    run(ui) {
      ui.quit();
      return ok(null);
    },
  },
};

/** Returns the attachment for a path of the person. Fails if it is not a readable file. */
function fileOf(root: string, path: string): Outcome<{ path: string }> {
  const file = join(root, path);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isFile()) return ok({ path: file });
  const why = found ? 'is not a file' : 'was not found';
  return fail('not_found', `\`@${path}\` ${why}; the line is not sent`, { path });
}

interface ReadLine {
  readonly command?: () => Promise<Outcome<unknown>> | Outcome<unknown>;
  readonly files: readonly Attachment[];
}

/** Reads a typed line. Fails for an unknown command and for a file that is missing, and nothing is sent then. */
export function readTyped(ui: ChatUi, text: string): Outcome<ReadLine> {
  const [, name, words = ''] = /^\/([a-z]+)(?:\s+([^]*))?$/.exec(text.trim()) ?? [];
  if (name !== undefined) {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    const hint = didYouMean(name, Object.keys(COMMANDS)) ?? '`/help` lists all';
    if (!command) return fail('invalid_input', `command \`/${name}\` not found; ${hint}`);
    return ok({ files: [], command: () => command.run(ui, words.trim()) });
  }
  const files: Attachment[] = [];
  for (const [, path = ''] of text.matchAll(/(?:^|\s)@([^\s@]+)/g)) {
    const file = fileOf(ui.session.runtime.project, path);
    if (!file.ok) return file;
    files.push(file.output);
  }
  return ok({ files });
}

const MAX_NAMES = 10_000;

/** Completes a command at the start of the line, and a path after `@`. */
export function completeIn(root: string, before: string): Completion | undefined {
  const command = /^\/([a-z]*)$/.exec(before);
  if (command) {
    const names = Object.keys(COMMANDS).map((name) => `/${name}`);
    return { from: 0, candidates: names.filter((name) => name.startsWith(before)) };
  }
  const [, word] = /(?:^|\s)@(\S*)$/.exec(before) ?? [];
  if (word === undefined) return undefined;
  const at = word.lastIndexOf('/') + 1;
  const [folder, start] = [word.slice(0, at), word.slice(at)];
  const names = folderNames(join(root, folder)).filter(
    (name) => name.startsWith(start) && (start.startsWith('.') || !name.startsWith('.')),
  );
  const from = Array.from(before).length - Array.from(word).length;
  return { from, candidates: names.map((name) => `${folder}${name}`) };
}

/** Returns the names of a folder, with `/` after those of folders. Empty for a folder that cannot be read. */
function folderNames(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true }).slice(0, MAX_NAMES);
    return entries.map((entry) => `${entry.name}${entry.isDirectory() ? '/' : ''}`).sort();
  } catch {
    return [];
  }
}
