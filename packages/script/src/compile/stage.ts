// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles the stages of pipelines: functions, transformers, code, commands, effects, `while` and groups.
import { whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  describe,
  makeContainer,
  mergeDescriptors,
  type Operation,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { leaveOf } from '../run/control-values.ts';
import {
  type Compiler,
  constant,
  type Environment,
  type Eval,
  evaluateAll,
  executableOf,
  newPath,
  pipeFacts,
  under,
  type Walk,
} from '../run/environment.ts';
import { isPlace, testsExistence } from '../run/existence.ts';
import { withFacts } from '../run/names.ts';
import { operate } from '../run/operate.ts';
import type { Expression, NodeOf, PipelineStage } from '../syntax/ast.ts';
import { stageInput } from '../values/data.ts';
import { absent, isAbsent } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import { formatReader } from '../values/transforms.ts';
import { compileCode, compileCommand } from './command.ts';
import { compileEffect } from './effect.ts';
import { marksOfRefusal, orDenied } from './function.ts';
import { countOf, DEFAULT_CAP, runBranches } from './loop.ts';
import { checkOf, runEffects, runPipeline, type SourcePlan, type StagePlan } from './pipeline.ts';
import { compileCallee, invoke } from './reference.ts';

type NamedRun = Pick<StagePlan, 'run' | 'name'>;

const stageOperation = ({ unit }: Compiler, name: string, at: number): Operation => ({
  type: 'pipeline-stage',
  subtype: name,
  name,
  opLabels: [],
  location: locationOf(unit, at),
});

/** Compiles a call. The input is the first argument. The call shares the retry limits of the stage. */
function callRun(
  c: Compiler,
  { target: node, at, ...stage }: NodeOf<'call-stage' | 'while-stage'>,
  isFirst = false,
): NamedRun {
  const { target, steps, values: extra } = compileCallee(c, node);
  const fields = steps.flatMap((step) => (step.kind === 'field' ? [step.name] : []));
  const name = [node.name, ...fields].join('.');
  const op = stageOperation(c, name, at);
  // The start of a group has no input: `|| @a(1) || @b(2)` are plain calls.
  const takesInput = !isFirst || extra.length === 0;
  const run: Walk = async (input, outer) => {
    const env = withStream(outer, stage);
    const callee = await target(env);
    const first = takesInput ? [stageInput(input)] : [];
    const executable = executableOf(callee);
    if (!executable)
      return raise('invalid_input', `\`@${name}\` is not a function and cannot be a stage`);
    const call = (values: readonly Eval[], inner: Environment) =>
      invoke(callee, name, values, inner, at, true);
    // Transformers are not operations, so no guard judges them.
    if (executable.signature.bodyKind === 'transformer')
      return await call([...first.map(constant), ...extra], env);
    const values = [...first, ...(await evaluateAll(extra, env))];
    const inputs = values.map((value, index) =>
      index < first.length
        ? { name: 'input', value }
        : { name: `argument${index - first.length + 1}`, value },
    );
    let hasStarted = false;
    const perform = () =>
      operate(env, op, inputs, (passed, inner, { trace }) => {
        hasStarted = true;
        if (trace.length > 0) env.pipe?.guards.push(checkOf(trace));
        return call(passed.map(constant), {
          ...inner,
          pipe: takesInput ? withInput(inner, passed[0]) : inner.pipe,
        });
      });
    const { refused } = executable;
    if (!refused) return await perform();
    return await orDenied(perform, (fault) => {
      const marks = marksOfRefusal(fault, hasStarted, env.frame, values);
      return refused(values, { env, at, isStage: true }, { fault, marks });
    });
  };
  return { run, name };
}

/** Sets `@input` to the input that the guards have judged. */
const withInput = ({ pipe }: Environment, input: Value | undefined): Environment['pipe'] =>
  pipe && input ? { ...pipe, input } : pipe;

/** Returns the environment of an effect, in which `@input` and `@mx.input` are the value of the pipeline. */
function effectEnv(env: Environment, value: Value): Environment {
  const pipe = withInput(env, value);
  return pipe ? { ...withFacts(env, { pipe: () => pipeFacts(pipe) }), pipe } : env;
}

/** Applies `| stream @f` to this stage only. */
const withStream = (env: Environment, stage: object): Environment =>
  'isStream' in stage ? { ...env, process: { ...NO_OPTIONS, isStream: true } } : env;

const NO_OPTIONS = { stdin: undefined, timeoutMs: undefined };

function codeRun(c: Compiler, { code, at, ...stage }: NodeOf<'code-stage'>): NamedRun {
  const execute = code.kind === 'command' ? compileCommand(c, code) : compileCode(c, code);
  const name = code.kind === 'command' ? 'cmd' : code.language;
  const op = stageOperation(c, name, at);
  const run: Walk = (input, outer) => {
    const env = withStream(outer, stage);
    const inputs = [{ name: 'input', value: stageInput(input) }] as const;
    return operate(env, op, inputs, async ([passed], inner) => {
      const here = { ...inner, pipe: withInput(inner, passed) };
      const first = code.kind === 'command' ? [] : [{ name: 'input', value: passed }];
      const named = [...first, ...env.named];
      const value = await execute(here, named, false, true);
      return addMarks(value, describe({ taint: [`src:${name === 'bash' ? 'sh' : name}`] }));
    });
  };
  return { run, name };
}

/** Compiles `while(n) @f`, where `f` returns `done v` or `continue v`. */
function whileRun(c: Compiler, stage: NodeOf<'while-stage'>): NamedRun {
  const { run: once, name } = callRun(c, stage);
  const limit = c.expression(stage.limit);
  const run: Walk = async (input, env) => {
    const rounds = await limit(env);
    const count = countOf(rounds);
    if (!(count > 0))
      return raise('invalid_input', `\`while(${textOf(rounds)})\` needs a number of rounds`);
    let value = input;
    // The results so far decided that there is another round.
    let marks = rounds.meta.descriptor;
    for (let round = 1; round <= count; round++) {
      await env.run.yieldTurn(round > 1 ? stage.pauseMs : 0);
      const facts = { while: { iteration: round, limit: count, active: true } };
      const answer = await once(value, under(withFacts(env, facts), marks));
      const leaving = leaveOf(answer);
      marks = mergeDescriptors(marks, answer.meta.descriptor);
      if (leaving && isAbsent(leaving.value)) value = addMarks(value, marks);
      else if (leaving) value = leaving.value;
      if (leaving?.word !== 'continue') return addMarks(leaving ? value : answer, marks);
    }
    const message = `\`while(${count}) @${name}\` did not finish in ${count} rounds`;
    return raise('quota_exceeded', message, { limit: 'rounds' });
  };
  return { run, name: `while @${name}` };
}

function groupRun(c: Compiler, stage: NodeOf<'group-stage'>, isFirst: boolean): NamedRun {
  const members = plansOf(c, stage.members, [], isFirst ? stage.members.length : 0);
  const cap = stage.cap && c.expression(stage.cap);
  const run: Walk = async (input, env) => {
    const limit = await cap?.(env);
    const count = limit ? Number(limit.data) : DEFAULT_CAP;
    const { results, errors, marks } = await runBranches(
      env,
      members.map((member, index) => ({ member, key: String(index), value: input })),
      Math.max(1, count),
      stage.pauseMs,
      async ({ member }) => {
        const value = await member.run(input, { ...env, path: newPath(env.path) });
        if (leaveOf(value)?.word === 'retry')
          raise('retry_in_group', '`retry` is not allowed in a parallel group');
        await runEffects(member.effects, value, env);
        return value;
      },
      ({ code }) => code === 'retry_in_group',
    );
    env.path.errors = { list: errors, marks };
    return makeContainer(results);
  };
  return { run, name: members.map(({ name }) => name).join(' || ') };
}

function planOf(
  c: Compiler,
  stage: Exclude<PipelineStage, NodeOf<'effect-stage'>>,
  isFirst: boolean,
): NamedRun {
  if (stage.kind === 'code-stage') return codeRun(c, stage);
  if (stage.kind === 'while-stage') return whileRun(c, stage);
  return stage.kind === 'group-stage' ? groupRun(c, stage, isFirst) : callRun(c, stage, isFirst);
}

/** Returns the plans of stages. An effect belongs to the stage before it, or to the source. */
function plansOf(
  c: Compiler,
  stages: readonly PipelineStage[],
  ofSource: Walk[],
  /** Number of stages at the start that have no input. */
  leading = 0,
): StagePlan[] {
  const plans: { run: Walk; name: string; effects: Walk[] }[] = [];
  for (const stage of stages) {
    if (stage.kind === 'effect-stage') {
      const run = compileEffect(c, stage.effect);
      const effects = plans.at(-1)?.effects ?? ofSource;
      effects.push((value, env) => run(effectEnv(env, value), value));
    } else plans.push({ ...planOf(c, stage, plans.length < leading), effects: [] });
  }
  return plans;
}

/** True for calls, commands and code, which can run again. */
function isRepeatable(node: Expression | undefined): boolean {
  if (!node) return false;
  if (node.kind === 'reference') return node.steps.some(({ kind }) => kind === 'call');
  if (node.kind === 'with') return isRepeatable(node.value);
  return /^(?:run-value|command|code|model)$/.test(node.kind);
}

const isName = (node: Expression): node is NodeOf<'reference'> =>
  node.kind === 'reference' && !node.steps.some(({ kind }) => kind === 'call');

/** Compiles a source. The bare name of a function is a call, which can run again. */
function compileSource(c: Compiler, node: Expression): Pick<SourcePlan, 'evaluate' | 'repeats'> {
  const evaluate = c.expression(node);
  if (!isName(node)) return { evaluate, repeats: constant(isRepeatable(node)) };
  return {
    evaluate: (env) =>
      whenReady(evaluate(env), (value) =>
        executableOf(value) ? invoke(value, node.name, [], env, node.at) : value,
      ),
    repeats: (env) => whenReady(evaluate(env), (value) => executableOf(value) !== undefined),
  };
}

export function compilePipeline(
  c: Compiler,
  source: Expression | undefined,
  stages: readonly PipelineStage[],
  format?: Eval,
): Eval {
  const piped = compilePlans(c, source, stages, format);
  const existence = source && compileAsked(c, source, stages);
  if (!existence) return piped;
  return (env) => (env.scope.find(existence.name) ? piped(env) : existence.answer(env));
}

/** Compiles `"a.md" | @exists` like `@exists("a.md")`, because the syntax of the argument matters. */
function compileAsked(c: Compiler, source: Expression, [first, ...rest]: readonly PipelineStage[]) {
  if (first?.kind !== 'call-stage' || !isPlace(source)) return undefined;
  const { name, steps } = first.target;
  if (!testsExistence(name) || steps.length > 0) return undefined;
  const call = { kind: 'call', arguments: [source], at: source.at } as const;
  const question: Expression = { ...first.target, steps: [call] };
  return {
    name,
    answer: rest.length > 0 ? compilePlans(c, question, rest) : c.expression(question),
  };
}

function compilePlans(
  c: Compiler,
  source: Expression | undefined,
  stages: readonly PipelineStage[],
  format?: Eval,
): Eval {
  const effects: Walk[] = [];
  const plans = plansOf(c, stages, effects, source ? 0 : 1);
  if (!source) {
    const plan: SourcePlan = { evaluate: undefined, repeats: constant(false), effects };
    return (env) => runPipeline(env, plan, plans, env.pipe?.input ?? absent());
  }
  const { evaluate, repeats } = compileSource(c, source);
  const formatted: Eval | undefined =
    evaluate && format
      ? async (env) => {
          const read = formatReader(await format(env));
          return read(await evaluate(env));
        }
      : evaluate;
  const plan: SourcePlan = { evaluate: formatted, repeats, effects };
  return (env) => runPipeline(env, plan, plans);
}

export function compilePiped(c: Compiler, stages: readonly PipelineStage[]): Walk {
  const effects: Walk[] = [];
  const plans = plansOf(c, stages, effects);
  const plan: SourcePlan = { evaluate: undefined, repeats: constant(false), effects };
  return (value, env) => runPipeline(env, plan, plans, value);
}
