// `execute item_type:"artifact"`: what was too large to be said in full, piece by piece. A thread reads
// its own; that takes no right, because it has been given all of it already.
import { fail, getOwn, type JsonObject, type Outcome, ok, plainText } from '../base/index.ts';
import { childFrame, makeValue, perform, type Value } from '../flow/index.ts';
import type { Kind } from '../kernel/index.ts';
import { MAX_PIECE, type Piece, readPiece } from './result-artifact.ts';
import type { LiveThreads } from './spawn-live.ts';

const ARTIFACT_PARAMETERS = ['field', 'offset', 'length'];

const countIn = (parameters: JsonObject, name: string, fallback: number): Outcome<number> => {
  const value = getOwn(parameters, name) ?? fallback;
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
    ? ok(value)
    : fail('invalid_input', `\`${name}\` must be a whole number, 0 or more`);
};

function pieceOf(parameters: JsonObject): Outcome<Piece> {
  const unknown = Object.keys(parameters).find((name) => !ARTIFACT_PARAMETERS.includes(name));
  if (unknown !== undefined) {
    return fail(
      'invalid_input',
      `an artifact takes no \`${unknown}\`; it takes: ${ARTIFACT_PARAMETERS.join(', ')}`,
    );
  }
  const [offset, length] = [
    countIn(parameters, 'offset', 0),
    countIn(parameters, 'length', MAX_PIECE),
  ];
  if (!offset.ok) return offset;
  if (!length.ok) return length;
  const field = plainText(getOwn(parameters, 'field') ?? '');
  return ok({ field, offset: offset.output, length: length.output });
}

export function artifactKind(ports: { live: LiveThreads }): Kind {
  return {
    name: 'artifact',
    actions: ['read'],
    async execute({ item_id: id, parameters = {} }, caller): Promise<Outcome<Value>> {
      const { __auth, __thread_id: thread = '' } = caller;
      // INVARIANT: who speaks as a thread has shown its token; the id alone is a claim.
      const running = __auth === undefined ? undefined : ports.live.get(thread);
      if (!running) {
        return fail('permission_denied', 'an artifact is read by the thread that it belongs to');
      }
      const piece = pieceOf(parameters);
      if (!piece.ok) return piece;
      return await perform(
        { type: 'artifact', name: 'read', target: id, opLabels: ['op:artifact'] },
        [],
        async () => {
          const found = readPiece(running.thread.world, thread, id, piece.output);
          if (!found.ok) return found;
          return ok(makeValue(found.output.output, { descriptor: found.output.marks }));
        },
        childFrame(caller.frame, { ports: { gate: () => ok(null) } }),
      );
    },
  };
}
