// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Runs a script text. The text is parsed completely before its first statement runs. `runScript` never
// throws: it returns the fault, and the effects before the fault have been delivered.
import { dirname, relative } from 'node:path';
import { setImmediate as othersTurn, setTimeout as wait } from 'node:timers/promises';
import {
  type Diagnostic,
  type Json,
  type JsonObject,
  parseJson,
  parseYaml,
} from '@kernmantle/core/base';
import {
  type ActPorts,
  addMarks,
  childFrame,
  createFrame,
  type Descriptor,
  describe,
  type Effect,
  EMPTY,
  type Frame,
  makeContainer,
  makeValue,
  type Value,
} from '@kernmantle/core/flow';
import { createCompiler } from './compile/compiler.ts';
import { writeReleased } from './compile/effect.ts';
import { createImports, judgeExports } from './compile/module.ts';
import { compileTop, printReturn } from './compile/statement.ts';
import { raise, ScriptFault, toFault } from './fault.ts';
import { lineOf, locationOf, locationText, type SyntaxProblem } from './problem.ts';
import { leaveOf } from './run/control-values.ts';
import {
  asPath,
  type Environment,
  joinPaths,
  newPath,
  type RunState,
  type SourceUnit,
} from './run/environment.ts';
import { createLive, type LiveCount } from './run/live.ts';
import { ARITIES, PROVIDED } from './run/names.ts';
import { VariableScope } from './run/scope.ts';
import type { Mode, ScriptTree } from './syntax/ast.ts';
import { filterFindings } from './syntax/filters.ts';
import { parseScript } from './syntax/parse.ts';
import { labelFindings } from './syntax/rule.ts';
import { type NameFinding, nameFindings, type Surroundings, testsName } from './syntax/unbound.ts';
import { absent, isAbsent } from './values/kinds.ts';
import type { ScriptWorld } from './world.ts';

/** One text that a run printed or wrote. A run delivers its effects in order. */
export interface ScriptEffect {
  readonly kind: string;
  readonly text: string;
  readonly target?: string;
  readonly labels: readonly string[];
  readonly taint: readonly string[];
  readonly line: number | null;
  /** True if `onOutput` has already received this text in pieces. */
  readonly isShown?: true;
}

export interface ScriptOptions {
  /** Absolute path, or a name such as `<stdin>`. */
  readonly file: string;
  /** Name of the file in errors. Absent: `file`. */
  readonly name?: string;
  /** Folder from which relative paths start. Absent: the folder of `file`. */
  readonly folder?: string;
  readonly mode: Mode;
  readonly world: ScriptWorld;
  /** Guards, policies and ports in force. Absent: a new frame without any. */
  readonly frame?: Frame;
  /** Callbacks before and after every operation of the script. */
  readonly act?: ActPorts;
  readonly payload?: JsonObject;
  /** Returns the text of stdin. It is called when the script first reads `@input`; JSON is parsed. */
  readonly stdin?: () => string;
  /** Variables, and the fields of `@input`: the inputs of a directive or the parameters of a tool. */
  readonly inputs?: ReadonlyMap<string, Value>;
  readonly mayBePrivileged?: boolean;
  /** True if privileged guards of the script may make exceptions to policies. It is never true in a thread. */
  readonly mayLift?: boolean;
  /** Cancels the script. Loops check it. Started processes and calls receive the signal themselves. */
  readonly signal?: AbortSignal;
  onEffect?(effect: ScriptEffect): void;
  /** Receives text that is printed `with { stream: true }` in pieces. It must not throw. */
  onOutput?(text: string): void;
}

/** Returns a fault as a diagnostic. A fault without a location gets line 1 of `file`. */
export function diagnosticOf(fault: ScriptFault, file: string): Diagnostic {
  const { location: place } = fault;
  const { code, detail } = fault.fault;
  const where = place
    ? lineAt({ name: place.file, text: place.text }, place.at)
    : { file, line: 1, column: 1 };
  return { ...where, code, severity: 'error', ...messageTexts(detail) };
}

function lineAt(unit: { name: string; text: string }, at: number) {
  const end = unit.text.indexOf('\n', at);
  const from = unit.text.lastIndexOf('\n', at - 1) + 1;
  return { ...locationOf(unit, at), text: unit.text.slice(from, end < 0 ? undefined : end) };
}

const messageTexts = ({ message, hint }: { message: string; hint?: Json }) => ({
  message,
  ...(typeof hint === 'string' ? { hint } : {}),
});

interface ScriptResult {
  /** Absent if the script reached its end. */
  readonly fault: ScriptFault | undefined;
  /** Value of `return { … }`. Absent: the script returned no outputs. */
  readonly outputs: Value | undefined;
  readonly text: string;
  /** Syntax problems. If the list is not empty, no statement ran. */
  readonly diagnostics: readonly Diagnostic[];
}

