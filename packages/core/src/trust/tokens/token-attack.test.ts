// Attempts to widen a right. The attacker holds tokens (with their end keys), knows every public thing and
// signs whatever it likes with its own keys; it does not hold the root key or keys that were dropped. A case is
// one token and one question; `npm run soak` asks more than 130,000 of them, and `npm test` an eighth.
import { ofToday, runs, timeoutMs } from '@kernmantle/test-support/soak';
import { bundleCatalog, NOW, sealToken, seededRandom } from '@kernmantle/test-support/trust';
import * as fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { canonicalJson, type Json, type JsonObject, type Outcome } from '../../base/index.ts';
import type { Grant, Need } from '../grants/grant.ts';
import { generateKeyPair, keyPairFromSeed } from '../keys/key.ts';
import {
  attenuateToken,
  type CapabilityToken,
  decodeToken,
  encodeToken,
  mintToken,
  sealedBytes,
  signedBytes,
  type TokenLink,
} from './token.ts';
import { createTokenVerifier } from './token-verifier.ts';
import type { VerifiedToken } from './verified-token.ts';

type BlockContent = Parameters<typeof mintToken>[1];

// Tens of thousands of signature checks: seconds of work, more on a busy machine.
vi.setConfig({ testTimeout: timeoutMs(180_000) });

const random = seededRandom(7);
const root = generateKeyPair(random);
const verifier = createTokenVerifier({
  roots: [{ id: root.id, key: root.publicKey }],
  audience: 'kernmantle',
  project: '/srv/p',
  clock: { now: () => NOW },
  catalog: bundleCatalog(),
  cacheSize: 0,
});
const must = <T>(outcome: Outcome<T>): T => {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.error));
  return outcome.output;
};

const PATHS = ['a', 'src/a.ts', 'src/b/c.js', 'dist/x', '.ai/policy.yaml', '/etc/passwd', '.'];
const NEEDS: readonly Need[] = [
  ...['fs.read', 'fs.write', 'fs.exec', 'project.use'].flatMap((capability) =>
    PATHS.map((path) => ({ capability, scope: { path } })),
  ),
  ...['shell/bash', 'git/push', 'threads/spawn_thread', 'bash'].flatMap((id) =>
    [true, false].map((signed) => ({ capability: 'tool.execute', scope: { id }, signed })),
  ),
  ...['a.io', 'b.a.io'].flatMap((host) =>
    ['GET', 'POST'].map((method) => ({ capability: 'net.http', scope: { host, method } })),
  ),
  ...['own', 'any'].map((subtree) => ({ capability: 'thread.control', scope: { subtree } })),
  ...['process.spawn', 'git.push', 'mcp.gh.call', 'spawn.thread', 'kernel.load'].map(
    (capability) => ({
      capability,
    }),
  ),
  ...['registry.write', 'fs.absolute', 'items.sign', 'approve', 'unknown.one'].map(
    (capability) => ({
      capability,
    }),
  ),
];

const path = fc.constantFrom(
  '**',
  '**/*',
  'src/**',
  'src/*.ts',
  'dist/x',
  '.ai/**',
  '.',
  '/etc/**',
  '/**',
  '*',
);
const scoped = (field: string, globs: fc.Arbitrary<string>, ...names: string[]) =>
  fc.record({
    capability: fc.constantFrom(...names),
    scope: globs.map((glob) => ({ [field]: glob })),
  });
const grant: fc.Arbitrary<Grant> = fc.oneof(
  scoped('path', path, 'fs.read', 'fs.write', 'fs.exec'),
  scoped('path', fc.constantFrom('/**', '/srv/*', '/etc/**'), 'project.use'),
  scoped(
    'id',
    fc.constantFrom('*', '**/*', 'shell/*', 'shell/bash', 'threads/spawn_thread', 'b*'),
    'tool.execute',
  ),
  scoped('host', fc.constantFrom('*', 'a.io', '*.a.io'), 'net.http'),
  scoped('subtree', fc.constantFrom('own', 'any'), 'thread.control'),
  fc
    .constantFrom(
      '*',
      '**',
      'fs.*',
      'mcp.*',
      'process.spawn',
      'git.push',
      'mcp.gh.call',
      'spawn.thread',
    )
    .map((capability) => ({ capability })),
  fc
    .constantFrom('registry.write', 'fs.absolute', 'items.sign', 'approve', 'registry.*', 'app*')
    .map((capability) => ({ capability })),
);
const category = fc.constantFrom('test', 'ops', '*');
const block: fc.Arbitrary<BlockContent> = fc
  .record(
    {
      caps: fc.array(grant, { maxLength: 8 }),
      exp: fc.integer({ min: NOW + 1, max: NOW + 100 }),
      budget: fc.record(
        { spawns: fc.nat(9), depth: fc.nat(9), uses: fc.record({ x: fc.nat(9) }) },
        { requiredKeys: [] },
      ),
      filters: fc.record(
        {
          spawn: fc.record({ allow_categories: fc.array(category, { maxLength: 2 }) }),
          directives: fc.record({ deny_categories: fc.array(category, { maxLength: 1 }) }),
        },
        { requiredKeys: [] },
      ),
    },
    { requiredKeys: ['caps', 'exp'] },
  )
  .map((part) => ({ aud: 'kernmantle', project: '/srv/p', thread: 't', ...part }));

