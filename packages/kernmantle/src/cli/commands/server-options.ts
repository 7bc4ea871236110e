// Handles the port, the log and the end of all commands that start a server.
import { fail, type Outcome, ok, onOneLine } from '@kernmantle/core/base';
import { asText, type CommandCall } from '../command.ts';
import { visible } from '../terminal/terminal.ts';

const NOTES = 20;
const NOTES_MS = 60_000;
/** Maximum number of lines in total, so that a client with bad messages cannot fill the log. */
const MAX_NOTES = 200;

/** Returns a printer of client errors: at most 20 lines per minute and 200 in total. */
export function createErrorPrinter(
  note: (line: string) => void,
  name: string,
): (error: Error) => void {
  let [since, count, all] = [performance.now(), 0, 0];
  return ({ message }) => {
    if (performance.now() - since > NOTES_MS) [since, count] = [performance.now(), 0];
    if (all === MAX_NOTES || count === NOTES) return;
    count += 1;
    all += 1;
    note(`${name}: ${visible(onOneLine(message.slice(0, 300)))}`);
    if (all === MAX_NOTES) note(`${name}: further messages are not printed`);
    else if (count === NOTES) note(`${name}: further messages are not printed for a minute`);
  };
}

/** Reads `--port`. Undefined if the option is absent. */
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

/** The process is ended after this time, even if a timer of other code keeps it alive. */
const LAST_MS = 5000;

export function exitWithin(): void {
  setTimeout(() => process.exit(), LAST_MS).unref();
}
