// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles functions. A call is one operation, and its arguments are the inputs. The body reads the names
// of its file and its parameters, but no variables of the caller.
import { catchToOutcome, type JsonObject, whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type Descriptor,
  descriptorOfFault,
  type Frame,
  type Input,
  isCatchableDenial,
  judgementOf,
  type MaybePromise,
  makeValue,
  marksOfReasons,
  mergeAll,
  type Operation,
  type Value,
  withText,
} from '@kernmantle/core/flow';
import { raise, ScriptFault, toFault } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { leaveOf, refuseLeave, takeReturn } from '../run/control-values.ts';
import {
  type CallChain,
  type CallRefusal,
  type CallSite,
  type Compiler,
  type Environment,
  type Eval,
  Executable,
  type Named,
  newPath,
  type ScriptCall,
  under,
} from '../run/environment.ts';
import { withFacts } from '../run/names.ts';
import { lazyInput, operate } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { Expression, NodeOf } from '../syntax/ast.ts';
import { bodyKindOf } from '../syntax/outline.ts';
import { absent, isFileList } from '../values/kinds.ts';
import { compileCaptureCheck, judgeResult } from './captured.ts';
import {
  compileCode,
  compileCommand,
  compileModel,
  compileNames,
  type Execute,
} from './command.ts';
import { compileArm } from './control-flow.ts';
import { resolveOpen } from './text.ts';
import { compileProcess } from './with-options.ts';

const MAX_DEPTH = 64;
/** After this many nested calls, the next call starts on a new stack. */
const MAX_STACKED = 16;

/** The kind of a function body, with the code that runs it. */
interface FunctionBody {
  readonly kind: string;
  readonly code?: NodeOf<'code'>;
  /** Judges captured values. Absent: the body is one operation, which has them as inputs. */
  check?(env: Environment): Promise<void>;
  run(env: Environment, isStage: boolean): MaybePromise<Value>;
}

const executed = (kind: string, execute: Execute): FunctionBody => ({
  kind,
  run: (env, isStage) => execute(env, env.named, true, isStage),
});

/** Evaluates an argument. If it fails, its marks are added to `recorded`, for the answer to the call. */
const recordMarks =
  (evaluate: Eval, recorded: Descriptor[]): Eval =>
  (env) =>
    catchToOutcome(
      () => evaluate(env),
      (error) => {
        recorded.push(descriptorOfFault(toFault(error).fault));
        throw error;
      },
    );

const PROCESSES = new Set(['cmd', 'sh', 'node', 'py', 'js']);

/** Kinds of bodies that are one value and contain no operation. */
const DATA = new Set(['template', 'template-file', 'reference', 'literal', 'object', 'array']);

/** Compiles a body that is one command, code block or prompt. Returns `undefined` for other bodies. */
function compileProcessBody(c: Compiler, node: Expression): FunctionBody | undefined {
  if (node.kind === 'command') return executed('cmd', compileCommand(c, node));
  if (node.kind === 'model') return executed('llm', compileModel(c, node));
  if (node.kind === 'code')
    return { ...executed(bodyKindOf(node), compileCode(c, node)), code: node };
  if (node.kind !== 'with' || node.options.pipeline) return undefined;
  const isOfProcess = [...node.options.entries.keys()].every((key) => OF_PROCESS.has(key));
  const body = isOfProcess ? compileProcessBody(c, node.value) : undefined;
  const options = body && compileProcess(c, node.options);
  if (!body || !options) return undefined;
  const run: FunctionBody['run'] = async (env, isStage) =>
    await body.run({ ...env, process: await options(env) }, isStage);
  return { ...body, run };
}

const OF_PROCESS: ReadonlySet<string> = new Set(['stdin', 'timeout', 'stream']);

