// Makes file names from the tool names of a server. Different names stay different on every file
// system, and no name hides a built-in tool. The config keeps the original name.
import { hash } from 'node:crypto';
import { FOUR_TOOLS } from '@kernmantle/core/llm';

const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_-]*$/;
const MAX_NAME = 96;
/** Names with a special meaning on some file systems. */
const DEVICES = /^(?:con|prn|aux|nul|com\d|lpt\d)$/i;
/** Names of files beside the tools, and of built-in tools of the model. */
const TAKEN: ReadonlySet<string> = new Set([
  'connector',
  'mapping',
  ...FOUR_TOOLS.map(({ name }) => name),
]);

const mark = (name: string): string => hash('sha256', name).slice(0, 8);

/** Returns a safe file name with a hash, because its letters alone can equal those of another name. */
const marked = (name: string, choice: string): string =>
  `${
    choice
      .replace(/[^A-Za-z0-9_-]+/g, '_')
      .replace(/^-/, '_')
      .slice(0, MAX_NAME - 9) || 'tool'
  }_${mark(name)}`;

const isPlain = (choice: string): boolean =>
  PLAIN.test(choice) && choice.length <= MAX_NAME && !DEVICES.test(choice);

/** Returns the file name of each tool. `builtIn` contains the lower-case names of built-in tools. */
export function fileNames(
  names: readonly string[],
  chosenName: (name: string) => string,
  server: string,
  builtIn: ReadonlySet<string>,
): Map<string, string> {
  const choices = names.map((name) => {
    const own = chosenName(name);
    const safe = isPlain(own) ? own : marked(name, own);
    const lower = safe.toLowerCase();
    return [name, builtIn.has(lower) || TAKEN.has(lower) ? `${server}_${safe}` : safe] as const;
  });
  const twins = Map.groupBy(choices, ([, file]) => file.toLowerCase());
  return new Map(
    choices.map(([name, file]) => {
      const isAlone = twins.get(file.toLowerCase())?.length === 1;
      return [name, isAlone ? file : marked(name, file)];
    }),
  );
}

/**
 * Checks the name of a server. Only unambiguous letters that a capability can contain are allowed.
 */
export const serverProblem = (name: string): string | undefined =>
  /^[a-z0-9_-]{1,64}$/.test(name) && !/^[-_]|^(?:connect|mcp_stdio|mcp_http|connector)$/.test(name)
    ? undefined
    : `\`${name}\` is not a valid server name; use lowercase letters, digits, \`_\` and \`-\``;
