// Implements the primitive `memory` of the shipped tools `memory/*`: short texts that a thread leaves for later
// threads. A row carries the marks of the whole call, and the answer of a search carries those of its rows. Nothing
// enters a prompt by itself.
import { fail, type JsonObject, type Outcome, ok, plainText } from '../../base/index.ts';
import { carries } from '../../flow/index.ts';
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
  UNKNOWN_MARKS,
} from '../../store/index.ts';
import { saidIn } from '../rights/mentioned-values.ts';
import { packMarks } from '../thread/conversation.ts';
import { checkScope, openMemory } from '../thread/open-memory.ts';
import type { LiveThreads, Thread } from '../thread/thread.ts';
import { searchMemories } from './search-memory.ts';

type MemoryWriter = Pick<Thread, 'ports' | 'place' | 'talk' | 'journal'>;
type MemoryCommand = (call: PrimitiveCall, thread: MemoryWriter) => Answer<PrimitiveResult>;

const MAX_FOUND = 20;
const MAX_SUBJECT = 100;
const MAX_DAYS = 3650;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Opens the rows of a scope if the thread may reach them. Its row names the project and the tenant. */
async function reachMemory(
  { verify }: PrimitiveCall,
  { ports, place: { id, item } }: MemoryWriter,
  action: 'read' | 'write',
  scope: MemoryScope,
) {
  const right = checkScope(verify, action, scope);
  const row = right.ok ? await ports.store.thread(id) : right;
  return row.ok ? await openMemory(ports, row.output, scope, item.id) : row;
}

/** Returns the scope of the parameters. The schema of the tool has checked it. */
const scopeIn = (parameters: JsonObject): MemoryScope | undefined =>
  MEMORY_SCOPES.find((scope) => scope === parameters.scope);

type Text = Pick<NewMemory, 'text' | 'subject' | 'expires'>;

function readText({ text: given, subject: name, days }: JsonObject, now: number): Outcome<Text> {
  const [text, subject] = [plainText(given), plainText(name ?? '')];
  const { characters } = MEMORY_BOUNDS;
  const isLong = text.trim() === '' || text.length > characters;
  const isStorable = (text + subject).isWellFormed() && !(text + subject).includes('\0');
  const isTime = days === undefined || (typeof days === 'number' && days >= 1 && days <= MAX_DAYS);
  const problems: readonly (readonly [boolean, string])[] = [
    [isLong, `\`text\` must have 1 to ${characters} characters; it has ${text.length}`],
    [subject.length > MAX_SUBJECT, `\`subject\` can have at most ${MAX_SUBJECT} characters`],
    [!isStorable, '`text` has characters that cannot be stored'],
    [!isTime, `\`days\` must be from 1 to ${MAX_DAYS}`],
  ];
  const [problem] = problems.filter(([isProblem]) => isProblem);
  if (problem) return fail('invalid_input', problem[1]);
  return ok({ text, subject, expires: days === undefined ? null : now + Number(days) * DAY_MS });
}

/** True for a secret by its label, and for a known secret of the thread in the parameters. */
function hasSecret({ given, parameters }: PrimitiveCall, { ports, place }: MemoryWriter): boolean {
  if (given && carries(given, 'secret')) return true;
  const text = JSON.stringify(parameters);
  return (ports.watch.mask?.(place.id, text) ?? text) !== text;
}

/** True if a person wrote the whole text, as a message or a line of it, to this thread. */
const isSaid = ({ talk, place }: MemoryWriter, text: string): boolean =>
  place.chain.length === 1 &&
  talk.conversation.trusted().said.some((words) => saidIn(words, false).has(text.trim()));

const writeMemory: MemoryCommand = async (call, thread) => {
  const { parameters, given } = call;
  const { ports, journal, place } = thread;
  const scope = scopeIn(parameters) ?? 'project';
  const memory = await reachMemory(call, thread, 'write', scope);
  if (!memory.ok) return memory;
  const text = readText(parameters, ports.clock.now());
  if (!text.ok) return text;
  if (hasSecret(call, thread)) {
    const message = 'a secret cannot be kept in memory; leave it out of the text';
    return fail('permission_denied', message, { missing: '', rule: 'no-secret-memory' });
  }
  const plain: NewMemory = {
    ...memory.output.place,
    ...text.output,
    marks: given ? packMarks(given) : UNKNOWN_MARKS,
    thread: place.id,
    seq: journal.seq(),
    endorsed_by: null,
  };
  const word = { how: 'said', by: place.id, hash: memoryHash(plain) } as const;
  const row = isSaid(thread, plain.text) ? { ...plain, endorsed_by: word } : plain;
  const written = await memory.output.store.changeMemory({ kind: 'write', row });
  return written.ok ? ok({ output: { id: written.output.id, scope } }) : written;
};

const forgetMemory: MemoryCommand = async (call, thread) => {
  const id = plainText(call.parameters.id);
  const scope = scopeOfMemory(id);
  if (!scope) return noMemory(id);
  const memory = await reachMemory(call, thread, 'write', scope);
  if (!memory.ok) return memory;
  const { store, place } = memory.output;
  const gone = await store.changeMemory({ kind: 'forget', key: { ...place, id } });
  return gone.ok ? ok({ output: { id, forgotten: true } }) : gone;
};

const searchMemory: MemoryCommand = async (call, thread) => {
  const { parameters, verify } = call;
  const { query = '', limit = MAX_FOUND } = parameters;
  // Without a scope, the scopes that the thread may not read are left out. If it may read none, one is refused.
  const readable = MEMORY_SCOPES.filter((scope) => checkScope(verify, 'read', scope).ok);
  const wanted = scopeIn(parameters) ?? (readable.length === 0 ? 'project' : undefined);
  const rows: MemoryRow[] = [];
  for (const scope of wanted ? [wanted] : readable) {
    const memory = await reachMemory(call, thread, 'read', scope);
    const found = memory.ok ? await memory.output.store.memories(memory.output.place) : memory;
    if (!found.ok) return found;
    rows.push(...found.output);
  }
  const count = Math.min(MAX_FOUND, Math.max(1, Number(limit)));
  return ok(searchMemories(rows, plainText(query), count));
};

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
