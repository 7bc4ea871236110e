// Writes the texts that the harness itself adds to a conversation. Each is one line that starts with its sender in
// brackets, so that a person and the model can distinguish it from the texts of people and tools.
import type { Json, JsonObject } from '../../base/index.ts';
import type { AgentView } from '../../items/index.ts';
import type { ToolCallBlock } from '../../llm/index.ts';
import type { WarningEvent } from '../limits/limit.ts';
import { DIRECTIVE_CALL } from './conversation.ts';

/** Returns the project's own instructions, and after them those that hold in every project. */
export const systemPrompt = (agentsMd: string, universal: string): string =>
  `${agentsMd.trim()}\n\n${universal.trim()}`.trim();

/** Returns the system text of a program's agent. `tools`: present if untrusted data are references. */
export const agentPrompt = (
  { system }: Pick<AgentView, 'system'>,
  tools?: Parameters<typeof toolReferences>[0],
): string => [system, ...(tools ? toolReferences(tools).references : [])].join('\n');

/**
 * Returns the beginning of every run: the user's line, and a call that the harness makes in the model's name, so
 * that the model finds its directive loaded.
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

/** Explains references to a model that gets untrusted data only as references. Names the readers it can call. */
export function toolReferences(tools: readonly { readonly id: string }[]): {
  references: string[];
} {
  const readers = tools.map(({ id }) => id).filter((id) => id.startsWith('read/'));
  return {
    references: [
      'Untrusted data is not shown to you: {"reference":"$r3",…} stands for it, with its type and size.',
      'Write "$r3" as the value of a parameter and the tool gets the value; "$r3.field" and "$r3[0]" are parts of it; inside a longer text its text is inserted.',
      'You can do the same in your outputs and in your last message.',
      ...(readers.length > 0 ? [`These tools read it for you: ${readers.join(', ')}.`] : []),
    ],
  };
}

const MAX_LINE = 2000;

/** Returns the text as one line of limited length. */
function oneLine(text: string): string {
  const line = text.replace(/[\s\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
  return line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
}

export function warningLine({ limit, percent, current, max }: WarningEvent): string {
  const unit = limit === 'duration' ? ' seconds' : '';
  return `[limits] ${percent} % of \`${limit}\` reached (${current} of ${max}${unit}). Finish what matters most and return what you have.`;
}

/** Returns a line for the request of the last turn. The journal and the conversation do not contain it. */
export const lastTurnLine = (turns: number): string =>
  `[limits] This is your last turn (${turns} of ${turns}): you will not see the results of calls. Return what you have.`;

/** Returns the notes of a hook as one line, or `undefined` if there are none. */
export function notesLine(hook: string, notes: JsonObject): string | undefined {
  if (Object.keys(notes).length === 0) return undefined;
  return oneLine(`[hook ${hook}] ${JSON.stringify(notes)}`);
}

/** Returns the text in place of the result of a step that was not run. */
export const skippedResult = (step: string, reason?: string): JsonObject => ({
  status: 'skipped',
  step,
  message: `\`${step}\` was not done${reason ? `: ${oneLine(reason)}` : ''}; go on without it`,
});

/** Returns the text in place of the result of a step that was run. */
export const withheldResult = (step: string): JsonObject => ({
  status: 'withheld',
  step,
  message: `\`${step}\` was done, its result is not shown`,
});

/** Returns the text in place of the error of a step that a hook counts as done. */
export const countedResult = (step: string): JsonObject => ({
  status: 'done',
  step,
  message: `\`${step}\` counts as done`,
});

const SHOWN = 500;

/** The `reason` in the result of a call that was never made, because its arguments are not a JSON object. */
export const BAD_ARGUMENTS = 'bad_arguments';

/** Returns the result of a call whose arguments are not a JSON object. It was not run, and the model can repair it. */
export function badArgumentsResult(name: string, text: string, problem: string): Json {
  const received = text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
  const reason = oneLine(problem);
  const message = `the arguments of \`${name}\` cannot be read: ${reason}; nothing was run, send the call again`;
  const detail = { reason: BAD_ARGUMENTS, problem: reason, received, message };
  return { ok: false, error: { code: 'invalid_input', detail } };
}

/** Returns a line that lists the calls that were not run, because the reply broke off. */
export const discardedLine = (names: readonly string[]): string =>
  oneLine(
    `[stream] the reply broke off; not run because incomplete: ${names.join(', ') || 'a call'}. Send it again if it is still needed.`,
  );
