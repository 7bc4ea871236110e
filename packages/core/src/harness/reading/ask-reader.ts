// One request to a model that has no tools, in a conversation of its own: it sees a fixed instruction, what
// the caller wants and the text, and answers by a schema. Whoever wrote the text may take it over; then it
// can choose among the answers that the schema leaves, and nothing else.
import { fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { carries, type Descriptor, labelFields, makeValue, type Value } from '../../flow/index.ts';
import { decodeAll, type ToolResult } from '../../journal/index.ts';
import type { Ending } from '../loop.ts';
import { saidIn } from '../rights/mentioned-values.ts';
import { declaredFacts } from '../rights/origins.ts';
import { askModel } from '../script-thread/script-actions.ts';
import { wholeResult } from '../step/large-result.ts';
import { obeySignals } from '../thread/interruption.ts';
import { resultIn } from '../thread/recorded-answers.ts';
import type { Thread } from '../thread/thread.ts';
import { type AnswerShape, leavesOf, readShape } from './answer-shape.ts';
import { type Identifiers, namedIn, type ReadAnswer, readAnswer } from './read-answer.ts';

/** In characters; a window holds little more, and whoever reads so much has not been asked for anything. */
const MAX_READ = 400_000;
const MARK_BYTES = 12;

interface ReaderTask {
  /** What is to be done with it, in the caller's words. */
  readonly task: string;
  readonly schema: Json;
  readonly read: Value;
  readonly marks: Descriptor;
}

/** The text stands between two lines that nobody who wrote it could know. */
function promptOf(
  { task, schema, read: { text } }: ReaderTask,
  mark: string,
  problem: string,
): string {
  const again = problem === '' ? [] : [`Your last answer was not used: ${problem}. Answer again.`];
  return [
    task,
    `Answer with one JSON value that fits this schema, and with nothing else: ${JSON.stringify(schema)}`,
    ...again,
    `What you read stands between the two lines ${mark}`,
    '',
    mark,
    text,
    mark,
  ].join('\n');
}

/** Shipped, and nobody else's: the one instruction that the reader has. */
function instruction({ ports: { library } }: Thread): Outcome<string> {
  const found = library.find('knowledge', 'system/quarantined_reader', 'bundle');
  if (!found.ok) return found;
  return found.output.signature.state === 'bundle'
    ? ok(found.output.text.trim())
    : fail('signature_invalid', 'the instruction of the reader is not the one that was shipped');
}

const SPOKEN_TO: Ending = { status: 'interrupted', reason: 'somebody spoke to the thread' };

/** The request was called off. A call that its model waits for ends with it; a script goes on. */
export async function heardBetween(thread: Thread): Promise<Ending | undefined> {
  if (thread.talk.conversation.pending().length > 0) return SPOKEN_TO;
  await thread.journal.catchUp();
  const told = obeySignals(thread);
  if (told) thread.control.ending ??= told;
  return told;
}

/** A result with what its tool says of its fields: where that is kinds alone, its file says it. */
function toldIn(ports: Thread['ports'], result: ToolResult): Value | undefined {
  const told = resultIn(result);
  if (!told.ok || result.facts) return told.ok ? told.output : undefined;
  const declared = declaredFacts(ports, result.tool ?? '');
  return declared && labelFields(told.output, declared);
}

/** Of these kinds, as the journal has them: whatever process went on with the thread knows the same. */
async function identifiersOf(
  { ports, place: { id }, journal }: Thread,
  kinds: ReadonlySet<string>,
): Promise<Outcome<Identifiers>> {
  const known = new Map<string, Map<string, Value>>();
  if (kinds.size === 0) return ok(known);
  await journal.flush();
  const stored = await ports.threads.history(id);
  const events = stored.ok ? decodeAll(stored.output) : stored;
  if (!events.ok) return events;
  for (const { type, data } of events.output) {
    if (type !== 'tool_result' || data.is_error) continue;
    const content = await wholeResult(ports, id, data.content);
    const result = toldIn(ports, { ...data, content });
    for (const [kind, leaf] of result ? namedIn(result) : []) {
      if (!kinds.has(kind)) continue;
      const written = known.get(kind) ?? known.set(kind, new Map()).get(kind);
      // Whom no stranger has told counts before one whom a stranger could have told.
      const isForeign = carries(leaf.meta.descriptor, 'untrusted');
      if (!isForeign || !written?.has(leaf.text)) written?.set(leaf.text, leaf);
    }
  }
  return ok(known);
}

/** Wholes of single texts: nothing that is put together of two of them was said. */
function saysIn(read: Json): (text: string) => boolean {
  let said: Set<string> | undefined;
  return (text) => {
    said ??= new Set(Array.from(leavesIn(read), (leaf) => [...saidIn(leaf, true)]).flat());
    return said.has(text);
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

/** The answer, by the schema: asked once more when it does not fit, then `output_invalid`. */
export async function askReader(thread: Thread, reading: ReaderTask): Promise<Outcome<ReadAnswer>> {
  const shape = readShape(reading.schema);
  if (!shape.ok) return shape;
  const { read, marks } = reading;
  const { text } = read;
  if (text.trim() === '') return fail('invalid_input', 'there is nothing to read');
  if (text.length > MAX_READ) {
    const message = `${text.length} characters are too many to read at once, at most ${MAX_READ}; pass a part`;
    return fail('invalid_input', message);
  }
  const system = instruction(thread);
  if (!system.ok) return system;
  const known = await identifiersOf(thread, kindsIn(shape.output));
  if (!known.ok) return known;
  // What it says stands in the journal, also what is not used of it.
  thread.talk.conversation.learn(marks, false);
  const isSaid = saysIn(read.data);
  let problem = '';
  for (let tries = 0; tries < 2; tries++) {
    const mark = `=====${Buffer.from(thread.ports.random(MARK_BYTES)).toString('hex')}=====`;
    const prompt = makeValue(promptOf(reading, mark, problem), { descriptor: marks });
    const question = { prompt, tier: undefined, system: system.output };
    const said = await askModel(thread, question, () => heardBetween(thread));
    if (!said.ok) return said;
    const fits = readAnswer(shape.output, said.output.text, known.output, isSaid);
    if (fits.ok) return fits;
    problem = fits.error.detail.message;
  }
  return fail('output_invalid', `the reader did not answer by the schema: ${problem}`);
}
