// Combines the rules that hold in a thread: those of its own directive, of its ancestors, and of directives that it
// executed. They hold like the rules of a policy: no statement of a script is exempt. INVARIANT: rules
// are only ever added, and a child always has all rules of its parent.
import { type Failure, type Outcome, ok, pathWithin } from '../../base/index.ts';
import {
  carries,
  compileGuards,
  createGuardSet,
  defineGuard,
  type Frame,
  folderLabel,
  type Guard,
  type GuardSet,
  type GuardView,
  type Operation,
  type OriginPort,
  type Ports,
  type Verdict,
} from '../../flow/index.ts';
import type { Directive } from '../../items/index.ts';
import type { GivenRules, Prepared, RightsHolder, Thread, ThreadRules } from '../thread/thread.ts';

const NO_GUARDS: GuardSet = createGuardSet([]);
const NOTHING: GivenRules = { guards: [] };

/** Returns the rules of a directive. Folder names in guards are relative to `project`. */
export function rulesOf(
  { guards: declared, deviation_rules }: Pick<Directive, 'guards' | 'deviation_rules'>,
  project: string,
): GivenRules {
  const guards = declared.map(({ file, ...guard }) => ({
    ...guard,
    on: folderLabel(project, guard.on),
    // Refusals and requests contain this path. It does not show where the project is on this machine.
    ...(file !== undefined && { file: pathWithin(project, file) }),
  }));
  const { ask_first, auto_fix, escalate } = deviation_rules ?? {};
  return {
    guards,
    ...(ask_first && { ask_first }),
    ...(auto_fix === false && { no_auto_fix: true }),
    ...(escalate && { escalate }),
  };
}

/** Returns the rules of a directive and of the mode that a person chose. A mode never takes a rule away. */
export const rulesIn = (
  { directive, mode }: Pick<Prepared, 'directive' | 'mode'>,
  project: string,
): GivenRules => ({
  ...rulesOf(directive, project),
  ...(mode === 'ask' && { ask_first: true }),
  ...(mode === 'read' && { read_only: true }),
});

const isNothing = ({ guards, ...more }: GivenRules): boolean =>
  guards.length === 0 && Object.keys(more).length === 0;

const merged = (all: readonly GivenRules[]): GivenRules =>
  Object.assign({}, ...all, { guards: all.flatMap(({ guards }) => guards) });

/** True if the operation can change something, by its effect or its tier. */
const isChange = ({ metadata, tier = 'read' }: Operation): boolean =>
  metadata?.effect === 'write' || tier !== 'read';

/** Returns a deviation rule as a guard, so that it behaves like every guard. */
function ruleGuard(
  name: 'ask_first' | 'auto_fix' | 'read_only',
  on: string,
  decide: Guard['decide'],
): Outcome<Guard> {
  const place = `deviation rule \`${name}\``;
  return defineGuard({ on, timing: 'before', locked: true, place, decide });
}

const ALLOW: Verdict = { kind: 'allow' };
const ASK: Verdict = { kind: 'ask', text: 'this operation changes something; allow it?' };
const NO_FIX: Verdict = { kind: 'deny', text: 'this directive forbids changes of items' };

const READ_ONLY: Verdict = { kind: 'deny', text: 'the mode of this thread allows no change' };
const readOnly = (view: GuardView): Outcome<Verdict> => ok(isChange(view.op) ? READ_ONLY : ALLOW);

/** True if an answer of a person covers this call, or the call that it is a part of. */
async function isAnswered({ op, inputs, frame }: GuardView): Promise<boolean> {
  const { answered } = frame.ports;
  if (!answered) return false;
  if (await answered(op, inputs)) return true;
  for (let around = frame.parent?.parent; around; around = around.parent) {
    if (around.op && (await answered(around.op, around.inputs))) return true;
  }
  return false;
}

const askFirst = async (view: GuardView): Promise<Outcome<Verdict>> =>
  ok(isChange(view.op) && !(await isAnswered(view)) ? ASK : ALLOW);

