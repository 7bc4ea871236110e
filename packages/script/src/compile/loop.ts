// Hot: this file runs for each step of a script, and a promise costs more than most steps.
// Compiles loops: `for` in order and in parallel, `foreach`, and `loop`.
import { setTimeout as wait } from 'node:timers/promises';
import { type Fault, inTurn, type Json, whenReady } from '@kernmantle/core/base';
import {
  addMarks,
  type Descriptor,
  descriptorOfFault,
  EMPTY,
  type MaybePromise,
  makeContainer,
  makeValue,
  mergeAll,
  mergeDescriptors,
  type Value,
} from '@kernmantle/core/flow';
import { raise, toFault } from '../fault.ts';
import { locationOf } from '../problem.ts';
import { leave, leaveOf, takeReturn } from '../run/control-values.ts';
import {
  asPath,
  type Compiler,
  constant,
  type Environment,
  type Eval,
  evaluateAll,
  joinPaths,
  newPath,
  under,
  withPathMarks,
} from '../run/environment.ts';
import { hookedRound, type RoundHooks, roundHooks } from '../run/hooks.ts';
import { withFacts } from '../run/names.ts';
import { lazyInput, operate } from '../run/operate.ts';
import { VariableScope } from '../run/scope.ts';
import type { Binding, NodeOf } from '../syntax/ast.ts';
import { fieldOf } from '../values/access.ts';
import { itemsOf, type LoopItem } from '../values/data.ts';
import { entriesOf, isAbsent, isTruthy, shapeMarks } from '../values/kinds.ts';
import { textOf } from '../values/text.ts';
import {
  applyConditionMarks,
  type Branches,
  branchesOf,
  compileBlock,
  compileWhen,
} from './control-flow.ts';
import { compileCallee, invoke } from './reference.ts';
import { compileWith } from './with-options.ts';

export const DEFAULT_CAP = 4;

function bindItem(scope: VariableScope, bind: Binding, item: LoopItem): void {
  scope.bind(bind.name, 'loop', item.value);
  scope.bind(bind.key ?? `${bind.name}_key`, 'loop', makeValue(item.key));
  let value = item.value;
  for (const name of bind.path) {
    value = fieldOf(value, name, 'strict');
    if (value.data === null)
      raise('not_found', `an item has no field \`${bind.path.join('.')}\``, { key: item.key });
  }
}

/** The result of one round: an item, nothing, or the end of the loop. */
interface Round {
  readonly item?: Value;
  readonly end?: Value;
  /** Marks of the conditions of the round. An item has them itself; for other rounds they mark the whole result. */
  readonly marks: Descriptor;
}

/** The results of all rounds. `marks` are the marks of everything that decided which rounds ran. */
interface Rounds {
  readonly found: Value[];
  readonly end: Value | undefined;
  readonly marks: Descriptor;
}

function roundOf(result: Value): Round {
  const { word, value } = leaveOf(result) ?? { word: undefined, value: result };
  const marks = result.meta.descriptor;
  if (word === 'return' || word === 'retry') return { end: result, marks };
  if (word === 'done') return { end: value, marks };
  const isSkipped = word === 'skip' || (word === 'continue' && isAbsent(value));
  return isSkipped ? { marks } : { item: value, marks: EMPTY };
}

interface Plan {
  readonly node: NodeOf<'for'>;
  readonly filter: Eval | undefined;
  readonly body: Eval;
  readonly isCollecting: boolean;
  readonly branches: Branches;
  /** Hooks that observe each round; absent if there are none. */
  readonly hooks?: RoundHooks;
}

function roundEnv(
  env: Environment,
  { node }: Plan,
  items: readonly LoopItem[],
  index: number,
): Environment {
  const item = items[index] as LoopItem;
  const parallel = node.parallel !== undefined;
  const scope = new VariableScope(parallel ? 'branch' : 'block', env.scope);
  bindItem(scope, node.bind, item);
  const facts = { for: { index, total: items.length, key: item.key, parallel } };
  const inner = withFacts({ ...env, scope }, facts);
  return parallel ? { ...inner, path: newPath(env.path) } : inner;
}