/** Tokens that exist: chains of one to four blocks, each also at every stage before and sealed. */
function issue(count: number): CapabilityToken[] {
  const contents = fc.sample(fc.tuple(block, fc.boolean(), fc.array(block, { maxLength: 3 })), {
    numRuns: count,
    seed: 11,
  });
  return contents.flatMap(([first, core, more]) => {
    const stages = [must(mintToken(root, first, { core, random }))];
    for (const content of more) {
      stages.push(must(attenuateToken(stages.at(-1) as CapabilityToken, content, random)));
    }
    return [...stages, ...stages.map(sealToken)];
  });
}

const POOL = issue(60);
const TEXTS = new Set(POOL.map(encodeToken));
const OPEN = POOL.filter((token) => !token.sealed);
const OWN_KEYS = Array.from({ length: 8 }, () => random(32));

const pairs = new Map(OWN_KEYS.map((seed) => [seed, keyPairFromSeed(seed)]));
const pairOf = (seed: Uint8Array) => pairs.get(seed) ?? keyPairFromSeed(seed);

const anyToken = fc.constantFrom(...POOL);
const openToken = fc.constantFrom(...OPEN);
const anyLink = fc.constantFrom(...POOL.flatMap((token) => token.links));
const ownKey = fc.constantFrom(...OWN_KEYS);

const read = (token: CapabilityToken): VerifiedToken => must(verifier.verify(encodeToken(token)));
const rights = new Map(POOL.map((token) => [token, read(token)]));

const NAMES = [...new Set(NEEDS.map((need) => need.capability))];

/** How often a narrowed token still allowed something: a test in which nothing is allowed is none. */
let allowed = 0;

/** Whatever the second token may do, the first may too. */
function expectNoMore(parent: VerifiedToken, child: VerifiedToken): void {
  for (const need of NEEDS) {
    const may = child.check(need).ok;
    if (may) allowed++;
    if (may && !parent.check(need).ok) {
      throw new Error(`widened: ${JSON.stringify({ need, blocks: child.blocks })}`);
    }
  }
  for (const name of NAMES) {
    if (child.holds(name).ok) expect(parent.holds(name).ok).toBe(true);
  }
  for (const name of ['test', 'ops', 'x']) {
    if (child.maySpawn(name, 'd').ok) expect(parent.maySpawn(name, 'd').ok).toBe(true);
    if (child.sees('directive', name, 'd')) expect(parent.sees('directive', name, 'd')).toBe(true);
  }
  expect(child.expires).toBeLessThanOrEqual(parent.expires);
  const [above, below] = [parent.budget, child.budget];
  for (const field of ['spawns', 'depth'] as const) {
    if (above[field] !== undefined) expect(below[field]).toBeLessThanOrEqual(above[field]);
  }
  if (above.uses?.x !== undefined) expect(below.uses?.x).toBeLessThanOrEqual(above.uses.x);
}

/** A text that was not issued is refused. */
function expectRefused(text: string): void {
  if (TEXTS.has(text)) return;
  if (verifier.verify(text).ok) throw new Error(`accepted: ${text}`);
}

const check = <T extends [unknown, ...unknown[]]>(
  soaked: number,
  ...args: [...{ [K in keyof T]: fc.Arbitrary<T[K]> }, (...values: T) => void]
) =>
  fc.assert(fc.property(...(args as Parameters<typeof fc.property<T>>)), {
    numRuns: runs(Math.ceil(soaked / 8), soaked),
  });

