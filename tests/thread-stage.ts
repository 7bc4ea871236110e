// A project with directives and a scripted model that answers each thread by the directive it runs
// and the turn it is in: for tests with several threads at once.
import type { Json, JsonObject } from '../src/base/index.ts';
import type { ScriptedReply, ScriptedRequest } from '../src/llm/index.ts';
import type { RuntimeOptions } from '../src/runtime.ts';
import { directiveText, type Parts, type Stage, stage } from './thread-fixture.ts';

export { closeStages, run, type Stage } from './thread-fixture.ts';

type Say = ScriptedReply | ((request: ScriptedRequest) => ScriptedReply | Promise<ScriptedReply>);
/** For each directive: what its model says, turn by turn. The last one is repeated. */
export type Play = Readonly<Record<string, readonly Say[]>>;

export const nameIn = ({ body }: ScriptedRequest): string =>
  /run directive (\w+)/.exec(JSON.stringify(body))?.[1] ?? '';

export const openStage = (
  files: Record<string, string>,
  play: Play,
  options: Partial<RuntimeOptions> = {},
): Promise<Stage> =>
  stage(
    files,
    async (request) => {
      const lines = play[nameIn(request)] ?? [];
      // The first assistant message is the one the harness wrote.
      const say = lines[Math.min(request.assistant_messages, lines.length) - 1];
      return typeof say === 'function' ? await say(request) : say;
    },
    options,
  );

/** The directive as a file of the project. */
export const directive = (name: string, parts: Parts = {}): Record<string, string> => ({
  [`.ai/directives/${name}.md`]: directiveText(name, parts),
});

export const call = (
  id: string,
  parameters: JsonObject = {},
): { name: string; arguments: Json } => ({
  name: 'execute',
  arguments: { item_type: 'tool', item_id: id, parameters },
});
export const spawn = (name: string, more: JsonObject = {}) =>
  call('threads/thread_directive', { directive_name: name, ...more });

export const rows = ({ threads }: Stage) => {
  const page = threads.store.query({ limit: 500, direction: 'asc' });
  return page.ok ? page.output.rows : [];
};
