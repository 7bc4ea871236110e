/** The names other documents use for ours: `kiwi-mcp.X`, `kernmantle.X`, `mcp.NAME`. */
export function normalizeCapability(name: string): string {
  const kernel = /^(?:kiwi-mcp|kernmantle)\.(.+)$/.exec(name);
  if (kernel) return `kernel.${kernel[1]}`;
  const server = /^mcp\.([^.]+)$/.exec(name);
  return server && server[1] !== 'connect' && server[1] !== '*' ? `${name}.call` : name;
}

/** Does a name in a grant stand for many? */
export const isNamePattern = (name: string): boolean => name.includes('*');

/** Letters, digits, `_`, `-` and, in patterns, `*`, between dots. */
export const isNameOrPattern = (name: string): boolean =>
  name.length <= 200 && /^[A-Za-z0-9_*-]+(\.[A-Za-z0-9_*-]+)*$/.test(name);
