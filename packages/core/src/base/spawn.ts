// Starts the processes of this program. Node marks only the descriptors below the first gap as closed at `exec`.
// Every new process would therefore inherit a folder or a lock that the parent of this program left open.
import { type ChildProcess, type SpawnOptions, spawn as spawnNode } from 'node:child_process';
import { openSync, readdirSync, readFileSync } from 'node:fs';
import { errnoOf } from './outcome.ts';

interface StartOptions extends Omit<SpawnOptions, 'stdio'> {
  /** Descriptors of the child, in order. The child gets no others. */
  stdio: readonly ('pipe' | 'ignore' | 'inherit' | number)[];
}

const CLOSED_AT_EXEC = 0o2_000_000;

function isInherited(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1');
    const [, flags = '0'] = /^flags:\s*([0-7]+)/m.exec(info) ?? [];
    return (Number.parseInt(flags, 8) & CLOSED_AT_EXEC) === 0;
  } catch (error) {
    // A descriptor that is closed by now, such as the one for this listing, is not inherited.
    return errnoOf(error) !== 'ENOENT';
  }
}

/**
 * Returns the open descriptors above 2 that a child of this process would inherit. They are read at every
 * start, because a library can open one at any time. On macOS libuv closes them by itself.
 */
function inheritedDescriptors(): number[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((descriptor) => descriptor > 2 && isInherited(descriptor));
}

/** Descriptor of `/dev/null`. It stays open as long as this process, because every start may need it. */
let nothing: number | undefined;

/**
 * Starts a process that has the descriptors of `stdio` and no others. `/dev/null` takes the place of a
 * descriptor that would be inherited. Throws if Linux does not list the open descriptors.
 */
export function spawn(
  file: string,
  args: readonly string[],
  { stdio, ...options }: StartOptions,
): ChildProcess {
  const places = [...stdio];
  for (const descriptor of inheritedDescriptors()) {
    if ((places[descriptor] ?? 'ignore') !== 'ignore') continue;
    // libuv does nothing for an ignored position above 2, so this loop closes no descriptor.
    while (places.length < descriptor) places.push('ignore');
    nothing ??= openSync('/dev/null', 'r+');
    places[descriptor] = nothing;
  }
  return spawnNode(file, args, { ...options, stdio: places });
}
