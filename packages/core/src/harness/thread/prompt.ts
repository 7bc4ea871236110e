// The words the harness itself puts into a conversation. Each is one line that starts with its sender
// in brackets, so that a reader (and the model) can tell it from what a person or a tool said.
import type { Json, JsonObject } from '../../base/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import type { WarningEvent } from '../limits/limit.ts';
import { DIRECTIVE_CALL } from './conversation.ts';

/** The project's own instructions first, then what holds in every project. */
export const systemPrompt = (agentsMd: string, universal: string): string =>
  `${agentsMd.trim()}\n\n${universal.trim()}`.trim();

/**
 * How every run begins: the user's line, and a call that the harness makes in the model's name, so that
 * the model finds its directive loaded.
 */
export function injection(
  directive: string,
  inputs: JsonObject,
): { request: string; call: ToolCallBlock } {
  return {
    request: `run directive ${directive}`,
    call: {
      type: 'tool_call',
      id: DIRECTIVE_CALL,
      name: 'execute',
      arguments: {
        item_type: 'directive',
        item_id: directive,
        action: 'run',
        ...(Object.keys(inputs).length > 0 && { parameters: inputs }),
      },
    },
  };
}

/** How a model reads what strangers wrote where that is kept from it; only what it may call is named. */
export function referencesTold(tools: readonly { readonly id: string }[]): JsonObject {
  const readers = tools.map(({ id }) => id).filter((id) => id.startsWith('read/'));
  return {
    references: [
      'What strangers wrote is not shown to you: {"reference":"$r3",…} stands for it, with its type and size.',
      'Write "$r3" as the value of a parameter and the tool is given the thing itself; "$r3.field" and "$r3[0]" are parts of it; inside of a longer text its text is put in.',
      'You can do the same in your outputs and in your last message.',
      ...(readers.length > 0 ? [`These tools read it for you: ${readers.join(', ')}.`] : []),
    ],
  };
}

const MAX_LINE = 2000;

/** One line, whatever is in it, and not a long one. */
function oneLine(text: string): string {
  const line = text.replace(/[\s\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
  return line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
}

export function warningLine({ limit, percent, current, max }: WarningEvent): string {
  const unit = limit === 'duration' ? ' seconds' : '';
  return `[limits] ${percent} % of \`${limit}\` reached (${current} of ${max}${unit}). Finish what matters most and return what you have.`;
}

/** Stands in the request of the last turn and nowhere else: the thread's journal and its conversation have none. */
export const lastTurnLine = (turns: number): string =>
  `[limits] This is your last turn (${turns} of ${turns}): you will not see the results of calls. Return what you have.`;

/** What a hook had to say besides its action. Undefined when that was nothing. */
export function notesLine(hook: string, notes: JsonObject): string | undefined {
  if (Object.keys(notes).length === 0) return undefined;
  return oneLine(`[hook ${hook}] ${JSON.stringify(notes)}`);
}

/** Instead of the result of a step that was not done. */
export const skippedResult = (step: string, reason?: string): JsonObject => ({
  status: 'skipped',
  step,
  message: `\`${step}\` was not done${reason ? `: ${oneLine(reason)}` : ''}; go on without it`,
});

/** Instead of the result of a step that was done. */
export const withheldResult = (step: string): JsonObject => ({
  status: 'withheld',
  step,
  message: `\`${step}\` was done, its result is not shown`,
});

/** Instead of the error of a step that a hook counts as done. */
export const countedResult = (step: string): JsonObject => ({
  status: 'done',
  step,
  message: `\`${step}\` counts as done`,
});

const SHOWN = 500;

/** The `reason` in the result of a call that was never made, because its arguments are no JSON object. */
export const BAD_ARGUMENTS = 'bad_arguments';

/** A call whose arguments are no JSON object: not run, so that the model can repair it. */
export function badArgumentsResult(name: string, text: string, problem: string): Json {
  const received = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  const told = oneLine(problem);
  const message = `the arguments of \`${name}\` cannot be read: ${told}; nothing was run, send the call again`;
  const detail = { reason: BAD_ARGUMENTS, problem: told, received, message };
  return { ok: false, error: { code: 'invalid_input', detail } };
}

/** After a stream that broke off: which calls were never run. */
export const discardedLine = (names: readonly string[]): string =>
  oneLine(
    `[stream] the reply broke off; not run because incomplete: ${names.join(', ') || 'a call'}. Send it again if it is still needed.`,
  );
