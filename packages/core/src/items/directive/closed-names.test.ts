// A closed set refuses a misspelt member wherever one can stand, in a policy and in a directive.
import { testWorld } from '@kernmantle/test-support/directives';
import { misspelt } from '@kernmantle/test-support/misspelt';
import { runs } from '@kernmantle/test-support/soak';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { LIMIT_NAMES, parsePolicy } from '../../flow/index.ts';
import { checkDirective } from './check.ts';
import { parseDirective } from './parse.ts';

const { catalog } = testWorld();
const isRefused = (policy: string): boolean =>
  parsePolicy(policy, 'p.yaml', 'user', catalog).policy === undefined;

const directive = (metadata: string) =>
  `<directive name="x" version="1.0.0"><metadata>${metadata}</metadata></directive>`;
const hasError = (metadata: string): boolean => {
  const parsed = parseDirective(directive(metadata), 'x.md');
  const found = [...parsed.diagnostics, ...checkDirective(parsed, testWorld())];
  return found.some(({ severity }) => severity === 'error');
};
const hook = (when: string) =>
  `<hooks><hook><when>${when}</when><directive>handle_timeout</directive></hook></hooks>`;

const CAPABILITIES = ['fs.read', 'fs.write', 'net.http', 'process.spawn', 'kernel.load'];
const SURFACES = ['cli', 'library', 'script', 'mcp', 'web', 'acp', 'mcp_servers', 'harness'];
const KINDS = ['tool', 'run', 'show', 'model', 'modify', 'directive', 'import', 'export'];

/** Members of a set, and every place where one can stand; true: the place refuses this word. */
const SETS: Readonly<Record<string, [readonly string[], ((word: string) => boolean)[]]>> = {
  capability: [
    CAPABILITIES,
    [
      (word) => isRefused(`capabilities: { deny: ["${word}"] }`),
      (word) => isRefused(`capabilities: { allow: [{ capability: "${word}" }] }`),
      (word) => isRefused(`surfaces: { mcp: { open: ["${word}"] } }`),
      (word) => isRefused(`surfaces: { cli: { capabilities: { deny: ["${word}"] } } }`),
    ],
  ],
  limit: [
    LIMIT_NAMES,
    [
      (word) => isRefused(`limits: { "${word}": 1 }`),
      (word) => hasError(`<limits><${word}>1</${word}></limits>`),
      (word) => hasError(hook(`event.name == "limit" and event.limit == "${word}"`)),
    ],
  ],
  surface: [SURFACES, [(word) => isRefused(`surfaces: { "${word}": { effects: [read] } }`)]],
  'kind of operation': [
    KINDS,
    [
      (word) => isRefused(`guards: [{ on: "op:${word}", deny: x }]`),
      (word) => isRefused(`labels: { secret: { deny: ["op:${word}"] } }`),
      (word) => isRefused(`operations: { exfil: ["op:${word}"] }`),
      (word) => isRefused(`guards: [{ on: secret, when: 'op.type == "${word}"', deny: x }]`),
      (word) => hasError(`<guards><guard on="op:${word}"><deny>x</deny></guard></guards>`),
    ],
  ],
  event: [
    ['before_step', 'after_step', 'error', 'limit', 'warning'],
    [
      (word) => hasError(hook(`event.name == "${word}"`)),
      (word) => hasError(hook(`event.name in ["error", "${word}"]`)),
    ],
  ],
  'kind of step': [
    ['turn', 'tool', 'spawn'],
    [(word) => hasError(hook(`event.name == "before_step" and event.kind == "${word}"`))],
  ],
  field: [
    ['code', 'step', 'kind', 'limit', 'current'],
    [(word) => hasError(hook(`event.${word} == 1`))],
  ],
  'label rule': [
    ['deny', 'ask', 'allow'],
    [(word) => isRefused(`labels: { secret: { "${word}": [exfil] } }`)],
  ],
};

const slips = (members: readonly string[]) =>
  misspelt(members).filter((word) => /^[a-z][a-z_]*(?:\.[a-z]+)*$/.test(word));

for (const [set, [members, places]] of Object.entries(SETS)) {
  test(`a misspelt ${set} is refused in every place, a member in none`, () => {
    for (const place of places)
      for (const member of members) expect(place(member), member).toBe(false);
    // Another member may be one letter away.
    const others = new Set([...members, 'sh', 'js', 'py', 'node', 'log', 'say', 'for', 'loop']);
    fc.assert(
      fc.property(
        slips(members).filter((word) => !others.has(word)),
        fc.constantFrom(...places),
        (word, place) => {
          expect(place(word), word).toBe(true);
        },
      ),
      { numRuns: runs(60) },
    );
  });
}
