// Functions. A call is one operation: arguments are its inputs, the body sees the file's names and the
// parameters and nothing of the caller's.
import {
  type Input,
  isCatchableDenial,
  type MaybePromise,
  makeValue,
  type Operation,
  type Value,
} from '../flow/index.ts';
import { absent } from './absent.ts';
import type { Arm, ExeStatement, Expression, WhenExpression } from './ast.ts';
import type { Argument, CallSite } from './call.ts';
import { compileCode, compileCommand, type Execute } from './compile-process.ts';
import { type CallChain, type Compiler, type Env, type Eval, newPath } from './env.ts';
import { Executable } from './executable.ts';
import { raise, ScriptFault } from './fault.ts';
import { leaveOf } from './leave.ts';
import { withFacts } from './names.ts';
import { resolveOpen } from './open-text.ts';
import { lazyInput, operate } from './operate.ts';
import { placeOf } from './places.ts';
import { Scope } from './scope.ts';
import { attempt, then } from './wait.ts';

const MAX_DEPTH = 64;

/** What a body is made of, and how it is run. */
interface Body {
  readonly kind: string;
  readonly source: string | undefined;
  run(
    env: Env,
    named: readonly { name: string; value: Value }[],
    isStage: boolean,
  ): MaybePromise<Value>;
}

const executed = (kind: string, execute: Execute, source?: string): Body => ({
  kind,
  source,
  run: (env, named, isStage) => execute(env, named, true, isStage),
});

const evaluated = (kind: string, evaluate: Eval): Body => ({
  kind,
  source: undefined,
  run: (env) => evaluate(env),
});

const KINDS: Readonly<Record<string, string>> = {
  bash: 'sh',
  'template-file': 'template',
  model: 'llm',
};

function compileBody(c: Compiler, node: Expression): Body {
  switch (node.kind) {
    case 'command':
      return executed('cmd', compileCommand(c, node));
    case 'code':
      return executed(KINDS[node.language] ?? node.language, compileCode(c, node), node.body);
    case 'run-value':
      return node.action.kind === 'command' || node.action.kind === 'code'
        ? compileBody(c, node.action)
        : evaluated('exe', c.expression(node.action));
    case 'template':
    case 'literal':
    case 'template-file':
      return evaluated('template', c.expression(node));
    case 'model':
      return evaluated('llm', c.expression(node));
    case 'with': {
      const inner = node.value.kind === 'run-value' ? node.value.action : node.value;
      const kind =
        inner.kind === 'command'
          ? 'cmd'
          : inner.kind === 'code'
            ? (KINDS[inner.language] ?? inner.language)
            : 'exe';
      return evaluated(kind, c.expression(node));
    }
    default:
      return evaluated('exe', c.expression(node));
  }
}

/** The `denied =>` arm of a function whose body is a `when`. */
function deniedArm(node: Expression): Arm | undefined {
  if (node.kind !== 'when') return undefined;
  return (node as WhenExpression).items.find(
    (item): item is Arm => item.kind === 'arm' && item.condition.kind === 'denied',
  );
}

const COMMANDS = new Set(['cmd', 'sh', 'node', 'py', 'js']);

function operationOf(node: ExeStatement, c: Compiler, kind: string, isStage: boolean): Operation {
  const keys = [`op:${kind}`, ...(COMMANDS.has(kind) ? [`op:run:${kind}`] : [])];
  return {
    type: 'exe',
    subtype: kind,
    name: node.name,
    labels: node.labels,
    opLabels: keys,
    source: `src:${kind}`,
    sources: [`function:${node.name}`],
    location: placeOf(c.unit, node.at),
    ...(isStage ? {} : { retryOwner: true }),
  };
}

/** Calling oneself needs the label `recursive`, and ends somewhere. */
function enter(chain: CallChain | undefined, self: object, node: ExeStatement): CallChain {
  let depth = 1;
  for (let call = chain; call; call = call.parent) if (call.executable === self) depth++;
  const isRecursive = node.labels.includes('recursive');
  if (depth > 1 && !isRecursive) {
    return raise('invalid_input', `\`@${node.name}\` calls itself`, {
      name: node.name,
      hint: `write \`exe recursive @${node.name}(…)\` if that is meant`,
    });
  }
  if (depth > MAX_DEPTH) {
    return raise(
      'quota_exceeded',
      `\`@${node.name}\` calls itself more than ${MAX_DEPTH} times deep`,
      { limit: 'recursion' },
    );
  }
  return { executable: self, name: node.name, depth: (chain?.depth ?? 0) + 1, parent: chain };
}

