// Values on their way into code blocks: data as data, files as bare text or data, and the whole value
// only where `.keep` asks for it.
import {
  childFrame,
  type Frame,
  type Input,
  type MaybePromise,
  makeValue,
  mergeAll,
  type Operation,
  type Value,
} from '../../flow/index.ts';
import { raise } from '../fault.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  type Executable,
  given,
  type Named,
  resolvePath,
  type SourceUnit,
} from '../run/environment.ts';
import { operate, passedAt, unwrap } from '../run/operate.ts';
import type {
  CodeExpression,
  CommandExpression,
  TemplateExpression,
  Using,
} from '../syntax/ast.ts';
import { placeOf } from '../syntax/problem.ts';
import { parseJsonText, plainCopy, stageInput } from '../values/data.ts';
import { isFunctionData } from '../values/function-data.ts';
import { absent, isAbsent } from '../values/kinds.ts';
import { mxOf } from '../values/metadata.ts';
import { stageText, textOf } from '../values/text.ts';
import type { JsArgument, JsHelper, ProcessRequest, ProcessResult } from '../world.ts';
import {
  commandKeys,
  compileLines,
  joinWords,
  valuesIn,
  type Word,
  withValues,
  writtenIn,
} from './command-line.ts';

function jsArgument(value: Value, isStage: boolean): JsArgument {
  if (isAbsent(value)) return { kind: 'undefined' };
  if (isFunctionData(value.data)) {
    return raise(
      'invalid_input',
      'a function cannot be handed to code; make it a helper with `exe js = { … }`',
    );
  }
  if (value.meta.origin['keep'] === true) {
    return { kind: 'kept', text: textOf(value), data: value.data, mx: plainCopy(mxOf(value).data) };
  }
  const ready = isStage ? stageInput(value) : value;
  const isData = typeof ready.data === 'object' && ready.data !== null;
  if (isData && (ready.hasOwnText || isStage)) {
    return { kind: 'textual', data: ready.data, text: textOf(ready), isStage };
  }
  return { kind: 'data', data: ready.data };
}

const jsHelpers = (
  helpers: ReadonlyMap<string, Executable>,
  env: Environment,
): readonly JsHelper[] =>
  helpers.size === 0
    ? NONE
    : [...helpers].map(([name, executable]) => helperOf(name, executable, env));

const NONE: readonly JsHelper[] = Object.freeze([]);

function helperOf(name: string, executable: Executable, env: Environment): JsHelper {
  const { parameters, source } = executable.signature;
  return {
    name,
    parameters,
    source,
    async call(values, descriptor) {
      const inputs = values.map((data) => given(makeValue(data, { descriptor })));
      return await executable.call(inputs, { env, at: 0, isStage: false });
    },
  };
}

// Commands and code. Each is an operation of its own, unless it is the whole body of a function: then
// it is part of the call, and only policy and capabilities look at the finished command again.

/** `isPart`: the whole body of a function. `named`: its parameters. */
export type Execute = (
  env: Environment,
  named: readonly Named[],
  isPart: boolean,
  isStage: boolean,
) => MaybePromise<Value>;

/** Guards were asked for the call; policies and privileged guards still look at what is really run. */
const partFrame = (env: Environment, isPart: boolean): Environment =>
  isPart ? { ...env, frame: childFrame(env.frame, { selection: { only: [] } }) } : env;

const inputsOf = (named: readonly Named[]): Input[] =>
  named.map(({ name, value }) => ({ name, value }));

/** What `output … to env:NAME` left for every process after it. */
const environmentOf = ({ run }: Environment): Named[] =>
  [...run.environment].map(([name, value]) => ({ name, value }));

function operationOf(
  unit: SourceUnit,
  kind: string,
  at: number,
  more: Partial<Operation> = {},
): Operation {
  return {
    type: 'run',
    subtype: kind,
    name: '',
    opLabels: [`op:${kind}`],
    source: `src:${kind}`,
    location: placeOf(unit, at),
    ...more,
  };
}

function compileUsing(
  c: Compiler,
  using: Using | undefined,
): ((env: Environment) => Promise<readonly Named[]>) | undefined {
  if (!using) return undefined;
  const evaluate = c.expression(using.value, 'value');
  return async (env) => [{ name: using.name, value: await evaluate(env) }];
}

