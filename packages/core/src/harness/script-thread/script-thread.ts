// Runs the script of a directive as a thread. Returns its checked outputs, or the reason why there are none.
import {
  fail,
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
} from '../../base/index.ts';
import {
  carries,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type Value,
} from '../../flow/index.ts';
import type { Directive, DirectiveItem, Library } from '../../items/index.ts';
import type { Recorded } from '../../journal/index.ts';
import { checkOutputs } from '../../kernel/index.ts';
import type { Ending } from '../loop.ts';
import { wholeResult } from '../step/large-result.ts';
import { unpackMarks } from '../thread/conversation.ts';
import type { ScriptActions, ScriptAnswer, ScriptRequest } from '../thread/ports.ts';
import type { CallRecord, HarnessPorts, Prepared, Thread } from '../thread/thread.ts';
import { createScriptRecord, differs, type RecordedSteps } from './recorded-steps.ts';
import { createScriptActions } from './script-actions.ts';
import { createGate, createScriptSteps } from './script-steps.ts';

export function scriptOutputs(
  directive: Directive,
  { outputs, fault }: Pick<ScriptAnswer, 'outputs' | 'fault'>,
): Outcome<JsonObject> {
  if (fault) return { ok: false, error: fault };
  if (outputs !== undefined) {
    return isObject(outputs.data)
      ? checkOutputs(directive, outputs.data)
      : fail('invalid_input', `\`/return\` of \`${directive.name}\` must give an object`);
  }
  if (directive.outputs.length === 0) return ok({});
  const names = directive.outputs.map(({ name }) => name).join(', ');
  return fail(
    'invalid_input',
    `the script of \`${directive.name}\` ended without \`/return\`; it declares the outputs ${names}`,
  );
}

/** Returns the file that contains the script: the directive's own, or one that it extends. */
function scriptFile(library: Library, item: DirectiveItem, { process }: Directive): string {
  if (item.directive?.process === process) return item.file;
  const owner = library
    .all()
    .find((one) => one.kind === 'directive' && one.directive?.process === process);
  return owner?.file ?? item.file;
}

/** Script of a directive. The language runs it in place of a model, with the same token, limits and hooks. */
type DirectiveScript = NonNullable<Directive['process']['script']>;

/** Returns a value for every declared and every given input. An absent input is null. */
export function inputValues(
  { inputs: declared }: Directive,
  values: Prepared['inputs'],
  descriptor: Descriptor,
): ReadonlyMap<string, Value> {
  const names = new Set([...declared.map(({ name }) => name), ...Object.keys(values)]);
  const valueOf = (name: string): Value => makeValue(getOwn(values, name) ?? null, { descriptor });
  return new Map([...names].map((name) => [name, valueOf(name)]));
}

/** Returns the request for the script language, without its guards and actions. */
export function scriptRequest(
  ports: Pick<HarnessPorts, 'library' | 'clock'>,
  { item, directive, inputs }: Pick<Prepared, 'item' | 'directive' | 'inputs'>,
  { text, line, column }: DirectiveScript,
  marks: Descriptor,
): Omit<ScriptRequest, 'signal' | 'gate' | 'guards'> {
  const isSigned = item.signature.state === 'signed' || item.signature.state === 'bundle';
  return {
    text,
    file: scriptFile(ports.library, item, directive),
    line,
    column,
    inputs: inputValues(directive, inputs, marks),
    isSigned,
    // INVARIANT: an unsigned script always has the marks of the untrusted data that its author can have read.
    ...(!isSigned && carries(marks, 'untrusted') && { marks }),
    now: ports.clock.now(),
  };
}

/** Returns the marks of the inputs, from the opening in the journal. */
export const givenMarks = ({ talk: { opening } }: Pick<Thread, 'talk'>): Descriptor =>
  unpackMarks(opening.find((event) => event.type === 'tool_result')?.data.marks);

export function endingOf(
  thread: CallRecord & Pick<Thread, 'talk'>,
  answer: ScriptAnswer,
  record: RecordedSteps,
): Ending {
  const { journal, control, talk, place } = thread;
  const lost = journal.lost();
  if (lost) return { status: 'interrupted', reason: lost.error.detail.message };
  const { text } = answer;
  if (control.ending) {
    const marks = mergeDescriptors(answer.marks, talk.conversation.marks());
    return { text, marks, ...control.ending };
  }
  const rest = answer.fault ? undefined : record.left();
  const outputs = rest ? differs('nothing more', rest) : scriptOutputs(place.directive, answer);
  if (outputs.ok) {
    return { status: 'completed', reason: '', text, outputs: outputs.output, marks: answer.marks };
  }
  const { code, detail } = outputs.error;
  const marks = mergeDescriptors(answer.marks, descriptorOfFault(outputs.error) ?? EMPTY);
  const status = code === 'permission_denied' ? 'denied' : 'failed';
  return { status, reason: detail.message, code, text, marks };
}

interface RecordedRun {
  request: ReturnType<typeof scriptRequest>;
  record: RecordedSteps;
  /** Restricts the actions of the script. Absent: all actions. */
  actions?(own: ScriptActions): ScriptActions;
}

/** Runs a script with the thread's token, limits and records. Returns an ending if the thread was stopped before. */
export async function runRecorded(
  thread: Thread,
  { request, record, actions = (own) => own }: RecordedRun,
  between: () => Promise<Ending | undefined>,
): Promise<{ answer: ScriptAnswer } | { ending: Ending }> {
  const { ports, place, control, rights } = thread;
  const stop = new AbortController();
  const row = await ports.store.thread(place.id);
  const stopped = await between();
  if (stopped) return { ending: stopped };
  const steps = createScriptSteps(thread, record, between);
  const answer = await ports.script({
    ...request,
    guards: rights.rules.atStart(),
    now: row.ok ? row.output.created : ports.clock.now(),
    signal: AbortSignal.any([control.signal, stop.signal]),
    gate: createGate(thread),
    actions: actions({
      ...createScriptActions(thread, steps, stop),
      paths: (change) => record.paths(change),
    }),
  });
  return { answer };
}

export async function runScriptThread(
  thread: Thread,
  script: DirectiveScript,
  history: readonly Recorded[],
  between: () => Promise<Ending | undefined>,
): Promise<Ending> {
  const { ports, place } = thread;
  const whole = (content: Json) => wholeResult(ports, place.id, content);
  const record = await createScriptRecord(history, whole, 0, () => thread.journal.catchUp());
  const request = scriptRequest(ports, place, script, givenMarks(thread));
  const ran = await runRecorded(thread, { request, record }, between);
  return 'answer' in ran ? endingOf(thread, ran.answer, record) : ran.ending;
}
