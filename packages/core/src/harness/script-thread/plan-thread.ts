// Runs a planned thread. The model writes all steps before it has read untrusted data. The text is checked, recorded
// and shown, and then it is run: results of tools fill values and add no step. After a failed step the model can
// write another plan, from the same trusted texts, ids, numbers and codes. INVARIANT: a recorded plan is never
// requested again, however often the thread is resumed. The request for a plan never contains the result of a step
// of this plan or of an earlier one.
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { carries, makeValue, type Value } from '../../flow/index.ts';
import { planReplies, type Recorded } from '../../journal/index.ts';
import type { ModelReply } from '../../llm/index.ts';
import { checkGoal } from '../hooks/check-goal.ts';
import type { Ending } from '../loop.ts';
import { wholeResult } from '../step/large-result.ts';
import { Conversation, packMarks, unpackMarks } from '../thread/conversation.ts';
import type { PlanReading, ScriptActions } from '../thread/ports.ts';
import { replyAt } from '../thread/recorded-answers.ts';
import type { Talk, Thread } from '../thread/thread.ts';
import { runTurn } from '../turn/turn.ts';
import { planNeeds, planProblems } from './plan-check.ts';
import {
  type DoneStep,
  groundOf,
  type PlanGround,
  type PlanNote,
  planIn,
  planMarks,
  planRequest,
  repairRequest,
  toolsFor,
  variablesOf,
} from './plan-prompt.ts';
import { createScriptRecord, type RecordedSteps, recordedSteps } from './recorded-steps.ts';
import { endingOf, givenMarks, inputValues, runRecorded } from './script-thread.ts';

const MAX_PLANS = 3;
/** Number of requests for one plan. After an invalid plan the request has a list of its problems. */
const MAX_TRIES = 2;

type Between = () => Promise<Ending | undefined>;
type After = NonNullable<PlanNote['after']>;

/** A finished step of a plan of this thread, with its result. */
interface Done extends DoneStep {
  readonly value: Value;
}

/** The thread, its trusted data and the finished steps, for all plans of one run. */
interface Planning {
  readonly thread: Thread;
  readonly ground: PlanGround;
  readonly done: Done[];
  readonly between: Between;
}

/** Returns the recorded replies for this plan, without those that a guard or a hook withheld. */
const repliesIn = (history: readonly Recorded[], number: number): ModelReply[] =>
  planReplies(history, number).flatMap((at) => replyAt(history, at) ?? []);

const textOf = ({ content }: ModelReply): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** False for a reply that broke off, because half a plan could pass the checks. */
const isWhole = ({ stop, broken }: ModelReply): boolean => stop === 'end' && !broken;

/** Returns a conversation for one plan, without tools. */
function talkFor(
  { talk, ports }: Pick<Thread, 'ports' | 'talk'>,
  conversation: Conversation,
  plan: number,
): Talk {
  const system = ports.library.find('knowledge', 'system/plan_prompt');
  return {
    ...talk,
    conversation,
    plan,
    system: system.ok ? system.output.text : '',
    ratio: undefined,
    fallback: undefined,
    triedModels: new Set(),
    tools: [],
  };
}

async function ask(
  { thread, between }: Planning,
  talk: Talk,
): Promise<{ reply: ModelReply } | { ending: Ending }> {
  for (;;) {
    const turn = await runTurn({ ...thread, talk });
    if ('reply' in turn || 'ending' in turn) return turn;
    const stopped = await between();
    if (stopped) return { ending: stopped };
  }
}

/** Records a plan before any step of it begins. */
async function note(
  { thread, ground, done }: Planning,
  tools: PlanGround['tools'],
  plan: { number: number; text: string; after: After | undefined; reading: PlanReading },
): Promise<Outcome<PlanNote>> {
  const { number, text, after, reading } = plan;
  const { place, ports, journal } = thread;
  const untrusted = done.flatMap(({ isUntrusted }, at) => (isUntrusted ? [`done${at + 1}`] : []));
  const hidden = ground.isHidden ? variablesOf(place, ground, []) : [];
  const files = [...ground.files].flatMap(([name, { meta }]) =>
    carries(meta.descriptor, 'untrusted') ? [name] : [],
  );
  const needs = planNeeds(ports, reading, tools, new Set([...untrusted, ...hidden, ...files]));
  const data: PlanNote = {
    number,
    text,
    sha256: hash('sha256', text),
    marks: packMarks(planMarks(ground)),
    ...(after && { after }),
    needs,
  };
  const recorded = await journal.commit({ type: 'plan', data }, {});
  return recorded.ok ? ok(data) : recorded;
}

