// Compiles commands, code blocks and prompts. Each is one operation. A block that is the whole body of a
// function is part of the call instead, and then only policies and capabilities judge the finished command
// again. Values reach code as data, and with their metadata only if `.keep` marks them.
import { fail, ok } from '@kernmantle/core/base';
import {
  childFrame,
  contextOf,
  type Descriptor,
  describe,
  type Frame,
  type Input,
  type MaybePromise,
  makeValue,
  markFailure,
  mergeAll,
  type Operation,
  type Value,
} from '@kernmantle/core/flow';
import { raise } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { commandKeys, withVariables } from '../run/command-words.ts';
import {
  type Compiler,
  type Environment,
  type Eval,
  evaluateAll,
  type Named,
  resolvePath,
  type SourceUnit,
} from '../run/environment.ts';
import { asHelpers, helpersIn, type UsedHelper } from '../run/helpers.ts';
import { streaming } from '../run/live.ts';
import { operate, TIERS, unwrap, valueAt } from '../run/operate.ts';
import type { NodeOf } from '../syntax/ast.ts';
import { parseJsonText, plainCopy, stageInput } from '../values/data.ts';
import { absent, isAbsent, isFunctionData, isKept, isTruthy } from '../values/kinds.ts';
import { mxOf, mxType } from '../values/metadata.ts';
import { stageText, textOf } from '../values/text.ts';
import { commandVariables, networkHint } from '../world/process.ts';
import type { CodeHelper, JsArgument, ProcessRequest } from '../world.ts';
import { compileLines, joinWords, valuesIn, withValues, writtenIn } from './command-line.ts';
import { compileParts, textOfWords } from './text.ts';
import { compileOption } from './with-options.ts';

function jsArgument(value: Value, isStage: boolean): JsArgument {
  if (isAbsent(value)) return { kind: 'undefined' };
  if (isFunctionData(value.data)) {
    const message = 'a function cannot be passed to code; make it a helper with `exe js = { … }`';
    return raise('invalid_input', message);
  }
  if (isKept(value)) {
    const [text, type] = [textOf(value), mxType(value)];
    return { kind: 'kept', text, data: value.data, type, mx: plainCopy(mxOf(value).data) };
  }
  const ready = isStage ? stageInput(value) : value;
  const isData = typeof ready.data === 'object' && ready.data !== null;
  if (isData && (ready.hasOwnText || isStage)) {
    return { kind: 'textual', data: ready.data, text: textOf(ready), isStage };
  }
  return { kind: 'data', data: ready.data };
}

/** In a stage the first argument is the input of the pipeline. */
const argumentsOf = (named: readonly Named[], isStage: boolean) =>
  named.map(({ name, value }, index) => ({
    name,
    value: jsArgument(value, isStage && index === 0),
  }));

const NONE: readonly never[] = Object.freeze([]);

/** Returns the helpers with their captured values from `passed`. `from` is the index of the first value. */
function codeHelpers(
  helpers: readonly UsedHelper[],
  passed: readonly Value[],
  from: number,
): readonly CodeHelper[] {
  let at = from;
  return helpers.map(({ name, executable: { signature }, captured }) => {
    const values = passedAs(captured, passed, at);
    at += captured.length;
    const { parameters, source } = signature;
    // A name in a script may contain `-`, but a name in code may not.
    const own = { name: name.replaceAll('-', '_'), parameters, source };
    return { ...own, captured: argumentsOf(values, false) };
  });
}

/** Runs a command or code. `isPart` is true for the whole body of a function. `named` has its parameters. */
export type Execute = (
  env: Environment,
  named: readonly Named[],
  isPart: boolean,
  isStage: boolean,
) => MaybePromise<Value>;

