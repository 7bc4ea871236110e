// Compiles `value with { … }`: options for one statement or process.
import { isObject } from '@kernmantle/core/base';
import { childFrame, type GuardSelection, type Value } from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import type { Compiler, Environment, Eval, ProcessOptions } from '../run/environment.ts';
import type { Expression, NodeOf } from '../syntax/ast.ts';
import { OPTION_NAMES, UNITS_MS } from '../syntax/pipeline.ts';
import { isTruthy } from '../values/kinds.ts';
import { formatReader } from '../values/transforms.ts';
import { narrowedEnv } from './policy.ts';

/** Options of a value. The options of a guard's decision are left out. */
const NAMES = [...OPTION_NAMES].filter((name) => !/^(?:add|remove)Labels$/.test(name));

const OF_LISTS: readonly string[] = ['separator', 'template'];
const OF_STAGES: readonly string[] = ['format', 'parallel', 'delay'];

/** Fails on an unknown option, and on one that would have no effect. */
function refuseUnknown({ value, options: { entries } }: NodeOf<'with'>): void {
  const isList = value.kind === 'foreach';
  for (const key of entries.keys()) {
    if (!NAMES.includes(key))
      raise('invalid_input', `\`with { ${key}: … }\` is not an option`, { hint: NAMES.join(', ') });
    if (!isList && OF_LISTS.includes(key))
      raise('invalid_input', `\`with { ${key}: … }\` is an option of \`foreach\` only`);
    if (isList && OF_STAGES.includes(key))
      raise('invalid_input', `\`with { ${key}: … }\` is not an option of \`foreach\``);
  }
}

/** Returns milliseconds. A number is in seconds; a text such as `"250ms"`, `"5s"` or `"2m"` has a unit. */
function durationMs(value: Value): number {
  const { data } = value;
  if (typeof data === 'number' && data > 0) return data * 1000;
  const match = typeof data === 'string' ? /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(data.trim()) : null;
  if (!match)
    return raise('invalid_input', `\`${value.text}\` is not a duration`, {
      hint: 'write a text such as `"500ms"`, `"10s"` or `"2m"`',
    });
  return Number(match[1]) * (UNITS_MS[match[2] ?? 's'] ?? 1000);
}

function names(value: unknown): string[] {
  const list = Array.isArray(value) ? value : [value];
  return list.map((name) => (String(name).startsWith('@') ? String(name) : `@${String(name)}`));
}

/** Reads the option `guards`: `false`, `{ only: […] }` or `{ except: […] }`. Fails on other objects. */
function selectionOf({ data }: Value): GuardSelection | undefined {
  if (data === false) return { only: [] };
  if (!isObject(data)) return undefined;
  if (data['only'] !== undefined) return { only: names(data['only']) };
  if (data['except'] !== undefined) return { except: names(data['except']) };
  return raise('invalid_input', '`guards` takes `false`, `{ only: […] }` or `{ except: […] }`');
}

/** Compiles one option; absent if it was not written. */
export function compileOption(
  c: Compiler,
  options: NodeOf<'options'> | undefined,
  name: string,
): Eval | undefined {
  const node = options?.entries.get(name);
  return node && c.expression(node);
}

/** Compiles the options of a process. An option that is absent keeps the value of the outer `with`. */
export function compileProcess(
  c: Compiler,
  node: NodeOf<'options'>,
): Eval<ProcessOptions> | undefined {
  const stdin = compileOption(c, node, 'stdin');
  const timeout = compileOption(c, node, 'timeout');
  const stream = compileOption(c, node, 'stream');
  if (!stdin && !timeout && !stream) return undefined;
  return async (env) => {
    const input = await stdin?.(env);
    const limit = await timeout?.(env);
    const flag = await stream?.(env);
    const outer = env.process;
    return {
      stdin: input ?? outer?.stdin,
      timeoutMs: limit ? durationMs(limit) : outer?.timeoutMs,
      isStream: flag ? isTruthy(flag) : (outer?.isStream ?? false),
    };
  };
}

/** Compiles the value with its stages. `format` applies to the source of the pipeline, or to the value. */
function compileStaged(c: Compiler, { value, options }: NodeOf<'with'>): Eval {
  const format = compileOption(c, options, 'format');
  const stages = options.pipeline ?? [];
  if (!format) return options.pipeline ? c.stages(value, stages) : c.expression(value);
  if (value.kind === 'pipeline' && value.source)
    return c.stages(value.source, [...value.stages, ...stages], format);
  if (options.pipeline) return c.stages(value, stages, format);
  const evaluate = c.expression(value);
  return async (env) => {
    const read = formatReader(await format(env));
    return read(await evaluate(env));
  };
}

/** Compiles a value with options. `inner` replaces the evaluation of the value itself. */
export function compileWith(c: Compiler, node: NodeOf<'with'>, inner?: Eval): Eval {
  const { options } = node;
  refuseUnknown(node);
  const evaluate = inner ?? compileStaged(c, node);
  const process = compileProcess(c, options);
  const guards = options.entries.get('guards');
  const policy = options.entries.get('policy');
  const judged = guards ? withGuards(c, guards, evaluate) : evaluate;
  const selected = policy ? withPolicy(c, policy, judged) : judged;
  if (!process) return selected;
  return async (env) => {
    const processOptions = await process(env);
    if (options.pipeline && processOptions.isStream) refuseJudged(env);
    return await selected({ ...env, process: processOptions });
  };
}

/** Fails if a guard could refuse the result of a stage, because streamed output cannot be withdrawn. */
function refuseJudged({ frame }: Environment): void {
  const stage = { type: 'pipeline-stage' as const, name: '', opLabels: [] };
  if (frame.guards.mayObjectAfter(stage, frame.held))
    raise('invalid_input', 'a pipeline cannot stream while a guard judges its result');
}

/** INVARIANT: privileged guards and policies always run. Leaving out other guards always gives a warning. */
export function withGuards(c: Compiler, node: Expression, inner: Eval, isStatement = false): Eval {
  const evaluate = c.expression(node);
  return async (env) => {
    const selection = selectionOf(await evaluate(env));
    if (!selection) return await inner(env);
    if (isStatement) env.run.warn('the option `guards` switches guards off', env.unit, node.at);
    return await inner({ ...env, frame: childFrame(env.frame, { selection }) });
  };
}

export function withPolicy(c: Compiler, node: Expression, inner: Eval): Eval {
  const evaluate = c.expression(node);
  return async (env) => await inner(narrowedEnv(env, await evaluate(env)));
}
