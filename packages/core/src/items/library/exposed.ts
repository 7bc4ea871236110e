// What is exposed to MCP clients in native mode, and as what.
//
// A tool is a tool (its output is the result: `{content: [blocks]}`, or any object), a resource (`{text}`,
// `{blob}` in base64, `{contents}`, or any object, which is JSON then) or a prompt (`{messages}`). Any of
// them may answer `{input_required: {requests, state}}` to ask the client something: it is then called again
// with the parameters `input_responses` and `input_state`. One that declares `client_capabilities` is told
// whom it could ask.
import { lastSegment } from '../../base/index.ts';
import type { Exposed } from '../expose.ts';
import type { Item } from '../item.ts';

/** Set by the server alone: what a client answered, what the tool wanted to know again then, what it can do. */
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

/** An id as part of an address. */
export const idInUri = (id: string): string => id.split('/').map(encodeURIComponent).join('/');

export const exposedUri = ({ id }: Item, { uri }: Exposed): string =>
  uri ?? `knowledge://${idInUri(id)}`;

/** Two of one key cannot both be served: a tool and a prompt of one name can. */
export const keyOf = (item: Item, exposed: Exposed): string =>
  exposed.mcp === 'resource'
    ? `resource \`${exposedUri(item, exposed)}\``
    : `${exposed.mcp} \`${exposedName(item, exposed)}\``;

/** Exposed items by what clients would call them. */
export function groupExposed(items: readonly Item[]): ReadonlyMap<string, readonly Item[]> {
  const exposed = items.flatMap((item) => {
    const how = exposedOf(item);
    return how ? [{ item, key: keyOf(item, how) }] : [];
  });
  const groups = Map.groupBy(exposed, ({ key }) => key);
  return new Map([...groups].map(([key, group]) => [key, group.map(({ item }) => item)]));
}