/** Returns the environment of a finished command. Policies, privileged guards and guards on its words judge it. */
function partFrame(env: Environment, isPart: boolean): Environment {
  if (!isPart) return env;
  const selection = { ...env.frame.selection, partOf: env.frame };
  return { ...env, frame: childFrame(env.frame, { selection, isPart: true }) };
}

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
    location: locationOf(unit, at),
    // Only `js` starts no process, because it runs in the engine.
    ...(kind !== 'js' && { tier: TIERS.process }),
    ...more,
  };
}

interface Setting {
  readonly usingVariables: readonly Named[];
  /** The folder as an input, if a value chose it. */
  readonly placed: readonly Named[];
  /** Returns the folder. `placed` has the value that the guards have judged. */
  folder(placed: readonly Named[]): string;
}

function compileSetting(c: Compiler, { using, folder }: NodeOf<'command' | 'code'>): Eval<Setting> {
  const value = using && c.expression(using.value);
  const path = folder && c.text(folder.parts);
  const isChosen = folder?.parts.some((part) => typeof part !== 'string') ?? false;
  if (!value && !path)
    return ({ unit }) => ({ usingVariables: NONE, placed: NONE, folder: () => unit.folder });
  return async (env) => {
    const written = await path?.(env);
    return {
      usingVariables: using && value ? [{ name: using.name, value: await value(env) }] : NONE,
      placed: written && isChosen ? [{ name: 'folder', value: written }] : NONE,
      folder([one]) {
        const chosen = one?.value ?? written;
        return chosen ? resolvePath(env, textOf(chosen)) : env.unit.folder;
      },
    };
  };
}

/** Returns the variables of a process: those set by `output … to env:NAME`, and its own. */
const extraOf = ({ run }: Environment, own: readonly Named[]): Named[] => [
  ...[...run.environment].map(([name, value]) => ({ name, value })),
  ...own,
];

/** Merges variables. `using` overrides parameters, and parameters override variables from `env:NAME`. */
function nearest(
  extra: readonly Named[],
  parameters: Record<string, string>,
  { length }: readonly Named[],
): Record<string, string> {
  const using = extra.slice(extra.length - length);
  return { ...variables(extra), ...parameters, ...variables(using) };
}

const stdinInput = (value: Value | undefined): Input[] => (value ? [{ name: 'stdin', value }] : []);

const variables = (named: readonly Named[]): Record<string, string> =>
  Object.fromEntries(
    named.map(({ name, value }) => [name, isAbsent(value) ? '' : stageText(value)]),
  );

/** Runs a process. Returns its trimmed output, parsed if it is JSON. Fails with `tool_failed` if the process fails. */
async function start(
  env: Environment,
  at: number,
  request: Pick<ProcessRequest, 'kind' | 'source' | 'env' | 'folder'>,
  stdin: Value | undefined,
): Promise<Value> {
  const { run, process, frame } = env;
  const { kind } = request;
  const input = process?.stdin ?? stdin;
  const more = { stdin: input && stageText(input), timeoutMs: process?.timeoutMs };
  await run.written();
  const { code, signal, stdout, stderr, descriptor } = await streaming(
    env,
    at,
    `src:${kind}`,
    (onOutput) => run.world.process({ ...request, ...more, onOutput }, frame),
  );
  if (code !== 0 || signal) {
    const how = signal ? `was ended by ${signal}` : `failed with exit code ${code}`;
    const errors = stderr.trim() === '' ? '' : `: ${stderr.trim()}`;
    const what = kind === 'cmd' ? 'command' : `${kind} block`;
    const text = typeof request.source === 'string' ? request.source : request.source.join('\n');
    const detail = { exit_code: code, stderr, ...networkHint(text, stderr) };
    return unwrap(
      markFailure(fail('tool_failed', `the ${what} ${how}${errors}`, detail), descriptor),
    );
  }
  if (stderr.trim() !== '') run.stderr(stderr);
  const text = stdout.trimEnd();
  return parseJsonText(makeValue(text, { text, descriptor }));
}

/** Marks the operation as streaming, so that a guard on its result can refuse it before it runs. */
const streamOf = ({ process }: Environment) => (process?.isStream ? { stream: true } : {});

