import { inspect } from 'node:util';
import { bundleCatalog, NOW, sealToken, seededRandom } from '@kernmantle/test-support/trust';
import { expect, test } from 'vitest';
import type { Outcome } from '../../base/index.ts';
import type { Grant, Need } from '../grants/grant.ts';
import { generateKeyPair } from '../keys/key.ts';
import {
  attenuateToken,
  type CapabilityToken,
  decodeToken,
  encodeToken,
  mintToken,
} from './token.ts';
import { createTokenVerifier, type TokenVerifierPorts } from './token-verifier.ts';

type MintOptions = NonNullable<Parameters<typeof mintToken>[2]>;

type BlockContent = Parameters<typeof mintToken>[1];

const root = generateKeyPair(seededRandom(1));
const catalog = bundleCatalog();
const must = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
};
const content = (caps: Grant[], over: Partial<BlockContent> = {}): BlockContent => ({
  aud: 'kernmantle',
  project: '/srv/p',
  thread: 't1',
  directive: 'build',
  caps,
  exp: NOW + 60_000,
  ...over,
});
const child = (caps: Grant[], over: Partial<BlockContent> = {}) =>
  content(caps, { thread: 't2', parent: 't1', directive: 'test', ...over });
const mint = (caps: Grant[], options?: MintOptions, over?: Partial<BlockContent>) =>
  must(mintToken(root, content(caps, over), options));
const verifier = (over: Partial<TokenVerifierPorts> = {}) =>
  createTokenVerifier({
    roots: [{ id: root.id, key: root.publicKey }],
    audience: 'kernmantle',
    project: '/srv/p',
    clock: { now: () => NOW },
    catalog,
    ...over,
  });
const verify = (token: CapabilityToken, over: Partial<TokenVerifierPorts> = {}) =>
  verifier(over).verify(encodeToken(token));
const reasonOf = (outcome: Outcome<unknown>) => (outcome.ok ? 'ok' : outcome.error.detail.token);

const fs = (verb: 'read' | 'write', path: string): Grant => ({
  capability: `fs.${verb}`,
  scope: { path },
});
const spawn: Grant = { capability: 'process.spawn' };
const use = (capability: string): Need => ({ capability });

test('a token allows what its block grants and nothing else', () => {
  const token = must(verify(mint([fs('write', 'dist/**'), spawn])));
  expect(token.check(fs('write', 'dist/a.js')).ok).toBe(true);
  expect(token.check(fs('read', 'dist/a.js')).ok).toBe(true);
  expect(token.check(fs('write', 'src/a.js')).ok).toBe(false);
  expect(token.check(use('git.push')).ok).toBe(false);
  expect(token.check(use('no.such')).ok).toBe(false);
});

test('a right is what every block allows', () => {
  const parent = mint([fs('write', 'src/**'), spawn]);
  const narrowed = must(
    attenuateToken(parent, child([fs('write', '**/*.ts'), { capability: 'git.push' }])),
  );
  const token = must(verify(narrowed));
  expect(token.check(fs('write', 'src/a.ts')).ok).toBe(true);
  expect(token.check(fs('write', 'src/a.js')).ok).toBe(false);
  expect(token.check(fs('write', 'a.ts')).ok).toBe(false);
  expect(token.check(spawn).ok).toBe(false);
  expect(token.check(use('git.push')).ok).toBe(false);
  expect(token.thread).toBe('t2');
});

test('the block that narrows nothing but time leaves the rights as they were', () => {
  const parent = mint([fs('write', 'src/**')]);
  const token = must(
    verify(must(attenuateToken(parent, child([{ capability: '*' }], { exp: NOW + 5 })))),
  );
  expect(token.check(fs('write', 'src/a.ts')).ok).toBe(true);
  expect(token.check(spawn).ok).toBe(false);
  expect(token.expires).toBe(NOW + 5);
});

