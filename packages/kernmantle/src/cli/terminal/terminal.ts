import {
  type Diagnostic,
  EXIT,
  exitCodeOf,
  type Fault,
  formatDiagnostic,
  masked,
  type Outcome,
  plainText,
} from '@kernmantle/core/base';
import type { Keyboard } from './keyboard.ts';
import type { Output } from './output.ts';

/** Signals that end a command that waits for a person. */
const LEAVING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Runs `work` with the handler on each signal, and takes the handlers away afterwards. */
async function onSignals<T>(
  signals: readonly NodeJS.Signals[],
  handle: () => void,
  work: () => Promise<T>,
): Promise<T> {
  for (const signal of signals) process.once(signal, handle);
  try {
    return await work();
  } finally {
    for (const signal of signals) process.off(signal, handle);
  }
}

/** A yes-or-no question to a person; undefined when nobody is there, or they leave it. */
export async function yesOrNo(
  terminal: Terminal,
  question: string,
  signal?: AbortSignal,
): Promise<boolean | undefined> {
  if (!terminal.isInteractive) return undefined;
  const typed = await terminal.alone(async (keyboard) => {
    terminal.ask(visible(question));
    await keyboard.discard();
    terminal.ask(' [y/N] ');
    return await keyboard.line(signal);
  });
  return typed === undefined ? undefined : /^y(es)?$/i.test(typed.trim());
}

/** The same where no clear yes is a no. */
export const confirm = async (terminal: Terminal, question: string): Promise<boolean> =>
  (await yesOrNo(terminal, question)) === true;

/** What a person types unseen; undefined without a terminal, or when they leave. */
export async function askUnseen(terminal: Terminal, prompt: string): Promise<string | undefined> {
  if (!terminal.isInteractive) return undefined;
  return await terminal.alone(
    async (keyboard) => {
      terminal.ask(`${visible(prompt)}: `);
      return await keyboard.line();
    },
    { isEchoed: false },
  );
}

/**
 * Ctrl-C and SIGTERM ask the work to stop; what it started is ended with it. `waits`: for a person at this
 * terminal, so that its end (SIGHUP) ends the work too. Without it SIGHUP is left as `nohup` has it.
 */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { waits = false }: { readonly waits?: boolean } = {},
): Promise<T> {
  const controller = new AbortController();
  const signals = waits ? LEAVING : (['SIGINT', 'SIGTERM'] as const);
  return await onSignals(
    signals,
    () => controller.abort(),
    () => work(controller.signal),
  );
}

// What a person or a program sees: data on stdout, everything else on stderr, colour only for a
// terminal, control characters of strangers made visible.

export type Paint = (colour: Colour, text: string) => string;
export type Colour = 'red' | 'green' | 'yellow' | 'blue' | 'dim' | 'bold';
const CODES: Readonly<Record<Colour, readonly [number, number]>> = {
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [36, 39],
  dim: [2, 22],
  bold: [1, 22],
};

/** A view that can stop for a question. */
export interface Drawn {
  /** Everything that happened is shown, and nothing is drawn any more. */
  pause(): Promise<void> | void;
  goOn(): void;
}

export type Terminal = ReturnType<typeof createTerminal>;

/** Control characters except tab and line feed, and what turns the direction of writing. */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Escape sequences and other control characters of a file or a tool do not reach the terminal. */
export const visible = (text: string): string =>
  masked(text).replace(HIDDEN, (char) => {
    return char === '\r' ? '' : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });

/** A value on one line: text as it is, everything else as JSON. */
export const valueText = (value: unknown): string =>
  visible(typeof value === 'string' ? value : JSON.stringify(value));

/** Which command helps: rooms below know what is wrong, and not how people call them. */
const COMMANDS: Readonly<Record<string, (detail: Fault['detail']) => string>> = {
  model_unavailable: ({ variable }) =>
    variable === undefined ? '' : '`--model` chooses another one, `--replies FILE` needs none',
  needs_input: ({ approval }) =>
    approval === undefined
      ? ''
      : `answer with \`km approvals approve|deny ${plainText(approval)}\``,
  // Where something is merely missing for a run, the file has no mistake to list.
  invalid_item: ({ missing }) =>
    missing === undefined ? '`km check` lists all that is wrong' : '',
  permission_denied({ unsigned, file, missing }) {
    if (missing === 'token') return '`km web token add` makes one';
    return unsigned === undefined ? '' : `\`km sign ${plainText(file) || 'FILE'}\``;
  },
  conflict: ({ items }) =>
    items === undefined ? '' : '`--items today` takes those of this folder',
  project_unnamed: () => '`km init --id` gives it one',
  store_failed: ({ known }) => (known === undefined ? '' : '`km store migrate`'),
  store_foreign: ({ place }) =>
    place === undefined ? '' : '`km keys export` there, and `km keys import FILE` here',
  mcp_connection_failed: ({ login }) =>
    login === undefined ? '' : `\`km mcp sync ${plainText(login)}\``,
  mcp_definition_changed: ({ server }) => `\`km mcp sync ${plainText(server) || 'NAME'}\``,
};