function compileFolder(
  c: Compiler,
  folder: TemplateExpression | undefined,
): ((env: Environment) => Promise<string>) | undefined {
  if (!folder) return undefined;
  const evaluate = c.text(folder.parts);
  return async (env) => resolvePath(env, (await evaluate(env)).text);
}

const variables = (named: readonly Named[]): Record<string, string> =>
  Object.fromEntries(
    named.map(({ name, value }) => [name, isAbsent(value) ? '' : stageText(value)]),
  );

/** Starts it; what it printed is the value, trimmed at the end, data when it is JSON. */
async function start(
  env: Environment,
  request: Pick<ProcessRequest, 'kind' | 'source' | 'env' | 'folder'>,
  stdin: Value | undefined,
): Promise<Value> {
  const { run, process, frame } = env;
  const given = process?.stdin ?? stdin;
  const full: ProcessRequest = {
    ...request,
    stdin: given && stageText(given),
    timeoutMs: process?.timeoutMs,
    onOutput: undefined,
  };
  await run.written();
  return resultOf(env, unwrap(await run.world.process(full, frame)), request.kind);
}

function resultOf(env: Environment, result: ProcessResult, kind: string): Value {
  const { code, signal, stdout, stderr } = result;
  if (code !== 0 || signal) {
    const how = signal ? `was ended by ${signal}` : `failed with exit code ${code}`;
    const said = stderr.trim() === '' ? '' : `: ${stderr.trim()}`;
    return raise(
      'tool_failed',
      `the ${kind === 'cmd' ? 'command' : `${kind} block`} ${how}${said}`,
      {
        exit_code: code,
        stderr,
      },
    );
  }
  if (stderr.trim() !== '') env.run.stderr(stderr, env);
  const text = stdout.trimEnd();
  return parseJsonText(makeValue(text, { text }));
}

export function compileCommand(c: Compiler, node: CommandExpression): Execute {
  const lines = compileLines(c, node);
  const using = compileUsing(c, node.using);
  const folder = compileFolder(c, node.folder);
  return async (env, _named, isPart, isStage) => {
    const words = await lines(env);
    const given = using ? await using(env) : [];
    const place = folder ? await folder(env) : env.unit.folder;
    const extra = [...environmentOf(env), ...given];
    return await runCommand(partFrame(env, isPart), node.at, words, extra, place, isStage);
  };
}

function runCommand(
  env: Environment,
  at: number,
  lines: readonly (readonly Word[])[],
  extra: readonly Named[],
  folder: string,
  isStage: boolean,
): Promise<Value> {
  const finished = lines.map(joinWords);
  const stdin = env.process?.stdin ?? (isStage ? env.pipe?.input : undefined);
  const values = valuesIn(lines);
  const inputs: Input[] = [
    ...values.map((value, index) => ({ name: `value${index + 1}`, value })),
    ...inputsOf(extra),
    ...(stdin ? [{ name: 'stdin', value: stdin }] : []),
  ];
  const keys = commandKeys(finished);
  const op = operationOf(env.unit, 'cmd', at, {
    opLabels: ['op:cmd', ...keys],
    sources: commandKeys(lines.map(writtenIn)).map(
      (key) => `command:${key.slice('op:cmd:'.length).replaceAll(':', ' ')}`,
    ),
    metadata: { command: finished.join('\n'), ...(env.process?.isStream ? { stream: true } : {}) },
  });
  return operate(env, op, inputs, (passed, inner) => {
    const source = withValues(lines, passed).map(joinWords);
    const variable = extra.map(({ name }, index) => ({
      name,
      value: passedAt(passed, values.length + index),
    }));
    const input = stdin && passedAt(passed, -1);
    return start(inner, { kind: 'cmd', source, env: variables(variable), folder }, input);
  });
}

const LANGUAGES = { sh: 'sh', bash: 'sh', js: 'js', node: 'node', py: 'py' } as const;

