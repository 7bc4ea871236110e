// Thread ids name folders and appear in commands, so they are plain by construction.
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';

const VALID = /^[A-Za-z0-9_-]{1,80}$/;

/** The id as it is, or `invalid_input` with a `suggestion`. */
export function parseThreadId(text: string): Outcome<string> {
  if (VALID.test(text)) return ok(text);
  const suggestion =
    text
      .replace(/[^A-Za-z0-9_-]+/g, '_')
      .replace(/^_+|_+$/g, '')
      .slice(0, 80) || 'thread';
  const shown = text.length > 100 ? `${text.slice(0, 100)}…` : text;
  return fail(
    'invalid_input',
    `thread id \`${shown}\` may hold only letters, digits, _ and -, 1 to 80 of them; try \`${suggestion}\``,
    { suggestion },
  );
}

export const noThread = (id: string): Failure =>
  fail('not_found', `there is no thread \`${id}\``, { thread: id });
