// Reads the result of a run from its final message. A message whose JSON is the declared outputs ends a run
// like a `return` call.
import { isObject, type JsonObject, type Outcome, parseJson } from '../../base/index.ts';
import type { Directive } from '../../items/index.ts';
import { checkOutputs } from '../../kernel/index.ts';

/** Longer texts are prose or a file; looking for outputs in them is not worth it. */
const MAX_TEXT = 1024 * 1024;

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)$/;

/** The contents of all fenced blocks; one that is not closed runs to the end. Linear. */
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

/** The one object that a message is or holds; two would leave a choice, so there is none then. */
function onlyObject(text: string): JsonObject | undefined {
  if (text.length > MAX_TEXT) return undefined;
  const bare = objectIn(text);
  if (bare) return bare;
  const found = fencedBlocks(text)
    .map(objectIn)
    .filter((object) => object !== undefined);
  return found.length === 1 ? found[0] : undefined;
}

/**
 * The outputs in a final message. Undefined when it holds none: no JSON object, or one without any
 * declared field. A failure when it was meant as the outputs and does not fit them.
 */
export function finalOutputs(
  directive: Directive,
  text: string,
  resolve: (found: JsonObject) => JsonObject = (found) => found,
): Outcome<JsonObject> | undefined {
  if (directive.outputs.length === 0) return undefined;
  const found = onlyObject(text);
  if (!found || !directive.outputs.some(({ name }) => Object.hasOwn(found, name))) return undefined;
  return checkOutputs(directive, resolve(found));
}

/** Declared outputs that a run must give. */
export const missingOutputs = (directive: Directive): string[] =>
  directive.outputs.filter(({ required }) => required).map(({ name }) => name);

/** The result's text: what the run said, or what the directive says for it. */
export function resultText(
  directive: Pick<Directive, 'success' | 'failure'>,
  hasSucceeded: boolean,
  text: string | undefined,
): string {
  if (text !== undefined && text.trim() !== '') return text;
  return (hasSucceeded ? directive.success : directive.failure) ?? '';
}
