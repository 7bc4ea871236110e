// A model asked by a script: a turn of the thread like any other, reserved, charged and recorded, with a
// conversation of its own and no tools.
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import { makeValue, mergeDescriptors, type Value } from '../flow/index.ts';
import { createConversation } from './conversation.ts';
import type { Ending } from './loop.ts';
import { modelFor, priceFor } from './prepare-thread.ts';
import type { ThreadContext } from './thread-context.ts';
import { runTurn } from './thread-turn.ts';

type Own = Pick<
  ThreadContext,
  'conversation' | 'system' | 'model' | 'price' | 'ratio' | 'triedModels' | 'tools' | 'switchModel'
>;

/** The same thread in another conversation: what is set besides that is set on the thread itself. */
function faceOf(thread: ThreadContext, own: Own): ThreadContext {
  return new Proxy(thread, {
    get: (target, name) => Reflect.get(Object.hasOwn(own, name) ? own : target, name) as unknown,
    set: (target, name, value) => Reflect.set(Object.hasOwn(own, name) ? own : target, name, value),
  });
}

/** The tier that was asked for, or the directive's, or the general one. */
function choose(
  { world, directive, limits }: ThreadContext,
  wanted: string | undefined,
): Outcome<Pick<Own, 'model' | 'price'>> {
  const { model_id, tier } = directive.model ?? {};
  const model = modelFor(world, wanted ?? model_id ?? tier ?? 'general');
  if (!model.ok) return model;
  const price = priceFor(world, model.output.model, limits);
  return price.ok ? ok({ model: model.output, price: price.output }) : price;
}

export interface ModelQuestion {
  prompt: Value;
  tier: string | undefined;
}

/**
 * `between` is asked when the request was called off: whoever steers the thread is heard first. What it
 * answers ends the question.
 */
export async function askModel(
  thread: ThreadContext,
  { prompt, tier }: ModelQuestion,
  between: () => Promise<Ending | undefined>,
): Promise<Outcome<Value>> {
  const chosen = choose(thread, tier);
  if (!chosen.ok) return chosen;
  const conversation = createConversation();
  conversation.user(prompt.text, prompt.meta.descriptor);
  const own: Own = {
    ...chosen.output,
    conversation,
    system: '',
    ratio: undefined,
    triedModels: new Set(),
    tools: [],
    switchModel(wanted) {
      const name = wanted === 'fallback' ? own.model.fallback : wanted;
      if (name === undefined) return fail('model_unavailable', 'there is no fallback model');
      const other = choose(thread, name);
      if (other.ok) Object.assign(own, other.output);
      return other.ok ? ok(null) : other;
    },
  };
  const face = faceOf(thread, own);
  for (;;) {
    const turn = await runTurn(face);
    if ('reply' in turn) {
      const { content } = turn.reply;
      const text = content.map((block) => (block.type === 'text' ? block.text : '')).join('');
      const descriptor = mergeDescriptors(conversation.ownMarks(), prompt.meta.descriptor);
      return ok(makeValue(text, { descriptor }));
    }
    if ('ending' in turn) return failed(turn.ending);
    const stopped = await between();
    if (stopped) return failed(stopped);
  }
}

const failed = ({ code = 'cancelled', reason }: Ending): Failure => fail(code, reason);
