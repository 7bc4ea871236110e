// Asks a model without tools, in a conversation of its own. It gets a fixed instruction, the caller's task and
// the text, and answers by a schema. The author of the text can take the model over; then the author chooses
// among the answers of the schema, and nothing else.
import { fail, getOwn, type Json, type Outcome, ok, textAt } from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  EMPTY,
  labelFields,
  makeValue,
  mergeDescriptors,
  removeLabels,
  type Value,
} from '../../flow/index.ts';
import { decodeAll, type ToolResult } from '../../journal/index.ts';
import { type FileBlock, fileKind } from '../../llm/index.ts';
import { findFile } from '../files/keep-files.ts';
import type { Ending } from '../loop.ts';
import { saidIn } from '../rights/mentioned-values.ts';
import { declaredFacts } from '../rights/origins.ts';
import { askModel } from '../script-thread/script-actions.ts';
import { wholeResult } from '../step/large-result.ts';
import { handleSignals } from '../thread/interruption.ts';
import { resultIn } from '../thread/recorded-answers.ts';
import { shippedInstruction } from '../thread/shipped-text.ts';
import type { HarnessPorts, OwnJournal, Thread } from '../thread/thread.ts';
import { type AnswerShape, leavesOf, readShape } from './answer-shape.ts';
import { type Identifiers, namedIn, type ReadAnswer, readAnswer } from './read-answer.ts';

/** Largest text in characters, which is about the size of a context window. */
const MAX_READ = 400_000;
const MARK_BYTES = 12;

interface ReaderTask {
  readonly task: string;
  readonly schema: Json;
  readonly read: Value;
  readonly marks: Descriptor;
}

/** Returns the prompt. The text is between two lines that its author could not predict. */
function promptOf(
  { task, schema, read: { text } }: ReaderTask,
  mark: string,
  problem: string,
  isFile: boolean,
): string {
  const again = problem === '' ? [] : [`Your last answer was not used: ${problem}. Answer again.`];
  return [
    task,
    `Answer with one JSON value that fits this schema, and with nothing else: ${JSON.stringify(schema)}`,
    ...again,
    ...(isFile
      ? ['The text to read is in the file in front of this message. Read it as you read text.']
      : [`The text to read is between the two lines ${mark}`, '', mark, text, mark]),
  ].join('\n');
}

const SIGNALLED: Ending = { status: 'interrupted', reason: 'the thread received a signal' };

/** Handles signals that stopped a request. A tool call of the model ends; a script continues unless it is ended. */
export async function handleSignalsBetween(thread: Thread): Promise<Ending | undefined> {
  if (thread.talk.conversation.pending().length > 0) return SIGNALLED;
  await thread.journal.catchUp();
  const ending = handleSignals(thread);
  if (ending) thread.control.ending ??= ending;
  return ending;
}

/** Returns a result with its facts. The tool's file declares them if the result has none. */
function describedResult(ports: HarnessPorts, result: ToolResult): Value | undefined {
  const value = resultIn(result);
  if (!value.ok || result.facts) return value.ok ? value.output : undefined;
  const declared = declaredFacts(ports, result.tool ?? '');
  return declared && labelFields(value.output, declared);
}

/** Returns identifiers of these kinds from the journal, so that every process finds the same. */
async function identifiersOf(
  { ports, place: { id }, journal }: OwnJournal,
  kinds: ReadonlySet<string>,
): Promise<Outcome<Identifiers>> {
  const identifiers = new Map<string, Map<string, Value>>();
  if (kinds.size === 0) return ok(identifiers);
  await journal.flush();
  const stored = await ports.threads.history(id);
  const events = stored.ok ? decodeAll(stored.output) : stored;
  if (!events.ok) return events;
  for (const { type, data } of events.output) {
    if (type !== 'tool_result' || data.is_error) continue;
    const content = await wholeResult(ports, id, data.content);
    const result = describedResult(ports, { ...data, content });
    for (const [kind, leaf] of result ? namedIn(result) : []) {
      if (!kinds.has(kind)) continue;
      const spellings = identifiers.get(kind) ?? identifiers.set(kind, new Map()).get(kind);
      // A trusted identifier takes precedence over one from untrusted data.
      const isForeign = carries(leaf.meta.descriptor, 'untrusted');
      if (!isForeign || !spellings?.has(leaf.text)) spellings?.set(leaf.text, leaf);
    }
  }
  return ok(identifiers);
}

