// A guard, a rule or a tier that asks about a call that no thread makes: of the command line, a script, a
// program. The question is left in the registry, bound to exactly this call by this caller, and the same
// call after the answer finds it and uses it up. Where a person is at hand they are asked there too, and
// the first answer counts, wherever it was given.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  fail,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  plainText,
  systemRandom,
} from '../base/index.ts';
import type { Asked, Ports, Question } from '../flow/index.ts';
import type { Approval, Store } from '../store/index.ts';
import type { OpenProject } from './project.ts';
import { decideApproval, personIn, type Speaker } from './steering.ts';

/** Asks the person at hand; undefined: no answer. Aborted when somebody else was quicker. */
export type AskPerson = (question: string, signal: AbortSignal) => Promise<boolean | undefined>;

interface Asker {
  surface: string;
  /** Who calls, as the audit has it. */
  name: string;
  person?: AskPerson | undefined;
}

const LOOK_MS = 500;

/** A client calls itself what it likes, anew with each request: who it is stands behind that. */
const knownAs = ({ surface, name }: Asker): string =>
  surface === 'mcp' ? name.slice(name.lastIndexOf('@') + 1) : name;

async function rowOf(store: Store, id: string): Promise<Outcome<Approval>> {
  const found = await store.approvals({ id });
  if (!found.ok) return found;
  const [row] = found.output;
  return row ? ok(row) : fail('not_found', `there is no approval \`${id}\``, { approval: id });
}

/** What was said to exactly this call, or is still asked. An answer of no holds as long as the question. */
export async function findAnswer(
  store: Store,
  binding: JsonObject,
  now: number,
): Promise<Outcome<Approval | undefined>> {
  for (const state of ['approved', 'pending', 'denied'] as const) {
    const found = await store.approvals({ binding, state });
    if (!found.ok) return found;
    const own = found.output.filter(
      ({ thread, expires = now }) => thread === undefined && (state !== 'denied' || expires > now),
    );
    const row = own.at(-1);
    if (row) return ok(row);
  }
  return ok(undefined);
}

/** Until it is decided, in whatever process. */
async function decided(store: Store, id: string, signal: AbortSignal): Promise<Outcome<Approval>> {
  for (;;) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
    const row = await rowOf(store, id);
    if (!row.ok || row.output.state !== 'pending' || signal.aborted) return row;
  }
}

/** What is asked, in a few lines: the call, what is tainted in it and where that stands, what was done before. */
function questionText({
  operation,
  question,
  arguments: given = {},
  tainted,
  origins,
  before,
}: JsonObject): string {
  const lines = [`${plainText(operation)} ${JSON.stringify(given)}`];
  for (const [name, told] of Object.entries(isObject(tainted) ? tainted : {})) {
    const part = (field: string): string => plainText(getOwn(told, field));
    const place = part('stands_in') === '' ? part('from') : part('stands_in');
    const words = part('excerpt') === '' ? '' : `: “${part('excerpt')}”`;
    lines.push(`\`${name}\` ${part('labels')} from ${place}${words}`);
  }
  for (const [name, who] of Object.entries(isObject(origins) ? origins : {})) {
    lines.push(`\`${name}\`: ${plainText(who)}`);
  }
  const calls = Array.isArray(before) ? before : [];
  const same = calls.filter((one) => getOwn(one, 'same') === true).length;
  if (before !== undefined) {
    lines.push(`this directive before: ${calls.length} calls, ${same} with the same values`);
  }
  return [...lines, plainText(question)].join('\n');
}

/** Puts a question of the queue to the person at hand; answered here or elsewhere, or still open. */
export async function askHere(
  store: Store,
  row: Approval,
  person: AskPerson,
  by: Speaker,
): Promise<Outcome<Approval>> {
  const over = new AbortController();
  const here = async (): Promise<Outcome<Approval>> => {
    const yes = await person(questionText(row.shown), over.signal);
    if (yes === undefined) return ok(row);
    const decision = yes ? 'approved' : 'denied';
    const done = await decideApproval(store, row.id, { decision, by, why: '' });
    // Somebody else was quicker: theirs counts.
    return done.ok ? done : await rowOf(store, row.id);
  };
  const first = await Promise.race([here(), decided(store, row.id, over.signal)]);
  over.abort();
  return first;
}

export async function putQuestion(
  { clock, policies }: OpenProject,
  store: Store,
  binding: JsonObject,
  shown: JsonObject,
): Promise<Outcome<Approval>> {
  const id = `ap_${Buffer.from(systemRandom(9)).toString('base64url').replaceAll('-', '_')}`;
  const expires = clock.now() + policies.current().policy.approvalMs;
  return await store.ask({ id, kind: 'call', binding, shown, expires });
}

async function answerTo(
  open: OpenProject,
  asker: Asker,
  question: Question,
): Promise<Outcome<Asked>> {
  const { surface, name, person } = asker;
  const opened = await open.store?.();
  if (!opened) return fail('permission_denied', 'there is no registry in which it could wait');
  if (!opened.ok) return opened;
  const store = opened.output;
  const { answerIn, callBinding, callShown } = await import('../harness/index.ts');
  const binding = {
    ...callBinding(question),
    project: open.project,
    surface,
    caller: knownAs(asker),
  };
  const known = await findAnswer(store, binding, open.clock.now());
  if (!known.ok) return known;
  const shown = { ...callShown(question), surface, ...(name !== '' && { caller: name }) };
  const asked = known.output ? ok(known.output) : await putQuestion(open, store, binding, shown);
  if (!asked.ok) return asked;
  const { state } = asked.output;
  const row =
    state === 'pending' && person
      ? await askHere(store, asked.output, person, { who: personIn(open.env), channel: 'cli' })
      : asked;
  if (!row.ok) return row;
  const answer = answerIn(row.output);
  if (!answer) return ok({ answer: 'pending', approval: row.output.id });
  // Taken before the effect, once.
  const used = answer.answer === 'approved' ? await store.use(row.output.id, binding) : ok(null);
  return used.ok ? ok(answer) : used;
}

export const askOutside =
  (open: OpenProject, asker: Asker): NonNullable<Ports['ask']> =>
  (question) =>
    answerTo(open, asker, question);
