import { runs } from '@kernmantle/test-support/soak';
import { bundleCatalog, NOW, seededRandom } from '@kernmantle/test-support/trust';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fail, type Outcome, ok } from '../../base/index.ts';
import { type Grant, grantsAllow, type Need } from '../grants/grant.ts';
import { generateKeyPair } from '../keys/key.ts';
import { attenuateToken, encodeToken, mintToken } from './token.ts';
import type { TokenBlock } from './token-block.ts';
import { createTokenVerifier, type TokenVerifierPorts } from './token-verifier.ts';
import { type ApprovedRight, widenToken } from './verified-token.ts';

const root = generateKeyPair(seededRandom(1));
const catalog = bundleCatalog();
const must = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
};
const COUNTLESS = {
  roots: [{ id: root.id, key: root.publicKey }],
  audience: 'kernmantle',
  project: '/srv/p',
  clock: { now: () => NOW },
  catalog,
};
const verifier = (over: Partial<TokenVerifierPorts> = {}) =>
  createTokenVerifier({ ...COUNTLESS, useApproval: () => ok(null), ...over });
const fs = (verb: string, path: string): Grant => ({ capability: `fs.${verb}`, scope: { path } });
const id = (index: number): string => `t${index}`;

/** Blocks of a chain of threads, root first, each with what its directive declares. */
function blocksOf(declared: readonly Grant[][]): readonly TokenBlock[] {
  const [first = [], ...rest] = declared;
  const base = { aud: 'kernmantle', project: '/srv/p', exp: NOW + 60_000 };
  let token = must(mintToken(root, { ...base, thread: id(0), caps: first }));
  for (const [index, caps] of rest.entries()) {
    const block = { ...base, thread: id(index + 1), parent: id(index), caps };
    token = must(attenuateToken(token, block));
  }
  return must(verifier().verify(encodeToken(token))).blocks;
}

function widened(
  declared: readonly Grant[][],
  rights: readonly ApprovedRight[],
  ports: Partial<TokenVerifierPorts> = {},
) {
  const token = must(widenToken(root, blocksOf(declared), rights));
  return verifier(ports).verify(encodeToken(token));
}

const OUT = fs('write', 'out/a.md');
const approval = (thread: number, grant: Grant, more: Partial<ApprovedRight> = {}) => ({
  approval: 'ap_1',
  thread: id(thread),
  grant,
  ...more,
});

test('an approval takes the place of what the parent does not hold', () => {
  const declared = [[fs('read', '**')], [fs('write', 'out/**')]];
  expect(must(widened(declared, [])).check(OUT).ok).toBe(false);
  const token = must(widened(declared, [approval(1, OUT)]));
  expect(token.check(OUT).ok).toBe(true);
  expect(token.check(fs('write', 'out/b.md')).ok).toBe(false);
});

test('what the directive does not declare takes a person who says so', () => {
  const declared = [[fs('read', '**')]];
  expect(must(widened(declared, [approval(0, OUT)])).check(OUT).ok).toBe(false);
  const beyond = must(widened(declared, [approval(0, OUT, { beyond: true })]));
  expect(beyond.check(OUT).ok).toBe(true);
  expect(beyond.check(fs('write', 'out/b.md')).ok).toBe(false);
});

test('a use is counted when the approval was needed, and a refusal says why', () => {
  const uses: string[] = [];
  const ports = {
    useApproval: ({ approval: used, thread }: { approval: string; thread: string }) => {
      uses.push(`${used} ${thread}`);
      return uses.length > 1 ? fail('approval_used', 'approval `ap_1` was used') : ok(null);
    },
  };
  const declared = [[fs('read', '**')], [fs('write', 'out/**'), fs('read', '**')]];
  const token = must(widened(declared, [approval(1, OUT)], ports));
  expect(token.check(fs('read', 'out/a.md')).ok).toBe(true);
  expect(uses).toEqual([]);
  expect(token.check(OUT).ok).toBe(true);
  const refused = token.check(OUT);
  expect(refused.ok || refused.error.detail.message).toContain('approval `ap_1` was used');
  expect(uses).toEqual(['ap_1 t1', 'ap_1 t1']);
});

test('without anybody who counts, approvals in a token count for nothing', () => {
  const token = must(widenToken(root, blocksOf([[OUT], [OUT]]), [approval(1, fs('read', 'b'))]));
  const read = must(createTokenVerifier(COUNTLESS).verify(encodeToken(token)));
  expect(read.check(OUT).ok).toBe(true);
  expect(read.check(fs('read', 'b')).ok).toBe(false);
});

