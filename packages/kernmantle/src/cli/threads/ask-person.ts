// Asks the person at the terminal to decide about a call. The dialog shows the call and the possible answers.
// It has no default answer. Keys from before the question was complete, or before a pause of 300 ms, decide nothing.
import { getOwn, isObject, plainText } from '@kernmantle/core/base';
import {
  type AskPerson,
  choicesFor,
  type PersonAnswer,
  reasonsText,
} from '@kernmantle/core/runtime';
import type { Approval } from '@kernmantle/core/store';
import type { Keyboard } from '../terminal/keyboard.ts';
import { type Paint, type Terminal, visible } from '../terminal/terminal.ts';

/** Time without a key after which a key is an answer. A person who still types has not read the question. */
const SETTLE_MS = 300;
const KEYS = { once: '[o]nce', value: '[v]alue', scope: '[s]cope', deny: '[d]eny' } as const;
type Key = keyof typeof KEYS;
const HELP: Readonly<Record<Key, string>> = {
  once: 'o  approve this call once',
  value: 'v  approve this call, and its path, address or command for the rest of the thread',
  scope:
    's  approve this call, and the same call with every value in a scope that you enter, such as reports/*',
  deny: 'd  deny this call; you can enter a reason, which the model reads',
};
const HELP_OF_ALL = [
  'w  show why the call needs approval, the sources of its values and the earlier actions',
  'Ctrl-C  leave the request pending; `km approvals ls` lists it',
];

const isKey = (word: string): word is Key => Object.hasOwn(KEYS, word);

/** Returns a scope around the value of the request: its folder or its host, with its name if there are several. */
function exampleScope({ shown }: Approval): string {
  const roles = Object.entries(isObject(shown.roles) ? shown.roles : {});
  const scoped = roles.filter(([, role]) => role === 'path' || role === 'destination');
  const [name = '', role] = scoped[0] ?? [];
  const value = plainText(getOwn(shown.arguments, name) ?? '');
  const prefix = scoped.length > 1 ? `${name}=` : '';
  const host = role === 'destination' && URL.canParse(value) ? new URL(value).hostname : value;
  const at = role === 'destination' ? 0 : value.lastIndexOf('/');
  return `${prefix}${at > 0 ? `${value.slice(0, at)}/*` : host}`;
}

interface Talk {
  readonly terminal: Terminal;
  readonly keyboard: Keyboard;
  readonly signal: AbortSignal;
}

/** Asks for a line, which begins with `text`. Undefined if the person cancels. */
async function wordsFor(
  { terminal, keyboard, signal }: Talk,
  prompt: string,
  text = '',
): Promise<string | undefined> {
  terminal.ask(prompt);
  return (await keyboard.line(signal, visible(text)))?.trim();
}

/** Returns the answer for a key, `again` if the input has no decision, or undefined if the person cancels. */
async function decide(
  talk: Talk,
  key: Key,
  row: Approval,
): Promise<PersonAnswer | 'again' | undefined> {
  if (key === 'deny') {
    const why = await wordsFor(talk, 'reason (Enter for none): ');
    return why === undefined ? undefined : { decision: 'denied', why };
  }
  const yes = { decision: 'approved', why: '' } as const;
  if (key === 'once') return yes;
  if (key === 'value') return { ...yes, answer: { value: true } };
  const scope = await wordsFor(talk, 'scope: ', exampleScope(row));
  if (scope === undefined) return undefined;
  return scope === '' ? 'again' : { ...yes, answer: { scope } };
}

/** Colours the lines of a change. */
export const paintDiff = (text: string, paint: Paint): string =>
  text.replace(/^ *[-+@].*$/gm, (line) => {
    const [sign] = line.trimStart();
    return paint(sign === '+' ? 'green' : sign === '-' ? 'red' : 'blue', line);
  });

async function askAt(talk: Talk, text: string, row: Approval): Promise<PersonAnswer | undefined> {
  const { terminal, keyboard, signal } = talk;
  const keys = choicesFor(row).filter((word) => isKey(word));
  const options = `${[...keys.map((key) => KEYS[key]), '[w]hy', '[?]'].join(' ')} `;
  const [title, ...details] = visible(text).split('\n');
  const rows = [terminal.paint('bold', title ?? ''), paintDiff(details.join('\n'), terminal.paint)];
  terminal.ask(`\n${rows.join('\n')}\n${options}`);
  await keyboard.discard(SETTLE_MS);
  for (;;) {
    const typed = await keyboard.key(signal);
    if (typed === undefined) {
      terminal.ask('\n');
      return undefined;
    }
    const key = keys.find((one) => typed === one.charAt(0));
    // Enter and other keys without a meaning do nothing, and neither does the rest of a word.
    if (key === undefined && typed !== 'w' && typed !== '?') {
      await keyboard.discard(SETTLE_MS);
      continue;
    }
    terminal.ask(`${typed}\n`);
    const answer = key ? await decide(talk, key, row) : 'again';
    if (answer !== 'again') return answer;
    if (typed === 'w') terminal.ask(`${visible(reasonsText(row))}\n`);
    if (typed === '?')
      terminal.ask(`${[...keys.map((one) => HELP[one]), ...HELP_OF_ALL].join('\n')}\n`);
    terminal.ask(options);
  }
}

/** Returns undefined without a terminal. `signal` leaves the request pending, like Ctrl-C. */
export function personAt(terminal: Terminal, signal?: AbortSignal): AskPerson | undefined {
  if (!terminal.isInteractive) return undefined;
  return (text, over, row) =>
    terminal.alone(async (keyboard) => {
      const either = signal ? AbortSignal.any([over, signal]) : over;
      if (either.aborted) return undefined;
      const answer = await askAt({ terminal, keyboard, signal: either }, text, row);
      if (over.aborted) terminal.ask('the request was answered elsewhere\n');
      return answer;
    });
}
