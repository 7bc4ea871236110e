// Defines what the parts of the demo share: the project, the terminal, and the display of a call.
import { getOwn, type Json, type JsonObject, type Outcome } from '@kernmantle/core/base';
import type { Runtime } from '@kernmantle/core/runtime';
import { type Terminal, visible } from '../terminal/terminal.ts';

export interface DemoProject {
  runtime: Runtime;
  terminal: Terminal;
  /** Address of the loopback server that sends events. */
  events: string;
  sandboxed: boolean;
}

export function heading(terminal: Terminal, title: string, why: string): void {
  terminal.out(`\n${terminal.paint('bold', `# ${title}`)}`);
  terminal.out(terminal.paint('dim', why));
}

export async function execute(
  { runtime, terminal }: DemoProject,
  id: string,
  parameters: JsonObject,
  show: (output: Json) => string,
): Promise<Outcome<Json>> {
  const words = Object.entries(parameters).map(
    ([name, value]) => `${name}=${JSON.stringify(value)}`,
  );
  const preview = visible(words.join(' ')).slice(0, 100);
  terminal.out(`${terminal.paint('blue', '$')} km exec tool ${id} ${preview}`);
  const request = { item_type: 'tool', item_id: id, parameters };
  const outcome = await runtime.call('execute', request, { surface: 'cli', name: 'demo' });
  const result = outcome.ok
    ? visible(show(outcome.output)).replaceAll('\n', '\n  ')
    : `${terminal.paint('red', outcome.error.code)}: ${visible(outcome.error.detail.message)}`;
  terminal.out(`  ${result}`);
  return outcome;
}

export const field = (value: Json, name: string): string =>
  JSON.stringify(getOwn(value, name) ?? null);
