// Checks the filters of guards and hooks without running the script. Kinds of operations are a closed set:
// a filter on an unknown kind would protect nothing, so the script is refused. Labels are an open set: a
// label that is similar to a known one gives a warning.
import { nearest } from '@kernmantle/core/base';
import { isRisk, keyProblem, OPERATION_TYPES, OWN_LABELS } from '@kernmantle/core/flow';
import type { SyntaxProblem } from '../problem.ts';
import { type Expression, type NodeOf, type ScriptTree, visit } from './ast.ts';
import { staticText, staticTexts } from './outline.ts';
import type { NameFinding } from './unbound.ts';

type RuleNode = NodeOf<'guard' | 'hook'>;

type VisitedNode = Parameters<Parameters<typeof visit>[1]>[0];

/** Returns every node of a file, including the bodies of functions. */
function nodesOf({ body }: Pick<ScriptTree, 'body'>): VisitedNode[] {
  const found: VisitedNode[] = [];
  const open: unknown[] = [body];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    visit(next, (node) => {
      found.push(node);
      if (node.kind === 'exe') open.push(node.body);
    });
  }
  return found;
}

/** Returns the labels that a policy adds to operations and to unlabelled data. */
function labelsOfPolicy({ entries }: NodeOf<'object'>): string[] {
  return entries.flatMap((entry): string[] => {
    if (entry.kind !== 'pair') return [];
    const { key, value } = entry;
    if (key === 'unlabelled') return staticTexts(value);
    if (value.kind !== 'object' || (key !== 'operations' && key !== 'defaults')) return [];
    if (key === 'defaults') return labelsOfPolicy(value);
    return value.entries.flatMap((one) => (one.kind === 'pair' ? [one.key] : []));
  });
}

function labelsIn(tree: Pick<ScriptTree, 'body'>): string[] {
  const found: string[] = [];
  for (const node of nodesOf(tree)) {
    if (node.kind === 'var' || node.kind === 'let' || node.kind === 'exe')
      found.push(...node.labels);
    else if (node.kind === 'verdict' || node.kind === 'return')
      found.push(...(node.labels?.add ?? []));
    else if (node.kind === 'object') found.push(...labelsOfPolicy(node));
    if (node.kind === 'verdict') found.push(...staticTexts(node.options?.entries.get('addLabels')));
  }
  return found;
}

const isRule = (node: { kind: string }): node is RuleNode =>
  node.kind === 'guard' || node.kind === 'hook';

/** True if the file imports nothing. Imported functions can have further labels. */
const isClosed = ({ body }: Pick<ScriptTree, 'body'>): boolean =>
  !body.some((node) => node.kind === 'import' && /^(?:path|connector)$/.test(node.source.kind));

function placeOf({ filter, at }: RuleNode, text: string): { at: number; end: number } {
  const from = Math.max(at, text.indexOf(filter, at));
  return { at: from, end: from + filter.length };
}

/** Returns the problem of a filter that can never match. `labels` are the labels of the file and its imports. */
function unknownKind({ filter }: RuleNode, labels: readonly string[], isKnown: boolean) {
  const problem = keyProblem(filter, labels);
  return problem && (isKnown || problem.isTypo) ? problem : undefined;
}

function isTypeOf(node: Expression): boolean {
  if (node.kind !== 'reference' || !/^(?:mx|ctx)$/.test(node.name)) return false;
  const path = node.steps.map((step) => (step.kind === 'field' ? step.name : ''));
  return /^op(?:eration)?\.type$/.test(path.join('.'));
}

/** Returns the problems of comparisons of `@mx.op.type` in a guard with a text that is never the type. */
function typeProblems(rule: RuleNode): SyntaxProblem[] {
  const found: SyntaxProblem[] = [];
  visit(rule, (node) => {
    if (node.kind !== 'binary' || !/^[!=]=$/.test(node.operator)) return;
    const [left, right] = isTypeOf(node.right) ? [node.right, node.left] : [node.left, node.right];
    const word = isTypeOf(left) && right.kind === 'template' ? staticText(right) : undefined;
    if (word === undefined || OPERATION_TYPES.includes(word)) return;
    const close = nearest(word, OPERATION_TYPES);
    const hint = close ? `did you mean \`${close}\`?` : `one of ${OPERATION_TYPES.join(', ')}`;
    const message = `\`@mx.op.type\` is never \`${word}\``;
    found.push({ at: right.at, end: right.end, message, hint, code: 'unknown_key' });
  });
  return found;
}

/** Returns the problems for which a script is refused before any statement runs. */
export function filterProblems(tree: Pick<ScriptTree, 'body' | 'text'>): SyntaxProblem[] {
  if (!/\bop:|\.type\b/.test(tree.text)) return [];
  const rules = nodesOf(tree).filter(isRule);
  const labels = labelsIn(tree);
  return rules.flatMap((rule) => {
    const problem = unknownKind(rule, labels, isClosed(tree));
    const types = rule.kind === 'guard' ? typeProblems(rule) : [];
    if (types.length > 0) return types;
    return problem
      ? [{ ...placeOf(rule, tree.text), ...problem, code: 'unknown_key' as const }]
      : [];
  });
}

/** Returns filter problems that need the imported files, and labels that are probably misspelt. */
export function filterFindings(
  tree: ScriptTree,
  module: (path: string) => ScriptTree | undefined,
): NameFinding[] {
  const rules = nodesOf(tree).filter(isRule);
  if (rules.length === 0) return [];
  const paths = tree.body.flatMap((node) =>
    node.kind === 'import' && node.source.kind === 'path'
      ? [staticText(node.source.path) ?? '']
      : [],
  );
  const modules = paths.map(module);
  const isKnown = modules.every((one) => one !== undefined) && !isClosed(tree);
  const labels = [tree, ...modules.flatMap((one) => one ?? [])].flatMap(labelsIn);
  const all = [...OWN_LABELS, ...labels];
  return rules.flatMap((rule): NameFinding[] => {
    const { filter } = rule;
    const at = placeOf(rule, tree.text);
    if (filter.startsWith('op:')) {
      const problem = isKnown ? unknownKind(rule, labels, true) : undefined;
      return problem ? [{ ...at, code: 'filter_unknown', severity: 'error', ...problem }] : [];
    }
    const isGiven = all.some((one) => one === filter || one.startsWith(`${filter}:`));
    const isOwn = filter.startsWith('@') || /^(?:src|dir):/.test(filter) || isRisk(filter);
    const close = isGiven || isOwn ? undefined : nearest(filter, all);
    if (close === undefined) return [];
    const message = `no value or function here has the label \`${filter}\``;
    const hint = `did you mean \`${close}\`?`;
    return [{ ...at, code: 'filter_unknown', severity: 'warning', message, hint }];
  });
}