const folderOf = (file: string): string => (file.startsWith('<') ? process.cwd() : dirname(file));

function unitOf(
  script: ScriptTree,
  { file, name = file, folder = folderOf(file) }: Pick<ScriptOptions, 'file' | 'name' | 'folder'>,
  module?: Descriptor,
): SourceUnit {
  const { value } =
    script.frontMatter === undefined ? { value: null } : parseYaml(script.frontMatter);
  return {
    file,
    name,
    folder,
    text: script.text,
    frontMatter: addMarks(
      makeValue(value, { descriptor: describe({ taint: ['src:file'] }) }),
      module ?? EMPTY,
    ),
    isModule: module !== undefined,
    marks: module ?? EMPTY,
    scope: new VariableScope('file', undefined),
    exports: { names: undefined },
    guards: new Set(),
    testsName: (variable) => testsName(script.body, variable),
  };
}

function diagnosticsOf(
  problems: readonly SyntaxProblem[],
  text: string,
  file: string,
): Diagnostic[] {
  const unit = { name: file, text };
  return problems.map((problem) => ({
    ...lineAt(unit, problem.at),
    code: `script_${problem.code}`,
    severity: 'error',
    ...messageTexts(problem),
  }));
}

/** Names and modules that a script gets from outside of its text; `Surroundings` describes them. */
export type AroundScript = Partial<Omit<Surroundings, 'provided' | 'arity'>>;

/** Returns the name problems of a script that can be found without a run, such as names that are not defined. */
export function unboundIn(tree: ScriptTree, around: AroundScript = {}): NameFinding[] {
  const surroundings = { inputs: [], module: () => undefined, ...around };
  return [
    ...nameFindings(tree, {
      provided: PROVIDED,
      arity: (name) => ARITIES.get(name),
      ...surroundings,
    }),
    ...labelFindings(tree),
    ...filterFindings(tree, surroundings.module),
  ].sort((a, b) => a.at - b.at);
}

/** Returns the syntax problems of a text, or its name problems if the syntax is correct. */
export function diagnose(
  text: string,
  file: string,
  mode: Mode,
  around?: AroundScript,
): Diagnostic[] {
  const { script, problems } = parseScript(text, { mode, file });
  if (!script) return diagnosticsOf(problems, text, file);
  const unit = { name: file, text };
  return unboundIn(script, around).map((finding) => ({
    ...lineAt(unit, finding.at),
    code: `script_${finding.code}`,
    severity: finding.severity,
    ...messageTexts(finding),
  }));
}

/** Runs the statements of a file in order. `=> v` at the top level ends the file. */
async function runBody(
  script: ScriptTree,
  unit: SourceUnit,
  run: RunState,
): Promise<Value | undefined> {
  const c = createCompiler(unit);
  const env: Environment = {
    scope: unit.scope,
    unit,
    run,
    frame: run.ground,
    chain: undefined,
    pipe: undefined,
    path: { ...newPath(), marks: unit.marks },
    note: undefined,
    isDefining: unit.isModule,
    named: [],
    process: undefined,
    act: run.act,
  };
  let returned: Value | undefined;
  for (const node of script.body) {
    if (node.kind === 'text') {
      const { kind, text, at } = node;
      const effect = { kind, value: makeValue(text), text, line: lineOf(unit, at) };
      if (!unit.isModule) run.ground.ports.effects?.(effect);
      continue;
    }
    const done = compileTop(c, node)(env);
    const leaving = leaveOf(done instanceof Promise ? await done : done);
    if (!leaving) continue;
    returned = leaving.word === 'return' ? leaving.value : undefined;
    if (!unit.isModule && returned && !run.outputs)
      await printReturn({ ...env, frame: run.ground }, returned, node.at);
    break;
  }
  await judgeExports(env);
  return returned;
}

/** Returns the printed line of an effect; `undefined` if the effect prints nothing to stdout. */
const lineOfEffect = ({ kind, text = '' }: Effect): string | undefined => {
  if (kind === 'text') return text;
  return kind === 'show' || kind === 'run' ? `${text}\n` : undefined;
};

function syntaxFault(problem: SyntaxProblem | undefined, text: string, name: string): ScriptFault {
  const { at, ...texts } = problem ?? { at: 0, message: 'the script does not parse' };
  const detail = { ...messageTexts(texts), kind: 'syntax' };
  return new ScriptFault({ code: 'invalid_item', detail }).locate({ file: name, text, at });
}

