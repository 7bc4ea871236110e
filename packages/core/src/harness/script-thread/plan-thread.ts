// A planned thread. The model writes all steps down before it has read anything of strangers; the text is
// checked, noted, shown, and then it is what is done: what tools bring back fills values and adds no step.
// A step that fails may lead to another plan, which is made from the same trusted words, from ids, numbers
// and known codes. INVARIANT: a plan that is noted is never asked for again, however often the thread is
// taken up; and no plan has read what a step of it, or of one before it, brought.
import { hash } from 'node:crypto';
import { join } from 'node:path';
import { type Failure, fail, type Json, type Outcome, ok } from '../../base/index.ts';
import { carries, makeValue, type Value } from '../../flow/index.ts';
import { planReplies, type Recorded } from '../../journal/index.ts';
import type { ModelReply } from '../../llm/index.ts';
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
/** One that does not pass is asked for once more, with what is wrong. */
const MAX_TRIES = 2;

type Between = () => Promise<Ending | undefined>;
type After = NonNullable<PlanNote['after']>;

/** What was done by plans of this thread, with what it brought. */
interface Done extends DoneStep {
  readonly value: Value;
}

/** Everything that holds while a thread is planned. */
interface Planning {
  readonly thread: Thread;
  readonly ground: PlanGround;
  readonly done: Done[];
  readonly between: Between;
}

/** The replies that were to be this plan. Replies that a guard or a hook withheld are left out. */
const repliesIn = (history: readonly Recorded[], number: number): ModelReply[] =>
  planReplies(history, number).flatMap((at) => replyAt(history, at) ?? []);

const textOf = ({ content }: ModelReply): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

/** Half a plan could pass as a whole one. */
const isWhole = ({ stop, broken }: ModelReply): boolean => stop === 'end' && !broken;

/** The same thread in a talk of its own, without tools. */
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

/** Noted before anything of it is done. */
async function note(
  { thread, ground, done }: Planning,
  tools: PlanGround['tools'],
  plan: { number: number; text: string; after: After | undefined; reading: PlanReading },
): Promise<Outcome<PlanNote>> {
  const { number, text, after, reading } = plan;
  const { place, ports, journal } = thread;
  const strangers = done.flatMap(({ isUntrusted }, at) => (isUntrusted ? [`done${at + 1}`] : []));
  const hidden = ground.isHidden ? variablesOf(place, ground, []) : [];
  const needs = planNeeds(ports, reading, tools, new Set([...strangers, ...hidden]));
  const data: PlanNote = {
    number,
    text,
    sha256: hash('sha256', text),
    marks: packMarks(planMarks(ground)),
    ...(after && { after }),
    needs,
  };
  const noted = await journal.commit({ type: 'plan', data }, {});
  return noted.ok ? ok(data) : noted;
}

const interrupted = ({ error }: Failure): Ending => ({
  status: 'interrupted',
  reason: error.detail.message,
  code: error.code,
});

/** Asked for, at most twice, and checked; what was said before the process was lost is not asked again. */
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
  const said = repliesIn(history, number);
  for (let tries = Math.max(1, said.length); ; tries++) {
    // Of those that were said the last one counts: it was asked for because the others did not pass.
    const last = said.splice(0).at(-1);
    const answer = last ? { reply: last } : await ask(planning, talk);
    if ('ending' in answer) return answer;
    const words = textOf(answer.reply);
    const text = planIn(words);
    const reading = await ports.script.readPlan(text, variablesOf(place, ground, done));
    const tools = toolsFor(thread, ground, reading);
    const problems = isWhole(answer.reply)
      ? planProblems(ports, reading, tools, place.directive)
      : ['it broke off before its end'];
    if (text === '') problems.push('it is empty');
    if (problems.length === 0) {
      const noted = await note(planning, tools, { number, text, after, reading });
      return noted.ok ? noted.output : { ending: interrupted(noted) };
    }
    const reason = `plan ${number} cannot be used: ${problems.join('; ')}`;
    const refused = fail('plan_invalid', reason, { plan: number, problems });
    if (tries >= MAX_TRIES) return { ending: { status: 'failed', reason, code: 'plan_invalid' } };
    if (!last) journal.note({ type: 'error', data: refused.error });
    // Providers take no empty texts.
    conversation.assistant(words === '' ? [] : [{ type: 'text', text: words }]);
    conversation.user(repairRequest(problems), ground.marks, true);
  }
}

/** What a plan is told about a failure: a tool may say anything, also in its codes. */
const TOLD: ReadonlySet<string> = new Set([
  ...(['invalid_input', 'not_found', 'ambiguous', 'timeout', 'rate_limit', 'conflict'] as const),
  ...(['network_error', 'http_error', 'tool_failed', 'output_invalid'] as const),
]);

