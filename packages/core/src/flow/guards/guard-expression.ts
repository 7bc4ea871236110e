// Compiles guards of directives and policy files: a condition in the expression language and one verdict.
import {
  didYouMean,
  type Failure,
  fail,
  globProblem,
  type Json,
  matchGlob,
  type Outcome,
  ok,
} from '../../base/index.ts';
import { compileExpression, unknownPaths, unknownValues } from '../../expr/index.ts';
import type { Guard, GuardSet, GuardTiming, Verdict } from '../frame.ts';
import { ALLOW, defineGuard, parseFilter } from './guard.ts';
import { contextMaker, GUARD_CONTEXT } from './guard-context.ts';
import { createGuardSet } from './guard-set.ts';

export interface GuardSource {
  name?: string;
  on: string;
  timing: GuardTiming;
  /** Condition of the guard. Absent: it always applies. */
  when?: string;
  /** Globs of files that no tool and no process gets. The guard then denies these files and judges nothing else. */
  closes?: string[];
  verdict: {
    kind: 'allow' | 'allow_value' | 'deny' | 'retry' | 'ask';
    value?: Json;
    text?: string;
    add_labels?: string[];
    remove_labels?: string[];
  };
  privileged?: boolean;
  file?: string;
  line?: number;
  column?: number;
}

interface GuardProblem {
  message: string;
  /** Column within the condition, if the problem is there. */
  column?: number;
  hint?: string;
}

export const TIMINGS = ['before', 'after', 'always'] as const;
const KINDS: readonly string[] = ['allow', 'allow_value', 'deny', 'retry', 'ask'];
const MAX_TEXT = 2000;

function conditionProblems(when: string): GuardProblem[] {
  const compiled = compileExpression(when);
  if (!compiled.ok) {
    const { message, column, hint } = compiled.error.detail;
    return [{ message, column: Number(column ?? 1), ...(typeof hint === 'string' && { hint }) }];
  }
  const paths = unknownPaths(compiled.output, GUARD_CONTEXT);
  const values = unknownValues(compiled.output, GUARD_CONTEXT);
  return [
    ...paths.map(({ path, column, suggestion }) => ({
      message: `\`${path}\` is not defined in the condition of a guard`,
      column,
      ...(suggestion === undefined ? {} : { hint: `did you mean \`${suggestion}\`` }),
    })),
    ...values.map(({ path, value, column, known: validValues }) => {
      const hint = didYouMean(value, validValues) ?? `one of ${validValues.join(', ')}`;
      return { message: `\`${path}\` cannot have the value \`${value}\``, column, hint };
    }),
  ];
}

function verdictProblems({ verdict, privileged }: GuardSource): GuardProblem[] {
  const problems: GuardProblem[] = [];
  if (!KINDS.includes(verdict.kind)) {
    problems.push({
      message: `\`${verdict.kind}\` is not a verdict`,
      hint: didYouMean(verdict.kind, KINDS) ?? `one of ${KINDS.join(', ')}`,
    });
  }
  if (verdict.kind === 'allow_value' && verdict.value === undefined) {
    problems.push({ message: 'a replacement needs a value' });
  }
  if ((verdict.text?.length ?? 0) > MAX_TEXT) {
    problems.push({ message: `the reason is longer than ${MAX_TEXT} characters` });
  }
  const removed = verdict.remove_labels ?? [];
  if (removed.length > 0 && !privileged) {
    problems.push({ message: 'only a privileged guard may remove labels' });
  }
  const fixed = removed.find((label) => /^(src|dir):/.test(label));
  if (fixed)
    problems.push({ message: `label \`${fixed}\` marks the origin of data and cannot be removed` });
  return problems;
}

function closesProblems({ closes, when, verdict }: GuardSource): GuardProblem[] {
  if (!closes) return [];
  const problems = closes.flatMap((glob) => {
    const problem = globProblem(glob);
    return problem === undefined ? [] : [{ message: `\`closes\`: \`${glob}\` ${problem}` }];
  });
  if (verdict.kind === 'deny' && when === undefined && closes.length > 0) return problems;
  const message = 'a guard with `closes` needs globs and the verdict `deny`, and has no condition';
  return [...problems, { message }];
}

