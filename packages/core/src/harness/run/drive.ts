// Drives a thread through the loop while its lease is renewed. A check before the first turn compares the
// rights that the directive declares with the granted ones; a hook can accept less than it declares.
import { type Failure, fail, messageOf, type Outcome, ok } from '../../base/index.ts';
import { shownPolicyFile } from '../../flow/index.ts';
import { forkOf, type Recorded } from '../../journal/index.ts';
import { isEnded } from '../../store/index.ts';
import { capsOn, type Grant, grantName, isNamePattern } from '../../trust/index.ts';
import { endDescendants, signalParent } from '../children/children.ts';
import { roomNeeded } from '../compact/room.ts';
import { checkGoal } from '../hooks/check-goal.ts';
import { raiseError, raiseWarnings } from '../hooks/raise-checkpoint.ts';
import { type Ending, type LoopPorts, runLoop } from '../loop.ts';
import { declaredRights } from '../rights/thread-token.ts';
import { LEASE_LOST } from '../script-thread/script-steps.ts';
import { runScriptThread } from '../script-thread/script-thread.ts';
import { runSteps } from '../step/steps.ts';
import { handleSignals, type SignalReceiver, stopThread } from '../thread/interruption.ts';
import type { ThreadResult } from '../thread/ports.ts';
import type { RenewedLease, RightsHolder, Thread } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';

import { checkExpected } from './expected-calls.ts';
import { finalEnding, finish } from './finish.ts';
import { endHooks } from './recover.ts';
import { COMPARE, ownRunner, runOwn } from './runner.ts';

/** Names the policies that allow nothing of a right, by level and file. */
function policiesAgainst({ ports }: Pick<Thread, 'ports'>, grant: Grant): string {
  const { catalog } = ports.library.capabilities();
  const levels = ports
    .policies()
    .policy.levels.filter(({ capabilities = {} }) =>
      capsOn(capabilities, grant, catalog).some(({ extent }) => extent === 'whole'),
    );
  const named = levels.map(({ level, file }) => {
    const place = file === undefined ? '' : ` (${shownPolicyFile(level, file)})`;
    return `the ${level} policy${place}`;
  });
  return named.join(' and ') || 'the policy';
}

function missingRights(thread: RightsHolder): Outcome<Failure | undefined> {
  const { ports, place, rights } = thread;
  const declared = declaredRights(ports, place.directive);
  if (!declared.ok) return declared;
  const token = ports.tokens.verify(rights.approved.auth(), place.id);
  if (!token.ok) return token;
  const { grants } = declared.output;
  const above = new Set(token.output.missingAtStart(grants).missing);
  // The policy can allow nothing of a capability, even if the token has it. Calls decide about the
  // names of a pattern such as `mcp.*.call`.
  const refused = grants.filter(
    (grant) =>
      above.has(grant) ||
      !(isNamePattern(grant.capability) || token.output.holds(grant.capability).ok),
  );
  const [first] = refused;
  if (first === undefined) return ok(undefined);
  const missing = [...new Set(refused.map(grantName))];
  const policy = policiesAgainst(thread, first);
  const [who, what] =
    place.parent === undefined
      ? [`${policy} does not allow`, policy]
      : ['its parent does not have', 'those of its parent'];
  return ok(
    fail(
      'permission_denied',
      `directive \`${place.item.id}\` needs ${missing.join(', ')}, which ${who}; narrow its permissions, or widen ${what}`,
      {
        missing: grantName(first),
        missing_all: missing,
        ...(first.scope && { scope: { ...first.scope } }),
        required: [...rights.own.granted],
        attempted: place.item.id,
        granted: token.output.granted(),
      },
    ),
  );
}

