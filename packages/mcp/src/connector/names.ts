// From what a server calls its tools to names of files. Different names stay different, on every file
// system; none becomes the name of a tool that is built in. The server's own name stays in the config.
import { hash } from 'node:crypto';
import { FOUR_TOOLS } from '@kernmantle/core/llm';

const PLAIN = /^[A-Za-z0-9_][A-Za-z0-9_-]*$/;
const MAX_NAME = 96;
/** Names that some file systems give a meaning of their own. */
const DEVICES = /^(?:con|prn|aux|nul|com\d|lpt\d)$/i;
/** Files beside the tools, and what a model calls without any. */
const TAKEN: ReadonlySet<string> = new Set([
  'connector',
  'mapping',
  ...FOUR_TOOLS.map(({ name }) => name),
]);

const mark = (name: string): string => hash('sha256', name).slice(0, 8);

/** Told apart by a hash where the letters would not do it. */
const marked = (name: string, given: string): string =>
  `${
    given
      .replace(/[^A-Za-z0-9_-]+/g, '_')
      .replace(/^-/, '_')
      .slice(0, MAX_NAME - 9) || 'tool'
  }_${mark(name)}`;

const isPlain = (given: string): boolean =>
  PLAIN.test(given) && given.length <= MAX_NAME && !DEVICES.test(given);

/**
 * By the server's name. `wanted` is what a person has chosen instead. `builtIn` are last segments of
 * tools that are there anyhow: a name among them gets the server's before it.
 */
export function fileNames(
  names: readonly string[],
  wanted: (name: string) => string,
  server: string,
  builtIn: ReadonlySet<string>,
): Map<string, string> {
  const given = names.map((name) => {
    const own = wanted(name);
    const safe = isPlain(own) ? own : marked(name, own);
    const lower = safe.toLowerCase();
    return [name, builtIn.has(lower) || TAKEN.has(lower) ? `${server}_${safe}` : safe] as const;
  });
  const twins = Map.groupBy(given, ([, file]) => file.toLowerCase());
  return new Map(
    given.map(([name, file]) => {
      const isAlone = twins.get(file.toLowerCase())?.length === 1;
      return [name, isAlone ? file : marked(name, file)];
    }),
  );
}

/** Letters that cannot be mistaken, and none that a capability could not hold. */
export const serverProblem = (name: string): string | undefined =>
  /^[a-z0-9_-]{1,64}$/.test(name) && !/^[-_]|^(?:connect|mcp_stdio|mcp_http|connector)$/.test(name)
    ? undefined
    : `\`${name}\` is no name for a server: write small letters, digits, \`_\` and \`-\``;