/** Runs a round. If the filter is false, the round is skipped, with the marks of the filter. */
function runRound(env: Environment, plan: Plan, item: LoopItem): MaybePromise<Round> {
  return whenReady(plan.filter?.(env), (answer) => {
    const marks = answer?.meta.descriptor ?? EMPTY;
    if (answer) applyConditionMarks(env, marks, plan.branches);
    if (answer && !isTruthy(answer)) return { marks };
    return whenReady(roundBody(under(env, marks), plan, item), (value) =>
      // `=>` in the block of a collecting loop gives the value of the item.
      roundOf(addMarks(plan.isCollecting ? takeReturn(value) : value, marks)),
    );
  });
}

function roundBody(env: Environment, plan: Plan, item: LoopItem): MaybePromise<Value> {
  const { hooks, node, body } = plan;
  if (!hooks) return body(env);
  const bind = (value: Value) => bindItem(env.scope, node.bind, { ...item, value });
  return hookedRound(hooks, env, item.value, bind, () => body(env));
}

function inOrder(env: Environment, plan: Plan, items: readonly LoopItem[]): MaybePromise<Rounds> {
  const found: Value[] = [];
  let marks = EMPTY;
  const round = (index: number, item: LoopItem) =>
    runRound(roundEnv(withPathMarks(env), plan, items, index), plan, item);
  const ended = inTurn(items, (next, index) =>
    whenReady(
      whenReady(env.run.yieldTurn(), () => round(index, next)),
      ({ item, end, marks: more }) => {
        marks = mergeDescriptors(marks, more);
        if (item) found.push(item);
        return end;
      },
    ),
  );
  return whenReady(ended, (end) => ({ found, end, marks }));
}

const SKIPPED = Symbol('skipped');

interface Branched<T> {
  readonly results: (T | Value)[];
  readonly errors: Json[];
  readonly codes: readonly string[];
  readonly marks: Descriptor;
}

/**
 * Runs branches concurrently, at most `cap` at once, with a pause between starts. Results are in the order
 * of `items`. A failed branch gives a record of its error, and `marks` are the marks of these errors.
 * `isFatal` is true for a fault that ends all branches. `from` is the index of the first item in a longer
 * list.
 */
export async function runBranches<T, I extends LoopItem>(
  { run }: Environment,
  items: readonly I[],
  cap: number,
  pauseMs: number,
  work: (item: I, index: number) => Promise<T>,
  isFatal: (fault: Fault) => boolean = () => false,
  from = 0,
): Promise<Branched<T>> {
  const results: (T | Value)[] = [];
  const errors: Json[] = [];
  const codes: string[] = [];
  let marks = EMPTY;
  let next = 0;
  let gate: Promise<void> = Promise.resolve();
  const branch = async (item: I, index: number): Promise<T | Value> => {
    try {
      return await work(item, index);
    } catch (error) {
      const fault = toFault(error);
      if (isFatal(fault.fault)) throw fault;
      const { message } = fault;
      const { key, value } = item;
      const place = { index: from + index, key: /^\d+$/.test(key) ? Number(key) : key };
      const record = { ...place, message, error: message, value: value.data };
      errors.push(record);
      codes.push(fault.fault.code);
      const descriptor = mergeDescriptors(value.meta.descriptor, descriptorOfFault(fault.fault));
      marks = mergeDescriptors(marks, descriptor);
      return makeValue(record, { descriptor });
    }
  };
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      if (pauseMs > 0 && index > 0) gate = gate.then(() => wait(pauseMs));
      await gate;
      await run.yieldTurn();
      results[index] = await branch(items[index] as I, index);
    }
  };
  const count = Math.min(cap, items.length);
  await joinPaths(
    run,
    Array.from({ length: count }, () => asPath(run, worker())),
  );
  return { results, errors, codes, marks };
}

/** Runs branches in windows of `cap`, with hooks around each. The next window starts after the last. */
async function inWindows(
  env: Environment,
  items: LoopItem[],
  cap: number,
  hooks: RoundHooks,
  branches: (
    window: readonly LoopItem[],
    from: number,
  ) => Promise<Branched<Value | typeof SKIPPED>>,
): Promise<Branched<Value | typeof SKIPPED>> {
  const results: (Value | typeof SKIPPED)[] = [];
  const errors: Json[] = [];
  const codes: string[] = [];
  let marks = EMPTY;
  for (let from = 0; from < items.length; from += cap) {
    const window = items.slice(from, from + cap);
    const place = { batchIndex: from / cap, batchSize: window.length };
    const inner = withFacts(env, { for: { total: items.length, parallel: true, ...place } });
    const values = await hooks.before(
      window.map(({ value }) => value),
      inner,
    );
    const replaced = window.map((item, at) => ({ ...item, value: values[at] ?? item.value }));
    items.splice(from, replaced.length, ...replaced);
    const ran = await branches(replaced, from);
    const found = ran.results.filter((result) => result !== SKIPPED);
    const list = makeContainer(found);
    const now = await hooks.after(list, values, inner);
    const { descriptor } = now.meta;
    const changed = Array.isArray(now.data) ? entriesOf(now).map(([, value]) => value) : [now];
    results.push(...(now === list ? found : changed.map((value) => addMarks(value, descriptor))));
    errors.push(...ran.errors);
    codes.push(...ran.codes);
    marks = mergeDescriptors(marks, ran.marks);
  }
  return { results, errors, codes, marks };
}

