// What the attack tests share: projects that remove themselves, signing as a person would do it (or
// as a stranger would), and narrow capability tokens.
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

/** Makes projects and removes them together. */
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

/** The user's own key, trusted by the user. */
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

/** A key of nobody we know. */
export function signAsStranger(fixture: Fixture, ...files: string[]): void {
  const key = generateKeyPair();
  for (const file of files) {
    const signed = signItem(join(fixture.root, file), key, systemClock);
    if (!signed.ok) throw new Error(signed.error.detail.message);
  }
}

/** The states a link can be put into, by the file that was written for it. */
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

/** A caller whose every right stands in one token; `core`: as items of the core get it. */
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

/** A tool file; `rest` is YAML. */
export const toolFile = (id: string, rest: string): string =>
  `tool_id: ${id}\ntool_type: test\nversion: "1.0.0"\ndescription: a test\n${rest}\n`;