/** Somebody said no, or nobody can say what happened: no other plan is made then. */
const ENDS =
  /^(?:permission_denied|signature_invalid|approval_\w+|cancelled|needs_input|outcome_unknown|steps_differ|internal_error|hook_\w+|ended_by_hook|\w+_exceeded|stale_epoch|lease_\w+|store_\w+|journal_\w+)$/;

/** What a plan may do: call the tools it names. What it did is kept, so that another may go on from it. */
function bindActions(
  own: ScriptActions,
  named: ReadonlySet<string>,
  done: Done[],
  failed: (step: After) => void,
): ScriptActions {
  const closed = async (): Promise<Failure> =>
    fail('permission_denied', 'a plan acts through the tools that it names, and in no other way');
  return {
    auth: () => own.auth(),
    check: (need) => own.check(need),
    ask: (...given) => own.ask(...given),
    paths: (change) => own.paths(change),
    async tool(id, values, frame) {
      // INVARIANT: whatever came back before, only a step that stands in the text is done.
      if (!named.has(id)) return await closed();
      const outcome = await own.tool(id, values, frame);
      if (outcome.ok) done.push({ tool: id, ...kept(outcome.output) });
      else failed({ code: outcome.error.code, tool: id, step: done.length + 1 });
      return outcome;
    },
    help: closed,
    model: closed,
    act: closed,
  };
}

const kept = (value: Value): Omit<Done, 'tool'> => ({
  value,
  isUntrusted: carries(value.meta.descriptor, 'untrusted'),
});

/** Inputs, the message, and what was done before, each with its own labels. */
function variables({ thread, ground, done }: Planning): ReadonlyMap<string, Value> {
  const { directive, inputs } = thread.place;
  const marks = givenMarks(thread);
  const { message } = ground;
  return new Map([
    ...(message === '' ? [] : [['message', makeValue(message, { descriptor: marks })] as const]),
    ...inputValues(directive, inputs, marks),
    ...done.map(({ value }, at) => [`done${at + 1}`, value] as const),
  ]);
}

/** How it ended, or why another plan may be made. */
async function runPlan(
  planning: Planning,
  plan: PlanNote,
  record: RecordedSteps,
): Promise<Ending | After> {
  const { thread, done, between } = planning;
  const { ports } = thread;
  const given = variables(planning);
  const { steps } = await ports.script.readPlan(plan.text, [...given.keys()]);
  const named = new Set(steps.map(({ tool }) => tool));
  const trouble: { step?: After } = {};
  const request = {
    text: plan.text,
    file: join(ports.project, `<plan ${plan.number}>`),
    line: 1,
    column: 1,
    inputs: given,
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
  const ending = endingOf(thread, ran.answer, record);
  const code = ending.status === 'failed' && !thread.control.ending ? (ending.code ?? '') : '';
  if (code === '' || ENDS.test(code)) return ending;
  const told = TOLD.has(code) ? code : 'tool_failed';
  return plan.number < MAX_PLANS ? { ...trouble.step, code: told } : ending;
}

async function doneBefore(
  { ports, place }: Pick<Thread, 'ports' | 'place'>,
  history: readonly Recorded[],
): Promise<{ done: Done[]; count: number }> {
  const whole = (content: Json) => wholeResult(ports, place.id, content);
  const steps = await recordedSteps(history, whole);
  const done = [...steps.values()].flatMap(({ intent: { verb, tool }, result }) =>
    verb === 'execute' && result?.ok ? [{ tool, ...kept(result.output) }] : [],
  );
  return { done, count: steps.size };
}

/** It is there, and nothing of it is done; what it needs stands below it, as comments. */
const checked = ({ text, needs = [] }: PlanNote): Ending => ({
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
  const noted = history.findLast((event) => event.type === 'plan');
  const before = noted ? history.filter(({ seq }) => seq <= noted.seq) : [];
  const past = await doneBefore(thread, before);
  const planning: Planning = { thread, ground: groundOf(thread), done: past.done, between };
  const whole = (content: Json) => wholeResult(ports, place.id, content);
  let plan = noted?.data;
  let rest = history.slice(before.length);
  let { count } = past;
  let after: After | undefined;
  for (let number = plan?.number ?? 1; ; number++) {
    const stopped = plan ? undefined : await between();
    if (stopped) return stopped;
    const made = plan ?? (await makePlan(planning, number, after, history));
    if ('ending' in made) return made.ending;
    if (place.plan === 'check') return checked(made);
    const record = await createScriptRecord(rest, whole, count, () => thread.journal.catchUp());
    const ran = await runPlan(planning, made, record);
    if ('status' in ran) return ran;
    [plan, rest, count, after] = [undefined, [], record.count(), ran];
  }
}