test('the policy and what is system-only stand above every approval', () => {
  const ceilings = [{ deny: [fs('write', 'out/**')] }];
  const used: string[] = [];
  const ports = {
    ceilings,
    useApproval: ({ approval: one }: { approval: string }) => {
      used.push(one);
      return ok(null);
    },
  };
  const system = { capability: 'registry.write' };
  const rights = [approval(0, OUT, { beyond: true }), approval(0, system, { beyond: true })];
  const token = must(widened([[fs('read', '**')]], rights, ports));
  expect(token.check(OUT).ok).toBe(false);
  expect(token.check(system).ok).toBe(false);
  expect(token.check({ capability: 'fs.write', scope: { path: '.ai/policy.yaml' } }).ok).toBe(
    false,
  );
  expect(used).toEqual([]);
});

test('a token lasts no longer than the approvals in it', () => {
  const right = approval(1, OUT, { expires: NOW + 5 });
  const declared = [[], [OUT]];
  expect(must(widened(declared, [right])).expires).toBe(NOW + 5);
  expect(widened(declared, [{ ...right, expires: NOW }]).ok).toBe(false);
});

test('whoever holds a token cannot approve anything', () => {
  const token = must(mintToken(root, { ...block(0), caps: [fs('read', '**')] }));
  const own = { ...block(1), parent: id(0), caps: [], approved: [{ ...OUT, approval: 'ap_9' }] };
  const forged = must(attenuateToken(token, own));
  expect(must(verifier().verify(encodeToken(forged))).check(OUT).ok).toBe(false);
});

const block = (index: number) => ({
  aud: 'kernmantle',
  project: '/srv/p',
  exp: NOW + 60_000,
  thread: id(index),
  caps: [] as Grant[],
});

const grants: readonly Grant[] = [
  fs('read', 'a/**'),
  fs('write', 'a/**'),
  fs('write', 'a/b'),
  fs('read', 'c'),
  { capability: 'git.push' },
  { capability: 'net.http', scope: { host: '*.example.org' } },
];
const needs: readonly Need[] = [
  fs('read', 'a/b'),
  fs('write', 'a/b'),
  fs('write', 'a/c'),
  fs('read', 'c'),
  { capability: 'git.push' },
  { capability: 'net.http', scope: { host: 'x.example.org', method: 'GET' } },
];
const some = fc.subarray([...grants], { maxLength: 4 });
const world = fc.array(some, { minLength: 1, maxLength: 4 }).chain((declared) =>
  fc.tuple(
    fc.constant(declared),
    fc.array(
      fc.record({
        approval: fc.constantFrom('ap_1', 'ap_2', 'ap_3'),
        // Also of threads that are not in this chain.
        thread: fc.integer({ min: 0, max: declared.length }).map(id),
        grant: fc.constantFrom(...grants),
        beyond: fc.boolean(),
      }),
      { maxLength: 4 },
    ),
  ),
);

/** The rule as the specification has it, thread by thread. */
function expected(
  declared: readonly Grant[][],
  rights: readonly ApprovedRight[],
  index: number,
  need: Need,
): boolean {
  const allows = (list: readonly Grant[]) =>
    list.some((grant) => grantsAllow([grant], need, catalog));
  const approved = rights.filter(({ thread }) => thread === id(index));
  const isDeclared =
    allows(declared[index] ?? []) ||
    allows(approved.filter(({ beyond }) => beyond).map(({ grant }) => grant));
  const isAbove = index === 0 || expected(declared, rights, index - 1, need);
  return isDeclared && (isAbove || allows(approved.map(({ grant }) => grant)));
}

test('right = declared AND (parent OR approval), for every chain of threads and approvals', () => {
  fc.assert(
    fc.property(world, fc.constantFrom(...needs), ([declared, rights], need) => {
      const token = must(widened(declared, rights));
      expect(token.check(need).ok).toBe(expected(declared, rights, declared.length - 1, need));
    }),
    { numRuns: runs(60, 1500) },
  );
});

test('no approvals and spawns give a child what neither its parent held nor a person approved', () => {
  fc.assert(
    fc.property(world, fc.constantFrom(...needs), ([declared, rights], need) => {
      fc.pre(declared.length > 1);
      const child = must(widened(declared, rights));
      if (!child.check(need).ok) return;
      const parent = must(widened(declared.slice(0, -1), rights));
      const own = rights.filter(({ thread }) => thread === child.thread);
      const isApproved = own.some(({ grant }) => grantsAllow([grant], need, catalog));
      expect(parent.check(need).ok || isApproved).toBe(true);
    }),
    { numRuns: runs(60, 1500) },
  );
});