const interrupted = ({ error }: Failure): Ending => ({
  status: 'interrupted',
  reason: error.detail.message,
  code: error.code,
});

/** Requests a plan, at most twice, and checks it. A reply from before a crash is not requested again. */
async function makePlan(
  planning: Planning,
  number: number,
  after: After | undefined,
  history: readonly Recorded[],
): Promise<PlanNote | { ending: Ending }> {
  const { thread, ground, done } = planning;
  const { place, ports, journal } = thread;
  const conversation = new Conversation();
  conversation.user(planRequest(thread, ground, done, after), ground.marks);
  const talk = talkFor(thread, conversation, number);
  const replies = repliesIn(history, number);
  for (let tries = Math.max(1, replies.length); ; tries++) {
    // The last recorded reply counts. It was requested because the earlier ones were invalid.
    const last = replies.splice(0).at(-1);
    const answer = last ? { reply: last } : await ask(planning, talk);
    if ('ending' in answer) return answer;
    const words = textOf(answer.reply);
    const text = planIn(words);
    const reading = await ports.script.readPlan(text, variablesOf(place, ground, done));
    const tools = toolsFor(thread, ground, reading);
    const problems = isWhole(answer.reply)
      ? planProblems(ports, reading, tools, place.directive)
      : ['the plan is incomplete'];
    if (text === '') problems.push('it is empty');
    if (problems.length === 0) {
      const recorded = await note(planning, tools, { number, text, after, reading });
      return recorded.ok ? recorded.output : { ending: interrupted(recorded) };
    }
    const reason = `plan ${number} cannot be used: ${problems.join('; ')}`;
    const refused = fail('plan_invalid', reason, { plan: number, problems });
    if (tries >= MAX_TRIES) return { ending: { status: 'failed', reason, code: 'plan_invalid' } };
    if (!last) journal.note({ type: 'error', data: refused.error });
    // Providers reject empty texts.
    conversation.assistant(words === '' ? [] : [{ type: 'text', text: words }]);
    conversation.user(repairRequest(problems), ground.marks, true);
  }
}

/** Codes of failures that the next plan can show. A tool can report any text as its code. */
const SHOWN_CODES: ReadonlySet<string> = new Set([
  ...(['invalid_input', 'not_found', 'ambiguous', 'timeout', 'rate_limit', 'conflict'] as const),
  ...(['network_error', 'http_error', 'tool_failed', 'output_invalid'] as const),
  'criteria_unmet',
]);

/** Codes after which no other plan is made: a refusal, a limit, or an outcome that is not certain. */
const ENDS =
  /^(?:permission_denied|signature_invalid|approval_\w+|cancelled|needs_input|outcome_unknown|steps_differ|internal_error|hook_\w+|ended_by_hook|\w+_exceeded|stale_epoch|lease_\w+|store_\w+|journal_\w+)$/;

/** Returns the actions of a plan, which can only call the tools it names. Results are added to `done`. */
function bindActions(
  own: ScriptActions,
  named: ReadonlySet<string>,
  done: Done[],
  failed: (step: After) => void,
): ScriptActions {
  const closed = async (): Promise<Failure> =>
    fail('permission_denied', 'a plan can only call the tools that it names');
  return {
    auth: () => own.auth(),
    check: (need) => own.check(need),
    ask: (...question) => own.ask(...question),
    paths: (change) => own.paths(change),
    async tool(id, values, frame) {
      // INVARIANT: a tool that the text does not name is never called, whatever earlier results contain.
      if (!named.has(id)) return await closed();
      const outcome = await own.tool(id, values, frame);
      if (outcome.ok) done.push({ tool: id, ...stepResult(outcome.output) });
      else failed({ code: outcome.error.code, tool: id, step: done.length + 1 });
      return outcome;
    },
    help: closed,
    model: closed,
    act: closed,
  };
}

