// What a hook's directive answered, read out of its outputs. Anything that is not clearly one of the
// actions is a failure of the hook, and that ends the run: a hook nobody understands decides nothing.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  nearest,
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
  const near = nearest(text, ACTIONS);
  return fail('hook_failed', `the hook returned the unknown action \`${text}\``, {
    hint: near ? `did you mean \`${near}\`` : `there are ${ACTIONS.join(', ')}`,
  });
}

export function parseVerdict(outputs: Json): Outcome<HookVerdict> {
  const given = outputAt(outputs, 'action');
  const action = readAction(given);
  if (!action.ok) return action;
  const context = outputAt(outputs, 'context') ?? {};
  const { model, limits, ...rest } = isObject(context) ? context : ({ context } as JsonObject);
  if ((model ?? null) !== null && (typeof model !== 'string' || model === '')) {
    const message = 'the hook’s `context.model` must be `fallback`, a tier or a model id';
    return fail('hook_failed', message);
  }
  if ((limits ?? null) !== null && !isObject(limits)) {
    const message = 'the hook’s `context.limits` must be an object such as {"turns": 20}';
    return fail('hook_failed', message);
  }
  const wanted = model ?? (given === WITH_FALLBACK ? 'fallback' : undefined);
  const error = outputAt(outputs, 'error') ?? null;
  return ok({
    action: action.output,
    ...(typeof wanted === 'string' && { model: wanted }),
    ...(isObject(limits) && { limits }),
    ...(error !== null && error !== '' && { error: plainText(error) }),
    notes: rest,
  });
}