export function compileNames(
  c: Compiler,
  nodes: NodeOf<'command' | 'code'>['names'],
): Eval<Named[]> {
  const names = nodes.map((reference): Eval<Named> => {
    const last = reference.steps.at(-1);
    const name = last?.kind === 'field' ? last.name : reference.name;
    const evaluate = c.expression(reference, 'operand');
    return async (env) => ({ name, value: await evaluate(env) });
  });
  return (env) => evaluateAll(names, env);
}

/** Maximum number of times that guards may change a command. */
const MAX_CHANGES = 3;

const isSame = (one: readonly string[], other: readonly string[]): boolean =>
  one.join('\n') === other.join('\n');

/** Compiles a command. Its environment has the parameters of the function and the variables before the braces. */
export function compileCommand(c: Compiler, node: NodeOf<'command'>): Execute {
  const compiled = compileLines(c, node);
  const setting = compileSetting(c, node);
  const names = compileNames(c, node.names);
  return async (outer, parameters, isPart, isStage) => {
    const env = partFrame(outer, isPart);
    const lines = await compiled(outer);
    const named = [...parameters, ...(await names(outer))];
    const { usingVariables, placed, folder } = await setting(outer);
    const extra = extraOf(outer, usingVariables);
    const finished = lines.map(joinWords);
    const stdin = env.process?.stdin ?? (isStage ? env.pipe?.input : undefined);
    const values = valuesIn(lines);
    const inputs: Input[] = [
      ...values.map((value, index) => ({ name: `value${index + 1}`, value })),
      ...named,
      ...extra,
      ...placed,
      ...stdinInput(stdin),
    ];
    const sources = commandKeys(lines.map(writtenIn));
    const variablesOf = (passed: readonly Value[]): Record<string, string> => {
      const own = variables(passedAs(named, passed, values.length));
      const more = passedAs(extra, passed, values.length + named.length);
      return nearest(more, commandVariables(own), usingVariables);
    };
    /** Returns the command with its variables replaced, for checks only. */
    const readAs = (texts: readonly string[], passed: readonly Value[]): readonly string[] => {
      if (!texts.some((text) => text.includes('$'))) return texts;
      const environment = variablesOf(passed);
      return texts.map((text) => withVariables(text, environment));
    };
    const operationFor = (texts: readonly string[], read: readonly string[]) =>
      operationOf(env.unit, 'cmd', node.at, {
        opLabels: ['op:cmd', ...new Set([...commandKeys(texts), ...commandKeys(read)])],
        sources: sources.map(
          (key) => `command:${key.slice('op:cmd:'.length).replaceAll(':', ' ')}`,
        ),
        metadata: {
          command: texts.join('\n'),
          ...(isSame(texts, read) ? {} : { expanded: read.join('\n') }),
          ...streamOf(env),
        },
      });
    const begin = (passed: readonly Value[], inner: Environment, source: readonly string[]) => {
      const input = stdin && valueAt(passed, -1);
      const place = folder(passedAs(placed, passed, values.length + named.length + extra.length));
      const all = variablesOf(passed);
      return start(inner, node.at, { kind: 'cmd', source, env: all, folder: place }, input);
    };
    /** A command that guards or hooks have changed is judged again as a new command. */
    const attempt = (
      around: Environment,
      texts: readonly string[],
      read: readonly string[],
      judged: readonly Input[],
      changesLeft: number,
    ): MaybePromise<Value> =>
      operate(around, operationFor(texts, read), judged, (passed, inner) => {
        const source = withValues(lines, passed).map(joinWords);
        const now = readAs(source, passed);
        if (isSame(source, texts) && isSame(now, read)) return begin(passed, inner, source);
        if (changesLeft === 0)
          raise(
            'permission_denied',
            'the guards keep changing the command; make them agree on one command',
          );
        const again = inputs.map(({ name }, at) => ({ name, value: valueAt(passed, at) }));
        const part = partFrame(inner, true);
        // Hooks have already run for this command.
        const frame = { ...part.frame, isHooking: true };
        return attempt({ ...part, frame }, source, now, again, changesLeft - 1);
      });
    const first = [...values, ...[...named, ...extra, ...placed].map(({ value }) => value)];
    return await attempt(env, finished, readAs(finished, first), inputs, MAX_CHANGES);
  };
}