/** Returns `undefined` if the thread may begin, and otherwise the ending of the run. */
async function checkStart(thread: Thread): Promise<Ending | undefined> {
  // A hook was asked before the thread parked. Its answer comes first, even if the rights are granted now.
  let fault = [...thread.hooks.pending.values()].find(({ step }) => step === 'start')?.fault;
  for (;;) {
    // A kill revokes the token. It is handled first, so that the thread does not end for want of rights.
    await thread.journal.catchUp();
    const ending = handleSignals(thread);
    if (ending) return ending;
    const refused = fault ? ok({ ok: false as const, error: fault }) : missingRights(thread);
    fault = undefined;
    if (!refused.ok) {
      const { code, detail } = refused.error;
      return { status: 'denied', reason: detail.message, code };
    }
    if (!refused.output) return undefined;
    const how = { isStart: true, isTold: true };
    const verdict = await raiseError(thread, refused.output, 'start', how);
    // The decision counts the retries, so their number is bounded.
    if (verdict?.action === 'retry') continue;
    const { ending: decided } = thread.control;
    return decided?.status === 'failed' ? { ...decided, status: 'denied' } : decided;
  }
}

/** Handles a pause that arrived during the final reply. The thread ends with that reply after a resume. */
async function pausedAtEnd(thread: SignalReceiver): Promise<Ending | undefined> {
  await thread.journal.catchUp();
  const isPaused = thread.journal.signals().some(({ kind }) => kind === 'pause');
  return isPaused ? handleSignals(thread) : undefined;
}

function loopPorts(thread: Thread): LoopPorts {
  const { control, journal, talk, ports } = thread;
  const between = async (): Promise<Ending | undefined> => {
    if (control.ending) return control.ending;
    ports.threads.live.leases.beat();
    await journal.catchUp();
    if (!journal.hasLease()) return LEASE_LOST;
    const ending = handleSignals(thread);
    if (ending) return ending;
    const warned = raiseWarnings(thread);
    if (warned) await warned;
    return control.ending;
  };
  return {
    between,
    async turn() {
      const need = roomNeeded(thread);
      if (!need) return await runTurn(thread);
      const { makeRoom } = await import('../compact/make-room.ts');
      return (await makeRoom(thread, need, between)) ?? (await runTurn(thread));
    },
    pending: () => talk.conversation.pending(),
    perform: (calls) => runSteps(thread, calls, between),
    final: async (reply) => (await pausedAtEnd(thread)) ?? finalEnding(thread, reply),
  };
}

/** Runs the runner of the program, a plan, the script of the directive, or turns of a model. */
async function loopOf(thread: Thread, history: readonly Recorded[]): Promise<Ending> {
  const loop = loopPorts(thread);
  if (thread.place.runner === COMPARE) {
    const { compareTurns } = await import('./compare-turns.ts');
    return await compareTurns(thread, loop.between);
  }
  const runner = ownRunner(thread.ports.threads, thread.place.runner);
  const { plan, directive } = thread.place;
  if (plan && !runner) {
    const { runPlannedThread } = await import('../script-thread/plan-thread.ts');
    return await runPlannedThread(thread, history, loop.between);
  }
  const { script } = directive.process;
  const run = (): Promise<Ending> => {
    if (runner) return runOwn(thread, runner);
    return script ? runScriptThread(thread, script, history, loop.between) : runLoop(loop);
  };
  for (;;) {
    const isOnce = runner !== undefined || script !== undefined;
    const ending = await checkGoal(thread, await run(), isOnce);
    if (ending) return ending;
  }
}

/** Turns an unexpected exception into status `failed` with code `internal_error`. */
async function runToEnding(
  thread: Thread,
  history: readonly Recorded[],
  settle?: () => Promise<void>,
): Promise<Ending> {
  try {
    await settle?.();
    // A fork begins after the last turn of its source.
    const isFirst = thread.journal.turn === (forkOf(history)?.turn ?? 0);
    const denied = isFirst ? await checkStart(thread) : undefined;
    const own = denied ?? (await loopOf(thread, history));
    const { stopped, ending = own } = thread.control;
    const last = stopped ? ending : own;
    // The journal has the ends of the stopped children before the other events of an abort.
    if (last.status === 'aborted') await thread.journal.catchUp();
    const final = await checkExpected(thread, await endDescendants(thread, last));
    if (isEnded(final.status) && thread.hooks.pending.size > 0) await endHooks(thread);
    if (isEnded(final.status) && final.status !== 'completed') await thread.journal.catchUp();
    return final;
  } catch (error) {
    const reason = messageOf(error);
    const failed: Ending = { status: 'failed', reason, code: 'internal_error' };
    return await endDescendants(thread, failed).catch(() => failed);
  }
}