const stepResult = (value: Value): Omit<Done, 'tool'> => ({
  value,
  isUntrusted: carries(value.meta.descriptor, 'untrusted'),
});

/** Returns the inputs, the message and the earlier results, each with its own marks. */
function variables({ thread, ground, done }: Planning): ReadonlyMap<string, Value> {
  const { directive, inputs } = thread.place;
  const marks = givenMarks(thread);
  const { message } = ground;
  return new Map([
    ...(message === '' ? [] : [['message', makeValue(message, { descriptor: marks })] as const]),
    ...inputValues(directive, inputs, marks),
    ...ground.files,
    ...done.map(({ value }, at) => [`done${at + 1}`, value] as const),
  ]);
}

/** Runs a plan. Returns the ending, or the failure after which another plan can be made. */
async function runPlan(
  planning: Planning,
  plan: PlanNote,
  record: RecordedSteps,
): Promise<Ending | After> {
  const { thread, done, between } = planning;
  const { ports } = thread;
  const values = variables(planning);
  const { steps } = await ports.script.readPlan(plan.text, [...values.keys()]);
  const named = new Set(steps.map(({ tool }) => tool));
  const trouble: { step?: After } = {};
  const request = {
    text: plan.text,
    file: join(ports.project, `<plan ${plan.number}>`),
    line: 1,
    column: 1,
    inputs: values,
    isSigned: false,
    now: 0,
    marks: unpackMarks(plan.marks),
  };
  const actions = (own: ScriptActions): ScriptActions =>
    bindActions(own, named, done, (step) => {
      trouble.step = step;
    });
  const ran = await runRecorded(thread, { request, record, actions }, between);
  if ('ending' in ran) return ran.ending;
  const ended = endingOf(thread, ran.answer, record);
  const ending = (await checkGoal(thread, ended, true)) ?? ended;
  const code = ending.status === 'failed' && !thread.control.ending ? (ending.code ?? '') : '';
  if (code === '' || ENDS.test(code)) return ending;
  const shownCode = SHOWN_CODES.has(code) ? code : 'tool_failed';
  return plan.number < MAX_PLANS ? { ...trouble.step, code: shownCode } : ending;
}

async function doneBefore(
  { ports, place }: Pick<Thread, 'ports' | 'place'>,
  history: readonly Recorded[],
): Promise<{ done: Done[]; count: number }> {
  const whole = (content: Json) => wholeResult(ports, place.id, content);
  const steps = await recordedSteps(history, whole);
  const done = [...steps.values()].flatMap(({ intent: { verb, tool }, result }) =>
    verb === 'execute' && result?.ok ? [{ tool, ...stepResult(result.output) }] : [],
  );
  return { done, count: steps.size };
}

/** Returns the ending of a plan that is only checked: its text, with its needs as comments. */
const checkedEnding = ({ text, needs = [] }: PlanNote): Ending => ({
  status: 'completed',
  reason: '',
  text: [text, '', ...needs.map((need) => `>> ${need}`)].join('\n'),
});

export async function runPlannedThread(
  thread: Thread,
  history: readonly Recorded[],
  between: Between,
): Promise<Ending> {
  const { ports, place } = thread;
  const recorded = history.findLast((event) => event.type === 'plan');
  const before = recorded ? history.filter(({ seq }) => seq <= recorded.seq) : [];
  const past = await doneBefore(thread, before);
  const planning: Planning = { thread, ground: groundOf(thread), done: past.done, between };
  const whole = (content: Json) => wholeResult(ports, place.id, content);
  let plan = recorded?.data;
  let rest = history.slice(before.length);
  let { count } = past;
  let after: After | undefined;
  for (let number = plan?.number ?? 1; ; number++) {
    const stopped = plan ? undefined : await between();
    if (stopped) return stopped;
    const current = plan ?? (await makePlan(planning, number, after, history));
    if ('ending' in current) return current.ending;
    if (place.plan === 'check') return checkedEnding(current);
    const record = await createScriptRecord(rest, whole, count, () => thread.journal.catchUp());
    const ran = await runPlan(planning, current, record);
    if ('status' in ran) return ran;
    [plan, rest, count, after] = [undefined, [], record.count(), ran];
  }
}