const rebuild = (
  links: readonly TokenLink[],
  end: CapabilityToken['proof'],
  rootId = root.id,
): string => encodeToken({ root: rootId, links, sealed: end.kind === 'seal', proof: end });

/** Returns a link with any body, signed by an attacker with the seed, and a seed for the next link. */
function forge(
  before: readonly TokenLink[],
  seed: Uint8Array,
  body: string,
  nextSeed: Uint8Array,
): TokenLink {
  const next = Buffer.from(pairOf(nextSeed).publicKey, 'base64url');
  const previous = before.at(-1)?.signature ?? Buffer.from(root.publicKey, 'base64url');
  const bytes = signedBytes(before.length, previous, body, next);
  return { body, next, signature: pairOf(seed).sign(bytes) };
}

test('no appended block widens a right', () => {
  check<[CapabilityToken, BlockContent, boolean]>(
    1200,
    openToken,
    block,
    fc.boolean(),
    (parent, content, seal) => {
      const child = must(attenuateToken(parent, content, random));
      expectNoMore(rights.get(parent) as VerifiedToken, read(seal ? sealToken(child) : child));
    },
  );
  expect(allowed).toBeGreaterThan(runs(100, 1000));
});

const HOSTILE: readonly [string, ...Json[]][] = [
  ['v', 2, '1'],
  ['core', true, 1],
  ['approval', 'ap_1'],
  ['exp', NOW + 1e12, 1e300, -1, null],
  ['aud', 'kernmantle', 'other'],
  ['project', '/srv/p', '/srv/q', '/'],
  ['thread', 't', 'u'],
  ['parent', 't', 'x'],
  ['caps', [{ capability: '*' }], [{ capability: 'registry.write' }], {}, [[]]],
  ['filters', {}],
  ['budget', { spawns: 1e9 }],
  ['root', true],
  ['__proto__', { core: true }],
];
const hostileFields: fc.Arbitrary<JsonObject> = fc
  .array(
    fc.constantFrom(
      ...HOSTILE.flatMap(([name, ...values]) => values.map((value) => [name, value])),
    ),
    { maxLength: 2 },
  )
  .map((fields) => Object.fromEntries(fields) as JsonObject);
const spelling = fc.constantFrom<(body: string) => string>(
  ...Array.from({ length: 6 }, () => (body: string) => body),
  (body) => body.replace(/:/g, ': '),
  (body) => body.replace('{', '{"caps":[{"capability":"*"}],'),
  (body) => body.replace('"t"', '"\\u0074"'),
  (body) => `\ufeff${body}`,
  (body) => body.replace(/"exp":\d+/, '"exp":1e99'),
);

test('a holder that signs any body at all gains nothing', () => {
  let accepted = 0;
  check<[CapabilityToken, BlockContent, JsonObject, (body: string) => string, Uint8Array]>(
    1000,
    openToken,
    block,
    hostileFields,
    spelling,
    ownKey,
    (parent, content, fields, spell, seed) => {
      if (parent.proof.kind !== 'key') return;
      const honest = { v: 1, nonce: 'n'.repeat(22), ...content } as unknown as JsonObject;
      const body = spell(canonicalJson({ ...honest, ...fields }));
      const link = forge(parent.links, parent.proof.seed, body, seed);
      const verified = verifier.verify(rebuild([...parent.links, link], { kind: 'key', seed }));
      if (!verified.ok) return;
      accepted++;
      expectNoMore(rights.get(parent) as VerifiedToken, verified.output);
    },
  );
  expect(accepted).toBeGreaterThan(10);
});

test('blocks and ends of different tokens do not fit together', () => {
  check<[TokenLink[], CapabilityToken]>(
    4000,
    fc.array(anyLink, { minLength: 1, maxLength: 4 }),
    anyToken,
    (links, end) => expectRefused(rebuild(links, end.proof)),
  );
  check<[CapabilityToken, CapabilityToken, number]>(
    1000,
    anyToken,
    anyToken,
    fc.nat(4),
    (a, b, cut) => {
      expectRefused(rebuild([...a.links.slice(0, cut), ...b.links.slice(cut)], b.proof));
      expectRefused(rebuild([...a.links.slice(0, cut), ...b.links.slice(cut)], a.proof));
    },
  );
});