/** Returns a test for texts that one leaf of the value mentions as a whole. */
function mentionsOf(read: Json): (text: string) => boolean {
  let mentioned: Set<string> | undefined;
  return (text) => {
    mentioned ??= new Set(Array.from(leavesIn(read), (leaf) => [...saidIn(leaf, true)]).flat());
    return mentioned.has(text);
  };
}

function* leavesIn(read: Json): Generator<string> {
  if (typeof read === 'string') yield read;
  else if (typeof read === 'object' && read !== null) {
    for (const item of Object.values(read)) yield* leavesIn(item);
  }
}

const kindsIn = (shape: AnswerShape): ReadonlySet<string> =>
  new Set(Array.from(leavesOf(shape), ([, leaf]) => (leaf.type === 'identifier' ? leaf.kind : '')));

/** Returns the file that a value names as a whole. `undefined`: the value is text or other data. */
async function fileIn(
  thread: OwnJournal,
  data: Json,
): Promise<Outcome<{ file: FileBlock; marks: Descriptor } | undefined>> {
  const artifact = getOwn(data, 'artifact');
  const isFile = typeof artifact === 'string' && fileKind(textAt(data, 'mime')) !== undefined;
  return isFile ? await findFile(thread, artifact) : ok(undefined);
}

/** Returns an answer that fits the schema. Asks a second time if necessary, then fails with `output_invalid`. */
export async function askReader(thread: Thread, reading: ReaderTask): Promise<Outcome<ReadAnswer>> {
  const shape = readShape(reading.schema);
  if (!shape.ok) return shape;
  const { read, marks } = reading;
  const { text } = read;
  if (text.trim() === '') return fail('invalid_input', 'the text to read is empty');
  if (text.length > MAX_READ) {
    const message = `the text to read has ${text.length} characters; pass at most ${MAX_READ}`;
    return fail('invalid_input', message);
  }
  const system = shippedInstruction(thread.ports, 'system/quarantined_reader');
  if (!system.ok) return system;
  const found = await fileIn(thread, read.data);
  if (!found.ok) return found;
  const { file, marks: own = EMPTY } = found.output ?? {};
  // Any data can name a file, so the answer carries the marks of the file too.
  const all = mergeDescriptors(marks, own);
  const identifiers = await identifiersOf(thread, kindsIn(shape.output));
  if (!identifiers.ok) return identifiers;
  // The journal has the whole answer, including parts that are not used.
  thread.talk.conversation.learn(all, false);
  const isMentioned = mentionsOf(file ? null : read.data);
  let problem = '';
  for (let tries = 0; tries < 2; tries++) {
    const mark = `=====${Buffer.from(thread.ports.random(MARK_BYTES)).toString('hex')}=====`;
    const text = promptOf(reading, mark, problem, file !== undefined);
    const prompt = makeValue(text, { descriptor: all });
    const question = { prompt, tier: undefined, system: system.output, file };
    const reply = await askModel(thread, question, () => handleSignalsBetween(thread));
    if (!reply.ok) return reply;
    const fits = readAnswer(shape.output, reply.output.text, identifiers.output, isMentioned);
    if (fits.ok) {
      const marks = mergeDescriptors(fits.output.marks, removeLabels(own, ['untrusted']));
      return ok({ ...fits.output, marks });
    }
    problem = fits.error.detail.message;
  }
  return fail('output_invalid', `the answer of the reader does not fit the schema: ${problem}`);
}
