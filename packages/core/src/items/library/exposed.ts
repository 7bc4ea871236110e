// Returns the names and addresses of items that are exposed to MCP clients in native mode.
//
// A tool is exposed as a tool, a resource or a prompt. The output of a tool is `{content: [blocks]}` or any
// object, of a resource `{text}`, `{blob}` in base64, `{contents}` or any object as JSON, and of a prompt
// `{messages}`. Each may return `{input_required: {requests, state}}` to ask the client. It is then called
// again with the parameters `input_responses` and `input_state`. A tool that declares `client_capabilities`
// receives the abilities of the client.
import { lastSegment } from '../../base/index.ts';
import type { Exposed } from '../expose.ts';
import type { Item } from '../item.ts';

/** Parameters that only the MCP server sets: the client's answer, the tool's state, the client's abilities. */
export const INPUT_PARAMETERS: readonly string[] = [
  'input_responses',
  'input_state',
  'client_capabilities',
];

export const exposedOf = (item: Item): Exposed | undefined =>
  item.kind === 'knowledge'
    ? item.expose
    : (item.kind === 'tool' ? item.tool : item.directive)?.expose;

export const exposedName = (item: Item, exposed: Exposed): string =>
  exposed.name ?? lastSegment(item.id);

/** Returns an id as part of an address. */
export const idInUri = (id: string): string => id.split('/').map(encodeURIComponent).join('/');

export const exposedUri = ({ id }: Item, { uri }: Exposed): string =>
  uri ?? `knowledge://${idInUri(id)}`;

/**
 * Returns the key of an exposed item. Two items with the same key cannot both be served. A tool and a
 * prompt with the same name have different keys.
 */
export const keyOf = (item: Item, exposed: Exposed): string =>
  exposed.mcp === 'resource'
    ? `resource \`${exposedUri(item, exposed)}\``
    : `${exposed.mcp} \`${exposedName(item, exposed)}\``;

/** Returns the exposed items by their key, as `keyOf` returns it. */
export function groupExposed(items: readonly Item[]): ReadonlyMap<string, readonly Item[]> {
  const exposed = items.flatMap((item) => {
    const how = exposedOf(item);
    return how ? [{ item, key: keyOf(item, how) }] : [];
  });
  const groups = Map.groupBy(exposed, ({ key }) => key);
  return new Map([...groups].map(([key, group]) => [key, group.map(({ item }) => item)]));
}
