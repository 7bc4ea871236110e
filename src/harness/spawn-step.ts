// A tool call that spawns is a step of its own kind, and a spawn that is refused for its limits is a
// limit, although it is found out inside the call.
import { getOwn, type Json } from '../base/index.ts';
import type { CheckpointEvent } from '../flow/index.ts';
import type { Library } from '../items/index.ts';

/** The primitive at the end of these chains, and its function that spawns. */
const [PRIMITIVE, FUNCTION] = ['thread', 'spawn'];
const BASE = 'threads/spawn_thread';
const SPAWN_LIMITS: ReadonlySet<string> = new Set(['spawns_exceeded', 'depth_exceeded']);

/** Also a project's own tool that stands on the bundle's. */
export function stepKind(library: Pick<Library, 'chain'>, tool: string): 'spawn' | 'tool' {
  const chain = library.chain(tool);
  return chain.ok && chain.output.links.some(({ id }) => id === BASE) ? 'spawn' : 'tool';
}

/** A call of this tool spawns a thread; undefined when it does anything else. */
export function spawnsBy(
  library: Pick<Library, 'chain'>,
  tool: string,
): { makesId: boolean } | undefined {
  const chain = library.chain(tool);
  if (!chain.ok || chain.output.primitive !== PRIMITIVE) return undefined;
  // As the kernel merges them: the link nearest to the caller has the word.
  const word = (name: string): Json | undefined =>
    chain.output.links
      .map((link) => getOwn(link.tool?.config ?? {}, name))
      .find((value) => value !== undefined);
  return word('function') === FUNCTION ? { makesId: word('make_id') === true } : undefined;
}

export const asLimit = (event: CheckpointEvent): CheckpointEvent =>
  event.name === 'error' && SPAWN_LIMITS.has(event.fault.code)
    ? { ...event, name: 'limit' }
    : event;
