// Runs pipelines. A stage can request that the stage before it runs again. The number of repetitions is
// limited per requesting stage and per stage, and guards share these limits.
import { isObject, type Json } from '@kernmantle/core/base';
import {
  type ActPorts,
  childFrame,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  makeValue,
  mergeDescriptors,
  type RetryBudget,
  retryHint,
  type TraceEntry,
  type Value,
} from '@kernmantle/core/flow';
import { raise, toFault } from '../fault.ts';
import { leaveOf } from '../run/control-values.ts';
import {
  type Environment,
  type Eval,
  type Pipe,
  pipeFacts,
  type Try,
  type Walk,
} from '../run/environment.ts';
import { valueAt } from '../run/operate.ts';
import { isAbsent, isReadNull } from '../values/kinds.ts';

const MAX_ATTEMPTS = 10;
const MAX_RUNS = 20;

/** One stage: a function, code or a group, with the effects that follow it. */
export interface StagePlan {
  readonly name: string;
  readonly run: Walk;
  readonly effects: readonly Walk[];
}

export interface SourcePlan {
  /** Absent: the caller passes the value. */
  readonly evaluate: Eval | undefined;
  /** True for a call, command or code, which can run again. */
  readonly repeats: Eval<boolean>;
  readonly effects: StagePlan['effects'];
}

interface Context {
  attempt: number;
  readonly tries: Try[];
  readonly outputs: Value[];
  hint: Value | undefined;
  /** True if a guard made the request. Then the stage itself also receives the hint. */
  isOfGuard?: boolean;
}

/** State of a pipeline while it runs. */
class State {
  readonly env: Environment;
  readonly source: SourcePlan;
  /** Outputs of the stages; `outputs[0]` is the output of the source. */
  readonly outputs: Value[] = [];
  readonly inputs: Value[] = [];
  readonly runs: number[] = [];
  readonly contexts = new Map<number, Context>();
  readonly history: Value[][] = [];
  readonly guards: Json[] = [];
  /** Marks of the results that requested another attempt. */
  requestMarks: Descriptor = EMPTY;

  constructor(env: Environment, source: SourcePlan) {
    this.env = env;
    this.source = source;
  }
}

const NO_TRIES: readonly never[] = Object.freeze([]);

const FIRST: Context = { attempt: 1, tries: [], outputs: [], hint: undefined };

interface Pass {
  readonly stage: number;
  readonly input: Value;
  readonly context: Context;
}

function pipeOf(state: State, { stage, input, context }: Pass): Pipe {
  return {
    stage,
    attempt: context.attempt,
    hint: context.hint,
    input,
    outputs: state.outputs.slice(0, Math.max(stage, 1)),
    tries: context.tries.length === 0 ? NO_TRIES : [...context.tries],
    reruns: context.attempt > 1 ? [...context.outputs] : undefined,
    history: state.history.length === 0 ? NO_TRIES : state.history.map((outputs) => [...outputs]),
    guards: state.guards,
  };
}

function stageEnv(state: State, pass: Pass): { env: Environment; budget: RetryBudget } {
  const { context, stage } = pass;
  const pipe = pipeOf(state, pass);
  const budget = {
    attempt: context.attempt,
    max: MAX_ATTEMPTS,
    isLimit: true,
    hints: context.tries.flatMap((one) => (one.hint ? [one.hint.text] : [])),
  };
  const ctx = { pipe: () => pipeFacts(pipe) };
  const frame = childFrame(state.env.frame, { ctx, retry: budget, influence: state.requestMarks });
  const process = stage === 0 ? state.env.process : undefined;
  const isGuarded = frame.guards.list.length > 0;
  const act = isGuarded ? { ...state.env.act, record: recorder(state) } : state.env.act;
  return { env: { ...state.env, frame, act, pipe, note: undefined, process }, budget };
}