/** Compiles the rules. Fails if one does not compile, because a guard that is left out protects nothing. */
export function compileRules(rules: GivenRules): Outcome<GuardSet> {
  if (isNothing(rules)) return ok(NO_GUARDS);
  const compiled = compileGuards(rules.guards, { locked: true });
  if (!compiled.ok) return compiled;
  const list: Guard[] = [...compiled.output.list];
  const more = [
    ...(rules.ask_first ? [ruleGuard('ask_first', 'op:*', askFirst)] : []),
    ...(rules.read_only ? [ruleGuard('read_only', 'op:*', readOnly)] : []),
    ...(rules.no_auto_fix ? [ruleGuard('auto_fix', 'op:modify', () => ok(NO_FIX))] : []),
  ];
  for (const guard of more) {
    if (!guard.ok) return guard;
    list.push(guard.output);
  }
  return ok(createGuardSet(list));
}

/** Returns a guard that refuses everything, for recorded rules that this version cannot read. */
function refuseAll(failure: Failure): GuardSet {
  const place = 'rules of a directive that was executed here';
  const guard = defineGuard({
    on: 'op:*',
    timing: 'before',
    locked: true,
    place,
    decide: () => failure,
  });
  return guard.ok ? createGuardSet([guard.output]) : NO_GUARDS;
}

const joined = (sets: readonly GuardSet[]): GuardSet => {
  const [first = NO_GUARDS, ...more] = sets.filter(({ list }) => list.length > 0);
  return more.length === 0
    ? first
    : createGuardSet([...new Set([...first.list, ...more.flatMap(({ list }) => list)])]);
};

interface RulesOrigin {
  own: GivenRules;
  /** Inherited rules from the journal. The rules of a parent that runs here take precedence. */
  inherited: GivenRules | undefined;
  parent: ThreadRules | undefined;
}

export function createRules({ own, inherited, parent }: RulesOrigin): Outcome<ThreadRules> {
  const above = parent ? ok(NO_GUARDS) : compileRules(inherited ?? NOTHING);
  if (!above.ok) return above;
  const compiledOwn = compileRules(own);
  if (!compiledOwn.ok) return compiledOwn;
  const sets = [compiledOwn.output, above.output];
  const ruleSets = [own, ...(parent || !inherited ? [] : [inherited])];
  /** Rules of executed directives whose call has no recorded result yet. */
  const fresh = new Map<string, GivenRules>();
  let cache: { count: number; higher: GuardSet; all: GuardSet } | undefined;
  const guards = (): GuardSet => {
    const higher = parent?.guards() ?? NO_GUARDS;
    if (cache?.count !== sets.length || cache.higher !== higher) {
      cache = { count: sets.length, higher, all: joined([...sets, higher]) };
    }
    return cache.all;
  };
  const add = (rules: GivenRules): Outcome<null> => {
    const compiled = compileRules(rules);
    if (!compiled.ok) return compiled;
    sets.push(compiled.output);
    ruleSets.push(rules);
    return ok(null);
  };
  return ok({
    guards,
    atStart: () => joined([compiledOwn.output, above.output, parent?.atStart() ?? NO_GUARDS]),
    given: () => merged([...ruleSets, ...(parent ? [parent.given()] : [])]),
    executed(call, rules) {
      const added = isNothing(rules) ? ok(null) : add(rules);
      if (added.ok && !isNothing(rules)) fresh.set(call, rules);
      return added;
    },
    restore(rules) {
      const compiled = add(rules);
      if (!compiled.ok) sets.push(refuseAll(compiled));
    },
    taken(call) {
      const rules = fresh.get(call);
      fresh.delete(call);
      return rules;
    },
  });
}

/** Returns the rules for an event, and no field if there are none. */
export const packRules = (rules: GivenRules | undefined): { rules?: GivenRules } =>
  rules && !isNothing(rules) ? { rules } : {};

/** Returns the port that finds origins of arguments. It is used once the model has read untrusted data. */
export const originsIn = (thread: Thread): OriginPort => ({
  reader: () => thread.talk.conversation.reader(),
  async trace(op, inputs) {
    if (!inputs.some(({ value }) => carries(value.meta.descriptor, 'untrusted'))) return inputs;
    return await (await import('./origins.ts')).traceOrigins(thread, op, inputs);
  },
});

/** Returns a frame with the policies and rules of the thread. `ask` asks a person. */
export const frameOf = (
  { ports, rights }: RightsHolder,
  ask: NonNullable<Ports['ask']>,
  more: Pick<Ports, 'origins' | 'answered'> = {},
): Frame => ports.frame({ guards: rights.rules.guards(), ports: { ask, ...more } });
