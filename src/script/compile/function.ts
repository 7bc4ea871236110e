// Functions. A call is one operation: arguments are its inputs, the body sees the file's names and the
// parameters and nothing of the caller's.
import type { JsonObject } from '../../base/index.ts';
import {
  addMarks,
  descriptorOfFault,
  type Input,
  isCatchableDenial,
  judgementOf,
  type MaybePromise,
  makeValue,
  type Operation,
  type Value,
} from '../../flow/index.ts';
import { raise, ScriptFault } from '../fault.ts';
import { leaveOf, refuseLeave } from '../run/control-values.ts';
import {
  type CallArgument,
  type CallChain,
  type CallSite,
  type Compiler,
  type Environment,
  type Eval,
  Executable,
  newPath,
} from '../run/environment.ts';
import { withFacts } from '../run/names.ts';
import { lazyInput, operate } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { ActionExpression, Expression, Node } from '../syntax/ast.ts';
import { placeOf } from '../syntax/problem.ts';
import { absent, withText } from '../values/kinds.ts';
import { compileCode, compileCommand, type Execute } from './command.ts';
import { compileArmBlock } from './control-flow.ts';
import { resolveOpen } from './text.ts';

const MAX_DEPTH = 64;

/** What a body is made of, and how it is run. */
interface Body {
  readonly kind: string;
  readonly source: string | undefined;
  run(
    env: Environment,
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
  // A prompt with open slots is filled in where it is given back.
  run: async (env) => resolveOpen(await evaluate(env), env),
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
function deniedArm(node: Expression): Node<'arm'> | undefined {
  if (node.kind !== 'when') return undefined;
  return node.items.find(
    (item): item is Node<'arm'> => item.kind === 'arm' && item.condition.kind === 'denied',
  );
}

const COMMANDS = new Set(['cmd', 'sh', 'node', 'py', 'js']);

function operationOf(node: Node<'exe'>, c: Compiler, kind: string, isStage: boolean): Operation {
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
function enter(chain: CallChain | undefined, self: object, node: Node<'exe'>): CallChain {
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
  node: Node<'exe'>,
  values: readonly CallArgument[],
  site: CallSite,
  seen: Value[],
): Input[] {
  const argument = (name: string, value: CallArgument, at: number): Input =>
    lazyInput(site.env, name, value.evaluate, (found, env) => {
      const ready = resolveOpen(found, env);
      seen[at] = ready;
      return ready;
    });
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
  scope: VariableScope,
  node: Node<'exe'>,
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
    scope.bind(name, 'parameter', value, `the parameters of @${node.name}`, isMissing);
    return { name, value };
  });
}

/** As a parameter of a template stage parsed data prints compactly. */
const bareData = (value: Value): Value =>
  value.hasOwnText && typeof value.data === 'object' && value.data !== null
    ? makeValue(value.data, { descriptor: value.meta.descriptor })
    : value;

/** `=> v` ends here; `retry`, `done` and `continue` are for whoever called. */
const returned = (value: Value, { pipe }: Environment): Value => {
  const left = leaveOf(value);
  if (left?.word === 'retry' && !pipe) refuseLeave(value);
  return left?.word === 'return' ? left.value : value;
};

/** What a function returns is data: it prints compactly, whatever its text was. */
const asData = (value: Value): Value => {
  const isData = value.hasOwnText && typeof value.data === 'object' && value.data !== null;
  return isData && value.meta.origin['files'] !== true ? withText(value, undefined) : value;
};

/** An effect in a `denied` arm yields nothing. */
const deniedValue = (action: ActionExpression, value: Value, env: Environment): Value =>
  action.kind === 'effect' ? absent(value.meta.descriptor) : returned(value, env);

interface Plan {
  readonly c: Compiler;
  readonly node: Node<'exe'>;
  readonly body: Body;
  readonly denied: { readonly action: ActionExpression; readonly run: Eval } | undefined;
  readonly ops: { readonly call: Operation; readonly stage: Operation };
}

function planOf(c: Compiler, node: Node<'exe'>): Plan {
  const body = compileBody(c, node.body);
  const arm = deniedArm(node.body);
  const block =
    arm && (arm.action.kind === 'block' ? compileArmBlock(c, arm.action) : c.action(arm.action));
  return {
    c,
    node,
    body,
    denied: arm && block && { action: arm.action, run: block },
    ops: {
      call: operationOf(node, c, body.kind, false),
      stage: operationOf(node, c, body.kind, true),
    },
  };
}

/** The body's surroundings: its file's names, its parameters, the caller's dynamic state. */
function bodyEnv(
  plan: Plan,
  defined: Environment,
  site: CallSite,
  frame: Environment['frame'],
  chain: CallChain,
  values: readonly Value[],
): Environment {
  const scope = new VariableScope('function', defined.scope);
  const named = bindParameters(
    scope,
    plan.node,
    values,
    site.isStage,
    plan.body.kind === 'template',
  );
  return {
    ...site.env,
    scope,
    frame,
    chain,
    unit: plan.c.unit,
    path: newPath(),
    note: undefined,
    isDefining: false,
    named,
  };
}

export function compileFunction(c: Compiler, node: Node<'exe'>): (env: Environment) => Executable {
  const plan = planOf(c, node);
  const { body, ops, denied } = plan;
  const signature = {
    name: node.name,
    parameters: node.parameters.map(({ name }) => name),
    labels: node.labels,
    bodyKind: body.kind,
    description: undefined,
    source: body.source,
  };
  return (defined) => {
    const refused =
      denied &&
      (async (values: readonly Value[], site: CallSite, fault: ScriptFault) => {
        const env = bodyEnv(
          plan,
          defined,
          site,
          site.env.frame,
          enter(site.env.chain, executable, node),
          values,
        );
        const value = await denied.run(deniedEnv(env, fault));
        return addMarks(
          deniedValue(denied.action, value, site.env),
          descriptorOfFault(fault.fault),
        );
      });
    const executable: Executable = new Executable(
      signature,
      (values, site) => {
        const { env, isStage } = site;
        const chain = enter(env.chain, executable, node);
        const seen: Value[] = [];
        const call = () =>
          operate(
            env,
            isStage ? ops.stage : ops.call,
            inputsOf(node, values, site, seen),
            async (passed, inner) => {
              env.run.calls.push(node.name);
              const inside = bodyEnv(plan, defined, site, inner.frame, chain, passed);
              return asData(returned(await body.run(inside, inside.named, isStage), env));
            },
          );
        return refused ? orDenied(call, (fault) => refused(seen, site, fault)) : call();
      },
      refused,
    );
    return executable;
  };
}

/** Guards' denials can be caught; refusals of capabilities and limits cannot. */
export async function orDenied(
  call: () => Promise<Value>,
  caught: (fault: ScriptFault) => MaybePromise<Value>,
): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof ScriptFault && isCatchableDenial({ ok: false, error: error.fault }))
      return await caught(error);
    throw error;
  }
}

function deniedEnv(env: Environment, { fault }: ScriptFault): Environment {
  const { detail } = fault;
  const judged = judgementOf(fault);
  const marks = descriptorOfFault(fault);
  const given = Array.isArray(detail.reasons) ? detail.reasons : [];
  const reasons = judged ? textsOf(judged, 'deny') : given;
  const { attempt: tried, max, hints } = judged?.frame.retry ?? FIRST_ATTEMPT;
  return withFacts(env, {
    denied: true,
    descriptor: marks,
    guard: {
      name: detail.guard ?? null,
      filter: detail.filter ?? null,
      timing: detail.phase ?? null,
      reason: reasons[0] ?? detail.message,
      reasons,
      hints: judged ? hintsOf(judged) : [],
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

type Judgement = NonNullable<ReturnType<typeof judgementOf>>;

const textsOf = ({ findings }: Judgement, kind: string): string[] =>
  findings.filter((finding) => finding.kind === kind).map(({ text }) => text);

const hintsOf = ({ findings }: Judgement): JsonObject[] =>
  findings
    .filter(({ kind }) => kind === 'retry')
    .map(({ guard, text }) => ({ guardName: guard.replace(/^@/, ''), hint: text }));