test('the earliest expiry counts, by the injected clock, also for a token already verified', () => {
  let now = NOW;
  const parent = mint([spawn], {}, { exp: NOW + 10 });
  const narrowed = must(attenuateToken(parent, child([spawn], { exp: NOW + 1000 })));
  const port = { clock: { now: () => now } };
  const token = must(verify(narrowed, port));
  expect(token.expires).toBe(NOW + 10);
  now = NOW + 9;
  expect(token.check(spawn).ok).toBe(true);
  now = NOW + 10;
  expect(reasonOf(token.check(spawn))).toBe('expired');
  expect(reasonOf(verify(narrowed, port))).toBe('expired');
  now = Number.NaN;
  expect(reasonOf(token.check(spawn))).toBe('expired');
});

test('revoking a thread revokes its descendants, also tokens already verified', () => {
  const revoked = new Set<string>();
  const port = { isRevoked: (thread: string) => revoked.has(thread) };
  const parent = mint([spawn], {}, { parent: 't0' });
  const narrowed = must(attenuateToken(parent, child([spawn])));
  const [above, below] = [must(verify(parent, port)), must(verify(narrowed, port))];
  revoked.add('t2');
  expect(above.check(spawn).ok).toBe(true);
  expect(reasonOf(below.check(spawn))).toBe('revoked');
  revoked.delete('t2');
  for (const ancestor of ['t1', 't0']) {
    revoked.clear();
    revoked.add(ancestor);
    expect(reasonOf(below.check(spawn))).toBe('revoked');
    expect(below.sees('directive', 'x', 'y')).toBe(false);
    expect(reasonOf(verify(narrowed, port))).toBe('revoked');
  }
});

test.each<[string, Partial<TokenVerifierPorts>, string]>([
  ['audience', { audience: 'other' }, 'audience'],
  ['project', { project: '/srv/q' }, 'project'],
  ['thread', { isKnownThread: () => false }, 'thread'],
  ['root key', { roots: [] }, 'root'],
])('a token for another %s is refused', (_, ports, reason) => {
  const refused = verify(mint([spawn]), ports);
  expect(reasonOf(refused)).toBe(reason);
  expect(!refused.ok && refused.error.code).toBe('permission_denied');
});

test('a token is worth nothing in the hands of another thread', () => {
  const text = encodeToken(mint([spawn]));
  expect(verifier().verify(text, 't1').ok).toBe(true);
  expect(reasonOf(verifier().verify(text, 't9'))).toBe('thread');
});

test.each<[string, Partial<BlockContent>, string]>([
  ['another audience', { aud: 'other' }, 'audience'],
  ['another project without the right to use it', { project: '/srv/q' }, 'project'],
  ['a thread that is no child', { parent: 't7' }, 'thread'],
  [
    'a thread without a parent',
    { parent: undefined } as unknown as Partial<BlockContent>,
    'thread',
  ],
])('a block for %s spoils the token', (_, over, reason) => {
  const narrowed = must(attenuateToken(mint([spawn]), child([spawn], over)));
  expect(reasonOf(verify(narrowed, { project: over.project ?? '/srv/p' }))).toBe(reason);
});

test('a chain enters another project only where every block before allows it', () => {
  const right: Grant = { capability: 'project.use', scope: { path: '/srv/*' } };
  const enter = (caps: Grant[]) =>
    must(attenuateToken(mint(caps), child([spawn], { project: '/srv/q' })));
  const there = { project: '/srv/q' };
  expect(verify(enter([spawn, right]), there).ok).toBe(true);
  expect(verify(enter([spawn, right])).ok).toBe(false);
  expect(reasonOf(verify(enter([spawn]), there))).toBe('project');
  const elsewhere: Grant = { capability: 'project.use', scope: { path: '/home/*' } };
  expect(reasonOf(verify(enter([spawn, elsewhere]), there))).toBe('project');
});

test.each<[string, Grant]>([
  ['an unknown capability', { capability: 'fs.delete' }],
  ['an unknown server action', { capability: 'mcp.x.delete' }],
  ['a field its capability does not have', { capability: 'git.push', scope: { path: 'x' } }],
  ['no path where one is needed', { capability: 'fs.read' }],
  ['a glob with braces', fs('read', '{a,b}')],
  ['a name that is none', { capability: 'a b' }],
])('a token whose block holds %s is refused whole', (_, grant) => {
  expect(reasonOf(verify(mint([spawn, grant])))).toBe('capability');
  const narrowed = must(attenuateToken(mint([spawn]), child([spawn, grant])));
  expect(reasonOf(verify(narrowed))).toBe('capability');
});