/** Returns the variables with the values that the guards have judged. `from` is the index of the first value. */
const passedAs = (named: readonly Named[], passed: readonly Value[], from: number): Named[] =>
  named.map(({ name }, index) => ({ name, value: valueAt(passed, from + index) }));

const LANGUAGES = { sh: 'sh', bash: 'sh', js: 'js', node: 'node', py: 'py' } as const;

/** Compiles a code block. The code reads the parameters of the function and the variables before the braces. */
export function compileCode(c: Compiler, node: NodeOf<'code'>): Execute {
  const kind = LANGUAGES[node.language];
  const names = compileNames(c, node.names);
  const setting = compileSetting(c, node);
  const run = { js: runJs, sh: runShell, node: runForeign, py: runForeign }[kind];
  const details = kind === 'sh' ? { metadata: { command: node.body } } : {};
  const op = operationOf(c.unit, kind, node.at, details);
  return async (env, named, isPart, isStage) => {
    const all = node.names.length === 0 ? named : [...named, ...(await names(env))];
    const { usingVariables, placed, folder } = await setting(env);
    const extra = kind === 'js' ? usingVariables : extraOf(env, usingVariables);
    const stdin = kind === 'js' ? undefined : env.process?.stdin;
    const isAlone = kind === 'sh' || env.run.helpers[kind].size === 0;
    const helpers = isAlone ? NONE : await helpersIn(env, kind, node.body, all);
    const captured = helpers.flatMap((helper) => helper.captured);
    const inputs = [...all, ...extra, ...captured, ...placed, ...stdinInput(stdin)];
    const before = all.length + extra.length;
    const own = env.process?.isStream
      ? { ...op, metadata: { ...op.metadata, ...streamOf(env) } }
      : op;
    return await asHelpers(env, helpers, inputs, (outer, judged) =>
      operate(partFrame(outer, isPart), own, judged, (passed, inner) =>
        run(node, {
          env: inner,
          named: passedAs(all, passed, 0),
          extra: passedAs(extra, passed, all.length),
          usingVariables,
          helpers: codeHelpers(helpers, passed, before),
          marks: marksOfHelpers(helpers),
          folder: folder(passedAs(placed, passed, before + captured.length)),
          isStage,
          // The body of a function is part of the call, so it reads the `mx` of the call.
          context: isPart ? env.frame : inner.frame,
        }),
      ),
    );
  };
}

/** Returns the marks of captured values and the labels of the helpers. */
const marksOfHelpers = (helpers: readonly UsedHelper[]): Descriptor =>
  mergeAll(
    helpers.flatMap(({ captured, executable: { signature } }) => [
      describe({ labels: signature.labels }),
      ...captured.map(({ value }) => value.meta.descriptor),
    ]),
  );

interface CodeRun {
  readonly env: Environment;
  readonly named: readonly Named[];
  readonly extra: readonly Named[];
  /** Variables from `using`, which are the last entries of `extra`. */
  readonly usingVariables: readonly Named[];
  readonly helpers: readonly CodeHelper[];
  /** Marks of the helpers and their captured values. */
  readonly marks: Descriptor;
  readonly folder: string;
  readonly isStage: boolean;
  readonly context: Frame;
}

type RunCode = (node: NodeOf<'code'>, run: CodeRun) => Promise<Value>;