/** The fault for people: the message, then what helps, without repeating it. */
function faultLines(fault: Fault, paint: Paint): string[] {
  const { code, detail } = fault;
  const lines = [
    `${paint('red', 'error')}: ${visible(detail.message)} ${paint('dim', `[${code}]`)}`,
  ];
  const command = Object.hasOwn(COMMANDS, code) ? COMMANDS[code]?.(detail) : undefined;
  const known = [detail.hint, detail.remediation]
    .filter((hint) => typeof hint === 'string')
    .filter((hint) => !detail.message.includes(hint));
  const hints = command === undefined || command === '' ? known : [...known, command];
  for (const hint of hints) lines.push(`  ${paint('blue', 'hint')}: ${visible(hint)}`);
  const said = typeof detail.said === 'string' ? detail.said.split('\n') : [];
  // The last words of a program that did not start stand in the message as far as they fit.
  for (const line of said.filter((one) => !detail.message.includes(one.trim()))) {
    lines.push(paint('dim', `  | ${visible(line)}`));
  }
  if (Array.isArray(detail.chain))
    lines.push(paint('dim', `  chain: ${detail.chain.map(plainText).join(' -> ')}`));
  return lines;
}

/** `FORCE_COLOR` says yes or no (`0`, `false`) whatever else holds. */
function isColoured({ FORCE_COLOR, NO_COLOR }: NodeJS.ProcessEnv, canBe: boolean): boolean {
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return canBe && !NO_COLOR;
}

export function createTerminal(json: boolean, output: Output) {
  const { stdout, stderr, stdin, env } = process;
  const isDumb = env.TERM === 'dumb';
  const coloured = !json && isColoured(env, stdout.isTTY && !isDumb);
  const paint: Paint = (colour, text) => {
    const [on, off] = CODES[colour];
    return coloured ? `\u001b[${on}m${text}\u001b[${off}m` : text;
  };
  // Output that arrives during a question is written after the answer.
  let later: (() => void)[] | undefined;
  const unlessAsked = (write: (text: string) => void) => (text: string) => {
    if (later) later.push(() => write(text));
    else write(text);
  };
  const [toOut, toErr] = [unlessAsked(output.out), unlessAsked(output.err)];
  const drawn = new Set<Drawn>();
  let before: Promise<unknown> = Promise.resolve();

  async function askAlone<T>(
    work: (keyboard: Keyboard) => Promise<T>,
    options: { isEchoed?: boolean },
  ): Promise<T> {
    const { openKeyboard } = await import('./keyboard.ts');
    const paused = [...drawn];
    for (const one of paused) await one.pause();
    later = [];
    const keyboard = openKeyboard(options);
    try {
      return await onSignals(LEAVING, keyboard.leave, () => work(keyboard));
    } finally {
      keyboard.close();
      const written = later;
      later = undefined;
      for (const write of written) write();
      for (const one of paused) one.goOn();
    }
  }

  const note = (line: string): void => toErr(`${line}\n`);
  // Strangers may write anything; a file or a pipe gets it as it is, a terminal does not.
  const foreign = (isTerminal: boolean) => (isTerminal ? visible : String);
  const [shownOut, shownErr] = [foreign(stdout.isTTY), foreign(stderr.isTTY)];
  // JSON writes what is shown instead in the same way, so it means the same.
  const out = (line: string): void => toOut(`${json ? shownOut(masked(line)) : line}\n`);
  return {
    json,
    /** Somebody sees a question and can answer it. */
    isInteractive: stdout.isTTY && stderr.isTTY && stdin.isTTY && !json,
    /** Standard error is a terminal that can be drawn on. */
    isLive: stderr.isTTY && !isDumb && !json,
    cwd: process.cwd(),
    env,
    /** A line of data. */
    out,
    /** A line for people, on stderr. */
    note,
    /** To stderr as it is, for what is drawn. */
    write: (text: string): void => toErr(text),
    /** What a script prints, to one of the two. */
    print: (stream: 'out' | 'err', text: string): void =>
      stream === 'out' ? toOut(shownOut(text)) : toErr(shownErr(text)),
    /** Views that are drawn again and again: they stop while a person is asked. */
    drawn,
    /**
     * One question at a time, alone on the terminal: views stop before it and go on after it, and nothing
     * else is written meanwhile.
     */
    alone<T>(
      work: (keyboard: Keyboard) => Promise<T>,
      options: { isEchoed?: boolean } = {},
    ): Promise<T> {
      const mine = before.then(() => askAlone(work, options));
      before = mine.catch(() => undefined);
      return mine;
    },
    /** Text of the question itself. */
    ask: (text: string): void => output.err(text),
    /** Aborts when nobody reads data any more: whoever only shows something may end. */
    closed: output.closed,
    /** Width of what is drawn on. */
    columns: (): number => stderr.columns || 80,
    rows: (): number => stderr.rows || 24,
    paint,
    /** Prints an outcome the way the caller asked for and gives the exit code. */
    finish<T>(outcome: Outcome<T>, show: (output: T) => void): number {
      if (json) out(JSON.stringify(outcome));
      else if (outcome.ok) show(outcome.output);
      else for (const line of faultLines(outcome.error, paint)) note(line);
      return outcome.ok ? EXIT.done : exitCodeOf(outcome.error);
    },
    diagnostics(list: readonly Diagnostic[]): void {
      const colours = { error: 'red', warning: 'yellow', note: 'blue' } as const;
      for (const diagnostic of list) {
        const [head = '', ...rest] = visible(formatDiagnostic(diagnostic)).split('\n');
        const { severity } = diagnostic;
        note([head.replace(severity, paint(colours[severity], severity)), ...rest].join('\n'));
      }
    },
  };
}