test.each<[string, Record<string, unknown>]>([
  ['an unknown field', { extra: 1 }],
  ['a thread id with a slash', { thread: 'a/b' }],
  ['an expiry that is no number', { exp: '1' }],
  ['a broken expiry', { exp: 1.5 }],
  ['caps that are no list', { caps: {} }],
  ['a grant with an unknown field', { caps: [{ capability: 'git.push', deny: true }] }],
  ['a scope with an unknown field', { caps: [{ capability: 'git.push', scope: { row: '1' } }] }],
  ['a budget with an unknown field', { budget: { time: 1 } }],
  ['a negative budget', { budget: { spawns: -1 } }],
  ['spend as a number', { budget: { spend: 1.5 } }],
  ['an unknown filter', { filters: { tools: {} } }],
  ['filters that are null', { filters: null }],
  ['approved rights that are null', { approved: null }],
  ['a scope that is null', { caps: [{ capability: 'git.push', scope: null }] }],
])('a block with %s cannot be minted or appended', (_, over) => {
  const odd: BlockContent = { ...content([spawn]), ...over };
  expect(mintToken(root, odd).ok).toBe(false);
  expect(attenuateToken(mint([spawn]), odd).ok).toBe(false);
});

test('only the root key can mark a block as core or approved', () => {
  for (const mark of [{ core: true }, { approval: 'a1' }]) {
    const marked = { ...child([spawn]), ...mark } as BlockContent;
    expect(attenuateToken(mint([spawn]), marked).ok).toBe(false);
  }
});

test('system-only capabilities count in the first block of a core item alone', () => {
  const system: Grant = { capability: 'registry.write' };
  const core = mint([system, spawn], { core: true });
  expect(must(verify(core)).check(system).ok).toBe(true);
  expect(must(verify(core)).granted()).toEqual(['registry.write', 'process.spawn']);
  const plain = must(verify(mint([system, spawn])));
  expect(plain.check(system).ok).toBe(false);
  expect(plain.holds('registry.write').ok).toBe(false);
  expect(plain.granted()).toEqual(['process.spawn']);
  const below = must(verify(must(attenuateToken(core, child([system, { capability: '*' }])))));
  expect(below.check(system).ok).toBe(false);
  expect(below.check(spawn).ok).toBe(true);
  expect(must(verify(mint([{ capability: '*' }], { core: true }))).check(system).ok).toBe(false);
});

test('a path outside the project takes the system-only right to leave it', () => {
  const outside = fs('read', '/etc/nginx/**');
  const leave: Grant = { capability: 'fs.absolute' };
  const need = fs('read', '/etc/nginx/site');
  expect(must(verify(mint([outside, leave], { core: true }))).check(need).ok).toBe(true);
  expect(must(verify(mint([outside], { core: true }))).check(need).ok).toBe(false);
  const refused = must(verify(mint([outside, leave]))).check(need);
  expect(!refused.ok && refused.error.detail.missing).toBe('fs.absolute');
});

test('all threads are reached by core items or on approval only', () => {
  const any: Grant = { capability: 'thread.control', scope: { subtree: 'any' } };
  expect(must(verify(mint([any]))).check(any).ok).toBe(false);
  expect(must(verify(mint([any], { approval: 'ap_1' }))).check(any).ok).toBe(true);
  expect(must(verify(mint([any], { core: true }))).check(any).ok).toBe(true);
  const approved = mint([any], { approval: 'ap_1' });
  const below = (caps: Grant[]) => must(verify(must(attenuateToken(approved, child(caps)))));
  expect(below([any]).check(any).ok).toBe(true);
  expect(below([{ capability: '*' }]).check(any).ok).toBe(false);
});