async function inParallel(
  env: Environment,
  plan: Plan,
  items: readonly LoopItem[],
  cap: number,
): Promise<Rounds> {
  let marks = EMPTY;
  const pauseMs = plan.node.parallel?.pauseMs ?? 0;
  const current = [...items];
  const branches = (window: readonly LoopItem[], from = 0) =>
    runBranches(
      env,
      window,
      cap,
      pauseMs,
      async (item, index) => {
        const round = await runRound(roundEnv(env, plan, current, from + index), plan, item);
        marks = mergeDescriptors(marks, round.marks);
        return round.item ?? SKIPPED;
      },
      undefined,
      from,
    );
  const hooks = roundHooks(env, 'batch', plan.node.at);
  const ran = hooks ? await inWindows(env, current, cap, hooks, branches) : await branches(current);
  const { results, errors } = ran;
  env.path.errors = { list: errors, marks: mergeDescriptors(marks, ran.marks) };
  if (errors.length > 0 && errors.length === items.length) {
    const [first] = errors as { message: string }[];
    const message = `every item of the loop failed; the first: ${first?.message ?? ''}`;
    // If every item has the same refusal or unknown outcome, the loop has that code.
    const [code = ''] = ran.codes;
    const isKept = KEPT_CODES.has(code) && ran.codes.every((one) => one === code);
    raise(isKept ? code : 'tool_failed', message, { errors });
  }
  const found = results.filter((result) => result !== SKIPPED);
  return { found, end: undefined, marks };
}

const KEPT_CODES: ReadonlySet<string> = new Set(['permission_denied', 'outcome_unknown']);

function compileCap(c: Compiler, node: NodeOf<'for'>): Eval<number> {
  const cap = node.parallel?.cap && c.expression(node.parallel.cap);
  return async (env) => {
    const value = await cap?.(env);
    if (!value) return DEFAULT_CAP;
    const count = countOf(value);
    return count > 0
      ? count
      : raise('invalid_input', `\`parallel\` needs a number of branches, not \`${textOf(value)}\``);
  };
}

/** Compiles `when [ arms ]` as the body of a loop. An item that no arm matches is left out. */
export const compileSifted = (
  c: Compiler,
  node: NodeOf<'when'>,
  arm?: (arm: NodeOf<'arm'>) => Eval,
): Eval => compileWhen(c, node, arm, false, leave('skip'));

export function compileFor(
  c: Compiler,
  node: NodeOf<'for'>,
  body: Eval,
  isCollecting: boolean,
): Eval {
  const collection = c.expression(node.collection);
  const filter = node.filter && c.expression(node.filter, 'condition');
  const branches = branchesOf(c, [node.body]);
  const plan: Plan = { node, filter, body, isCollecting, branches };
  const cap = compileCap(c, node);
  const batch = node.batch && c.piped(node.batch);
  const op = {
    type: 'for' as const,
    name: '',
    opLabels: [],
    location: locationOf(c.unit, node.at),
  };
  return (env) =>
    operate(env, op, [lazyInput(env, 'collection', collection)], ([list], inner) => {
      const items = itemsOf(list);
      // The number of elements decides how often the body runs.
      const shape = shapeMarks(list);
      applyConditionMarks(inner, shape, branches);
      const round = under(inner, shape);
      const hooks = roundHooks(round, 'iteration', node.at);
      const own = hooks ? { ...plan, hooks } : plan;
      const rounds = node.parallel
        ? whenReady(cap(round), (count) => inParallel(round, own, items, count))
        : inOrder(round, own, items);
      return whenReady(rounds, ({ found, end, marks }) => {
        if (end && leaveOf(end)) return end;
        const result = makeContainer(found, mergeDescriptors(shape, marks));
        return batch ? batch(result, inner) : result;
      });
    });
}

