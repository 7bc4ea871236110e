// Writes output for people and programs: data goes to stdout, everything else to stderr. Colour is only
// for terminals, and control characters in untrusted text are made visible.
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

/** Signals that end a command which waits for a person. */
const LEAVING = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Runs `work` with the handler on each signal and removes the handlers afterwards. */
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

/** Asks a yes-or-no question. Returns undefined without a terminal, or if the person cancels. */
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

/** Asks a yes-or-no question. Everything except a clear yes counts as no. */
export const confirm = async (terminal: Terminal, question: string): Promise<boolean> =>
  (await yesOrNo(terminal, question)) === true;

/**
 * Reads a line without showing it. Returns undefined without a terminal, or if the person cancels.
 */
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

/** Reads a line. Returns undefined if the person cancels. */
export const askLine = (terminal: Terminal, prompt: string): Promise<string | undefined> =>
  terminal.alone(async (keyboard) => {
    terminal.ask(prompt);
    return await keyboard.line();
  });

/**
 * Aborts the work, and the processes that it started, on Ctrl-C and SIGTERM. `waits`: the work
 * waits for a person at this terminal, so SIGHUP aborts it too. Otherwise SIGHUP keeps the setting
 * of `nohup`.
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

/** A view that can stop drawing while a person answers a question. */
export interface Drawn {
  /** Shows all pending events, then stops drawing. */
  pause(): Promise<void> | void;
  resume(): void;
}

export type Terminal = ReturnType<typeof createTerminal>;

/**
 * Control characters except tab and line feed, and characters that change the writing direction.
 */
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Masks secrets and makes control characters visible, so that untrusted text cannot control the terminal. */
export const visible = (text: string): string =>
  masked(text).replace(HIDDEN, (char) => {
    return char === '\r' ? '' : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });

/** Returns a value as one line: a text unchanged, any other value as JSON. */
export const valueText = (value: unknown): string =>
  visible(typeof value === 'string' ? value : JSON.stringify(value));

/** Commands that help with a fault. The messages of core name no commands. */
const COMMANDS: Readonly<Record<string, (detail: Fault['detail']) => string>> = {
  model_unavailable: ({ variable }) =>
    variable === undefined ? '' : 'choose another model with `--model`, or use `--replies FILE`',
  needs_input: ({ approval }) =>
    approval === undefined
      ? ''
      : `answer with \`km approvals approve|deny ${plainText(approval)}\``,
  // If something is only missing for this run, the file has no mistake to list.
  invalid_item: ({ missing }) => (missing === undefined ? '`km check` lists all problems' : ''),
  permission_denied({ unsigned, file, missing }) {
    if (missing === 'token') return 'create one with `km web token add`';
    return unsigned === undefined ? '' : `\`km sign ${plainText(file) || 'FILE'}\``;
  },
  conflict: ({ items }) =>
    items === undefined ? '' : 'use the items of this folder with `--items today`',
  project_unnamed: () => 'create an id with `km init --id`',
  store_failed: ({ known }) => (known === undefined ? '' : '`km store migrate`'),
  store_foreign: ({ place }) =>
    place === undefined ? '' : '`km keys export` there, and `km keys import FILE` here',
  mcp_connection_failed: ({ login }) =>
    login === undefined ? '' : `\`km mcp sync ${plainText(login)}\``,
  mcp_definition_changed: ({ server }) => `\`km mcp sync ${plainText(server) || 'NAME'}\``,
};

/** Returns lines for people: the message, then the remedies that the message does not contain. */
function faultLines(fault: Fault, paint: Paint): string[] {
  const { code, detail } = fault;
  const lines = [
    `${paint('red', 'error')}: ${visible(detail.message)} ${paint('dim', `[${code}]`)}`,
  ];
  const command = Object.hasOwn(COMMANDS, code) ? COMMANDS[code]?.(detail) : undefined;
  const remedies = [detail.hint, detail.remediation]
    .filter((hint) => typeof hint === 'string')
    .filter((hint) => !detail.message.includes(hint));
  const hints = command === undefined || command === '' ? remedies : [...remedies, command];
  for (const hint of hints) lines.push(`  ${paint('blue', 'hint')}: ${visible(hint)}`);
  const stderrLines = typeof detail.said === 'string' ? detail.said.split('\n') : [];
  // Lines of stderr that the message does not contain yet, for a program that did not start.
  for (const line of stderrLines.filter((one) => !detail.message.includes(one.trim()))) {
    lines.push(paint('dim', `  | ${visible(line)}`));
  }
  if (Array.isArray(detail.chain))
    lines.push(paint('dim', `  chain: ${detail.chain.map(plainText).join(' -> ')}`));
  return lines;
}

/** True if output is coloured. `FORCE_COLOR` decides first (`0` and `false` mean no), then `NO_COLOR`. */
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
      for (const one of paused) one.resume();
    }
  }

  const note = (line: string): void => toErr(`${line}\n`);
  // A terminal gets untrusted text with visible control characters. A file or a pipe gets it
  // unchanged.
  const foreign = (isTerminal: boolean) => (isTerminal ? visible : String);
  const [shownOut, shownErr] = [foreign(stdout.isTTY), foreign(stderr.isTTY)];
  // Masked values are escaped as JSON too, so that the document stays valid.
  const out = (line: string): void => toOut(`${json ? shownOut(masked(line)) : line}\n`);
  return {
    json,
    /** True if a person can see a question and answer it. */
    isInteractive: stdout.isTTY && stderr.isTTY && stdin.isTTY && !json,
    /** True if views can be drawn on standard error. */
    isLive: stderr.isTTY && !isDumb && !json,
    cwd: process.cwd(),
    env,
    out,
    note,
    write: (text: string): void => toErr(text),
    print: (stream: 'out' | 'err', text: string): void =>
      stream === 'out' ? toOut(shownOut(text)) : toErr(shownErr(text)),
    /** Views that must stop while a question is open. */
    drawn,
    /** Asks one question at a time. Views and other output wait until the answer. */
    alone<T>(
      work: (keyboard: Keyboard) => Promise<T>,
      options: { isEchoed?: boolean } = {},
    ): Promise<T> {
      const mine = before.then(() => askAlone(work, options));
      before = mine.catch(() => undefined);
      return mine;
    },
    ask: (text: string): void => output.err(text),
    /** Aborts when the reader of stdout has closed its end, so that a display-only command can end. */
    closed: output.closed,
    columns: (): number => stderr.columns || 80,
    rows: (): number => stderr.rows || 24,
    paint,
    /** Prints an outcome as text or JSON and returns the exit code. */
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