const runJs: RunCode = async ({ body, at }, { env, named, helpers, marks, isStage, context }) => {
  const all = [env.frame.influence, marks, ...named.map(({ value }) => value.meta.descriptor)];
  const { value, logs, warnings, descriptor } = await streaming(env, at, 'src:js', (onOutput) =>
    env.run.world.js.run({
      source: body,
      parameters: argumentsOf(named, isStage),
      mx: () => plainCopy(contextOf(context)),
      helpers,
      timeoutMs: env.process?.timeoutMs,
      descriptor: mergeAll(all),
      onOutput,
    }),
  );
  if (warnings.length > 0) env.run.stderr(`${warnings.join('\n')}\n`);
  if (value === undefined || value === null)
    return logs.length > 0 ? makeValue(logs.join('\n'), { descriptor }) : absent(descriptor);
  if (logs.length > 0 && !env.process?.isStream) env.run.stderr(`${logs.join('\n')}\n`);
  return makeValue(value, { descriptor });
};

/** Runs a shell block. The shell receives values as variables. */
const runShell: RunCode = (
  { body, at },
  { env, named, extra, usingVariables, folder, isStage },
) => {
  const all = nearest(extra, variables(named), usingVariables);
  const stdin = isStage ? named[0]?.value : undefined;
  return start(env, at, { kind: 'sh', source: body, env: all, folder }, stdin);
};

/** Runs a `node` or `py` block. The world passes values as JSON. */
const runForeign: RunCode = async (
  { body, language, at },
  { env, named, extra, helpers, folder, isStage, context },
) => {
  const kind = language === 'py' ? 'py' : 'node';
  const request = {
    kind,
    source: body,
    parameters: argumentsOf(named, isStage),
    mx: plainCopy(contextOf(context)),
    helpers,
    env: variables(extra),
    folder,
    timeoutMs: env.process?.timeoutMs,
    stdin: env.process?.stdin && stageText(env.process.stdin),
  } as const;
  const { value, stdout, stderr, descriptor } = await streaming(
    env,
    at,
    `src:${kind}`,
    (onOutput) => env.run.world.code({ ...request, onOutput }, env.frame),
  );
  if (stderr.trim() !== '') env.run.stderr(stderr);
  if (value !== undefined && value !== null) {
    // If the block returned a value, its printed text is not the result.
    if (stdout !== '' && !env.process?.isStream) env.run.stderr(stdout);
    return makeValue(value, { descriptor });
  }
  const text = stdout.trimEnd();
  if (text === '') return value === null ? makeValue(null, { descriptor }) : absent(descriptor);
  const printed = makeValue(text, kind === 'py' ? { text, descriptor } : { descriptor });
  return kind === 'py' ? parseJsonText(printed) : printed;
};

/** Compiles `prose { … }` and `llm "…"`. The inserted values are inputs of the operation. */
export function compileModel(c: Compiler, node: NodeOf<'model'>): Execute {
  const prompt = compileParts(c, node.prompt.parts);
  const stream = compileOption(c, node.options, 'stream');
  const location = locationOf(c.unit, node.at);
  const op: Operation = { type: 'model', name: '', opLabels: ['op:llm'], location };
  return async (outer, _named, isPart) => {
    const flag = await stream?.(outer);
    const isStream = flag ? isTruthy(flag) : outer.process?.isStream === true;
    const process = { stdin: undefined, timeoutMs: undefined, isStream };
    const lines = [await prompt({ ...outer, process })];
    const inputs = valuesIn(lines).map((value, at) => ({ name: `value${at + 1}`, value }));
    return await operate(partFrame(outer, isPart), op, inputs, async (passed, inner) => {
      const env = { ...inner, process };
      const request = { prompt: textOfWords(withValues(lines, passed).flat()), tier: node.tier };
      const { value, descriptor } = await streaming(env, node.at, 'src:llm', async (onText) => {
        const answer = await env.run.world.model({ ...request, onText }, env.frame);
        return answer.ok
          ? ok({ value: answer.output, descriptor: answer.output.meta.descriptor })
          : answer;
      });
      return makeValue(value.data, { descriptor, text: value.text });
    });
  };
}

export const compileExecution =
  (execute: Execute): Eval =>
  (env) =>
    execute(env, env.named, false, false);
