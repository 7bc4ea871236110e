// Measures capability tokens: the cost of a call with a cached token and with a new one. The lower bounds are the
// unavoidable work: a hash of the text, and the bare signature checks.
import { createHash, generateKeyPairSync, sign, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { parseYaml } from '@kernmantle/core/base';
import {
  attenuateToken,
  createCapabilityCatalog,
  createTokenVerifier,
  encodeToken,
  mintToken,
  readCapabilities,
} from '@kernmantle/core/trust';
import { generateKeyPair } from '../packages/core/src/trust/keys/key.ts';
import { type BenchRow, race } from './row.ts';

type BlockContent = Parameters<typeof mintToken>[1];

const NOW = Date.UTC(2026, 0, 1);
const CACHED_CALLS = 2000;
const FRESH_CALLS = 100;
const CACHED_LIMIT = 50;
const FRESH_LIMIT = 2000;
const OWN_LIMIT = 300;

function setUp() {
  const file = new URL('../bundle/config/capabilities.yaml', import.meta.url);
  const { infos } = readCapabilities(parseYaml(readFileSync(file, 'utf8')).value);
  const catalog = createCapabilityCatalog(infos);
  if (!catalog.ok) throw new Error(catalog.error.detail.message);
  const root = generateKeyPair();
  const block = (thread: string, parent?: string): BlockContent => ({
    aud: 'kernmantle',
    project: '/srv/p',
    thread,
    ...(parent !== undefined && { parent }),
    directive: 'deploy_staging',
    caps: [
      { capability: 'fs.read', scope: { path: '**/*' } },
      { capability: 'fs.write', scope: { path: 'dist/**' } },
      { capability: 'tool.execute', scope: { id: 'fs/*' } },
      { capability: 'tool.execute', scope: { id: 'shell/bash' } },
      { capability: 'process.spawn' },
      { capability: 'net.http', scope: { host: '*.example.com' } },
    ],
    exp: NOW + 3_600_000,
  });
  const first = mintToken(root, block('a'));
  const second = first.ok ? attenuateToken(first.output, block('b', 'a')) : first;
  const third = second.ok ? attenuateToken(second.output, block('c', 'b')) : second;
  if (!third.ok) throw new Error(third.error.detail.message);
  const verifier = (cacheSize: number) =>
    createTokenVerifier({
      roots: [{ id: root.id, key: root.publicKey }],
      audience: 'kernmantle',
      project: '/srv/p',
      clock: { now: () => NOW },
      catalog: catalog.output,
      cacheSize,
    });
  const text = encodeToken(third.output);
  // Tokens that this process signed are cached. This many more tokens remove the entry from the cache.
  const forget = () => {
    for (let i = 0; i < 2100; i++) mintToken(root, block('x'));
  };
  return { text, verifier, forget };
}

const repeat = (count: number, work: () => unknown) => () => {
  for (let i = 0; i < count; i++) work();
};

function bareSignatures(text: string): () => void {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const bytes = Buffer.from(text.slice(0, 700));
  const signature = sign(null, bytes, privateKey);
  return () => {
    for (let i = 0; i < 3; i++) verify(null, bytes, publicKey, signature);
  };
}

function row(name: string, ours: number, base: number, limit: number): BenchRow {
  const target = `under ${limit / 1000} ms CPU`;
  return { name, ours, base, ratio: ours / base, unit: 'µs', target, ok: ours < limit };
}

export async function bench(): Promise<BenchRow[]> {
  const { text, verifier, forget } = setUp();
  const [cached, fresh] = [verifier(100), verifier(0)];
  const need = { capability: 'fs.write', scope: { path: 'dist/app/main.js' } };
  const must = (ok: boolean) => {
    if (!ok) throw new Error('the token of the bench is refused');
  };
  const own = await race({ fresh: repeat(FRESH_CALLS, () => must(fresh.verify(text).ok)) });
  forget();
  const best = await race({
    cached: repeat(CACHED_CALLS, () => must(cached.verify(text).ok)),
    check: repeat(CACHED_CALLS, () => {
      const token = cached.verify(text);
      must(token.ok && token.output.check(need).ok);
    }),
    hash: repeat(CACHED_CALLS, () => createHash('sha256').update(text).digest('base64url')),
    fresh: repeat(FRESH_CALLS, () => must(fresh.verify(text).ok)),
    bare: repeat(FRESH_CALLS, bareSignatures(text)),
  });
  const each = (name: string, count: number) => (best[name] ?? Number.NaN) / count;
  const hash = each('hash', CACHED_CALLS);
  return [
    row('token: verify, cached', each('cached', CACHED_CALLS), hash, CACHED_LIMIT),
    row('token: verify and check a call, cached', each('check', CACHED_CALLS), hash, CACHED_LIMIT),
    row(
      'token: verify three blocks',
      each('fresh', FRESH_CALLS),
      each('bare', FRESH_CALLS),
      FRESH_LIMIT,
    ),
    row(
      'token: verify three blocks that were signed here',
      (own.fresh ?? Number.NaN) / FRESH_CALLS,
      each('bare', FRESH_CALLS),
      OWN_LIMIT,
    ),
  ];
}