function compileBody(c: Compiler, exe: NodeOf<'exe'>): FunctionBody {
  const { body: node, labels } = exe;
  const inner = node.kind === 'run-value' ? node.action : node;
  const written = bodyKindOf(inner);
  const process = compileProcessBody(c, inner);
  if (process) return process;
  const isRun = inner.kind !== 'with' || PROCESSES.has(written);
  const evaluate = c.expression(node);
  // Open slots of a prompt are filled when the function returns it.
  const run: Eval = (env) => whenReady(evaluate(env), (value) => resolveOpen(value, env));
  const isPlainValue = labels.length > 0 && DATA.has(inner.kind);
  return {
    kind: node.kind !== 'run-value' && isRun ? written : 'exe',
    run: isPlainValue ? (env) => judgeResult(inner, env, run) : run,
    check: compileCaptureCheck(c, exe),
  };
}

function operationOf(node: NodeOf<'exe'>, c: Compiler, kind: string): Operation {
  const keys = [`op:${kind}`, ...(PROCESSES.has(kind) ? [`op:run:${kind}`] : [])];
  return {
    type: 'exe',
    subtype: kind,
    name: node.name,
    labels: node.labels,
    opLabels: keys,
    source: `src:${kind}`,
    sources: [`function:${node.name}`],
    location: locationOf(c.unit, node.at),
  };
}

/** Returns the chain with this call. Fails without the label `recursive`, or if it is nested too deeply. */
function enter(chain: CallChain | undefined, self: object, node: NodeOf<'exe'>): CallChain {
  let depth = 1;
  for (let call = chain; call; call = call.parent) if (call.executable === self) depth++;
  const isRecursive = node.labels.includes('recursive');
  if (depth > 1 && !isRecursive) {
    return raise('invalid_input', `\`@${node.name}\` calls itself`, {
      name: node.name,
      hint: `write \`exe recursive @${node.name}(…)\` to allow it`,
    });
  }
  if (depth > MAX_DEPTH) {
    const message = `\`@${node.name}\` calls itself more than ${MAX_DEPTH} levels deep`;
    return raise('quota_exceeded', message, { limit: 'recursion' });
  }
  return { executable: self, parent: chain, depth: (chain?.depth ?? 0) + 1 };
}

/** Returns the arguments as inputs. A stage without parameters has its input judged too. */
function inputsOf(
  node: NodeOf<'exe'>,
  values: readonly Eval[],
  { env, isStage }: CallSite,
  results: Value[],
): Input[] {
  const names = node.parameters.map(({ name }) => name);
  if (isStage && names.length === 0) names.push('input');
  return values.slice(0, names.length).map((value, at) =>
    lazyInput(env, names[at] ?? '', value, (argument, inner) => {
      const ready = resolveOpen(argument, inner);
      results[at] = ready;
      return ready;
    }),
  );
}

function bindParameters(
  scope: VariableScope,
  node: NodeOf<'exe'>,
  values: readonly Value[],
  isStage: boolean,
  isTemplate: boolean,
): Named[] {
  return node.parameters.map(({ name }, at) => {
    const passed = values[at];
    const isMissing = passed === undefined && !isStage;
    const argument = passed ?? (isStage ? makeValue('') : absent());
    const value = isStage && isTemplate ? bareData(argument) : argument;
    scope.bind(name, 'parameter', value, `the parameters of @${node.name}`, isMissing);
    return { name, value };
  });
}

const isParsed = ({ hasOwnText, data }: Value): boolean =>
  hasOwnText && typeof data === 'object' && data !== null;

/** In a template stage, a parameter with parsed data prints compactly. */
const bareData = (value: Value): Value =>
  isParsed(value) ? makeValue(value.data, { descriptor: value.meta.descriptor }) : value;

/** Returns the value of `=> v`. `retry`, `done` and `continue` are for the caller. */
const valueForCaller = (value: Value, { pipe }: Environment): Value =>
  leaveOf(value)?.word === 'retry' && !pipe ? refuseLeave(value) : takeReturn(value);