const LEAVES_PAUSED: ReadonlySet<string> = new Set(['pause', 'message', 'interrupt', 'compact']);

/** True if a paused thread stays paused after this signal. */
export const keepsPause = ({ kind }: { readonly kind: string }): boolean => LEAVES_PAUSED.has(kind);

/** Finishes the run. A paused thread handles other signals and stays paused; `undefined` if one of them resumes it. */
export async function finishUnlessSignalled(
  thread: Thread,
  ending: Ending,
): Promise<ThreadResult | undefined> {
  for (;;) {
    const result = await finish(thread, ending);
    const signals = thread.journal.signals();
    if (result || ending.status !== 'paused' || signals.length === 0) return result;
    if (!signals.every(keepsPause)) return undefined;
    handleSignals(thread);
  }
}

/** Runs the thread until it parks or ends. A signal that arrives in between makes the loop run again. */
async function runToRest(
  thread: Thread,
  history: readonly Recorded[],
  settle?: () => Promise<void>,
): Promise<ThreadResult> {
  for (let first = settle; ; first = undefined) {
    const result = await finishUnlessSignalled(thread, await runToEnding(thread, history, first));
    if (result) return result;
    thread.control.ending = undefined;
  }
}

/** The ending of a run that its caller stops. A hook is terminated if the thread that it serves has ended. */
function endingWhenStopped({ ports, place }: Pick<Thread, 'ports' | 'place'>): Ending {
  const served =
    place.kind === 'hook' ? ports.threads.live.get(place.parent ?? '')?.thread : undefined;
  const ending = served?.control.ending;
  return ending && isEnded(ending.status)
    ? { status: 'terminated', reason: `the thread it served ended ${ending.status}` }
    : { status: 'interrupted', reason: 'the caller stopped the run' };
}

/**
 * Runs a thread until it parks or ends. Never rejects. Until then, the thread can be found, awaited and stopped in
 * `threads.live`. A script gets its recorded results from `history`. `settle` handles open work of a lost process.
 */
export async function drive(
  thread: Thread,
  since: number,
  history: readonly Recorded[] = [],
  settle?: () => Promise<void>,
): Promise<ThreadResult> {
  const { ports, place, control, journal } = thread;
  const { live } = ports.threads;
  const { signal } = control;
  // Many threads can start at once, so this one may have waited since its lease began.
  live.leases.beat();
  // The keeper renews the lease while the loop runs. The writer stops the thread if the lease is lost.
  const lease: RenewedLease = {
    store: ports.store,
    thread: place.id,
    epoch: journal.epoch,
    lease_ms: journal.lease_ms,
    renewed: (answer, fault) => journal.renewed(answer, fault),
  };
  const releaseLease = live.leases.keep(lease, since);
  // Any process can send signals. Running work checks them as soon as they arrive.
  const unsubscribe = ports.store.onSignal(({ thread: id }) => {
    if (id === place.id) void journal.listen();
  });
  const { promise: done, resolve } = Promise.withResolvers<ThreadResult>();
  const whenStopped = (): void => stopThread(thread, endingWhenStopped(thread));
  if (signal.aborted) whenStopped();
  signal.addEventListener('abort', whenStopped);
  live.add({ thread, done });
  const result = await runToRest(thread, history, settle);
  signal.removeEventListener('abort', whenStopped);
  live.remove(place.id);
  releaseLease();
  unsubscribe();
  signalParent(thread, result);
  resolve(result);
  return result;
}
