// Finds the guarded parts of a directive that a change touches. The parts are compared as they take effect:
// parsed, with extended directives, and without locations.
import { isDeepStrictEqual } from 'node:util';
import { type Directive, resolveExtends } from '../../items/index.ts';

/** Returns the value without its location in the file. */
const withoutPlace = <T extends { line?: number; column?: number; file?: string }>({
  line: _line,
  column: _column,
  file: _file,
  ...rest
}: T) => rest;

/** Statements of a script that change guards. An import can add guards too. */
const RULES =
  /^[ \t]*\/?(?:guard|hook|policy|import|profiles|needs)\b|\bguards\s*:|\bpolicy\s*:|\bprivileged\b/m;

/** Returns the whole script if one of its versions has such statements. The script counts as one rule then. */
const rulesOf = ({ process: { script } }: Directive, other: Directive): string => {
  const texts = [script?.text ?? '', other.process.script?.text ?? ''];
  return texts.some((text) => RULES.test(text)) ? (texts[0] ?? '') : '';
};

/** Parts that a change without a person cannot touch, by name. */
const GUARDED: Readonly<Record<string, (directive: Directive, other: Directive) => unknown>> = {
  permissions: ({ permissions }) =>
    permissions && { ...permissions, entries: permissions.entries.map(withoutPlace) },
  limits: ({ limits }) => limits,
  hooks: ({ hooks }) => hooks.map(withoutPlace),
  guards: (directive, other) => [
    directive.guards.map(withoutPlace),
    rulesOf(directive, other).trim(),
  ],
  deviation_rules: ({ deviation_rules }) => deviation_rules,
  success_criteria: ({ goal }) => [goal?.criteria ?? [], goal?.rounds],
  model: ({ model, process }) => [
    model,
    process.script?.text.match(/\b(?:llm|prose)(?::[\w.-]+)?/g) ?? [],
  ],
};

/** Returns the names of guarded parts that differ between the two versions. */
export function touchedParts(
  before: Directive,
  after: Directive,
  lookup: (name: string) => Directive | undefined,
): string[] {
  const [old, young] = [resolveExtends(before, lookup), resolveExtends(after, lookup)];
  return Object.entries(GUARDED)
    .filter(([, part]) => !isDeepStrictEqual(part(old, young), part(young, old)))
    .map(([name]) => name);
}
