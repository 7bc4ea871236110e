// Starts a child thread. Before the child exists, it is checked against the lists, rights and limits of its parent.
// It is counted along the whole chain, and then runs by itself. The caller gets its id at once.
import { type Failure, fail, type JsonObject, type Outcome, ok } from '../../base/index.ts';
import type { Descriptor } from '../../flow/index.ts';
import { parseThreadId, type Reserve, type ThreadRow } from '../../store/index.ts';
import { grantName } from '../../trust/index.ts';
import { packCost, usedAmounts } from '../limits/cost.ts';
import { firstExceeded, type LimitAmounts, limitFault, UNITS } from '../limits/limit.ts';
import { declaredRights } from '../rights/thread-token.ts';
import { type LimitsLeft, prepareThread, type RunRequest } from '../run/prepare.ts';
import { hasShippedRunner, knownRunner } from '../run/runner.ts';
import { prepareElsewhere, type Started, startSpawned, type ThreadOrigin } from '../run/start.ts';
import { BUDGETED, budgetOf, detachedKey, shortageFault, shortageIn } from '../thread/budget.ts';
import { withFreshId } from '../thread/opening.ts';
import type {
  BudgetHolder,
  HarnessPorts,
  Prepared,
  RightsHolder,
  Thread,
} from '../thread/thread.ts';
import { limitsLeft, shared } from './limits-left.ts';

export interface SpawnRequest extends RunRequest {
  /** Id of the thread. Absent: it is generated from the directive's name and the time. */
  id?: string;
  runner: string;
  detached: boolean;
  /** Marks of the inputs and the message together. `given`: marks of single ones. */
  marks: Descriptor;
  given?: ThreadOrigin['given'];
  /** True if a lost process can have created the child of this call. */
  isUnfinished?: boolean;
}

type Spawned = Pick<ThreadRow, 'id' | 'created' | 'directive' | 'runner'>;

/** Fails unless the parent may start this directive. */
function checkLists(ports: HarnessPorts, parent: RightsHolder, name: string): Outcome<null> {
  const found = ports.library.find('directive', name);
  if (!found.ok) return found;
  const token = parent.ports.tokens.verify(parent.rights.own.auth, parent.place.id);
  return token.ok ? token.output.maySpawn(found.output.category, found.output.id) : token;
}

/** Fails if the directive declares rights that the parent does not have. */
function checkRights(ports: HarnessPorts, parent: RightsHolder, prepared: Prepared): Outcome<null> {
  // Hooks of the directive can let it run with fewer rights, so they are asked at its start.
  if (prepared.hooks.length > 0) return ok(null);
  const declared = declaredRights(ports, prepared.directive);
  if (!declared.ok) return declared;
  const token = parent.ports.tokens.verify(parent.rights.approved.auth(), parent.place.id);
  if (!token.ok) return token;
  const names = token.output.missingAtStart(declared.output.grants).missing.map(grantName);
  const missing = [...new Set(names)];
  const [first] = missing;
  if (first === undefined) return ok(null);
  return fail(
    'permission_denied',
    `directive \`${prepared.item.id}\` needs ${missing.join(', ')}, which its parent \`${parent.place.id}\` does not have; add it to the permissions of \`${parent.place.directive.name}\``,
    {
      missing: first,
      missing_all: missing,
      attempted: prepared.item.id,
      granted: token.output.granted(),
    },
  );
}

/** Fails if the parent's own limits do not allow another child. */
function checkSpawn({ budget: { meter, limits }, place: { depth } }: BudgetHolder): Outcome<null> {
  const used = usedAmounts(meter.read());
  const event = firstExceeded(used, UNITS.spawn(depth + 1), limits);
  if (!event) return ok(null);
  return notSpawned(limitFault(event, used[event.limit] ?? 0n));
}

const notSpawned = ({ error: { code, detail } }: Failure): Failure =>
  fail(code, `${detail.message}; no thread was spawned`, detail);

/** Returns the limits for a child. A detached child gets half of each limit that its directive does not set. */
async function leftFor(
  ports: HarnessPorts,
  parent: BudgetHolder,
  { directive, detached }: SpawnRequest,
): Promise<Outcome<LimitsLeft>> {
  const rest = await limitsLeft(parent);
  if (!rest.ok || !detached) return rest;
  const found = ports.library.find('directive', directive);
  const declared = found.ok ? (found.output.directive?.limits ?? {}) : {};
  return ok(shared(rest.output, (name) => Object.hasOwn(declared, name)));
}

/** Removes the amounts and keeps whether each limit is declared. Every request checks the amounts of ancestors. */
function withoutFigures(rest: LimitsLeft): LimitsLeft {
  const live: { -readonly [name in keyof LimitsLeft]: LimitsLeft[name] } = { ...rest };
  for (const name of BUDGETED) {
    const { declared } = rest[name] ?? {};
    if (declared !== undefined) live[name] = { declared };
  }
  return live;
}