test('no block can be dropped, doubled or moved', () => {
  const long = fc.constantFrom(...POOL.filter((token) => token.links.length > 1));
  check<[CapabilityToken, number, number, number]>(
    6000,
    long,
    fc.constantFrom(0, 1, 2),
    fc.nat(3),
    fc.nat(3),
    (token, how, at, to) => {
      const links = [...token.links];
      const [moved] = links.splice(at % links.length, 1);
      if (how === 1 && moved) links.splice(to % (links.length + 1), 0, moved);
      if (how === 2 && moved) links.splice(at % (links.length + 1), 0, moved, moved);
      expectRefused(rebuild(links, token.proof));
    },
  );
});

test('a chain cut short cannot be closed with keys of the attacker', () => {
  const long = fc.constantFrom(...POOL.filter((token) => token.links.length > 1));
  check<[CapabilityToken, number, Uint8Array, boolean]>(
    1500,
    long,
    fc.nat(3),
    ownKey,
    fc.boolean(),
    (token, cut, seed, seal) => {
      const links = token.links.slice(0, 1 + (cut % (token.links.length - 1)));
      const signature = pairOf(seed).sign(sealedBytes(links.length, links.at(-1) as TokenLink));
      expectRefused(rebuild(links, seal ? { kind: 'seal', signature } : { kind: 'key', seed }));
      // Nor by naming the own key as the next one.
      const last = {
        ...(links.at(-1) as TokenLink),
        next: Buffer.from(pairOf(seed).publicKey, 'base64url'),
      };
      expectRefused(rebuild([...links.slice(0, -1), last], { kind: 'key', seed }));
    },
  );
});

test('a sealed token cannot be extended, reopened or closed elsewhere', () => {
  const sealed = fc.constantFrom(...POOL.filter((token) => token.sealed));
  check<[CapabilityToken, CapabilityToken, BlockContent, Uint8Array]>(
    1000,
    sealed,
    sealed,
    block,
    ownKey,
    (token, other, content, seed) => {
      expectRefused(rebuild(token.links, { kind: 'key', seed }));
      expectRefused(rebuild(token.links, other.proof));
      const body = canonicalJson({ v: 1, nonce: 'n'.repeat(22), ...content } as unknown as Json);
      const link = forge(token.links, seed, body, seed);
      expectRefused(rebuild([...token.links, link], { kind: 'key', seed }));
      expectRefused(rebuild([...token.links, link], token.proof));
      expect(attenuateToken(token, content, random).ok).toBe(false);
    },
  );
});

test('a token of the attacker’s own root is refused under any name', () => {
  check<[Uint8Array, BlockContent]>(500, ownKey, block, (seed, content) => {
    const own = pairOf(seed);
    const token = must(mintToken(own, content, { core: true, random }));
    expectRefused(encodeToken(token));
    expectRefused(rebuild(token.links, token.proof, root.id));
    const body = token.links[0]?.body ?? '';
    expectRefused(rebuild([forge([], seed, body, seed)], { kind: 'key', seed }));
  });
});

/** Bodies with one thing changed, in the canonical spelling. */
const edit = fc.constantFrom<(body: JsonObject) => JsonObject>(
  (body) => ({ ...body, exp: Number(body.exp) + 1 }),
  (body) => ({ ...body, caps: [{ capability: '*' }] }),
  (body) => ({ ...body, caps: [...(body.caps as Json[]), { capability: 'process.spawn' }] }),
  (body) => ({ ...body, core: true }),
  (body) => ({ ...body, approval: 'ap_1' }),
  (body) => ({ ...body, thread: 'u' }),
  (body) => ({ ...body, aud: 'other' }),
  (body) => ({ ...body, project: '/' }),
  (body) => ({ ...body, budget: { spawns: 999 } }),
  (body) => ({ ...body, filters: {} }),
  (body) => Object.fromEntries(Object.entries(body).filter(([name]) => name !== 'filters')),
  (body) => ({ ...body, nonce: 'm'.repeat(22) }),
);

test('no field of any block can be edited', () => {
  check<[CapabilityToken, number, (body: JsonObject) => JsonObject]>(
    6000,
    anyToken,
    fc.nat(3),
    edit,
    (token, at, change) => {
      const links = [...token.links];
      const index = at % links.length;
      const link = links[index] as TokenLink;
      const body = canonicalJson(change(JSON.parse(link.body) as JsonObject));
      if (body === link.body) return;
      links[index] = { ...link, body };
      expectRefused(rebuild(links, token.proof));
    },
  );
});

