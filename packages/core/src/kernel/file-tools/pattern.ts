// Matches the pattern of `grep`. The pattern is untrusted: it is plain text, or an expression for RE2, which
// matches in time linear in the line. A large pattern can still need long for a long line, so the search
// checks the time and stops if it is too slow.
import { type Clock, fail, type Outcome, ok, systemClock } from '../../base/index.ts';

export interface LineMatcher {
  /** Undefined: the search took too long and was stopped. */
  matches(line: string): boolean | undefined;
  /** Returns false only if no line of this text can match. */
  mayMatch(text: string): boolean;
}

const MAX_PATTERN = 1000;
/** Maximum number of instructions of a compiled pattern. Each may have to be visited for each character. */
const MAX_PROGRAM = 500;
/** Number of characters after which the time is checked, also within a line. */
const LOOK_AFTER = 4096;
/** A search may take the grace time plus the time for its characters. Ordinary searches are far faster. */
const GRACE_MS = 1000;
const CHARACTERS_PER_MS = 2000;

const contains =
  (pattern: string) =>
  (text: string): boolean =>
    text.includes(pattern);

function boundedMatcher(test: (line: string) => boolean, clock: Clock): LineMatcher {
  const startedAt = clock.monotonic();
  let [characters, lookAt] = [0, LOOK_AFTER];
  const isTooSlow = (): boolean => {
    lookAt = characters + LOOK_AFTER;
    return clock.monotonic() - startedAt > GRACE_MS + characters / CHARACTERS_PER_MS;
  };
  /** Matches ever longer prefixes first: the time for one predicts the time for the next. */
  const isTooLong = (line: string): boolean => {
    for (let size = LOOK_AFTER; size < line.length; size *= 2) {
      test(line.slice(0, size));
      if (isTooSlow()) return true;
    }
    return false;
  };
  return {
    mayMatch: () => true,
    matches(line) {
      if (characters >= lookAt && isTooSlow()) return undefined;
      if (line.length > LOOK_AFTER && isTooLong(line)) return undefined;
      characters += line.length + 1;
      return test(line);
    },
  };
}

/** Loads RE2 when the first expression is compiled. */
async function compile(
  pattern: string,
  { regex, ignoreCase }: { regex: boolean; ignoreCase: boolean },
): Promise<Outcome<(line: string) => boolean>> {
  const { RE2JS, RE2JSSyntaxException } = await import('re2js');
  const quotedPattern = `pattern \`${pattern.slice(0, 100)}\``;
  try {
    const source = regex ? RE2JS.translateRegExp(pattern) : RE2JS.quote(pattern);
    const compiled = RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
    if (compiled.programSize() <= MAX_PROGRAM) return ok((line) => compiled.test(line));
  } catch (error) {
    if (!(error instanceof RE2JSSyntaxException)) throw error;
    const words = error.getDescription();
    if (!/too large|repeat count/.test(words)) {
      return fail('invalid_input', `${quotedPattern} is not valid: ${words}`, {
        hint: 'the syntax is that of RE2: no look-around and no back references',
      });
    }
  }
  return fail('invalid_input', `${quotedPattern} is too large; simplify it`);
}

export async function createMatcher(
  pattern: string,
  kind: { regex: boolean; ignoreCase: boolean },
  clock: Clock = systemClock,
): Promise<Outcome<LineMatcher>> {
  if (pattern === '') return fail('invalid_input', 'the pattern is empty');
  if (pattern.length > MAX_PATTERN) {
    return fail('invalid_input', `the pattern is longer than ${MAX_PATTERN} characters`);
  }
  if (!kind.regex && !kind.ignoreCase) {
    return ok({ matches: contains(pattern), mayMatch: contains(pattern) });
  }
  const test = await compile(pattern, kind);
  return test.ok ? ok(boundedMatcher(test.output, clock)) : test;
}
