// What directives forbid in a thread: those of its own directive, of every thread above it, and of the
// directives that were executed in it. They hold as those of a policy do: no statement of a script leaves
// them out. INVARIANT: rules are only ever added; a child has all that its parent has.
import { type Failure, type Outcome, ok } from '../../base/index.ts';
import {
  compileGuards,
  createGuardSet,
  defineGuard,
  type Frame,
  type GuardSet,
  type Ports,
} from '../../flow/index.ts';
import type { Directive } from '../../items/index.ts';
import type { GivenRules, Thread, ThreadRules } from '../thread/thread.ts';

const NO_GUARDS: GuardSet = createGuardSet([]);
const NOTHING: GivenRules = { guards: [] };

/** What a directive brings with it. */
export const rulesOf = ({ guards }: Pick<Directive, 'guards'>): GivenRules => ({ guards });

const isNothing = ({ guards }: GivenRules): boolean => guards.length === 0;

const merged = (all: readonly GivenRules[]): GivenRules => ({
  guards: all.flatMap(({ guards }) => guards),
});

/** Refuses what does not compile: a guard that is left out protects nobody. */
export const compileRules = ({ guards }: GivenRules): Outcome<GuardSet> =>
  guards.length === 0 ? ok(NO_GUARDS) : compileGuards(guards, { locked: true });

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

/** A frame with all that holds in the thread: policies and rules; `ask` puts questions to a person. */
export const frameOf = ({ ports, rights }: Thread, ask: NonNullable<Ports['ask']>): Frame =>
  ports.frame({ guards: rights.rules.guards(), ports: { ask } });