/** Returns every problem of a guard, for `check`. */
export function guardProblems(source: GuardSource): GuardProblem[] {
  const problems: GuardProblem[] = [];
  const filter = parseFilter(source.on);
  if (!filter.ok) problems.push({ message: filter.error.detail.message });
  if (!TIMINGS.includes(source.timing)) {
    problems.push({
      message: `timing \`${source.timing}\` is invalid`,
      hint: 'one of before, after, always',
    });
  }
  if (source.when !== undefined) problems.push(...conditionProblems(source.when));
  return [...problems, ...closesProblems(source), ...verdictProblems(source)];
}

function verdictOf({ verdict, on }: GuardSource): Verdict {
  const { kind, value, text, add_labels, remove_labels } = verdict;
  if (kind === 'deny' || kind === 'retry' || kind === 'ask') {
    return { kind, text: text?.trim() || `no reason given (filter ${on})` };
  }
  // Label changes of such a guard apply to all inputs.
  const labels = {
    ...(add_labels ? { add: add_labels } : {}),
    ...(remove_labels ? { remove: remove_labels } : {}),
    ofAll: true,
  };
  const changes = { labels, isSaid: true } as const;
  return kind === 'allow_value' ? { kind, value: value ?? null, ...changes } : { kind, ...changes };
}

const placeOf = ({ file, line, on }: GuardSource): string =>
  file ? `guard at ${file}${line ? `:${line}` : ''}` : `guard on ${on}`;

function compileGuard(source: GuardSource, locked: boolean): Outcome<Guard> {
  const condition = source.when === undefined ? undefined : compileExpression(source.when);
  if (condition && !condition.ok) return condition;
  const contextFor = condition && contextMaker(condition.output);
  const verdict = verdictOf(source);
  const { closes } = source;
  const text = 'text' in verdict ? verdict.text : '';
  return defineGuard({
    ...(source.name === undefined ? {} : { name: source.name }),
    on: source.on,
    timing: source.timing,
    privileged: source.privileged ?? false,
    locked,
    // Only guards of policies make exceptions, in threads too.
    mayLift: locked,
    place: placeOf(source),
    ...(closes && {
      closes: {
        globs: closes,
        refusal: (_, path) =>
          closes.some((glob) => matchGlob(glob, path)) ? `\`${path}\`: ${text}` : undefined,
      },
    }),
    decide(view) {
      // The files are refused one by one, when a tool reaches them.
      if (closes) return ok(ALLOW);
      if (!condition || !contextFor) return ok(verdict);
      const matched = condition.output.test(contextFor(view));
      if (!matched.ok) return matched;
      return ok(matched.output ? verdict : ALLOW);
    },
  });
}

interface GuardOptions {
  /** True for guards of a policy, which no statement can deselect. */
  locked?: boolean;
  /** True if the source of the guards may remove labels: an authorised policy, or a signed item. */
  mayBePrivileged?: boolean;
}

/** Returns a guard with the rights of its source. Without them, a guard that removes labels refuses. */
function withRights(source: GuardSource, options: GuardOptions): GuardSource {
  if (!source.privileged || options.mayBePrivileged) return source;
  const { privileged: _, ...plain } = source;
  if (!source.verdict.remove_labels?.length) return plain;
  const text = 'only signed items and policies with authority may remove labels';
  return { ...plain, verdict: { kind: 'deny', text } };
}

/**
 * Compiles guards. Refuses the whole list if one guard is invalid, because without it the list would not
 * protect.
 */
export function compileGuards(
  sources: readonly GuardSource[],
  options: GuardOptions = {},
): Outcome<GuardSet> {
  const guards: Guard[] = [];
  for (const source of sources) {
    const [problem] = guardProblems(source);
    if (problem) return refusal(source, problem);
    const guard = compileGuard(withRights(source, options), options.locked ?? false);
    if (!guard.ok) return guard;
    guards.push(guard.output);
  }
  return ok(createGuardSet(guards));
}

function refusal(source: GuardSource, problem: GuardProblem): Failure {
  return fail('invalid_item', `${placeOf(source)}: ${problem.message}`, {
    on: source.on,
    ...(source.line === undefined ? {} : { line: source.line }),
    ...(problem.column === undefined ? {} : { column: problem.column }),
    ...(problem.hint === undefined ? {} : { hint: problem.hint }),
  });
}