/** What code sees by name: a function's parameters and the names before the braces. */
export function compileCode(c: Compiler, node: CodeExpression): Execute {
  const kind = LANGUAGES[node.language];
  const names = node.names.map((reference) => ({
    name:
      reference.steps.length === 0
        ? reference.name
        : (lastField(reference.steps) ?? reference.name),
    evaluate: c.expression(reference, 'operand'),
  }));
  const using = compileUsing(c, node.using);
  const folder = compileFolder(c, node.folder);
  const run = kind === 'js' ? runJs(node) : runCode(node, kind);
  const op = operationOf(c.unit, kind, node.at);
  return async (env, named, isPart, isStage) => {
    const all = [...named];
    for (const { name, evaluate } of names) all.push({ name, value: await evaluate(env) });
    const given = using ? await using(env) : [];
    const extra = kind === 'js' ? given : [...environmentOf(env), ...given];
    const stdin = kind !== 'js' ? env.process?.stdin : undefined;
    const inputs = [
      ...inputsOf(all),
      ...inputsOf(extra),
      ...(stdin ? [{ name: 'stdin', value: stdin }] : []),
    ];
    const place = folder ? await folder(env) : env.unit.folder;
    return await operate(partFrame(env, isPart), op, inputs, (passed, inner) => {
      const values = all.map(({ name }, at) => ({ name, value: passedAt(passed, at) }));
      const extras = extra.map(({ name }, at) => ({
        name,
        value: passedAt(passed, all.length + at),
      }));
      // The whole body of a function is part of the call, so `mx` is the call's.
      const context = isPart ? env.frame : inner.frame;
      return run(inner, values, variables(extras), place, isStage, context);
    });
  };
}

const lastField = (steps: CodeExpression['names'][number]['steps']): string | undefined => {
  const last = steps.at(-1);
  return last?.kind === 'field' ? last.name : undefined;
};

type RunCode = (
  env: Environment,
  named: readonly Named[],
  variables: Record<string, string>,
  folder: string,
  isStage: boolean,
  context: Frame,
) => Promise<Value>;

function runJs(node: CodeExpression): RunCode {
  return async (env, named, _variables, _folder, isStage, context) => {
    const outcome = await env.run.world.js.run({
      source: node.body,
      parameters: named.map(({ name, value }, index) => ({
        name,
        value: jsArgument(value, isStage && index === 0),
      })),
      mx: () => env.run.contextJson(context),
      helpers: jsHelpers(env.run.helpers.js, env),
      timeoutMs: env.process?.timeoutMs,
      descriptor: mergeAll([
        env.frame.influence,
        ...named.map(({ value }) => value.meta.descriptor),
      ]),
    });
    const { value, logs, warnings, descriptor } = unwrap(outcome);
    if (warnings.length > 0) env.run.stderr(`${warnings.join('\n')}\n`, env);
    if (value === undefined || value === null)
      return logs.length > 0 ? makeValue(logs.join('\n'), { descriptor }) : absent(descriptor);
    if (logs.length > 0) env.run.stderr(`${logs.join('\n')}\n`, env);
    return makeValue(value, { descriptor });
  };
}

/** Values are handed over as JSON by the world; shells get them as variables. */
function runCode(node: CodeExpression, kind: 'sh' | 'node' | 'py'): RunCode {
  return (env, named, extra, folder, isStage, context) => {
    if (kind === 'sh') {
      const stdin = isStage ? named[0]?.value : undefined;
      return start(
        env,
        { kind, source: node.body, env: { ...variables(named), ...extra }, folder },
        stdin,
      );
    }
    return runForeign(node, kind, env, named, extra, folder, isStage, context);
  };
}

async function runForeign(
  node: CodeExpression,
  kind: 'node' | 'py',
  env: Environment,
  named: readonly Named[],
  extra: Record<string, string>,
  folder: string,
  isStage: boolean,
  context: Frame,
): Promise<Value> {
  const outcome = await env.run.world.code(
    {
      kind,
      source: node.body,
      parameters: named.map(({ name, value }, index) => ({
        name,
        value: jsArgument(value, isStage && index === 0),
      })),
      mx: env.run.contextJson(context),
      helpers: kind === 'node' ? jsHelpers(env.run.helpers.node, env) : [],
      env: extra,
      folder,
      timeoutMs: env.process?.timeoutMs,
      stdin: env.process?.stdin && stageText(env.process.stdin),
    },
    env.frame,
  );
  const { value, stdout, stderr } = unwrap(outcome);
  if (stderr.trim() !== '') env.run.stderr(stderr, env);
  if (value !== undefined && value !== null) {
    // With a value, what was printed is not the result.
    if (stdout !== '') env.run.stderr(stdout, env);
    return makeValue(value);
  }
  const text = stdout.trimEnd();
  if (text === '') return value === null ? makeValue(null) : absent();
  return kind === 'py' ? parseJsonText(makeValue(text, { text })) : makeValue(text);
}

/** A command or code block where a value stands. */
export const compileExecution =
  (execute: Execute): Eval =>
  (env) =>
    execute(env, env.named, false, false);
