// `policy.yaml`: from text to a policy, with a place for everything that is wrong. INVARIANT: a file
// with an error yields no policy at all; half a policy would protect half.
import {
  createLines,
  type Diagnostic,
  hasErrors,
  isObject,
  type Json,
  nearest,
  type Position,
  parseYaml,
  type YamlDocument,
} from '../base/index.ts';
import type { Policy, PolicyLevel } from './policy.ts';
import { FIELDS } from './policy-fields.ts';
import type { FieldReader, Problem } from './policy-reading.ts';

type Path = readonly (string | number)[];

function createReporter(text: string, file: string, document: YamlDocument) {
  const lines = createLines(text);
  const diagnostics: Diagnostic[] = [];
  return {
    diagnostics,
    add(place: { line: number; column: number }, problem: Problem): void {
      const { line, column } = place;
      diagnostics.push({
        file,
        line,
        column,
        code: problem.code ?? 'config_invalid',
        severity: problem.severity ?? 'error',
        message: problem.message,
        ...(problem.hint === undefined ? {} : { hint: problem.hint }),
        text: lines.line(line),
      });
    },
    at(path: Path, problem: Problem, part: 'key' | 'value' = 'value'): void {
      this.add(document.locate(path, part), problem);
    },
  };
}

export interface ParsedPolicy {
  policy?: Policy;
  diagnostics: Diagnostic[];
  /** Where a setting stands, for findings about it (`lintPolicy`). */
  readonly locate: (path: Path) => Position;
}

/** Never throws; `policy` is absent when anything is wrong. An empty file is an empty policy. */
export function parsePolicy(text: string, file: string, level: PolicyLevel): ParsedPolicy {
  const document = parseYaml(text);
  const report = createReporter(text, file, document);
  for (const problem of document.problems) report.add(problem, { message: problem.message });
  const policy: Policy = { level, file };
  if (isObject(document.value)) {
    for (const [name, value] of Object.entries(document.value))
      readField(policy, name, value, report, document);
  } else if (document.value !== null) {
    report.at([], { message: 'a policy is a mapping of settings' });
  }
  const { diagnostics } = report;
  const locate = (path: Path) => document.locate(path);
  return hasErrors(diagnostics) ? { diagnostics, locate } : { policy, diagnostics, locate };
}

function readField(
  policy: Policy,
  name: string,
  value: Json,
  report: ReturnType<typeof createReporter>,
  document: YamlDocument,
): void {
  const reader = readerOf(name);
  if (!reader) {
    const close = nearest(name, Object.keys(FIELDS));
    const hint = close ? `did you mean \`${close}\`?` : `known: ${Object.keys(FIELDS).join(', ')}`;
    report.at([name], { message: `a policy has no setting \`${name}\``, hint }, 'key');
    return;
  }
  const problem = (path: Path, given: Problem, part?: 'key' | 'value') =>
    report.at([name, ...path], given, part);
  const place = (path: Path) => document.locate([name, ...path]);
  const parsed = reader(value, { problem, place, file: policy.file ?? '', level: policy.level });
  if (parsed !== undefined) Object.assign(policy, { [name]: parsed });
}

const readerOf = (name: string): FieldReader | undefined =>
  Object.hasOwn(FIELDS, name) ? FIELDS[name as keyof typeof FIELDS] : undefined;
