// The page about capabilities keeps its word: its example and its tables are run.
import { readFileSync } from 'node:fs';
import { ok, parseYaml } from '@kernmantle/core/base';
import { bundleCatalog, NOW } from '@kernmantle/test-support/trust';
import { expect, test } from 'vitest';
import {
  createCapabilityCatalog,
  readCapabilities,
} from '../../../core/src/trust/grants/capability-catalog.ts';
import { type Ceiling, createCeilingVerifier } from '../../../core/src/trust/grants/ceiling.ts';
import type { Grant, Need } from '../../../core/src/trust/grants/grant.ts';
import { grantsFromPermissions } from '../../../core/src/trust/grants/permission.ts';
import type { Permission } from '../../../core/src/trust/grants/permission-map.ts';
import { generateKeyPair } from '../../../core/src/trust/keys/key.ts';
import { encodeToken, mintToken } from '../../../core/src/trust/tokens/token.ts';
import { createTokenVerifier } from '../../../core/src/trust/tokens/token-verifier.ts';

const page = readFileSync(new URL('../../../../docs/capabilities.md', import.meta.url), 'utf8');
const catalog = bundleCatalog();
const fences = (language: string) =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``, 'g'))].map(
    ([, text = '']) => text,
  );
const linesOf = (text: string): Permission[] =>
  [...text.matchAll(/<(read|write|execute) (resource=[^>]*)\/>/g)].map(
    ([, verb, attributes = '']) => ({
      verb: verb as Permission['verb'],
      resource: '',
      ...Object.fromEntries([...attributes.matchAll(/(\w+)="([^"]*)"/g)].map(([, n, v]) => [n, v])),
    }),
  );

const rights = grantsFromPermissions(
  { entries: linesOf(fences('xml')[0] ?? ''), orchestration: { enabled: true } },
  catalog,
  ok,
);

function example() {
  const root = generateKeyPair();
  const content = { aud: 'k', project: '/p', thread: 't', directive: 'publish_docs', exp: NOW + 1 };
  const token = mintToken(root, { ...content, caps: rights.grants });
  if (!token.ok) throw new Error(token.error.detail.message);
  const verified = createTokenVerifier({
    roots: [{ id: root.id, key: root.publicKey }],
    audience: 'k',
    project: '/p',
    clock: { now: () => NOW },
    catalog,
  }).verify(encodeToken(token.output));
  if (!verified.ok) throw new Error(verified.error.detail.message);
  return verified.output;
}

const rows = [...page.matchAll(/^\| [^|]+ \| `([a-z.]+)`([^|]*) \| (yes|no) \|$/gm)].map(
  ([, capability = '', scope = '', answer]): [Need, string] => [
    {
      capability,
      signed: true,
      scope: Object.fromEntries([...scope.matchAll(/(\w+) `([^`]+)`/g)].map(([, n, v]) => [n, v])),
    },
    answer ?? '',
  ],
);

test('the example has no problems and its table is complete', () => {
  expect(rights.problems).toEqual([]);
  expect(rows.length).toBeGreaterThan(12);
});

test.each(rows)('%j: %s', (need, answer) => {
  expect(example().check(need).ok).toBe(answer === 'yes');
});

test('the refusal reads as printed', () => {
  const refused = example().check({ capability: 'fs.write', scope: { path: 'docs/intro.md' } });
  expect(!refused.ok && refused.error.detail.message).toBe(fences('text')[0]?.trim());
});

test('every line of the second table is understood', () => {
  const table = page.slice(page.indexOf('## Lines and what they grant'), page.indexOf('## Paths'));
  const entries = linesOf(table).filter(({ resource }) => resource !== 'R');
  expect(entries.length).toBeGreaterThan(10);
  expect(grantsFromPermissions({ entries }, catalog, ok, '/srv/p').problems).toEqual([]);
});

/** The entries of a policy: a name, or a name with the fields of its scope. */
function ceilingOf(policy: string): Ceiling {
  type Entry = string | { capability: string; path?: string };
  const { capabilities } = parseYaml(policy).value as { capabilities: Record<string, Entry[]> };
  const grantOf = (entry: Entry): Grant => {
    if (typeof entry === 'string') return { capability: entry };
    const { capability, ...scope } = entry;
    return { capability, scope };
  };
  const { allow = [], deny = [] } = capabilities;
  return { allow: allow.map(grantOf), deny: deny.map(grantOf) };
}

test('the policy and the project’s capabilities are usable', () => {
  const [policy = '', own = ''] = fences('yaml');
  const check = createCeilingVerifier([ceilingOf(policy)], catalog);
  expect(check({ capability: 'fs.read', scope: { path: 'src/a' } }).ok).toBe(true);
  expect(check({ capability: 'fs.read', scope: { path: 'secrets/a' } }).ok).toBe(false);
  expect(check({ capability: 'fs.write', scope: { path: 'src/a' } }).ok).toBe(false);
  const { infos, problems } = readCapabilities(parseYaml(own).value);
  expect(problems).toEqual([]);
  expect(createCapabilityCatalog([], infos).ok).toBe(true);
});