/** Returns the data of a function's result. It prints compactly, because its own text is dropped. */
const asData = (value: Value): Value =>
  isParsed(value) && !isFileList(value) ? withText(value, undefined) : value;

/** Compiles the `denied =>` arm of a function whose body is a `when`; absent if it has none. */
function compileDenied(c: Compiler, node: Expression) {
  const items = node.kind === 'when' ? node.items : [];
  for (const arm of items)
    if (arm.kind === 'arm' && arm.condition.kind === 'denied')
      return { action: arm.action, run: compileArm(c, arm) };
  return undefined;
}

/** Returns the reason why a body cannot be a helper. A helper has neither a folder nor a process of its own. */
function refusalOf({ folder, using }: NodeOf<'code'>, isOfCall: boolean): string | undefined {
  if (folder || using)
    return 'has a folder or `using` of its own, so it cannot be a helper; call it with `@…`';
  return isOfCall
    ? 'lists a part of its own parameter before its braces, so it cannot be a helper; read it in the code'
    : undefined;
}

/** Compiles the helper of a code body, for blocks of its language that call it. */
function compileHelper(c: Compiler, node: NodeOf<'exe'>, code: NodeOf<'code'>, op: Operation) {
  const parameters = new Set(node.parameters.map(({ name }) => name));
  const listed = code.names.filter(({ name, steps }) => steps.length > 0 || !parameters.has(name));
  const refusal = refusalOf(
    code,
    listed.some(({ name }) => parameters.has(name)),
  );
  const names = compileNames(c, refusal === undefined ? listed : []);
  return ({ scope }: Environment) => ({
    op,
    marks: c.unit.marks,
    refusal,
    captured: (env: Environment) => names({ ...env, scope, unit: c.unit }),
  });
}

export function compileFunction(
  c: Compiler,
  node: NodeOf<'exe'>,
): (defined: Environment) => Executable {
  const body = compileBody(c, node);
  const denied = compileDenied(c, node.body);
  const stage = operationOf(node, c, body.kind);
  const call = { ...stage, retryOwner: true };
  const signature = {
    name: node.name,
    parameters: node.parameters.map(({ name }) => name),
    labels: node.labels,
    bodyKind: body.kind,
    source: body.code?.body,
  };
  const helped = body.code && compileHelper(c, node, body.code, call);
  return (defined) => {
    /** Returns the environment of the body: its file's names, its parameters and the caller's state. */
    const bodyEnv = (
      { env, isStage }: CallSite,
      frame: Environment['frame'],
      chain: CallChain,
      values: readonly Value[],
    ): Environment => {
      const scope = new VariableScope('function', defined.scope);
      const named = bindParameters(scope, node, values, isStage, body.kind === 'template');
      // A command reads from stdin the input that the guards have judged.
      const [input] = isStage ? values : [];
      const pipe = env.pipe && input ? { ...env.pipe, input } : env.pipe;
      const own = { path: newPath(), note: undefined, isDefining: false, pipe };
      // Everything in a module has the marks of its file.
      return under({ ...env, scope, frame, chain, unit: c.unit, ...own, named }, c.unit.marks);
    };
    const refused =
      denied &&
      (async (values: readonly Value[], site: CallSite, { fault, marks }: CallRefusal) => {
        const chain = enter(site.env.chain, executable, node);
        const env = bodyEnv(site, site.env.frame, chain, values);
        const args = Object.fromEntries(env.named.map(({ name, value }) => [name, value.data]));
        const value = await denied.run(deniedEnv(env, fault, marks, args));
        // An effect in a `denied` arm gives no value.
        const isEffect = denied.action.kind === 'effect';
        const answer = isEffect ? absent(value.meta.descriptor) : valueForCaller(value, site.env);
        return addMarks(answer, marks);
      });
    const perform: ScriptCall = (evals, site) => {
      const { env, isStage } = site;
      const chain = enter(env.chain, executable, node);
      const results: Value[] = [];
      const recorded: Descriptor[] = [];
      let hasStarted = false;
      const values = refused ? evals.map((value) => recordMarks(value, recorded)) : evals;
      const run = () => {
        const inputs = inputsOf(node, values, site, results);
        return operate(env, isStage ? stage : call, inputs, (values, { frame }) => {
          hasStarted = true;
          env.run.calls.push(node.name);
          const inside = bodyEnv(site, frame, chain, values);
          const checked = frame.held.length > 0 ? body.check?.(inside) : undefined;
          return whenReady(checked, () =>
            whenReady(body.run(inside, isStage), (value) => asData(valueForCaller(value, env))),
          );
        });
      };
      const answer = () =>
        refused
          ? orDenied(run, (fault) => {
              const marks = marksOfRefusal(fault, hasStarted, env.frame, results, recorded);
              return refused(results, site, { fault, marks });
            })
          : run();
      return chain.depth % MAX_STACKED === 0 ? Promise.resolve().then(answer) : answer();
    };
    const helper = helped?.(defined);
    const executable: Executable = new Executable(signature, { call: perform, refused, helper });
    return executable;
  };
}