test('ceilings cap a token and never add to it', () => {
  const caps = [fs('write', '**'), spawn];
  const ceilings = [{ deny: [fs('write', 'secrets/**')] }, { allow: [{ capability: 'fs.*' }] }];
  const token = must(verify(mint(caps), { ceilings }));
  expect(token.check(fs('write', 'a')).ok).toBe(true);
  expect(token.check(fs('write', 'secrets/a')).ok).toBe(false);
  expect(token.check(spawn).ok).toBe(false);
  expect(token.holds('process.spawn').ok).toBe(false);
  expect(token.check(use('git.push')).ok).toBe(false);
});

test('lists of all blocks must let an item through', () => {
  const filters = {
    spawn: { allow_categories: ['test', 'deploy'] },
    knowledge: { deny_categories: ['secrets'] },
    directives: { deny_directives: ['drop_*'] },
  };
  const orchestrate: Grant = { capability: 'spawn.thread' };
  const parent = mint([orchestrate], {}, { filters });
  const narrowed = attenuateToken(
    parent,
    child([orchestrate], { filters: { spawn: { allow_categories: ['test', 'admin'] } } }),
  );
  const token = must(verify(must(narrowed)));
  expect(token.maySpawn('test', 'run').ok).toBe(true);
  expect(token.maySpawn('deploy', 'run').ok).toBe(false);
  expect(token.maySpawn('admin', 'run').ok).toBe(false);
  expect(token.maySpawn('test', 'drop_all').ok).toBe(false);
  expect(token.sees('knowledge', 'secrets', 'x')).toBe(false);
  expect(token.sees('knowledge', 'patterns', 'x')).toBe(true);
  expect(token.sees('directive', 'any', 'ops/drop_all')).toBe(false);
  expect(token.sees('tool', 'secrets', 'x')).toBe(true);
  expect(must(verify(mint([spawn]))).maySpawn('test', 'run').ok).toBe(false);
});

test('budgets are the smallest of all blocks', () => {
  const parent = mint(
    [spawn],
    {},
    { budget: { uses: { delete_file: 2 }, spend: '1.5', spawns: 3 } },
  );
  const narrowed = attenuateToken(
    parent,
    child([spawn], {
      budget: { uses: { delete_file: 5, push: 1 }, spend: '1.25', depth: 1, spawns: 9 },
    }),
  );
  expect(must(verify(must(narrowed))).budget).toEqual({
    uses: { delete_file: 2, push: 1 },
    spend: '1.25',
    spawns: 3,
    depth: 1,
  });
});

test('a sealed token keeps its rights and cannot be narrowed or reopened', () => {
  const sealed = sealToken(mint([spawn]));
  expect(must(verify(sealed)).check(spawn).ok).toBe(true);
  expect(attenuateToken(sealed, child([spawn])).ok).toBe(false);
  expect(encodeToken(sealToken(sealed))).toBe(encodeToken(sealed));
  const reopened = encodeToken(sealed).replace(/\.s\.[^.]+$/, `.k.${'A'.repeat(43)}`);
  expect(reasonOf(verifier().verify(reopened))).toBe('signature');
});

test('a refusal says what is missing, who lacks it and the line to add', () => {
  const parent = mint([fs('read', 'src/**'), spawn]);
  const token = must(verify(must(attenuateToken(parent, child([fs('write', 'src/**')])))));
  const refused = token.check(fs('write', 'src/a.ts'), 'fs/write_file');
  expect(refused).toEqual({
    ok: false,
    error: {
      code: 'permission_denied',
      detail: {
        message:
          '`fs.write` on `src/a.ts` is not granted to `t1`, and a child never has more than its parent: add `<write resource="filesystem" path="src/a.ts"/>` to the permissions of directive `build`',
        missing: 'fs.write',
        missing_all: ['fs.write'],
        attempted: 'fs/write_file',
        granted: ['fs.read'],
        scope: { path: 'src/a.ts' },
        remedy:
          'add `<write resource="filesystem" path="src/a.ts"/>` to the permissions of directive `build`',
      },
    },
  });
});

