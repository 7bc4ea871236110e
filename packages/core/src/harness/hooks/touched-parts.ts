// Which parts of a directive a change touches that nobody may change unseen. They are compared as they
// take effect: parsed, with what the directive extends, without where they stand in the file.
import { isDeepStrictEqual } from 'node:util';
import { type Directive, resolveExtends } from '../../items/index.ts';

/** The same without where it stands in its file. */
const withoutPlace = <T extends { line?: number; column?: number; file?: string }>({
  line: _line,
  column: _column,
  file: _file,
  ...rest
}: T) => rest;

/** Rules that a script makes for itself, or leaves out; an import may bring some. */
const RULES =
  /^[ \t]*\/?(?:guard|hook|policy|import|profiles|needs)\b|\bguards\s*:|\bpolicy\s*:|\bprivileged\b/m;

/** A script that has such rules in either version counts as one rule. */
const rulesOf = ({ process: { script } }: Directive, other: Directive): string => {
  const texts = [script?.text ?? '', other.process.script?.text ?? ''];
  return texts.some((text) => RULES.test(text)) ? (texts[0] ?? '') : '';
};

/** What a change may not touch when nobody looks at it: each part as it takes effect. */
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
  model: ({ model, process }) => [
    model,
    process.script?.text.match(/\b(?:llm|prose)(?::[\w.-]+)?/g) ?? [],
  ],
};

/** Which of them are others now, with all that the two extend. */
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
