// Implements the primitive `memory` of the shipped tools `memory/*`: short texts that a thread leaves for later
// threads. A row carries the marks of the whole call, and the answer of a search carries those of its rows. Only
// `judgeMemory` decides whether a row is shown as trusted. Nothing enters a prompt by itself.
import { fail, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import {
  carries,
  judgeMemory,
  mergeAll,
  type ResultFacts,
  removeLabels,
} from '../../flow/index.ts';
import type { PrimitiveCall, PrimitiveResult } from '../../kernel/index.ts';
import {
  type Answer,
  MEMORY_BOUNDS,
  MEMORY_SCOPES,
  type MemoryRow,
  type MemoryScope,
  memoryHash,
  type NewMemory,
  noMemory,
  scopeOfMemory,
} from '../../store/index.ts';
import { saidIn } from '../rights/mentioned-values.ts';
import { packMarks } from '../thread/conversation.ts';
import { checkScope, openMemory } from '../thread/open-memory.ts';
import type { LiveThreads, Thread } from '../thread/thread.ts';
import { rankMemories } from './rank-memories.ts';

type MemoryWriter = Pick<Thread, 'ports' | 'place' | 'talk' | 'journal'>;
type MemoryCommand = (call: PrimitiveCall, thread: MemoryWriter) => Answer<PrimitiveResult>;

const MAX_FOUND = 20;
const MAX_SUBJECT = 100;
const DAY_MS = 24 * 60 * 60 * 1000;

/** The row of the thread names the project and the tenant, whatever process runs the thread. */
async function memoryOf({ ports, place: { id, item } }: MemoryWriter, scope: MemoryScope) {
  const row = await ports.store.thread(id);
  return row.ok ? await openMemory(ports, row.output, scope, item.id) : row;
}

/** Returns the scope of the parameters. The schema of the tool has checked it. */
const scopeIn = (parameters: JsonObject): MemoryScope | undefined =>
  MEMORY_SCOPES.find((scope) => scope === parameters.scope);

function checkText(parameters: JsonObject): Outcome<Pick<NewMemory, 'text' | 'subject'>> {
  const [text, subject] = [plainText(parameters.text), plainText(parameters.subject ?? '')];
  const { characters } = MEMORY_BOUNDS;
  if (text.trim() === '' || text.length > characters) {
    const message = `\`text\` must have 1 to ${characters} characters; it has ${text.length}`;
    return fail('invalid_input', message, { max: characters });
  }
  if (subject.length > MAX_SUBJECT) {
    return fail('invalid_input', `\`subject\` can have at most ${MAX_SUBJECT} characters`);
  }
  const isStorable = (text + subject).isWellFormed() && !(text + subject).includes('\0');
  return isStorable
    ? ok({ text, subject })
    : fail('invalid_input', '`text` has characters that cannot be stored');
}

/** Refuses a secret by its label, and a known secret of the thread in the text. */
function refuseSecret(
  { given, parameters }: PrimitiveCall,
  { ports, place }: MemoryWriter,
): Outcome<null> {
  const text = JSON.stringify(parameters);
  const isSecret = given && carries(given, 'secret');
  if (!isSecret && (ports.watch.mask?.(place.id, text) ?? text) === text) return ok(null);
  return fail('permission_denied', 'a secret cannot be kept in memory; leave it out of the text', {
    missing: '',
    rule: 'no-secret-memory',
  });
}

/** True if a person wrote the whole text, as a message or a line of it, to this thread. */
const isSaid = ({ talk, place }: MemoryWriter, text: string): boolean =>
  place.chain.length === 1 &&
  talk.conversation.trusted().said.some((words) => saidIn(words, false).has(text.trim()));

const writeMemory: MemoryCommand = async (call, thread) => {
  const { parameters, verify, given } = call;
  const scope = scopeIn(parameters) ?? 'project';
  const right = checkScope(verify, 'write', scope);
  if (!right.ok) return right;
  const checked = checkText(parameters);
  if (!checked.ok) return checked;
  const { days } = parameters;
  if (days !== undefined && (typeof days !== 'number' || days < 1 || days > 3650)) {
    return fail('invalid_input', '`days` must be from 1 to 3650');
  }
  const allowed = refuseSecret(call, thread);
  if (!allowed.ok) return allowed;
  const memory = await memoryOf(thread, scope);
  if (!memory.ok) return memory;
  const { store, place } = memory.output;
  const { ports, journal } = thread;
  const row: NewMemory = {
    ...place,
    ...checked.output,
    // A call without marks is one that nobody can explain, so it counts as a stranger's.
    marks: given ? packMarks(given) : { labels: ['untrusted'], taint: ['untrusted'], sources: [] },
    thread: thread.place.id,
    seq: journal.seq(),
    ...(typeof days === 'number' && { expires: ports.clock.now() + days * DAY_MS }),
  };
  const by = thread.place.id;
  const word = isSaid(thread, row.text)
    ? { endorsed_by: { how: 'said' as const, by, hash: memoryHash(row) } }
    : {};
  const written = await store.changeMemory({ kind: 'write', row: { ...row, ...word } });
  return written.ok ? ok({ output: { id: written.output.id, scope } }) : written;
};

const forgetMemory: MemoryCommand = async ({ parameters, verify }, thread) => {
  const id = plainText(parameters.id);
  const scope = scopeOfMemory(id);
  if (!scope) return noMemory(id);
  const right = checkScope(verify, 'write', scope);
  if (!right.ok) return right;
  const memory = await memoryOf(thread, scope);
  if (!memory.ok) return memory;
  const { store, place } = memory.output;
  // A row of another directive is not found, whatever its id.
  const own = await store.memories({ ...place, id });
  if (!own.ok) return own;
  if (own.output.length === 0) return noMemory(id);
  const gone = await store.changeMemory({ kind: 'forget', key: { ...place, id } });
  return gone.ok ? ok({ output: { id, forgotten: true } }) : gone;
};

/** Fields of a search that vouch for nothing. Strangers' rows are untrusted besides. */
const FACTS: ResultFacts = {
  free_text: ['from strangers'],
  unvouched: ['from strangers', 'notes', 'subject', 'id', 'scope', 'written'],
};

const searchMemory: MemoryCommand = async ({ parameters, verify }, thread) => {
  const wanted = scopeIn(parameters);
  const rows: MemoryRow[] = [];
  const scopes = wanted ? ([wanted] as const) : MEMORY_SCOPES;
  // Without a scope, the scopes that the thread may not read are left out.
  const readable = scopes.filter((scope) => checkScope(verify, 'read', scope).ok);
  const refused = readable.length === 0 ? checkScope(verify, 'read', scopes[0]) : ok(null);
  if (!refused.ok) return refused;
  for (const scope of readable) {
    const memory = await memoryOf(thread, scope);
    const found = memory.ok ? await memory.output.store.memories(memory.output.place) : memory;
    if (!found.ok) return found;
    rows.push(...found.output);
  }
  const { limit = MAX_FOUND } = parameters;
  const count = Math.min(MAX_FOUND, Math.max(1, Number(limit)));
  return ok(searchResult(rankMemories(rows, plainText(parameters.query ?? '')), count));
};

/** Returns the best rows by their standing. Rows of strangers never displace others. */
function searchResult(ranked: readonly MemoryRow[], count: number): PrimitiveResult {
  const judged = ranked.map((row) => ({
    row,
    ...judgeMemory(row.marks, row.endorsed_by, memoryHash(row)),
  }));
  const foreign = judged.filter(({ standing }) => standing === 'stranger');
  const own = judged.filter(({ standing }) => standing !== 'stranger').slice(0, count);
  const best = [...own, ...foreign.slice(0, count - own.length)];
  const rowsWith = (of: string) =>
    best.flatMap(({ row, standing }) =>
      standing === of ? [shownMemory(row, of === 'stranger')] : [],
    );
  const strangers = rowsWith('stranger');
  return {
    output: {
      confirmed: rowsWith('confirmed'),
      notes: rowsWith('note'),
      ...(strangers.length > 0 && { 'from strangers': strangers }),
    },
    // `untrusted` is on the rows of strangers, by the facts. All other marks are on the whole answer.
    marks: removeLabels(mergeAll(best.map(({ marks }) => marks)), ['untrusted']),
    facts: FACTS,
  };
}

function shownMemory(
  { id, scope, text, subject, created, thread, marks }: MemoryRow,
  isForeign: boolean,
): JsonObject {
  return {
    id,
    scope,
    ...(subject !== '' && { subject }),
    text,
    written: new Date(created).toISOString(),
    ...(isForeign && { thread, taint: [...marks.taint] }),
  };
}

const COMMANDS: Readonly<Record<string, MemoryCommand>> = {
  write: writeMemory,
  search: searchMemory,
  forget: forgetMemory,
};

/** INVARIANT: a call never counts as a call of a thread without that thread's token. The id proves nothing. */
export async function runMemory(live: LiveThreads, call: PrimitiveCall): Answer<PrimitiveResult> {
  const { from, tool, config } = call;
  const running = from?.__auth === undefined ? undefined : live.get(from.__thread_id ?? '');
  const command = COMMANDS[plainText(config.function ?? '')];
  if (running && command) return await command(call, running.thread);
  const message = `\`${tool.id}\` needs a thread; call it in a directive`;
  return fail('permission_denied', message, { missing: '' });
}
