// Before the first turn: does the directive ask for more than there is? A hook may let it run with
// what is granted; otherwise it is denied before it has cost anything.
import { type Failure, fail, type Outcome, ok } from '../../base/index.ts';
import { grantName } from '../../trust/index.ts';
import { raiseError } from '../hooks/raise-checkpoint.ts';
import type { Ending } from '../loop.ts';
import { declaredRights } from '../rights/thread-token.ts';
import type { Thread } from '../thread/thread.ts';

function missingRights({ ports, place, rights }: Thread): Outcome<Failure | undefined> {
  const wanted = declaredRights(ports, place.directive);
  if (!wanted.ok) return wanted;
  const token = ports.tokens.verify(rights.approved.auth(), place.id);
  if (!token.ok) return token;
  const { grants } = wanted.output;
  const above = new Set(token.output.missingAtStart(grants).missing);
  // The policy may leave nothing of a name, whatever the token says.
  const names = grants
    .filter((grant) => above.has(grant) || !token.output.holds(grant.capability).ok)
    .map(grantName);
  const [first] = names;
  if (first === undefined) return ok(undefined);
  const missing = [...new Set(names)];
  const [who, what] =
    place.parent === undefined
      ? ['the policy does not allow', 'the policy']
      : ['its parent does not hold', 'those of its parent'];
  return ok(
    fail(
      'permission_denied',
      `directive \`${place.item.id}\` asks for ${missing.join(', ')}, which ${who}; narrow its permissions, or widen ${what}`,
      {
        missing: first,
        missing_all: missing,
        required: [...rights.own.granted],
        attempted: place.item.id,
        granted: token.output.granted(),
      },
    ),
  );
}

/** Undefined: it may begin. */
export async function checkStart(thread: Thread): Promise<Ending | undefined> {
  for (;;) {
    const refused = missingRights(thread);
    if (!refused.ok) {
      const { code, detail } = refused.error;
      return { status: 'denied', reason: detail.message, code };
    }
    if (!refused.output) return undefined;
    const how = { isStart: true, isTold: true };
    const verdict = await raiseError(thread, refused.output, 'start', how);
    // Bounded like every retry: the decision counts them.
    if (verdict?.action === 'retry') continue;
    const { ending } = thread.control;
    return ending?.status === 'failed' ? { ...ending, status: 'denied' } : ending;
  }
}