const figuresOf = (rest: LimitsLeft): LimitAmounts =>
  Object.fromEntries(
    BUDGETED.flatMap((name) => {
      const { value } = rest[name] ?? {};
      return value === undefined ? [] : [[name, value > 0n ? value : 0n]];
    }),
  );

/** Returns the reservation of a detached child, which outlives the end of its parent. */
function reserveDetached(child: string, prepared: Prepared): Reserve {
  const { spawns: _, tokens = 0n, ...rest } = budgetOf(prepared.limits);
  // Kinds without a limit are reserved too, because requests draw all kinds from this reservation.
  const amounts = { input_tokens: tokens, output_tokens: tokens, ...rest, tokens };
  return { key: detachedKey(child), amounts, standing: true };
}

/** Counts the child before the commit, so that two spawns cannot pass a limit. A refusal uncounts it. */
async function begin(
  ports: HarnessPorts,
  parent: Thread,
  prepared: Prepared,
  request: SpawnRequest & { id: string },
): Promise<Outcome<Started>> {
  const { id, runner, detached, marks, given, message = '' } = request;
  const { meter } = parent.budget;
  const may = checkSpawn(parent);
  if (!may.ok) return may;
  meter.countSpawn();
  const spawn: ThreadOrigin['spawn'] = () => ({
    charge: { spawns: 1n },
    cost: packCost(meter.read()),
    ...(detached && { reserve: [reserveDetached(id, prepared)] }),
  });
  const place: ThreadOrigin = { parent, id, runner, detached, marks, given, spawn };
  // INVARIANT: a child is only ever stopped by the end of its parent, never by the signal of one call.
  const started = await startSpawned(ports, prepared, place, NEVER, message);
  if (started.ok) return started;
  meter.giveBackSpawn();
  const short = shortageIn(started);
  return short ? notSpawned(shortageFault(parent, short)) : started;
}

const NEVER = new AbortController().signal;

/** Returns the child that a lost process made for this call. Fails if another thread has the id. */
async function findChild(
  ports: HarnessPorts,
  parent: Thread | undefined,
  { id, isUnfinished = false }: SpawnRequest,
): Promise<Outcome<Spawned | undefined>> {
  const row = id === undefined ? undefined : await ports.store.thread(id);
  if (!row?.ok) return ok(undefined);
  if (isUnfinished && parent && row.output.parent === parent.place.id) return row;
  const { id: thread } = row.output;
  return fail('thread_exists', `thread \`${thread}\` already exists`, { thread });
}

/** Starts a child of `parent`. A refusal leaves nothing behind. */
export async function spawnThread(
  ports: HarnessPorts,
  parent: Thread | undefined,
  request: SpawnRequest,
): Promise<Outcome<Spawned>> {
  const runner = knownRunner(ports.threads, request.runner);
  if (!runner.ok) return runner;
  const named = request.id === undefined ? ok(undefined) : parseThreadId(request.id);
  if (!named.ok) return named;
  const child = await findChild(ports, parent, request);
  if (!child.ok) return child;
  if (child.output) return ok(child.output);
  const listed = parent ? checkLists(ports, parent, request.directive) : ok(null);
  if (!listed.ok) return listed;
  const rest = parent ? await leftFor(ports, parent, request) : ok({});
  if (!rest.ok) return rest;
  const { detached } = request;
  // In a shared store a worker starts the root, unless only this program has its runner.
  const isQueued = !parent && ports.store.fleet !== undefined && hasShippedRunner(request.runner);
  const prepared = await (isQueued ? prepareElsewhere : prepareThread)(
    ports,
    request,
    detached ? rest.output : withoutFigures(rest.output),
  );
  if (!prepared.ok) return prepared;
  if (!detached) prepared.output.room = figuresOf(rest.output);
  const rights = parent ? checkRights(ports, parent, prepared.output) : ok(null);
  if (!rights.ok) return rights;
  const { runner: name, marks, given, message = '' } = request;
  const start = (id: string): Promise<Outcome<Started>> => {
    if (parent) return begin(ports, parent, prepared.output, { ...request, id });
    const queue = isQueued ? { isQueued } : {};
    const place = { id, runner: name, detached, marks, given, by: request.by, ...queue };
    return startSpawned(ports, prepared.output, place, NEVER, message);
  };
  const started =
    named.output === undefined
      ? await withFreshId(prepared.output.directive.name, ports, start)
      : await start(named.output);
  if (!started.ok) return started;
  const { id, created } = started.output;
  return ok({ id, created, directive: prepared.output.item.id, runner: name });
}

export const spawnAnswer = ({ id, created, directive, runner }: Spawned): JsonObject => ({
  thread_id: id,
  status: 'spawned',
  directive,
  runner,
  transcript_path: `.ai/threads/${id}/transcript.jsonl`,
  started_at: new Date(created).toISOString(),
});
