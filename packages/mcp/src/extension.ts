// Adds connectors to a runtime through the primitive `mcp`. The client is loaded, and its pool is
// created, when the first call needs a server.
import {
  anything,
  fillable,
  fillableText,
  flag,
  isObject,
  listOf,
  mapping,
  oneOf,
  type Rule,
  record,
  tableOf,
  text,
  wrongType,
} from '@kernmantle/core/base';
import { lazyPrimitive } from '@kernmantle/core/kernel';
import type { Extension } from '@kernmantle/core/runtime';

const AUTHS = ['bearer', 'api_key', 'basic', 'oauth', 'none'] as const;
const auth: Rule<unknown> = (value, place) => {
  if (!isObject(value)) return wrongType(place, 'a mapping', value);
  return oneOf(AUTHS)(value.type ?? null, place.child('type'));
};
const words = fillableText(text);

/** Config of connectors, of generated tools, and of the two tools that call any server. */
const serverConfig: Rule<unknown> = record({
  server: text,
  mcp_url: words,
  command: words,
  args: fillable(listOf(words)),
  env: fillable(tableOf(words)),
  headers: fillable(tableOf(words)),
  auth: fillable(auth),
  grants: record({ read: listOf(text), write: listOf(text), network: flag }),
  output_dir: text,
  tool_prefix: text,
  mcp_tool: text,
  pin: text,
  parts: mapping,
  set_pin: text,
  direct: oneOf(['stdio', 'http']),
  method: words,
  params: anything,
  rpc_method: words,
  rpc_params: anything,
});

export const mcp: Extension = {
  name: 'mcp',
  primitives: (rooms) => [
    {
      ...lazyPrimitive('mcp', async () => {
        const { createServersPrimitive } = await import('./runtime/mcp-primitive.ts');
        return createServersPrimitive(rooms());
      }),
      config: serverConfig,
      verbatim: ['server', 'mcp_tool', 'pin', 'parts', 'set_pin', 'output_dir', 'tool_prefix'],
    },
  ],
};
