// Creates a temporary project with its own user folder, for tests that use the whole runtime.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { Verb } from '@kernmantle/core/kernel';
import { createRuntime, type Runtime, type RuntimeOptions } from '@kernmantle/core/runtime';
import { EXTENSIONS } from '../../packages/kernmantle/src/extensions.ts';
import { BUILT } from './built.ts';
import { lateStore } from './late-store.ts';

export interface Fixture {
  root: string;
  home: string;
  env: Record<string, string | undefined>;
  write(file: string, text: string): string;
  open(options?: Partial<RuntimeOptions>): Promise<Runtime>;
  /** Opens the project, performs one call and closes the project. */
  call(verb: Verb, request: JsonObject, surface?: string): Promise<Outcome<Json>>;
  remove(): void;
}

/** `npm run journals` takes the registries of projects from this folder. */
function keepJournals(root: string): void {
  const folder = process.env['KERNMANTLE_JOURNALS'];
  const threads = join(root, '.ai', 'threads');
  if (!folder || !existsSync(join(threads, 'registry.db'))) return;
  cpSync(threads, mkdtempSync(join(folder, 'project-')), { recursive: true });
}

export function makeFixture(files: Readonly<Record<string, string>> = {}): Fixture {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'km-project-')));
  const [root, home] = [join(base, 'project'), join(base, 'home')];
  mkdirSync(join(root, '.ai'), { recursive: true });
  const env: Record<string, string | undefined> = {
    PATH: process.env.PATH,
    HOME: base,
    KERNMANTLE_HOME: home,
    ...BUILT,
  };
  const opened: Runtime[] = [];
  const fixture: Fixture = {
    root,
    home,
    env,
    write(file, text) {
      const path = file.startsWith('/') ? file : join(root, file);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      // A library can look for changes 20 ms later, but the test continues at once.
      for (const { library } of opened) library.noteChange();
      return path;
    },
    async open(options = {}) {
      const runtime = await createRuntime({
        project: root,
        env,
        extensions: EXTENSIONS,
        ...lateStore(),
        ...options,
      });
      if (!runtime.ok) throw new Error(runtime.error.detail.message);
      opened.push(runtime.output);
      return runtime.output;
    },
    async call(verb, request, surface = 'cli') {
      const runtime = await fixture.open();
      try {
        return await runtime.call(verb, request, { surface });
      } finally {
        await runtime.close();
      }
    },
    remove() {
      keepJournals(root);
      rmSync(base, { recursive: true, force: true });
    },
  };
  for (const [file, text] of Object.entries(files)) fixture.write(file, text);
  return fixture;
}

/** Policy of the user that allows unsigned items to do everything, for tests about other things. */
export const TRUSTING = 'unsigned: allow\n';
