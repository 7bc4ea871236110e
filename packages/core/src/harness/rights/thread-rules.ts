// What directives forbid in a thread: those of its own directive, of every thread above it, and of the
// directives that were executed in it. They hold as those of a policy do: no statement of a script leaves
// them out. INVARIANT: rules are only ever added; a child has all that its parent has.
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
import type { GivenRules, RightsHolder, Thread, ThreadRules } from '../thread/thread.ts';

const NO_GUARDS: GuardSet = createGuardSet([]);
const NOTHING: GivenRules = { guards: [] };

/** What a directive brings with it; `project`: folders that it names are from there. */
export function rulesOf(
  { guards: written, deviation_rules }: Pick<Directive, 'guards' | 'deviation_rules'>,
  project: string,
): GivenRules {
  const guards = written.map(({ file, ...guard }) => ({
    ...guard,
    on: folderLabel(project, guard.on),
    // A refusal and a question name the guard by it: not by where on this machine the project lies.
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

const isNothing = ({ guards, ...more }: GivenRules): boolean =>
  guards.length === 0 && Object.keys(more).length === 0;

const merged = (all: readonly GivenRules[]): GivenRules =>
  Object.assign({}, ...all, { guards: all.flatMap(({ guards }) => guards) });

/** It changes something, by what it does or by what it needs. */
const isChange = ({ metadata, tier = 'read' }: Operation): boolean =>
  metadata?.effect === 'write' || tier !== 'read';

/** A deviation rule is a guard of its own, so everything that holds for guards holds for it. */
function ruleGuard(
  name: 'ask_first' | 'auto_fix',
  on: string,
  verdictOn: (op: Operation) => Verdict,
): Outcome<Guard> {
  const decide = ({ op }: GuardView): Outcome<Verdict> => ok(verdictOn(op));
  const place = `deviation rule \`${name}\``;
  return defineGuard({ on, timing: 'before', locked: true, place, decide });
}

const ALLOW: Verdict = { kind: 'allow' };
const ASK: Verdict = { kind: 'ask', text: 'this changes something; may it be done?' };
const NO_FIX: Verdict = { kind: 'deny', text: 'this directive lets no items be changed' };

/** Refuses what does not compile: a guard that is left out protects nobody. */
export function compileRules(rules: GivenRules): Outcome<GuardSet> {
  if (isNothing(rules)) return ok(NO_GUARDS);
  const compiled = compileGuards(rules.guards, { locked: true });
  if (!compiled.ok) return compiled;
  const list: Guard[] = [...compiled.output.list];
  const more = [
    ...(rules.ask_first
      ? [ruleGuard('ask_first', 'op:*', (op) => (isChange(op) ? ASK : ALLOW))]
      : []),
    ...(rules.no_auto_fix ? [ruleGuard('auto_fix', 'op:modify', () => NO_FIX)] : []),
  ];
  for (const guard of more) {
    if (!guard.ok) return guard;
    list.push(guard.output);
  }
  return ok(createGuardSet(list));
}

/** A journal that another version wrote: what cannot be read any more refuses everything. */
function refuseAll(failure: Failure): GuardSet {
  const place = 'rules of a directive that was executed here';
  const made = defineGuard({
    on: 'op:*',
    timing: 'before',
    locked: true,
    place,
    decide: () => failure,
  });
  return made.ok ? createGuardSet([made.output]) : NO_GUARDS;
}

const joined = (sets: readonly GuardSet[]): GuardSet => {
  const [first = NO_GUARDS, ...more] = sets.filter(({ list }) => list.length > 0);
  return more.length === 0
    ? first
    : createGuardSet([...new Set([...first.list, ...more.flatMap(({ list }) => list)])]);
};

interface RulesOrigin {
  own: GivenRules;
  /** As the thread's journal has them; those of a parent that runs here hold instead. */
  inherited: GivenRules | undefined;
  parent: ThreadRules | undefined;
}

export function createRules({ own, inherited, parent }: RulesOrigin): Outcome<ThreadRules> {
  const above = parent ? ok(NO_GUARDS) : compileRules(inherited ?? NOTHING);
  if (!above.ok) return above;
  const begun = compileRules(own);
  if (!begun.ok) return begun;
  const sets = [begun.output, above.output];
  const given = [own, ...(parent || !inherited ? [] : [inherited])];
  /** Of executed directives, until the result of the call is noted. */
  const fresh = new Map<string, GivenRules>();
  let known: { count: number; higher: GuardSet; all: GuardSet } | undefined;
  const guards = (): GuardSet => {
    const higher = parent?.guards() ?? NO_GUARDS;
    if (known?.count !== sets.length || known.higher !== higher) {
      known = { count: sets.length, higher, all: joined([...sets, higher]) };
    }
    return known.all;
  };
  const add = (rules: GivenRules): Outcome<null> => {
    const compiled = compileRules(rules);
    if (!compiled.ok) return compiled;
    sets.push(compiled.output);
    given.push(rules);
    return ok(null);
  };
  return ok({
    guards,
    atStart: () => joined([begun.output, above.output, parent?.atStart() ?? NO_GUARDS]),
    given: () => merged([...given, ...(parent ? [parent.given()] : [])]),
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

/** As an event of the journal keeps them; nothing when there are none. */
export const packRules = (rules: GivenRules | undefined): { rules?: GivenRules } =>
  rules && !isNothing(rules) ? { rules } : {};

/** Where a thread's model has its arguments from; looked into only after it has read strangers' words. */
export const originsIn = (thread: Thread): OriginPort => ({
  reader: () => thread.talk.conversation.reader(),
  async trace(op, inputs) {
    if (!inputs.some(({ value }) => carries(value.meta.descriptor, 'untrusted'))) return inputs;
    return await (await import('./origins.ts')).traceOrigins(thread, op, inputs);
  },
});

/** A frame with all that holds in the thread: policies and rules; `ask` puts questions to a person. */
export const frameOf = (
  { ports, rights }: RightsHolder,
  ask: NonNullable<Ports['ask']>,
  more: Pick<Ports, 'origins'> = {},
): Frame => ports.frame({ guards: rights.rules.guards(), ports: { ask, ...more } });
