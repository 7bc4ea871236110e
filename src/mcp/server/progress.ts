// How far a thread is, as progress notifications of the request that waits for it. Asked for by a client
// with a progress token; told at every turn and step, and in between when nothing happens.
import type { ServerContext } from '@modelcontextprotocol/server';
import { getOwn, type Json, type JsonObject, plainText } from '../../base/index.ts';
import type { HostCall } from './host.ts';

const of = (used: Json | undefined, most: Json | undefined, unit: string): string =>
  most === undefined || most === null
    ? `${plainText(used ?? 0)} ${unit}`
    : `${plainText(used ?? 0)} of ${plainText(most)} ${unit}`;

/** A limit says who set it, too. */
const ceilingOf = (limits: Json, name: string): Json | undefined =>
  getOwn(getOwn(limits, name), 'value');

/** In words, for whoever only shows a line. */
function wordsOf({
  turn = null,
  step = '',
  status = '',
  cost = {},
  limits = {},
}: JsonObject): string {
  const used = (name: string): Json | undefined => getOwn(cost, name);
  const most = (name: string): Json | undefined => ceilingOf(limits, name);
  const currency = plainText(used('currency') ?? most('spend_currency') ?? 'USD');
  const parts = [
    plainText(status),
    `turn ${of(turn ?? used('turns'), most('turns'), '').trim()}`,
    of(used('tool_calls'), most('tool_calls'), 'steps'),
    of(used('spend'), most('spend'), currency),
  ];
  return [...parts, ...(step === '' ? [] : [plainText(step)])].join(', ');
}

/** Undefined when nobody wants to hear. Nothing is sent after `end`. */
export function progressFor({
  mcpReq,
}: Pick<ServerContext, 'mcpReq'>):
  | { port: Pick<HostCall, 'onProgress'>; end(): Promise<void> }
  | undefined {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let [turn, since, isOver] = [0, 0, false];
  let sent: Promise<unknown> = Promise.resolve();
  const onProgress = (state: JsonObject): void => {
    if (isOver) return;
    const now = Number(state.turn ?? getOwn(state.cost ?? {}, 'turns') ?? 0);
    since = now > turn ? 0 : since + 1;
    turn = Math.max(turn, now);
    const most = ceilingOf(state.limits ?? {}, 'turns');
    const params = {
      progressToken,
      // What the protocol wants of it: more every time. Between two turns it comes ever nearer to the next.
      progress: turn + since / (since + 1),
      ...(typeof most === 'number' && most >= turn + 1 ? { total: most } : {}),
      message: wordsOf(state),
    };
    sent = mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined);
  };
  return {
    port: { onProgress },
    async end() {
      isOver = true;
      await sent;
    },
  };
}