/** Runs `caught` after a denial of a guard. Refusals of capabilities and limits cannot be caught. */
export const orDenied = (
  call: () => MaybePromise<Value>,
  caught: (fault: ScriptFault) => MaybePromise<Value>,
): MaybePromise<Value> =>
  catchToOutcome(call, (error) => {
    if (error instanceof ScriptFault && isCatchableDenial({ ok: false, error: error.fault }))
      return caught(error);
    throw error;
  });

/** Returns the marks of the answer to a refused call. A body that did not start adds no labels or source. */
export function marksOfRefusal(
  { fault }: ScriptFault,
  hasStarted: boolean,
  { influence }: Frame,
  values: readonly Value[],
  recorded: readonly Descriptor[] = [],
): Descriptor {
  if (hasStarted) return descriptorOfFault(fault);
  const judged = judgementOf(fault);
  const passed = judged?.inputs.map(({ value }) => value) ?? [];
  const all = [...values, ...passed].map(({ meta }) => meta.descriptor);
  const reasons = judged ? [judged.frame.influence, marksOfReasons(judged)] : [];
  return mergeAll([influence, ...reasons, ...all, ...recorded]);
}

function deniedEnv(
  env: Environment,
  { fault }: ScriptFault,
  marks: Descriptor,
  args: JsonObject,
): Environment {
  const { detail } = fault;
  const judged = judgementOf(fault);
  const texts = Array.isArray(detail.reasons) ? detail.reasons : [];
  const findings = judged?.findings ?? [];
  const denials = findings.filter(({ kind }) => kind === 'deny').map(({ text }) => text);
  const retries = findings.filter(({ kind }) => kind === 'retry');
  const reasons = judged ? denials : texts;
  const { attempt: tried, max, hints } = judged?.frame.retry ?? FIRST_ATTEMPT;
  return withFacts(env, {
    denied: true,
    args,
    descriptor: marks,
    guard: {
      name: detail.guard ?? null,
      filter: detail.filter ?? null,
      timing: detail.phase ?? null,
      reason: reasons[0] ?? detail.message,
      reasons,
      hints: retries.map(({ guard, text }) => ({ guardName: guard.replace(/^@/, ''), hint: text })),
      trace: judged ? judged.trace.map((entry) => ({ ...entry })) : [],
      decision: 'deny',
      try: tried,
      tries: hints.map((hint, at) => ({ attempt: at + 1, hint })),
      hintHistory: [...hints],
      max,
      input: judged?.inputs[0]?.value.data ?? null,
      output: judged?.output?.data ?? null,
      labels: [...marks.labels],
      taint: [...marks.taint],
      sources: [...marks.sources],
    },
  });
}

const FIRST_ATTEMPT = { attempt: 1, max: 3, hints: [] as readonly string[] };
