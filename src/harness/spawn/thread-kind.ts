// `execute item_type:"artifact"`: what was too large to be said in full, piece by piece. A thread reads
// its own; that takes no right, because it has been given all of it already.
import { fail, getOwn, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { makeValue, mergeAll } from '../../flow/index.ts';
import type { Kind } from '../../kernel/index.ts';
import { MAX_PIECE, type Piece, readPiece } from '../step/large-result.ts';
import { type LiveThreads } from '../thread/thread.ts';
import {
  askerOf,
  THREAD_ACTIONS,
  type ThreadAction,
  type ThreadPorts,
} from './thread-primitive.ts';

/** Refuses the first parameter that nobody knows. */
function checkNames(what: string, parameters: JsonObject, known: readonly string[]): Outcome<null> {
  const unknown = Object.keys(parameters).find((name) => !known.includes(name));
  if (unknown === undefined) return ok(null);
  const message = `${what} takes no \`${unknown}\`; it takes: ${known.join(', ')}`;
  return fail('invalid_input', message);
}

const countIn = (parameters: JsonObject, name: string, fallback: number): Outcome<number> => {
  const value = getOwn(parameters, name) ?? fallback;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? ok(value)
    : fail('invalid_input', `\`${name}\` must be a whole number, 0 or more`);
};

function pieceOf(parameters: JsonObject): Outcome<Piece> {
  const named = checkNames('an artifact', parameters, ['field', 'offset', 'length']);
  if (!named.ok) return named;
  const offset = countIn(parameters, 'offset', 0);
  if (!offset.ok) return offset;
  const length = countIn(parameters, 'length', MAX_PIECE);
  if (!length.ok) return length;
  const field = plainText(getOwn(parameters, 'field') ?? '');
  return ok({ field, offset: offset.output, length: length.output });
}

export function artifactKind(ports: { live: LiveThreads }): Kind {
  return {
    name: 'artifact',
    actions: ['read'],
    prepare({ item_id: id, parameters = {} }) {
      const piece = pieceOf(parameters);
      if (!piece.ok) return piece;
      return ok({
        op: { type: 'artifact', name: 'read', target: id, opLabels: ['op:artifact'] },
        async body(_values, { caller: { __auth, __thread_id: thread = '' } }) {
          // INVARIANT: who speaks as a thread has shown its token; the id alone is a claim.
          const running = __auth === undefined ? undefined : ports.live.get(thread);
          if (!running) {
            return fail(
              'permission_denied',
              'an artifact is read by the thread that it belongs to',
            );
          }
          const found = await readPiece(running.thread.ports, thread, id, piece.output);
          if (!found.ok) return found;
          return ok(makeValue(found.output.output, { descriptor: found.output.marks }));
        },
      });
    },
  };
}

const ACTION_PARAMETERS = ['timeout_ms', 'reason', 'message', 'content', 'role'];

export function threadKind(ports: ThreadPorts): Kind {
  return {
    name: 'thread',
    actions: Object.keys(THREAD_ACTIONS),
    prepare(request) {
      const { item_id: id, parameters = {} } = request;
      const action = request.action as ThreadAction;
      const named = checkNames(`\`${action}\` of a thread`, parameters, ACTION_PARAMETERS);
      if (!named.ok) return named;
      const effect = action === 'status' || action === 'wait' ? 'read' : 'write';
      const inputs = Object.entries(parameters).map(([name, data]) => ({
        name,
        value: request.values?.[name] ?? makeValue(data),
      }));
      return ok({
        op: {
          type: 'thread',
          name: action,
          target: id,
          opLabels: ['op:thread', `op:thread:${action}`],
          sources: [`thread:${id}`],
        },
        inputs,
        gate: (authority) => authority.allowsEffect(effect),
        async body(values, { caller, authority }) {
          const asker = await askerOf(ports, {
            from: caller,
            verify: (need) => authority.check(need),
            signal: caller.signal ?? new AbortController().signal,
            given: mergeAll(values.map(({ meta }) => meta.descriptor)),
          });
          if (!asker.ok) return asker;
          // As the guards left them.
          const passed: JsonObject = Object.fromEntries(
            inputs.map(({ name }, at) => [name, values[at]?.data ?? null]),
          );
          const done = await THREAD_ACTIONS[action](asker.output, id, passed);
          return done.ok
            ? ok(makeValue(done.output.output, { descriptor: done.output.marks }))
            : done;
        },
      });
    },
  };
}
