// The person at the terminal who is asked about a call: what would be done, and what can be said to it. There
// is no default, and what was typed before the question was complete is no answer to it.
import { getOwn, isObject, plainText } from '@kernmantle/core/base';
import type { Noted } from '@kernmantle/core/journal';
import {
  type Actor,
  type AskPerson,
  askHere,
  choicesFor,
  isFileChanged,
  type PersonAnswer,
  reasonsText,
  type Threads,
} from '@kernmantle/core/runtime';
import type { Approval, Store } from '@kernmantle/core/store';
import type { Keyboard } from '../terminal/keyboard.ts';
import { type Terminal, visible } from '../terminal/terminal.ts';

const KEYS = { once: '[o]nce', value: '[v]alue', scope: '[s]cope', deny: '[d]eny' } as const;
type Key = keyof typeof KEYS;
const HELP: Readonly<Record<Key, string>> = {
  once: 'o  it is done, this once',
  value:
    'v  it is done, and this path, address or command counts as approved in the thread from now on',
  scope:
    's  it is done, and so is the same with every value of a scope that you give, such as reports/*',
  deny: 'd  it is not done; you may say why, and the model reads that',
};
const HELP_OF_ALL = [
  'w  why it is asked, where its values come from, what was done before',
  'Ctrl-C  leaves the question open: `km approvals ls` lists it',
];

const isKey = (word: string): word is Key => Object.hasOwn(KEYS, word);

/** Around the value that is asked about: its folder, or its host. */
function exampleScope({ shown }: Approval): string {
  const roles = Object.entries(isObject(shown.roles) ? shown.roles : {});
  const [name = '', role] = roles.find(([, one]) => one === 'path' || one === 'destination') ?? [];
  const value = plainText(getOwn(shown.arguments, name) ?? '');
  if (role === 'destination') return URL.canParse(value) ? new URL(value).hostname : value;
  const at = value.lastIndexOf('/');
  return at > 0 ? `${value.slice(0, at)}/*` : value;
}

interface Talk {
  readonly terminal: Terminal;
  readonly keyboard: Keyboard;
  readonly signal: AbortSignal;
}

/** The words after the letter, or those that are asked for; undefined when the person leaves. */
async function wordsFor(
  { terminal, keyboard, signal }: Talk,
  said: string,
  prompt: string,
): Promise<string | undefined> {
  if (said !== '') return said;
  terminal.ask(visible(prompt));
  return (await keyboard.line(signal))?.trim();
}

/** `again`: nothing was decided yet. */
async function decide(
  talk: Talk,
  key: Key,
  said: string,
  row: Approval,
): Promise<PersonAnswer | 'again' | undefined> {
  if (key === 'deny') {
    const why = await wordsFor(talk, said, 'reason (Enter for none): ');
    return why === undefined ? undefined : { decision: 'denied', why };
  }
  const yes = { decision: 'approved', why: '' } as const;
  if (key === 'once') return yes;
  if (key === 'value') return { ...yes, answer: { value: true } };
  const scope = await wordsFor(talk, said, `scope, for instance ${exampleScope(row)}: `);
  if (scope === undefined) return undefined;
  return scope === '' ? 'again' : { ...yes, answer: { scope } };
}

async function askAt(talk: Talk, text: string, row: Approval): Promise<PersonAnswer | undefined> {
  const { terminal, keyboard, signal } = talk;
  const keys = choicesFor(row).filter((word) => isKey(word));
  const options = `${[...keys.map((key) => KEYS[key]), '[w]hy', '[?]'].join(' ')} `;
  terminal.ask(`${visible(text)}\n`);
  await keyboard.discard();
  terminal.ask(options);
  for (;;) {
    const typed = await keyboard.line(signal);
    if (typed === undefined) return undefined;
    const [word = '', ...rest] = typed.trim().split(/\s+/);
    const key = keys.find((one) => word === one || word === one.charAt(0));
    const answer = key ? await decide(talk, key, rest.join(' '), row) : 'again';
    if (answer !== 'again') return answer;
    if (word === 'w' || word === 'why') terminal.ask(`${visible(reasonsText(row))}\n`);
    else if (word !== '' && key === undefined) {
      terminal.ask(`${[...keys.map((one) => HELP[one]), ...HELP_OF_ALL].join('\n')}\n`);
    }
    terminal.ask(options);
  }
}

/** Nobody without a terminal. `signal` leaves the question open, like Ctrl-C. */
export function personAt(terminal: Terminal, signal?: AbortSignal): AskPerson | undefined {
  if (!terminal.isInteractive) return undefined;
  return (text, over, row) =>
    terminal.alone(async (keyboard) => {
      const either = signal ? AbortSignal.any([over, signal]) : over;
      if (either.aborted) return undefined;
      const answer = await askAt({ terminal, keyboard, signal: either }, text, row);
      if (over.aborted) terminal.ask('it was answered elsewhere\n');
      return answer;
    });
}

/** Questions of a thread itself, put to the person here; true when it can go on. */
export async function answerHere(
  store: Store,
  thread: string,
  person: AskPerson,
  by: Actor,
): Promise<boolean> {
  const open = await store.approvals({ thread, state: 'pending' });
  const rows = open.ok ? open.output.filter(({ shown }) => shown.action === 'ask') : [];
  for (const row of rows) {
    const done = await askHere(store, row, person, by);
    // The thread asks again, about what would change now.
    if (!done.ok) return isFileChanged(done);
    if (done.output.state === 'pending') return false;
  }
  return rows.length > 0;
}

/**
 * Questions of the threads below the one that is followed, which runs on meanwhile: they are put to the
 * person one after the other, and the thread that asked goes on with the answer.
 */
export function answerBelow(terminal: Terminal, by: Actor) {
  const over = new AbortController();
  const person = personAt(terminal, over.signal);
  const asked = new Set<string>();

  async function ask(threads: Threads, id: string, root: string): Promise<void> {
    const { store, resumeAnywhere } = threads;
    const found = await store.approvals({ id, state: 'pending' });
    const [row] = found.ok ? found.output : [];
    if (!row || !person || row.thread === undefined || row.thread === root) return;
    const done = await askHere(store, row, person, by);
    if (!done.ok && isFileChanged(done)) {
      await resumeAnywhere(row.thread, over.signal);
      if (!over.signal.aborted) await ask(threads, id, root);
      return;
    }
    const isOpen = !done.ok || done.output.state === 'pending';
    // Where machines share the store, the answer has queued it.
    if (!isOpen && !store.fleet) void resumeAnywhere(row.thread, over.signal);
  }
  return {
    hear(threads: Threads | undefined, root: string | undefined, { type, data }: Noted): void {
      if (!person || !threads || root === undefined || type !== 'approval') return;
      if (data.kind !== 'call' || data.state !== 'pending') return;
      const { approval = '' } = data;
      if (asked.has(approval)) return;
      asked.add(approval);
      void ask(threads, approval, root);
    },
    close: () => over.abort(),
  };
}
