// HTTP/1.1 for event streams: one exchange over a line of our own, which is kept for the next one
// when everything went well. Other requests go through `node:http`.
import { setTimeout as sleep } from 'node:timers/promises';
import { type Failure, fail, type Outcome, ok } from '../base/index.ts';
import { hostOf } from './http-address.ts';
import { type Answer, networkFault } from './http-connect.ts';
import type { Send } from './http-exchange.ts';
import { framingOf, type Head, isPersistent, keptFor, parseHead } from './http-head.ts';
import { type Line, type LineUser, openLine } from './http-line.ts';
import type { LinePool } from './http-pool.ts';
import type { WireRequest } from './http-request.ts';
import type { Watch } from './http-watch.ts';
import { createWireBody } from './http-wire-body.ts';

const MAX_HEAD = 64 * 1024;
const HEAD_END = '\r\n\r\n';

/** The head, and the bytes behind it; a text says what is wrong; undefined: there is more to come. */
type HeadRead = { head: Head; rest: Buffer } | string | undefined;

/** Reads up to the end of the final head (interim answers are passed over) and no further. */
function createHeadReader(): (bytes: Buffer) => HeadRead {
  let waiting: Buffer = Buffer.alloc(0);
  return (bytes) => {
    let rest = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
    for (;;) {
      const end = rest.indexOf(HEAD_END);
      if (end === -1) {
        // A copy: the bytes are not ours for long.
        waiting = Buffer.from(rest);
        return rest.length > MAX_HEAD ? 'the head is too long' : undefined;
      }
      const head = parseHead(rest.toString('latin1', 0, end));
      rest = rest.subarray(end + HEAD_END.length);
      if (typeof head === 'string') return head;
      if (head.status >= 200 || head.status === 101) return { head, rest };
    }
  };
}

interface Sending {
  request: WireRequest;
  watch: Watch;
  pool: LinePool;
}

/** The answer whose head was read; its body takes over the line. */
function answerOf(
  { head, rest }: { head: Head; rest: Buffer },
  line: Line,
  { request, watch, pool }: Sending,
): { answer: Answer; user: LineUser } | string {
  const framing = framingOf(head, request.method);
  if (typeof framing === 'string') return framing;
  const forget = watch.onStop(() => line.destroy());
  const { status, statusText, headers } = head;
  const body = createWireBody(line, framing, rest, (isClean) => {
    forget();
    const isKept = isClean && isPersistent(head, framing) && line.isDrained();
    if (isKept) pool.give(request.url, line, keptFor(head));
    else line.destroy();
  });
  return { answer: { status, statusText, headers, body }, user: body };
}

/** What some servers say before they close an idle connection: it is about no request at all. */
const isGoodbye = ({ status, headers }: Head): boolean =>
  status === 408 && headers['connection']?.toLowerCase() === 'close';

/** `stale`: the line was laid aside before, and was closed without a word about this request. */
function ask(line: Line, sending: Sending): Promise<Outcome<Answer> | 'stale'> {
  return new Promise((resolve) => {
    const { request, watch } = sending;
    const { url } = request;
    const stopped = watch.failure();
    if (stopped !== undefined) {
      line.destroy();
      return resolve(stopped);
    }
    const readHead = createHeadReader();
    let [isSent, isHeard] = [false, false];
    let body: LineUser | undefined;
    let forget = (): unknown => undefined;
    const settle = (outcome: Outcome<Answer> | 'stale'): void => {
      forget();
      resolve(outcome);
    };
    const refuse = (reason: string): void => {
      line.destroy();
      const host = hostOf(url);
      const words = `the answer of \`${host}\` is not valid HTTP: ${reason}`;
      settle(fail('network_error', words, { host, reason, sent: isSent }));
    };
    forget = watch.onStop((failure: Failure) => {
      line.destroy();
      settle(failure);
    });
    line.use(
      {
        bytes(bytes) {
          if (body !== undefined) return body.bytes(bytes);
          isHeard = true;
          const read = readHead(bytes);
          if (read === undefined) return;
          if (typeof read === 'string') return refuse(read);
          if (line.isReused && isGoodbye(read.head)) {
            line.destroy();
            return settle('stale');
          }
          const answered = answerOf(read, line, sending);
          if (typeof answered === 'string') return refuse(answered);
          body = answered.user;
          watch.enter('idle');
          settle(ok(answered.answer));
        },
        over(error) {
          if (body !== undefined) return body.over(error);
          const lost = error ?? new Error('the connection was closed');
          const isStale = line.isReused && !isHeard;
          settle(watch.failure() ?? (isStale ? 'stale' : networkFault(lost, url, isSent)));
        },
      },
      () => {
        isSent = true;
        watch.enter('first_byte');
        line.send(request);
      },
    );
  });
}

/** Over a line that was laid aside when there is one, else over a new one. */
async function askAnyhow(
  sending: Sending,
  addresses: readonly string[],
  mayRepeat: boolean,
): Promise<Outcome<Answer>> {
  const { request, watch, pool } = sending;
  const kept = mayRepeat ? pool.take(request.url, addresses) : undefined;
  if (kept !== undefined) {
    const answer = await ask(kept, sending);
    if (answer !== 'stale') return answer;
    watch.enter('connect');
  }
  const answer = await ask(openLine(request.url, addresses), sending);
  // Only a line that was used before can be stale.
  return answer === 'stale' ? fail('internal_error', 'a new connection was stale') : answer;
}

/** Nothing was sent, because the system lets this process open no more. */
const isOutOfFiles = (answer: Outcome<Answer>): boolean =>
  !answer.ok && ['EMFILE', 'ENFILE'].includes(answer.error.detail.reason as string);
const FILES_RETRY_MS = 50;
const pause = (): Promise<Outcome<null>> => sleep(FILES_RETRY_MS).then(() => ok(null));

/**
 * Sends over a line that was laid aside, or a new one. Whether an old line is still good is known only
 * after something was sent: `mayRepeat` says that sending it a second time does no harm. When there are
 * as many connections as the system allows, it waits for one of the others to end.
 */
export const wireSend =
  (pool: LinePool, mayRepeat: boolean): Send =>
  async (request, addresses, watch) => {
    for (;;) {
      const answer = await askAnyhow({ request, watch, pool }, addresses, mayRepeat);
      if (!isOutOfFiles(answer)) return answer;
      const waited = await watch.race(pause());
      if (!waited.ok) return waited;
      watch.enter('connect');
    }
  };
