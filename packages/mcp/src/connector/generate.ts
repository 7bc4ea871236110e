// Writes one YAML file for each tool of a server. The same definition and mapping always produce
// the same text, so a comparison of texts finds every change.
import { compact, formatYaml, type JsonObject, plainText } from '@kernmantle/core/base';
import { normalizeCapability } from '@kernmantle/core/trust';
import type { ServerTool } from '../client/pool.ts';
import type { Pin } from './definition.ts';
import type { MappedTool } from './mapping.ts';
import { inputSchema, outputSchema } from './schema.ts';
import { shownText } from './texts.ts';

/** Maximum length of a description in the file and in the approval request. */
export const MAX_DESCRIPTION = 2000;
const HEAD =
  '# Written by a sync of its connector. The texts of the server are untrusted. A change needs a new approval.\n';

interface ToolPlace {
  /** Full id of the connector that wrote the tool. */
  readonly connector: string;
  readonly server: string;
  readonly file: string;
  readonly setPin: string;
}

/** Returns the capabilities of a call. Only a mapping can declare that a tool only reads. */
export const requiresOf = (server: string, { effect, requires = [] }: MappedTool): string[] => [
  `mcp.${server}.${effect === 'read' ? 'read' : 'call'}`,
  ...requires.map(normalizeCapability),
];

function describedAs({ name, definition }: ServerTool, server: string): string {
  const { title, description } = definition;
  const texts = [title, description].map(plainText).filter((text) => text.trim() !== '');
  const words = shownText(texts.join('. ') || name, MAX_DESCRIPTION).trim();
  return `(of MCP server ${server}) ${words}`;
}

export function toolText(
  tool: ServerTool,
  { pin, parts }: Pin,
  mapped: MappedTool,
  { connector, server, file, setPin }: ToolPlace,
): string {
  const { inputSchema: input, outputSchema: output } = tool.definition;
  const { effect = 'write', risk = ['exfil', 'destructive'], labels = [], roles = {} } = mapped;
  const { kinds = {}, result, directory } = mapped;
  const answer = outputSchema(output);
  const parameters = [...new Set([...Object.keys(roles), ...Object.keys(kinds)])].map((name) =>
    compact<JsonObject>({ name, role: roles[name], kind: kinds[name] }),
  );
  const fields: JsonObject = {
    tool_id: file,
    tool_type: 'mcp_tool',
    version: '1.0.0',
    category: 'mcp',
    description: describedAs(tool, server),
    executor_id: connector,
    config: { server, mcp_tool: tool.name, pin, parts: { ...parts }, set_pin: setPin },
    requires: requiresOf(server, mapped),
    effect,
    risk: [...risk],
    ...(labels.length > 0 && { labels: [...labels] }),
    ...(parameters.length > 0 && { parameters }),
    input_schema: inputSchema(input as JsonObject),
    ...(answer && { output_schema: answer }),
    result: { ...compact<JsonObject>({ ...result }), untrusted: true },
    ...(directory && { directory }),
  };
  // Invalid characters would be read back differently and look like a permanent change.
  return HEAD + formatYaml(fields).toWellFormed();
}

/** Returns the text without the pin of the set. If two such texts are equal, the tool is the same. */
export const withoutSetPin = (text: string): string =>
  text.replace(/^ {2}set_pin: .*$/m, '  set_pin:');
