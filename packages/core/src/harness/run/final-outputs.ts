// Reads the result of a run from its final message. A message whose JSON is the declared outputs ends a run
// like a `return` call.
import { isObject, type JsonObject, type Outcome, parseJson } from '../../base/index.ts';
import type { Directive } from '../../items/index.ts';
import { checkOutputs } from '../../kernel/index.ts';

/** Longest text that is searched for outputs. A longer text is prose or a file. */
const MAX_TEXT = 1024 * 1024;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;

/** Returns the contents of all fenced blocks in linear time. A block that is not closed runs to the end. */
function fencedBlocks(text: string): string[] {
  const blocks: string[] = [];
  let open: { mark: string; lines: string[] } | undefined;
  for (const line of text.split(/\r?\n/)) {
    const [, mark = '', info = ''] = FENCE.exec(line) ?? [];
    if (!open) {
      if (mark !== '') open = { mark, lines: [] };
    } else if (mark.startsWith(open.mark) && info.trim() === '') {
      blocks.push(open.lines.join('\n'));
      open = undefined;
    } else open.lines.push(line);
  }
  if (open) blocks.push(open.lines.join('\n'));
  return blocks;
}

function objectIn(text: string): JsonObject | undefined {
  if (!text.trimStart().startsWith('{')) return undefined;
  const parsed = parseJson(text);
  return parsed.ok && isObject(parsed.output) ? parsed.output : undefined;
}

/** Returns the only object that a message is or contains. `undefined`: it contains none, or more than one. */
function onlyObject(text: string): JsonObject | undefined {
  if (text.length > MAX_TEXT) return undefined;
  const bare = objectIn(text);
  if (bare) return bare;
  const objects = fencedBlocks(text)
    .map(objectIn)
    .filter((object) => object !== undefined);
  return objects.length === 1 ? objects[0] : undefined;
}

/**
 * Returns the outputs in a final message. `undefined`: it has no JSON object, or none with a declared field. Fails
 * if the object has a declared field and does not fit the outputs.
 */
export function finalOutputs(
  directive: Directive,
  text: string,
  resolve: (found: JsonObject) => JsonObject = (found) => found,
): Outcome<JsonObject> | undefined {
  if (directive.outputs.length === 0) return undefined;
  const value = onlyObject(text);
  if (!value || !directive.outputs.some(({ name }) => Object.hasOwn(value, name))) return undefined;
  return checkOutputs(directive, resolve(value));
}

/** Returns the names of outputs that a run must return. */
export const missingOutputs = (directive: Directive): string[] =>
  directive.outputs.filter(({ required }) => required).map(({ name }) => name);

/** Returns the text of a result: the last text of the run, or the directive's text for its status. */
export function resultText(
  directive: Pick<Directive, 'success' | 'failure'>,
  hasSucceeded: boolean,
  text: string | undefined,
): string {
  if (text !== undefined && text.trim() !== '') return text;
  return (hasSucceeded ? directive.success : directive.failure) ?? '';
}