/** Compiles `foreach @f(@xs, @ys)`: one call for every combination, in which the last list changes fastest. */
export function compileForeach(c: Compiler, node: NodeOf<'foreach'>): Eval {
  const { call } = node;
  const { target, values } = compileCallee(c, call);
  const { options } = node;
  const stages = [...(node.batch ?? []), ...(options?.pipeline ?? [])];
  const batch = stages.length > 0 ? c.piped(stages) : undefined;
  const evaluate: Eval = async (env) => {
    const executable = await target(env);
    const collections = await evaluateAll(values, env);
    const lists = collections.map(listItems);
    const found: Value[] = [];
    for (const combination of combinations(lists)) {
      await env.run.yieldTurn();
      found.push(await invoke(executable, call.name, combination.map(constant), env, node.at));
    }
    const list = makeContainer(found, mergeAll(collections.map(shapeMarks)));
    return batch ? await batch(list, env) : list;
  };
  const { at, end } = node;
  return options
    ? compileWith(c, { kind: 'with', value: node, options, at, end }, evaluate)
    : evaluate;
}

function listItems(list: Value): readonly Value[] {
  if (typeof list.data !== 'string' && !Array.isArray(list.data))
    return raise('invalid_input', '`foreach` needs a list for every argument');
  return itemsOf(list).map(({ value }) => value);
}

type Rows = readonly (readonly Value[])[];

const combinations = (lists: Rows): Rows =>
  lists.reduce<Rows>(
    (rows, list) => rows.flatMap((row) => list.map((item) => [...row, item])),
    [[]],
  );

export function compileLoop(c: Compiler, node: NodeOf<'loop'>): Eval {
  const body = compileBlock(c, node.body);
  const limit = node.limit && c.expression(node.limit);
  const until = node.until && c.expression(node.until, 'condition');
  const branches = branchesOf(c, [node.body]);
  const op = {
    type: 'loop' as const,
    name: '',
    opLabels: [],
    location: locationOf(c.unit, node.at),
  };
  return (outer) =>
    operate(outer, op, limit ? [lazyInput(outer, 'limit', limit)] : [], async ([maximum], env) => {
      const rounds = roundsOf(maximum);
      let marks = maximum?.meta.descriptor ?? EMPTY;
      let input = makeValue(null);
      const hooks = roundHooks(env, 'round', node.at);
      const round = (inside: Environment) => {
        const bind = (value: Value) => inside.scope.bind('input', 'loop', value);
        return hooks ? hookedRound(hooks, inside, input, bind, () => body(inside)) : body(inside);
      };
      for (let index = 0; index < rounds; index++) {
        await env.run.yieldTurn(index > 0 ? node.pauseMs : 0);
        const scope = new VariableScope('block', env.scope);
        scope.bind('input', 'loop', input);
        const limited = Number.isFinite(rounds) ? rounds : null;
        const facts = { loop: { iteration: index + 1, limit: limited, active: true } };
        const inner = under(withFacts({ ...withPathMarks(env), scope }, facts), marks);
        const stop = await until?.(inner);
        if (stop) {
          marks = mergeDescriptors(marks, stop.meta.descriptor);
          applyConditionMarks(env, stop.meta.descriptor, branches);
          if (isTruthy(stop)) return addMarks(input, marks);
        }
        const leaving = leaveOf(await round(under(inner, marks)));
        if (leaving?.word === 'retry')
          raise('invalid_input', '`retry` is not allowed in a loop', { hint: 'use `continue`' });
        if (leaving?.word === 'done') return addMarks(leaving.value, marks);
        if (leaving?.word === 'return') return addMarks(leave('return', leaving.value), marks);
        if (leaving?.word === 'continue' && !isAbsent(leaving.value)) input = leaving.value;
      }
      return addMarks(makeValue(null), marks);
    });
}

/** Returns the integer of a number or numeric text; NaN for other values. */
export function countOf({ data }: Value): number {
  const isNumber = typeof data === 'number' || (typeof data === 'string' && data.trim() !== '');
  return isNumber && Number.isInteger(Number(data)) ? Number(data) : Number.NaN;
}

function roundsOf(limit: Value | undefined): number {
  if (!limit) return Number.POSITIVE_INFINITY;
  const rounds = countOf(limit);
  if (rounds >= 0) return rounds;
  const written = `loop(${textOf(limit)})`;
  return raise('invalid_input', `\`${written}\` needs a whole number of rounds, or \`endless\``);
}
