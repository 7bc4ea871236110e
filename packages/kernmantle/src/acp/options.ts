// The options of a session that a person sets in the client: the model and the mode. A mode narrows what the directive
// declares and never adds a right.
import {
  getOwn,
  isObject,
  type Json,
  type JsonObject,
  type Outcome,
  ok,
  textAt,
} from '@kernmantle/core/base';
import type { RunRequest } from '@kernmantle/core/harness';
import type { Library } from '@kernmantle/core/items';
import { RPC, refuse } from './rpc.ts';

type Mode = NonNullable<RunRequest['mode']>;
export type SessionSettings = Pick<RunRequest, 'model' | 'mode'>;

const MODES: Readonly<Record<Mode, { name: string; description: string }>> = {
  declared: { name: 'As declared', description: 'All rights of the directive' },
  ask: { name: 'Ask first', description: 'Every change and every command asks' },
  read: { name: 'Read only', description: 'No call may change anything' },
};
const isMode = (word: string): word is Mode => Object.hasOwn(MODES, word);

/** Creates the options of one session. `set` receives a changed setting for the next prompt. */
export function createOptions(
  library: Library,
  directive: string,
  set: (news: SessionSettings) => void,
) {
  const item = library.find('directive', directive);
  const own = item.ok ? item.output.directive?.model : undefined;
  let model = own?.model_id ?? own?.tier ?? 'general';
  let mode: Mode = 'declared';
  const models = (): string[] => {
    const all = library.config('models').value;
    const names = ['tiers', 'models'].flatMap((part) => {
      const named = getOwn(all, part);
      return isObject(named) ? Object.keys(named) : [];
    });
    return [...new Set([model, ...names])];
  };
  const select = (id: string, name: string, currentValue: string, options: Json[]): JsonObject => ({
    id,
    name,
    category: id,
    type: 'select',
    currentValue,
    options,
  });
  const list = (): JsonObject[] => [
    select(
      'model',
      'Model',
      model,
      models().map((value) => ({ value, name: value })),
    ),
    select(
      'mode',
      'Mode',
      mode,
      Object.entries(MODES).map(([value, words]) => ({ value, ...words })),
    ),
  ];
  function change(id: string, value: string): Outcome<null> {
    const isModel = id === 'model' && models().includes(value);
    if (isModel) model = value;
    else if (id === 'mode' && isMode(value)) mode = value;
    else
      return refuse(
        RPC.invalidParams,
        `option \`${id.slice(0, 100)}\` has no value \`${value.slice(0, 100)}\``,
      );
    set(isModel ? { model } : { mode });
    return ok(null);
  }
  return {
    /** Returns the fields of the answer that opens a session. */
    fields: (): JsonObject => ({
      configOptions: list(),
      modes: {
        currentModeId: mode,
        availableModes: Object.entries(MODES).map(([id, words]) => ({ id, ...words })),
      },
    }),
    /** Restores the settings of a thread of the store. */
    restore(was: SessionSettings): void {
      model = was.model ?? model;
      mode = was.mode ?? mode;
    },
    setOption(params: JsonObject): Outcome<Json> {
      const done = change(textAt(params, 'configId'), textAt(params, 'value'));
      return done.ok ? ok({ configOptions: list() }) : done;
    },
    setMode(params: JsonObject): Outcome<Json> {
      const done = change('mode', textAt(params, 'modeId'));
      return done.ok ? ok({}) : done;
    },
  };
}
