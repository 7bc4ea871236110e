// Shared by the attack tests: projects that remove themselves, signatures of a person or of a stranger, and narrow
// capability tokens.
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonObject, systemClock } from '@kernmantle/core/base';
import { signItem } from '@kernmantle/core/items';
import type { Caller } from '@kernmantle/core/kernel';
import type { Runtime } from '@kernmantle/core/runtime';
import { createKeyFolder, createTrustStore, encodeToken, mintToken } from '@kernmantle/core/trust';
import { generateKeyPair } from '../../packages/core/src/trust/keys/key.ts';
import { type Fixture, makeFixture } from './project.ts';

type BlockContent = Parameters<typeof mintToken>[1];

/** Creates projects and removes all of them together. */
export function projectYard(): {
  project(files?: Record<string, string>): Fixture;
  clear(): void;
} {
  const made: Fixture[] = [];
  return {
    project(files = {}) {
      const fixture = makeFixture(files);
      made.push(fixture);
      return fixture;
    },
    clear() {
      for (const fixture of made.splice(0)) fixture.remove();
    },
  };
}

/** Signs files with the user's own key, which the user trusts. */
export function signAsUser(fixture: Fixture, ...files: string[]): void {
  mkdirSync(fixture.home, { recursive: true });
  const key = createKeyFolder(join(fixture.home, 'keys')).signingKey();
  if (!key.ok) throw new Error(key.error.detail.message);
  const { id, publicKey } = key.output;
  const store = createTrustStore(join(fixture.home, 'trust.jsonl'), systemClock);
  const known = store.list();
  if (known.ok && !known.output.some((entry) => entry.id === id)) store.add({ id, key: publicKey });
  for (const file of files) {
    const signed = signItem(join(fixture.root, file), key.output, systemClock);
    if (!signed.ok) throw new Error(signed.error.detail.message);
  }
}

/** Signs files with a key that the user does not trust. */
export function signAsStranger(fixture: Fixture, ...files: string[]): void {
  const key = generateKeyPair();
  for (const file of files) {
    const signed = signItem(join(fixture.root, file), key, systemClock);
    if (!signed.ok) throw new Error(signed.error.detail.message);
  }
}

/** Functions that put a file into each state of its signature, by the state. */
export const SIGNATURE_STATES: Readonly<Record<string, (fixture: Fixture, file: string) => void>> =
  {
    unsigned: () => {},
    changed(fixture, file) {
      signAsUser(fixture, file);
      fixture.write(file, `${readFileSync(join(fixture.root, file), 'utf8')}\n# one more line\n`);
    },
    untrusted: (fixture, file) => signAsStranger(fixture, file),
    signed: (fixture, file) => signAsUser(fixture, file),
  };

/** Returns a caller whose permissions are in one token. `core`: the token is that of core items. */
export function tokenCaller(
  runtime: Runtime,
  block: Partial<BlockContent>,
  options: { core?: boolean } = {},
): Caller {
  const root = runtime.keys.tokenKey();
  if (!root.ok) throw new Error(root.error.detail.message);
  const token = mintToken(
    root.output,
    {
      aud: 'kernmantle',
      project: runtime.project,
      thread: 'narrow-1',
      caps: [],
      exp: Date.now() + 60_000,
      ...block,
    },
    options,
  );
  if (!token.ok) throw new Error(token.error.detail.message);
  return {
    ...runtime.caller({ surface: 'thread' }),
    __auth: encodeToken(token.output),
    __thread_id: block.thread ?? 'narrow-1',
  };
}

export const tool = (
  id: string,
  parameters: JsonObject = {},
  more: JsonObject = {},
): JsonObject & { item_type: string; item_id: string } => ({
  item_type: 'tool',
  item_id: id,
  parameters,
  ...more,
});

/** Returns a tool file. `rest` is YAML. */
export const toolFile = (id: string, rest: string): string =>
  `tool_id: ${id}\ntool_type: test\nversion: "1.0.0"\ndescription: a test\n${rest}\n`;
