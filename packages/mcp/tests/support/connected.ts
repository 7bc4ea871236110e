// A project with a server, and the command line that connects it.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Json, JsonObject, Outcome } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { runCommand } from '@kernmantle/test-support/command-line';
import { type Fixture, makeFixture } from '@kernmantle/test-support/project';

export const QUERY = {
  name: 'query',
  description: 'Runs a query',
  inputSchema: { type: 'object', properties: { sql: { type: 'string' } }, required: ['sql'] },
};

export interface Connected extends Fixture {
  km(...words: string[]): Promise<{ code: number; output: string }>;
  kmJson(...words: string[]): Promise<Outcome<JsonObject>>;
  /** Adds a server over pipes with the name `db`. */
  add(args: readonly string[], ...more: string[]): Promise<Outcome<JsonObject>>;
  run(id: string, parameters?: JsonObject): Promise<Outcome<Json>>;
  /** Path of the file of a tool of `db`. */
  file(name: string): string;
}

export function makeConnected(): Connected {
  const fixture = makeFixture();
  const km = (...words: string[]) => runCommand(words, fixture.root, fixture.env);
  const kmJson: Connected['kmJson'] = async (...words) => {
    const { output } = await km(...words.slice(0, 2), '--json', ...words.slice(2));
    return JSON.parse(output.trim().split('\n').at(-1) ?? '') as Outcome<JsonObject>;
  };
  return {
    ...fixture,
    km,
    kmJson,
    add: (args, ...more) =>
      kmJson(
        'mcp',
        'add',
        'db',
        '--command',
        process.execPath,
        '--read',
        'server/**',
        ...more,
        '--',
        ...args,
      ),
    run: (id, parameters = {}) =>
      fixture.call('execute', { item_type: 'tool', item_id: id, parameters }),
    file: (name) => readFileSync(join(fixture.root, '.ai/tools/mcp/db', name), 'utf8'),
  };
}

/** Calls a tool on a runtime that stays open. */
export const runOn = (runtime: Runtime, id: string, parameters: JsonObject = {}) =>
  runtime.call('execute', { item_type: 'tool', item_id: id, parameters }, { surface: 'cli' });
