// Reads the answer of a hook from the outputs of its directive. An answer that is not clearly one of the actions
// is a failure of the hook, and that ends the run.
import {
  didYouMean,
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
} from '../../base/index.ts';

const ACTIONS = ['continue', 'retry', 'skip', 'fail', 'abort'] as const;
export type Action = (typeof ACTIONS)[number];

export interface HookVerdict {
  readonly action: Action;
  /** `fallback`, a tier or a model id, for the rest of the run. */
  readonly model?: string;
  /** New limits that `continue` requests at a limit. */
  readonly limits?: JsonObject;
  /** Inputs for a `retry` that begins a new attempt. */
  readonly inputs?: JsonObject;
  /** Reason that the run ends with. */
  readonly error?: string;
  /** Other fields of the answer. They are recorded, and the model gets them as one line. */
  readonly notes: JsonObject;
}

/** Alias of `retry` with `context.model: fallback`. */
const WITH_FALLBACK = 'retry_with_fallback';

/** Returns a declared output, or an undeclared output from `extra`. */
const outputAt = (outputs: Json, name: string): Json | undefined =>
  getOwn(outputs, name) ?? getOwn(getOwn(outputs, 'extra'), name);

function readAction(value: Json | undefined): Outcome<Action> {
  const action = value === WITH_FALLBACK ? 'retry' : ACTIONS.find((each) => each === value);
  if (action) return ok(action);
  if (value === undefined || value === null || value === '') {
    return fail('hook_failed', 'the hook returned no `action`', {
      hint: `return one of ${ACTIONS.join(', ')}`,
    });
  }
  const text = plainText(value).slice(0, 60);
  return fail('hook_failed', `the hook returned the unknown action \`${text}\``, {
    hint: didYouMean(text, ACTIONS) ?? `return one of ${ACTIONS.join(', ')}`,
  });
}

const preview = (value: Json): string => plainText(value).slice(0, 60);

/** Returns a field of `context` that must be an object, or null if it is absent. */
function objectAt(context: JsonObject, name: string, example: string): Outcome<JsonObject | null> {
  const value = context[name] ?? null;
  if (value === null || isObject(value)) return ok(value);
  const message = `the hook’s \`context.${name}\` is \`${preview(value)}\`; it must be an object such as ${example}`;
  return fail('hook_failed', message);
}

function modelIn({ model = null }: JsonObject): Outcome<string | null> {
  if (model === null || (typeof model === 'string' && model !== '')) return ok(model);
  const message = `the hook’s \`context.model\` is \`${preview(model)}\`; it must be \`fallback\`, a tier or a model id`;
  return fail('hook_failed', message);
}

export function parseVerdict(outputs: Json): Outcome<HookVerdict> {
  const word = outputAt(outputs, 'action');
  const action = readAction(word);
  if (!action.ok) return action;
  const raw = outputAt(outputs, 'context') ?? {};
  const context = isObject(raw) ? raw : { context: raw };
  const model = modelIn(context);
  if (!model.ok) return model;
  const limits = objectAt(context, 'limits', '{"turns": 20}');
  if (!limits.ok) return limits;
  // Only a new attempt has inputs of its own. In every other answer the field is a note.
  const isRetry = action.output === 'retry';
  const inputs = isRetry ? objectAt(context, 'inputs', '{"name": "value"}') : ok(null);
  if (!inputs.ok) return inputs;
  const read = new Set(['model', 'limits', ...(isRetry ? ['inputs'] : [])]);
  const notes = Object.entries(context).filter(([name]) => !read.has(name));
  const chosen = model.output ?? (word === WITH_FALLBACK ? 'fallback' : undefined);
  const error = outputAt(outputs, 'error') ?? null;
  return ok({
    action: action.output,
    ...(chosen !== undefined && { model: chosen }),
    ...(limits.output && { limits: limits.output }),
    ...(inputs.output && { inputs: inputs.output }),
    ...(error !== null && error !== '' && { error: plainText(error) }),
    notes: Object.fromEntries(notes),
  });
}