const flip = (bytes: Uint8Array, bit: number): Buffer => {
  const copy = Buffer.from(bytes);
  const at = (bit >> 3) % copy.length;
  copy[at] = (copy[at] as number) ^ (1 << (bit & 7));
  return copy;
};

test.each(ofToday([0, 1, 2, 3, 4, 5, 6, 7], 1))(
  'bit %i of no byte of a token’s text can be flipped',
  (bit) => {
    const samples = [OPEN, POOL.filter((token) => token.sealed)].map(
      (tokens) =>
        tokens
          .filter(({ links }) => links.length === 2)
          .sort((a, b) => encodeToken(a).length - encodeToken(b).length)[0],
    );
    for (const token of samples) {
      const text = Buffer.from(encodeToken(token as CapabilityToken));
      for (let at = 0; at < text.length; at++)
        expectRefused(flip(text, at * 8 + bit).toString('latin1'));
    }
  },
);

test('no bit inside a block, key, signature or end can be flipped', () => {
  check<[CapabilityToken, number, number, number]>(
    8000,
    anyToken,
    fc.nat(3),
    fc.nat(3),
    fc.nat(1 << 16),
    (token, at, part, bit) => {
      const links = [...token.links];
      const index = at % links.length;
      const link = links[index] as TokenLink;
      if (part === 0) {
        // Back through the bytes: the text of a body may hold what is no character.
        const parts = encodeToken(token).split('.');
        const place = 2 + 3 * index;
        parts[place] = flip(Buffer.from(parts[place] ?? '', 'base64url'), bit).toString(
          'base64url',
        );
        return expectRefused(parts.join('.'));
      }
      if (part === 1) links[index] = { ...link, next: flip(link.next, bit) };
      if (part === 2) links[index] = { ...link, signature: flip(link.signature, bit) };
      const { proof } = token;
      const end: CapabilityToken['proof'] =
        proof.kind === 'key'
          ? { kind: 'key', seed: flip(proof.seed, bit) }
          : { kind: 'seal', signature: flip(proof.signature, bit) };
      return expectRefused(rebuild(links, part === 3 ? end : proof));
    },
  );
});

const respell = fc.constantFrom<(text: string) => string>(
  (text) => `${text}=`,
  (text) => `${text}.`,
  (text) => ` ${text}`,
  (text) => `${text}\n`,
  (text) => text.replace(/-/g, '+').replace(/_/g, '/'),
  (text) => text.toUpperCase(),
  (text) => text.replace(/\.(?=[ks]\.)/, '=.'),
  (text) => text.replace('kmt1', 'kmt2'),
  (text) => text.replace('kmt1', 'KMT1'),
  (text) => text.replace(/\.k\./, '.s.'),
  (text) => text.replace(/\.s\./, '.k.'),
  (text) => text.replace(/\.(?=[^.]+$)/, '..'),
  (text) => encodeURIComponent(`${text}~`),
  (text) => text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) ^ 1),
);

test('a token has one spelling', () => {
  check<[CapabilityToken, (text: string) => string]>(3000, anyToken, respell, (token, spell) => {
    const text = encodeToken(token);
    if (spell(text) !== text) expectRefused(spell(text));
  });
});

test('garbage is refused and never thrown at', () => {
  const parts = fc.constantFrom(
    'kmt1',
    root.id,
    '',
    'k',
    's',
    'e30',
    'A'.repeat(43),
    'A'.repeat(86),
    '-_',
    '=',
  );
  check<[string]>(5000, fc.string({ unit: 'binary' }), (text) => expectRefused(text));
  check<[string[]]>(10_000, fc.array(parts, { maxLength: 12 }), (list) =>
    expectRefused(list.join('.')),
  );
  check<[CapabilityToken, number, string]>(
    5000,
    anyToken,
    fc.nat(2000),
    fc.string(),
    (token, at, text) => {
      const whole = encodeToken(token);
      const cut = at % whole.length;
      expectRefused(whole.slice(0, cut) + text + whole.slice(cut + 1));
    },
  );
  expectRefused('kmt1.'.repeat(1_000_000));
  for (const odd of [undefined, null, 7, {}, []]) {
    expect(verifier.verify(odd as string).ok).toBe(false);
    expect(decodeToken(odd as string).ok).toBe(false);
  }
});
