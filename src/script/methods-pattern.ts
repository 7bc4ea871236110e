// Patterns run on data from anywhere. A pattern can need longer than anybody will wait, so it runs
// where the engine can be stopped.
import { type Context, createContext, Script } from 'node:vm';
import { raise } from './fault.ts';

const LIMIT_MS = 1000;
const MATCH = new Script('text.match(pattern)');

// An empty global object, made when first needed.
let room: (Context & { text?: string; pattern?: RegExp | undefined }) | undefined;

function compiled(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'g');
  } catch (error) {
    return raise('invalid_input', `\`${pattern}\` is no pattern: ${(error as Error).message}`);
  }
}

/** All matches of a pattern, in order. */
export function matchesOf(text: string, pattern: string): string[] {
  room ??= createContext(Object.create(null) as object);
  Object.assign(room, { text, pattern: compiled(pattern) });
  try {
    return [...((MATCH.runInContext(room, { timeout: LIMIT_MS }) as string[] | null) ?? [])];
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    return raise('timeout', `the pattern \`${pattern}\` took longer than ${LIMIT_MS} ms`);
  } finally {
    Object.assign(room, { text: '', pattern: undefined });
  }
}
