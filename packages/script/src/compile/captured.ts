// Checks the variables that a function uses from outside of its body. In a labelled function, policies
// judge such a value like an argument before the body runs. The result of the function is judged when it is
// computed.
import {
  childFrame,
  type Input,
  type MaybePromise,
  type Operation,
  type Value,
} from '@kernmantle/core/flow';
import { locationOf } from '../problem.ts';
import { type Compiler, type Environment, type Eval, executableOf } from '../run/environment.ts';
import { operate } from '../run/operate.ts';
import { type Expression, type NodeOf, type PathStep, visit } from '../syntax/ast.ts';
import { absent } from '../values/kinds.ts';

/** Performs an operation that only policies judge, because it is a part of a call. */
function judgedByPolicies(
  env: Environment,
  at: number,
  inputs: readonly Input[],
  body: (values: readonly Value[]) => Value,
): MaybePromise<Value> {
  const op: Operation = {
    type: 'say',
    name: '',
    opLabels: [],
    retryOwner: false,
    location: locationOf(env.unit, at),
  };
  const frame = childFrame(env.frame, { selection: { only: [] }, isPart: true });
  return operate({ ...env, frame }, op, inputs, body);
}

/** Runs the body of a labelled function. Policies judge its result together with all its inputs. */
export async function judgeResult({ at }: Expression, env: Environment, run: Eval): Promise<Value> {
  const value = await run(env);
  return await judgedByPolicies(env, at, [{ name: 'value', value }], ([result = value]) => result);
}

/** Returns the leading plain fields of a reference, up to an index or call. */
function plainSteps(steps: readonly PathStep[]): readonly PathStep[] {
  const end = steps.findIndex(({ kind }, at) => kind !== 'field' || steps[at + 1]?.kind === 'call');
  return end < 0 ? steps : steps.slice(0, end);
}

/** Returns the values of the names in a body that are not parameters. A missing name gives undefined. */
function compileCaptured(c: Compiler, { parameters, body }: NodeOf<'exe'>): Eval<Input>[] {
  const own = new Set(parameters.map(({ name }) => name));
  const found = new Map<string, Eval<Input>>();
  visit(body, (node) => {
    if (node.kind !== 'reference' || own.has(node.name)) return;
    const { name } = node;
    const steps = plainSteps(node.steps);
    const evaluate = c.expression({ ...node, steps, isOptional: true }, 'condition');
    const key = JSON.stringify([name, ...steps.map((step) => step.kind === 'field' && step.name)]);
    found.set(key, async (env) => {
      try {
        return { name, value: await evaluate(env) };
      } catch {
        return { name, value: absent() };
      }
    });
  });
  return [...found.values()];
}

/** Fails if a policy refuses a value that the body of a labelled function uses. */
export function compileCaptureCheck(c: Compiler, node: NodeOf<'exe'>) {
  let compiled: readonly Eval<Input>[] | undefined;
  return async (env: Environment): Promise<void> => {
    compiled ??= compileCaptured(c, node);
    const inputs: Input[] = [];
    for (const evaluate of compiled) {
      const input = await evaluate(env);
      const value = typeof input.value === 'function' ? absent() : input.value;
      if (value.meta.descriptor.taint.length > 0 && !executableOf(value)) inputs.push(input);
    }
    if (inputs.length > 0) await judgedByPolicies(env, node.at, inputs, () => absent());
  };
}