function inputValue(options: ScriptOptions): Value {
  const { inputs, stdin } = options;
  if (inputs) return makeContainer(inputs);
  const descriptor = describe({ taint: ['src:user'] });
  const text = stdin?.() ?? '';
  if (text === '') return absent();
  const parsed = parseJson(text);
  return makeValue(parsed.ok ? parsed.output : text, { descriptor, text });
}

/** A loop gives the event loop a turn after this many rounds. */
const ROUNDS = 64;

async function yieldTurn(signal: AbortSignal | undefined): Promise<void> {
  await othersTurn();
  if (signal?.aborted) raise('cancelled', 'the script was cancelled');
}

async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  await wait(ms, undefined, signal && { signal }).catch(() => undefined);
  if (signal?.aborted) raise('cancelled', 'the script was cancelled');
}

function startRun(options: ScriptOptions): { run: RunState; printed: string[] } {
  const printed: string[] = [];
  const pending: Promise<unknown>[] = [];
  const calls: string[] = [];
  const live: LiveCount = { open: 0 };
  const deliver = (effect: Effect, isShown = false): void => {
    const line = lineOfEffect(effect);
    if (line !== undefined) printed.push(line);
    writeReleased(effect, run);
    const { labels, taint } = effect.value.meta.descriptor;
    const { kind, text = '', line: at = null, target } = effect;
    const more = {
      ...(target === undefined ? {} : { target }),
      ...(isShown && { isShown }),
    };
    options.onEffect?.({ kind, text, labels, taint, line: at, ...more });
  };
  const ground = childFrame(options.frame ?? createFrame(), {
    ports: { effects: (effect) => deliver(effect) },
    ctx: { tools: () => ({ calls: [...calls] }) },
  });
  let input: Value | undefined;
  let rounds = 0;
  const run: RunState = {
    world: options.world,
    act: options.act ?? {},
    ground,
    get input() {
      input ??= inputValue(options);
      return input;
    },
    payload: makeValue(options.payload ?? {}, { descriptor: describe({ taint: ['src:user'] }) }),
    environment: new Map(),
    helpers: { js: new Map(), node: new Map(), py: new Map() },
    calls,
    policies: [],
    outputs: undefined,
    document: () => printed.join(''),
    warn(message, unit, at) {
      const text = `${locationText(unit, at)}: ${message}`;
      deliver({ kind: 'warning', value: makeValue(message), text, line: lineOf(unit, at) });
    },
    live: (line) =>
      createLive(live, options.onOutput, (text, descriptor) => {
        const value = makeValue(text, { descriptor });
        deliver({ kind: 'run', value, text, line }, options.onOutput !== undefined);
      }),
    stderr: (text) => deliver({ kind: 'stderr', value: makeValue(text), text }),
    later(work) {
      const path = asPath(run, work);
      pending.push(path);
      // `joinPaths` reports a rejection; without this handler Node would report it as unhandled first.
      path.catch(() => undefined);
    },
    written: () => (pending.length === 0 ? undefined : joinPaths(run, pending.splice(0))),
    yieldTurn(pauseMs = 0) {
      if (pauseMs > 0) return pause(pauseMs, options.signal);
      return ++rounds % ROUNDS === 0 ? yieldTurn(options.signal) : undefined;
    },
    mayBePrivileged: ({ file, isModule }) =>
      options.mayBePrivileged === true &&
      (!isModule || !relative(options.world.root, file).startsWith('..')),
    mayLift: options.mayLift === true,
    import: createImports(async ({ text, descriptor }, path, env) => {
      const mode = path.endsWith('.mld') ? 'strict' : 'markdown';
      const { script, problems } = parseScript(text, { mode, file: path });
      if (!script) throw syntaxFault(problems[0], text, path);
      const unit = unitOf(script, { file: path }, descriptor);
      return { unit, returned: await runBody(script, unit, env.run) };
    }),
  };
  return { run, printed };
}

export async function runScript(text: string, options: ScriptOptions): Promise<ScriptResult> {
  const { file, mode, inputs } = options;
  const name = options.name ?? file;
  const { script, problems } = parseScript(text, { mode, file });
  if (!script) {
    const fault = syntaxFault(problems[0], text, name);
    const diagnostics = diagnosticsOf(problems, text, name);
    return { fault, outputs: undefined, text: '', diagnostics };
  }
  const { run, printed } = startRun(options);
  let fault: ScriptFault | undefined;
  try {
    const unit = unitOf(script, options);
    for (const [input, value] of inputs ?? []) unit.scope.bind(input, 'ambient', value);
    await runBody(script, unit, run);
    await run.written();
  } catch (error) {
    fault = toFault(error);
  } finally {
    options.world.js.close();
  }
  const outputs = run.outputs && !isAbsent(run.outputs) ? run.outputs : undefined;
  return { fault, outputs, text: printed.join(''), diagnostics: [] };
}
