// Sends the progress of a thread as notifications of the waiting request, if the client sent a
// progress token. A notification is sent at every turn and step, and periodically between them.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  parseJson,
  plainText,
} from '@kernmantle/core/base';
import type { ServerContext } from '@modelcontextprotocol/server';
import type { HostCall } from './host.ts';

const of = (used: Json | undefined, most: Json | undefined, unit: string): string =>
  most === undefined || most === null
    ? `${plainText(used ?? 0)} ${unit}`
    : `${plainText(used ?? 0)} of ${plainText(most)} ${unit}`;

/** Returns the value of a limit without its origin. */
const ceilingOf = (limits: Json, name: string): Json | undefined =>
  getOwn(getOwn(limits, name), 'value');

/** Returns the state as one line, for clients that show no fields. */
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

/** Returns undefined if the client sent no progress token. Nothing is sent after `end`. */
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
      // The protocol requires increasing values. Between two turns the value approaches the next
      // turn.
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

/** Maximum length of a printed line. It becomes a log message, or progress if it is JSON with `progress`. */
const MAX_LINE = 16_384;
const MAX_LINES = 5000;

function progressIn(line: string): JsonObject | undefined {
  if (!line.startsWith('{')) return undefined;
  const parsed = parseJson(line);
  const value = parsed.ok && isObject(parsed.output) ? parsed.output : undefined;
  return typeof value?.progress === 'number' ? value : undefined;
}

export function createOutputLines({ mcpReq }: ServerContext, logger: string) {
  let rest = '';
  let count = 0;
  // Messages are sent in order and before the answer.
  let sent: Promise<unknown> = Promise.resolve();
  const send = (work: () => Promise<void>): void => {
    // A client that has disconnected does not need the message.
    sent = sent.then(work).catch(() => undefined);
  };

  function progress(fields: JsonObject): void {
    const progressToken = mcpReq._meta?.progressToken;
    if (progressToken === undefined) return;
    const [total, message] = [getOwn(fields, 'total'), getOwn(fields, 'message')];
    const params = {
      progressToken,
      progress: fields.progress,
      ...(typeof total === 'number' && { total }),
      ...(typeof message === 'string' && { message }),
    };
    send(() => mcpReq.notify({ method: 'notifications/progress', params }));
  }

  function line(text: string): void {
    if (text.trim() === '') return;
    count += 1;
    if (count > MAX_LINES) return;
    const fields = progressIn(text);
    if (fields) return progress(fields);
    const isLast = count === MAX_LINES;
    const data = isLast ? 'further output is not forwarded' : text.slice(0, MAX_LINE);
    send(() => mcpReq.log(isLast ? 'warning' : 'info', data, logger));
  }

  return {
    /** Receives output of the process. Never throws. */
    onOutput(text: string): void {
      const lines = `${rest}${text}`.split('\n');
      rest = (lines.pop() ?? '').slice(0, MAX_LINE);
      for (const one of lines) line(one.replace(/\r$/, ''));
    },
    /** Resolves when all output has been sent. */
    async end(): Promise<void> {
      line(rest);
      rest = '';
      await sent;
    },
  };
}
