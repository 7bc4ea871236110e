// Answers `help`. Guidance is knowledge in the bundle (category `help`), found by full text. Signals go
// to a port, because the kernel has no threads. Without a port they are not delivered.
import { didYouMean, fail, isObject, type Json, type Outcome, ok } from '../../base/index.ts';
import type { Library } from '../../items/index.ts';
import type { Caller, HelpRequest } from '../call.ts';
import { isFromStranger, type UsesItem } from '../rights/item-marks.ts';

const ACTIONS = ['guidance', 'stuck', 'escalate', 'checkpoint', 'compact'];

/** Receives `stuck`, `escalate`, `checkpoint` and `compact` of a running thread. */
export type SignalPort = (
  signal: { action: string; reason: string } & Pick<HelpRequest, 'capability' | 'scope' | 'limits'>,
  caller: Caller,
) => Promise<Outcome<Json>>;

function guidance(library: Library, topic: string, uses: UsesItem): Outcome<Json> {
  const topics = library
    .all('knowledge')
    .filter((item) => item.category === 'help')
    .map((item) => ({ name: item.id.split('/').at(-1) ?? item.id, item }));
  // A list of topics is part of every answer, so it contains no untrusted names.
  const names = topics
    .filter(({ item }) => !isFromStranger(item))
    .map(({ name }) => name)
    .sort();
  const exact = topics.find(({ name }) => name === topic);
  if (exact) uses(exact.item);
  if (exact) return ok({ topic, text: exact.item.text.trim(), topics: names });
  const results = library.search({ text: topic, kind: 'knowledge', limit: 3 });
  const [best, ...others] = results.hits.map(({ item }) => item);
  if (!best) {
    const hint = didYouMean(topic, names) ?? `use one of: ${names.join(', ')}`;
    return fail('not_found', `no guidance on \`${topic}\`; ${hint}`, { topics: names });
  }
  uses(best);
  return ok({
    topic: best.id,
    text: (best.kind === 'knowledge' ? best.text : best.body).trim(),
    see_also: others.filter((item) => !isFromStranger(item)).map(({ id }) => id),
    topics: names,
  });
}

export async function giveHelp(
  library: Library,
  request: HelpRequest,
  caller: Caller,
  signal: SignalPort | undefined,
  uses: UsesItem,
): Promise<Outcome<Json>> {
  const {
    action = 'guidance',
    topic = 'overview',
    reason = '',
    capability,
    scope,
    limits,
  } = request;
  if ([action, topic, reason, capability ?? ''].some((text) => typeof text !== 'string')) {
    return fail('invalid_input', '`action`, `topic`, `reason` and `capability` must be texts');
  }
  if (scope !== undefined && !isObject(scope)) {
    return fail('invalid_input', '`scope` must be an object, such as {"path": "out/report.md"}');
  }
  if (limits !== undefined && !isObject(limits)) {
    return fail('invalid_input', '`limits` must be an object, such as {"turns": 20}');
  }
  if (!ACTIONS.includes(action)) {
    const hint = didYouMean(action, ACTIONS) ?? `use one of: ${ACTIONS.join(', ')}`;
    return fail('invalid_input', `unknown help action \`${action}\`; ${hint}`);
  }
  if (action === 'guidance') return guidance(library, topic, uses);
  if (signal) {
    const right = { ...(capability !== undefined && { capability }), ...(scope && { scope }) };
    return await signal({ action, reason, ...right, ...(limits && { limits }) }, caller);
  }
  return ok({
    action,
    delivered: false,
    message: 'a signal needs a thread, but no thread makes this call; ask the person directly',
  });
}
