// What a hook's directive answered, read out of its outputs. Anything that is not clearly one of the
// actions is a failure of the hook, and that ends the run: a hook nobody understands decides nothing.
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
  /** The new ceilings that `continue` names at a limit. */
  readonly limits?: JsonObject;
  /** Of a `retry` that is a new attempt: what it begins with instead. */
  readonly inputs?: JsonObject;
  /** Becomes the reason. */
  readonly error?: string;
  /** Whatever else the hook said: recorded, and told to the model as one line. */
  readonly notes: JsonObject;
}

/** Short for `retry` with `context.model: fallback`. */
const WITH_FALLBACK = 'retry_with_fallback';

/** A declared output, or one that was kept under `extra` because nobody declared it. */
const outputAt = (outputs: Json, name: string): Json | undefined =>
  getOwn(outputs, name) ?? getOwn(getOwn(outputs, 'extra'), name);

function readAction(given: Json | undefined): Outcome<Action> {
  const action = given === WITH_FALLBACK ? 'retry' : ACTIONS.find((each) => each === given);
  if (action) return ok(action);
  if (given === undefined || given === null || given === '') {
    return fail('hook_failed', 'the hook returned no `action`', {
      hint: `return one of ${ACTIONS.join(', ')}`,
    });
  }
  const text = plainText(given).slice(0, 60);
  return fail('hook_failed', `the hook returned the unknown action \`${text}\``, {
    hint: didYouMean(text, ACTIONS) ?? `there are ${ACTIONS.join(', ')}`,
  });
}

/** What was there instead, short enough to be read. */
const given = (value: Json): string => plainText(value).slice(0, 60);

/** A part of `context` that must be an object, when it is there. */
function objectAt(context: JsonObject, name: string, example: string): Outcome<JsonObject | null> {
  const value = context[name] ?? null;
  if (value === null || isObject(value)) return ok(value);
  const message = `the hook’s \`context.${name}\` is \`${given(value)}\`; it must be an object such as ${example}`;
  return fail('hook_failed', message);
}

function modelIn({ model = null }: JsonObject): Outcome<string | null> {
  if (model === null || (typeof model === 'string' && model !== '')) return ok(model);
  const message = `the hook’s \`context.model\` is \`${given(model)}\`; it must be \`fallback\`, a tier or a model id`;
  return fail('hook_failed', message);
}

export function parseVerdict(outputs: Json): Outcome<HookVerdict> {
  const word = outputAt(outputs, 'action');
  const action = readAction(word);
  if (!action.ok) return action;
  const said = outputAt(outputs, 'context') ?? {};
  const context = isObject(said) ? said : { context: said };
  const model = modelIn(context);
  if (!model.ok) return model;
  const limits = objectAt(context, 'limits', '{"turns": 20}');
  if (!limits.ok) return limits;
  // Only a new attempt has inputs of its own; anywhere else it is a note like others.
  const isRetry = action.output === 'retry';
  const inputs = isRetry ? objectAt(context, 'inputs', '{"name": "value"}') : ok(null);
  if (!inputs.ok) return inputs;
  const read = new Set(['model', 'limits', ...(isRetry ? ['inputs'] : [])]);
  const notes = Object.entries(context).filter(([name]) => !read.has(name));
  const wanted = model.output ?? (word === WITH_FALLBACK ? 'fallback' : undefined);
  const error = outputAt(outputs, 'error') ?? null;
  return ok({
    action: action.output,
    ...(wanted !== undefined && { model: wanted }),
    ...(limits.output && { limits: limits.output }),
    ...(inputs.output && { inputs: inputs.output }),
    ...(error !== null && error !== '' && { error: plainText(error) }),
    notes: Object.fromEntries(notes),
  });
}
