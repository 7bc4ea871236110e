// What commands that serve something have in common: a port, and an end.
import { fail, type Outcome, ok, onOneLine } from '@kernmantle/core/base';
import { asText, type CommandCall } from '../command.ts';
import { visible } from '../terminal/terminal.ts';

const NOTES = 20;
const NOTES_MS = 60_000;
/** Maximum of all lines, so that a client which sends bad messages for days fills no log. */
const MAX_NOTES = 200;

/** Prints what clients do wrong: one line each, at most 20 in a minute and 200 in all. */
export function quietly(note: (line: string) => void, name: string): (error: Error) => void {
  let [since, count, all] = [performance.now(), 0, 0];
  return ({ message }) => {
    if (performance.now() - since > NOTES_MS) [since, count] = [performance.now(), 0];
    if (all === MAX_NOTES || count === NOTES) return;
    count += 1;
    all += 1;
    note(`${name}: ${visible(onOneLine(message.slice(0, 300)))}`);
    if (all === MAX_NOTES) note(`${name}: more of this is not printed`);
    else if (count === NOTES) note(`${name}: more of this is not printed for a minute`);
  };
}

/** `--port`; undefined when it was not given. */
export function portOf(options: CommandCall['options']): Outcome<number | undefined> {
  const text = asText(options.port);
  if (text === undefined) return ok(undefined);
  return /^\d{1,5}$/.test(text) && Number(text) < 65_536
    ? ok(Number(text))
    : fail('usage', `\`--port\` must be a number below 65536, not \`${text}\``);
}

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** What does not end by itself then is ended: a timer of somebody else does not keep a server alive. */
const LAST_MS = 5000;

export function leaveSoon(): void {
  setTimeout(() => process.exit(), LAST_MS).unref();
}