/** Returns an observer that adds one record to `@p.guards` for each check of the pipeline. */
function recorder({ env, guards }: State): NonNullable<ActPorts['record']> {
  const outer = env.act.record;
  return (entry) => {
    // A successful stage has recorded its checks before its body ran.
    const isRecorded = entry.op.type === 'pipeline-stage' && entry.outcome.ok;
    if (entry.trace.length > 0 && !isRecorded) guards.push(checkOf(entry.trace));
    return outer?.(entry);
  };
}

export function checkOf(trace: readonly TraceEntry[]): Json {
  const hints = trace.filter(({ decision }) => decision === 'retry');
  const decisions = new Set(trace.map(({ decision }) => decision));
  return {
    trace: trace.map((entry) => ({ ...entry })),
    hints: hints.map(({ guardName, reason }) => ({ guardName, hint: reason })),
    decision: ['deny', 'ask', 'retry'].find((one) => decisions.has(one)) ?? 'allow',
  };
}

/** The result of a stage: a value, or a request to compute its input again. */
type Staged =
  | { readonly value: Value }
  /** `marks` are the marks of everything that decided about the request. */
  | { readonly hint: Value | undefined; readonly marks: Descriptor; readonly isOfGuard?: boolean };

function answerOf(value: Value): Staged {
  const leaving = leaveOf(value);
  const marks = value.meta.descriptor;
  if (leaving?.word === 'retry')
    return { hint: isAbsent(leaving.value) ? undefined : leaving.value, marks };
  if (leaving) return { value: leaving.value };
  const { data } = value;
  if (data === 'retry') return { hint: undefined, marks };
  if (!isObject(data) || data['value'] !== 'retry') return { value };
  return { hint: makeValue(data['hint'] ?? null, { descriptor: marks }), marks };
}

async function runStage(state: State, plan: StagePlan, pass: Pass): Promise<Staged> {
  const { stage, input } = pass;
  state.inputs[stage] = input;
  const { env, budget } = stageEnv(state, pass);
  countRun(state, stage, plan.name);
  try {
    const answer = answerOf(await plan.run(input, env));
    if ('value' in answer && plan.effects.length > 0)
      await runEffects(plan.effects, answer.value, env);
    return answer;
  } catch (error) {
    return requestOfGuard(error, budget, stage, plan);
  }
}

/** Returns the request of a guard that decided retry, within the same limits. Throws other faults. */
function requestOfGuard(
  error: unknown,
  budget: RetryBudget,
  stage: number,
  plan: StagePlan,
): Staged {
  const fault = toFault(error);
  const hint = retryHint(fault.fault, budget);
  if (hint !== undefined)
    return { hint: makeValue(hint), marks: descriptorOfFault(fault.fault), isOfGuard: true };
  const { detail } = fault.fault;
  if (detail['stage'] === undefined) {
    fault.message = `stage ${stage} (\`${plan.name}\`): ${detail.message}`;
    Object.assign(detail, { stage, stage_name: plan.name, message: fault.message });
  }
  throw fault;
}

export async function runEffects(
  effects: StagePlan['effects'],
  value: Value,
  env: Environment,
): Promise<void> {
  for (const effect of effects) await effect(value, env);
}

function countRun(state: State, stage: number, name: string): void {
  const runs = (state.runs[stage] ?? 0) + 1;
  state.runs[stage] = runs;
  if (runs > MAX_RUNS) tooOften(`\`${name}\` ran ${MAX_RUNS} times in one pipeline`);
}

const tooOften = (message: string): never =>
  raise('quota_exceeded', message, {
    limit: 'attempts',
    hint: 'let the stage that returns `retry` return a value after some attempts',
  });

/** Runs the source, or runs it again for the first stage. */
async function runSource(state: State, context: Context): Promise<void> {
  const { source } = state;
  const current = state.outputs[0] ?? makeValue(null);
  const { env } = stageEnv(state, { stage: 0, input: current, context });
  countRun(state, 0, 'the source');
  const ready = takeSource((await source.evaluate?.(env)) ?? current);
  state.outputs[0] = ready;
  await runEffects(source.effects, ready, env);
}

