// Adds the script language to a runtime: the primitive `script`, and the port that runs the scripts of
// directives and hooks. The language is loaded when the first script runs.
import { type Rule, record, text } from '@kernmantle/core/base';
import type { ScriptRequest } from '@kernmantle/core/harness';
import { lazyPrimitive } from '@kernmantle/core/kernel';
import type { Extension } from '@kernmantle/core/runtime';

const written = record({ script: text, module: text });

/** The config must have the text of a script or the name of its file. */
const scriptConfig: Rule<unknown> = (value, place) => {
  const read = written(value, place);
  if (read && read.script === undefined && read.module === undefined) {
    const message = 'a script tool needs `config.script`, or `config.module` with a file beside it';
    place.report({ code: 'missing_field', message });
  }
  return read;
};

export const script: Extension = {
  name: 'script',
  primitives: (rooms) => [
    {
      ...lazyPrimitive('script', async () => {
        const { createScriptPrimitive } = await import('./runtime/script-primitive.ts');
        return createScriptPrimitive(rooms);
      }),
      verbatim: ['script'],
      config: scriptConfig,
    },
  ],
  script(rooms) {
    const open = async () => (await import('./runtime/script-port.ts')).createScriptPort(rooms);
    let opening: ReturnType<typeof open> | undefined;
    const port = () => (opening ??= open());
    return Object.assign(async (request: ScriptRequest) => await (await port())(request), {
      readPlan: async (source: string, names: readonly string[]) =>
        await (await port()).readPlan(source, names),
    });
  },
};