test('what a call needs besides is refused together with it', () => {
  const token = must(verify(mint([spawn])));
  const refused = token.check(fs('read', '/etc/passwd'), 'shell/bash');
  expect(!refused.ok && refused.error.detail.missing).toBe('fs.read');
  expect(!refused.ok && refused.error.detail.missing_all).toEqual(['fs.read', 'fs.absolute']);
  expect(token.check(spawn).ok).toBe(true);
});

test('explain goes through the blocks', () => {
  const parent = mint([fs('write', 'src/**')]);
  const token = must(verify(must(attenuateToken(parent, child([fs('read', '**'), spawn])))));
  expect(token.explain(fs('read', 'src/a'))).toEqual([
    { block: 0, allowed: true, reason: 'thread `t1` allows `fs.read` on `src/a`' },
    { block: 1, allowed: true, reason: 'thread `t2` allows `fs.read` on `src/a`' },
  ]);
  expect(token.explain(fs('read', 'lib/a'))[0]?.reason).toBe(
    'thread `t1` has only `fs.write path=src/**`',
  );
  expect(token.explain(spawn).map(({ allowed }) => allowed)).toEqual([false, true]);
  expect(token.explain(use('approve'))[1]?.reason).toContain('first block alone');
  expect(token.explain(use('nonsense')).some(({ allowed }) => allowed)).toBe(false);
});

test('what a child would miss is seen against every block', () => {
  const parent = mint([fs('write', 'src/**'), spawn]);
  const token = must(verify(must(attenuateToken(parent, child([fs('write', 'src/a/**')])))));
  const { missing, partial } = token.missingAtStart([
    spawn,
    fs('read', 'src/**'),
    fs('read', 'src/a/x'),
  ]);
  expect(missing).toEqual([spawn]);
  expect(partial).toEqual([fs('read', 'src/**')]);
});

test('a token shows its secret nowhere but in its text', () => {
  const token = mint([spawn]);
  const seed = encodeToken(token).split('.').at(-1) ?? '';
  const [hex, shown] = [
    Buffer.from(seed, 'base64url').toString('hex'),
    inspect(token, { depth: 9 }),
  ];
  for (const text of [JSON.stringify(token), JSON.stringify({ ...token }), shown]) {
    expect(text).not.toContain('seed');
    expect(text).not.toContain(seed);
    expect(text).not.toContain(hex.slice(0, 16));
  }
  const verified = must(verify(token));
  expect(JSON.stringify(verified)).not.toContain(seed);
});

test('what is handed out cannot be changed', () => {
  const token = must(verify(mint([fs('read', 'a')])));
  const caps = token.blocks[0]?.caps as Grant[];
  expect(() => caps.push(spawn)).toThrow(TypeError);
  expect(() => Object.assign(caps[0]?.scope ?? {}, { path: '**' })).toThrow(TypeError);
  expect(token.check(fs('read', 'b')).ok).toBe(false);
});

test('the memory of a verifier is bounded and forgets only what it must', () => {
  let checked = 0;
  const counted = { ...catalog, get: (name: string) => (checked++, catalog.get(name)) };
  const small = verifier({ catalog: counted, cacheSize: 2 });
  const costs = (text: string) => {
    const before = checked;
    expect(small.verify(text).ok).toBe(true);
    return checked > before;
  };
  const [a = '', b = '', c = ''] = [1, 2, 3].map(() => encodeToken(mint([spawn])));
  expect([costs(a), costs(b), costs(a)]).toEqual([true, true, false]);
  expect([costs(c), costs(a), costs(b)]).toEqual([true, false, true]);
});

test('a chain has an end', () => {
  let token = mint([spawn]);
  for (let index = 1; index < 32; index++) {
    token = must(attenuateToken(token, content([spawn])));
  }
  expect(verify(token).ok).toBe(true);
  expect(attenuateToken(token, content([spawn])).ok).toBe(false);
});

test('the text of a token reads back as the same token', () => {
  const token = must(attenuateToken(mint([fs('read', 'ä/**')]), child([spawn])));
  for (const one of [token, sealToken(token)]) {
    const text = encodeToken(one);
    expect(encodeToken(must(decodeToken(text)))).toBe(text);
  }
});