function takeSource(value: Value): Value {
  const leaving = leaveOf(value);
  if (leaving?.word === 'retry')
    raise('invalid_input', '`retry` is not allowed in the source of a pipeline');
  return leaving ? leaving.value : value;
}

/** Runs the stages. The result of each decides which stage runs next. */
async function runStages(state: State, stages: readonly StagePlan[]): Promise<Value> {
  let stage = 1;
  for (let plan = stages[0]; plan; plan = stages[stage - 1]) {
    const asking = state.contexts.get(stage);
    const serving = state.contexts.get(stage + 1) ?? FIRST;
    // The hint is for the stage that computes the input, and for the stage itself if a guard made the
    // request.
    const own = asking && { ...asking, hint: asking.isOfGuard ? asking.hint : undefined };
    const context = own ?? serving;
    const input = valueAt(state.outputs, stage - 1);
    const answer = await runStage(state, plan, { stage, input, context });
    if ('value' in answer) {
      finish(state, stage, answer.value);
      if (endsHere(answer.value)) break;
      stage += 1;
    } else {
      // A repeated stage runs because of the result of the requesting stage, so it has its marks.
      state.requestMarks = mergeDescriptors(state.requestMarks, answer.marks);
      stage = await repeatInput(state, stage, plan.name, answer);
    }
  }
  return valueAt(state.outputs, -1);
}

/** True for an empty result, which ends the pipeline. */
const endsHere = (value: Value): boolean =>
  value.data === '' || (value.data === null && !isReadNull(value));

function finish(state: State, stage: number, value: Value): void {
  state.outputs.length = stage;
  state.outputs.push(
    endsHere(value) ? makeValue('', { descriptor: value.meta.descriptor }) : value,
  );
  const context = state.contexts.get(stage);
  if (context) {
    state.contexts.delete(stage);
    if (context.outputs.length > 0) state.history.push(context.outputs);
  }
  const serving = state.contexts.get(stage + 1);
  if (serving) serving.outputs.push(valueAt(state.outputs, stage));
}

/** Repeats the computation of a stage's input. Returns the stage that runs next. */
async function repeatInput(
  state: State,
  stage: number,
  name: string,
  { hint, isOfGuard = false }: Exclude<Staged, { value: Value }>,
): Promise<number> {
  const context = state.contexts.get(stage) ?? { ...FIRST, tries: [], outputs: [] };
  state.contexts.set(stage, context);
  const input = valueAt(state.outputs, stage - 1);
  context.tries.push({ attempt: context.attempt, result: 'retry', hint, output: input });
  context.attempt += 1;
  Object.assign(context, { hint, isOfGuard });
  if (context.attempt > MAX_ATTEMPTS)
    tooOften(`\`${name}\` requested another attempt ${MAX_ATTEMPTS} times`);
  if (stage > 1) {
    state.outputs.length = stage - 1;
    return stage - 1;
  }
  if (await state.source.repeats(state.env)) await runSource(state, context);
  context.outputs.push(valueAt(state.outputs, 0));
  return stage;
}

/** Runs a pipeline. `firstInput` is its input if the source is not an expression. */
export async function runPipeline(
  env: Environment,
  source: SourcePlan,
  stages: readonly StagePlan[],
  firstInput?: Value,
): Promise<Value> {
  const state = new State(env, source);
  if (firstInput) state.outputs.push(firstInput);
  else await runSource(state, FIRST);
  if (firstInput && source.effects.length > 0)
    await runEffects(
      source.effects,
      firstInput,
      stageEnv(state, { stage: 0, context: FIRST, input: firstInput }).env,
    );
  const value = await runStages(state, stages);
  const stage = stages.length;
  const input = state.inputs[stage] ?? value;
  // A guard on the result reads the counters of the attempt that computed it.
  const context = { ...FIRST, attempt: Math.max(1, state.runs.at(-1) ?? 1) };
  env.note?.(pipeFacts(pipeOf(state, { stage, input, context })));
  return value;
}