/** Parameters in order; a stage without parameters still has its input judged. */
function inputsOf(
  node: ExeStatement,
  values: readonly Argument[],
  site: CallSite,
  seen: Value[],
): Input[] {
  const argument = (name: string, value: Argument, at: number): Input =>
    lazyInput(site.env, name, (env) =>
      then(value.evaluate(env), (found) =>
        then(resolveOpen(found, env), (ready) => {
          seen[at] = ready;
          return ready;
        }),
      ),
    );
  const inputs = node.parameters.flatMap(({ name }, at) => {
    const value = values[at];
    return value ? [argument(name, value, at)] : [];
  });
  const [first] = values;
  if (site.isStage && node.parameters.length === 0 && first)
    inputs.push(argument('input', first, 0));
  return inputs;
}

function bindParameters(
  scope: Scope,
  node: ExeStatement,
  values: readonly Value[],
  isStage: boolean,
  isTemplate: boolean,
): { name: string; value: Value }[] {
  return node.parameters.map(({ name }, at) => {
    const passed = values[at];
    const isMissing = passed === undefined && !isStage;
    const value = passed
      ? isStage && isTemplate
        ? bareData(passed)
        : passed
      : isStage
        ? makeValue('')
        : absent();
    scope.bind(name, 'parameter', value, `parameter of @${node.name}`, isMissing);
    return { name, value };
  });
}

/** As a parameter of a template stage parsed data prints compactly. */
const bareData = (value: Value): Value =>
  value.hasOwnText && typeof value.data === 'object' && value.data !== null
    ? makeValue(value.data, { descriptor: value.meta.descriptor })
    : value;

/** `=> v` ends here; `retry`, `done` and `continue` are for whoever called. */
const returned = (value: Value): Value => {
  const left = leaveOf(value);
  return left?.word === 'return' ? left.value : value;
};

export function compileFunction(c: Compiler, node: ExeStatement): (env: Env) => Executable {
  const body = compileBody(c, node.body);
  const denied = deniedArm(node.body);
  const caught = denied && c.action(denied.action);
  const ops = {
    call: operationOf(node, c, body.kind, false),
    stage: operationOf(node, c, body.kind, true),
  };
  const parameters = node.parameters.map(({ name }) => name);
  const isTemplate = body.kind === 'template';
  return (defined) => {
    const signature = {
      name: node.name,
      parameters,
      labels: node.labels,
      bodyKind: body.kind,
      description: undefined,
      source: body.source,
    };
    const executable: Executable = new Executable(signature, (values, site) => {
      const { env, isStage } = site;
      const chain = enter(env.chain, executable, node);
      const inside = (frame: Env['frame'], scope: Scope): Env => ({
        ...env,
        scope,
        frame,
        chain,
        unit: c.unit,
        path: newPath(),
        note: undefined,
        isDefining: false,
      });
      const scoped = () => new Scope('function', defined.scope);
      const seen: Value[] = [];
      const call = () =>
        operate(
          env,
          isStage ? ops.stage : ops.call,
          inputsOf(node, values, site, seen),
          (passed, inner) => {
            env.run.calls.push(node.name);
            const scope = scoped();
            const named = bindParameters(scope, node, passed, isStage, isTemplate);
            return then(body.run(inside(inner.frame, scope), named, isStage), returned);
          },
        );
      if (!caught) return call();
      return attempt(call, (error) => {
        if (
          !(error instanceof ScriptFault) ||
          !isCatchableDenial({ ok: false, error: error.fault })
        )
          throw error;
        const scope = scoped();
        bindParameters(scope, node, seen, isStage, isTemplate);
        return then(caught(deniedEnv(inside(env.frame, scope), error)), returned);
      });
    });
    return executable;
  };
}

function deniedEnv(env: Env, { fault }: ScriptFault): Env {
  const { detail } = fault;
  const reasons = Array.isArray(detail.reasons) ? detail.reasons : [detail.message];
  return withFacts(env, {
    denied: true,
    guard: {
      name: detail.guard ?? null,
      filter: detail.filter ?? null,
      timing: detail.phase ?? null,
      reason: reasons[0] ?? null,
      reasons,
      hints: detail.hints ?? [],
      trace: detail.trace ?? [],
      decision: 'deny',
      try: 1,
      max: 3,
    },
  });
}