test('a token that remembers what it allowed answers as one that was never asked', () => {
  const words = fc.constantFrom('a', 'b', 'src', '**', '/etc', '..', '');
  const path = fc.array(words, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('/'));
  const scope = fc.record(
    { path, host: fc.constantFrom('h', '*'), id: fc.constantFrom('x/y', 'y') },
    { requiredKeys: [] },
  );
  const capability = fc.constantFrom('fs.read', 'fs.write', 'tool.execute', 'net.http', 'nonsense');
  const need: fc.Arbitrary<Need> = fc.record({ capability, scope, signed: fc.boolean() });
  const grants: Grant[][] = [
    [fs('write', 'src/**'), fs('read', '**'), { capability: 'tool.execute', scope: { id: 'y' } }],
    [fs('read', 'src/**'), { capability: 'net.http' }, { capability: 'tool.*' }],
  ];
  const token = must(widenToken(root, blocksOf(grants), [approval(1, fs('write', 'a/**'))]));
  const ceilings = [{ deny: [fs('read', 'src/a')] }];
  const fresh = () => must(verifier({ ceilings }).verify(encodeToken(token)));
  const asked = fresh();
  fc.assert(
    fc.property(need, (one) => {
      expect(asked.check(one)).toEqual(fresh().check(one));
      expect(asked.check(one)).toEqual(fresh().check(one));
      expect(asked.holds(one.capability)).toEqual(fresh().holds(one.capability));
    }),
    { numRuns: runs(200, 5000) },
  );
});

test('what was allowed before is refused once the token has ended, and counted where it is approved', () => {
  let [now, uses, isRevoked] = [NOW, 0, false];
  const token = must(
    widened([[fs('read', 'a/**')], [fs('read', '**')]], [approval(1, fs('read', 'b/**'))], {
      clock: { now: () => now },
      isRevoked: () => isRevoked,
      useApproval: () => (++uses <= 2 ? ok(null) : fail('permission_denied', 'used up')),
    }),
  );
  const need = { capability: 'fs.read', scope: { path: 'a/x' } };
  expect([token.check(need).ok, token.holds('fs.read').ok]).toEqual([true, true]);
  isRevoked = true;
  expect([token.check(need).ok, token.holds('fs.read').ok]).toEqual([false, false]);
  isRevoked = false;
  const counted = { capability: 'fs.read', scope: { path: 'b/x' } };
  expect([1, 2, 3].map(() => token.check(counted).ok)).toEqual([true, true, false]);
  now = token.expires;
  expect([token.check(need).ok, token.holds('fs.read').ok]).toEqual([false, false]);
});

test('a refusal names as missing what the chain lacks, and nothing that only a ceiling takes', () => {
  const grant = fc.constantFrom<Grant>(fs('read', '**'), fs('write', 'out/**'), fs('write', '**'), {
    capability: 'kernel.load',
  });
  const need = fc.constantFrom<Need>(OUT, fs('read', 'a.md'), { capability: 'kernel.load' });
  const lists = fc.array(grant, { maxLength: 3 });
  fc.assert(
    fc.property(lists, lists, fc.option(lists), need, (own, deny, allow, asked) => {
      const ceilings = [{ deny, ...(allow && { allow }) }];
      const chain = must(widened([own], []));
      const token = must(widened([own], [], { ceilings }));
      const byName = [token.holds(asked.capability), chain.holds(asked.capability)] as const;
      for (const [refused, alone] of [[token.check(asked), chain.check(asked)] as const, byName]) {
        if (refused.ok) continue;
        const { missing, missing_all, rule } = refused.error.detail;
        // The chain by itself says what is missing; a ceiling takes away and adds nothing to that.
        expect([missing, missing_all]).toEqual(
          alone.ok ? ['', []] : [alone.error.detail.missing, alone.error.detail.missing_all],
        );
        expect(rule).toBe(alone.ok ? 'policy' : undefined);
      }
    }),
    { numRuns: runs(100, 3000) },
  );
});

test.each([
  [{ spawn: { allow_categories: ['docs'] } }, 'orchestration.allow_categories'],
  [{ spawn: { deny_directives: ['drop'] } }, ''],
  [{ directives: { allow_directives: ['x'] } }, 'directives.allow_directives'],
])('a directive that lists leave out misses no capability: %o', (filters, missing) => {
  const base = { aud: 'kernmantle', project: '/srv/p', exp: NOW + 60_000, thread: id(0) };
  const caps = [{ capability: 'spawn.thread' }];
  const minted = must(mintToken(root, { ...base, caps, filters }));
  const token = must(verifier().verify(encodeToken(minted)));
  const refused = token.maySpawn('ops', 'a/drop');
  expect(refused).toMatchObject({ error: { code: 'permission_denied', detail: { missing } } });
  expect(!refused.ok && refused.error.detail.rule).toContain(
    Object.keys(filters)[0] === 'spawn' ? 'orchestration.' : 'directives.',
  );
});
