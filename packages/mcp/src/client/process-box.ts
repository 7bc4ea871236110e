// Tracks the marks of a server process that serves many calls. Data of one call can appear in the
// answer to another, or in a file, at any time. All output therefore gets the marks of every input
// so far and of the files that the process can read. INVARIANT: until the process has ended, every
// path that it can write always counts as marked. Afterwards only changed files are marked.
import { type Failure, type Outcome, ok } from '@kernmantle/core/base';
import { type Descriptor, describe, EMPTY, mergeDescriptors } from '@kernmantle/core/flow';
import { type KeptProcess, watchProcess } from '@kernmantle/core/kernel';
import type { McpPoolPorts } from './ports.ts';

/** Output of a server is always untrusted. */
const UNTRUSTED = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:mcp'] });
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:mcp', 'src:network'] });
/** Maximum number of sources. Marks only grow, and no person reads a longer list. */
const MAX_SOURCES = 64;

const withFewSources = (marks: Descriptor): Descriptor =>
  marks.sources.length <= MAX_SOURCES
    ? marks
    : describe({ ...marks, sources: marks.sources.slice(0, MAX_SOURCES) });

type BoxPorts = Pick<McpPoolPorts, 'labels' | 'namedFolders'>;
type BoxFacts = Pick<KeptProcess, 'mode' | 'verify'>;

export interface ProcessBox {
  /** Must be called with the marks of an input before it is sent. Returns the marks of all inputs. */
  give(given: Descriptor): Promise<Outcome<Descriptor>>;
  /** Must be called when the process has ended. */
  ended(): Outcome<null>;
}

/** Must be called before the process starts, to record the existing files. */
export function createProcessBox(
  { mode, verify }: BoxFacts,
  { mayWrite, hasNetwork }: { mayWrite: boolean; hasNetwork: boolean },
  { labels, namedFolders }: BoxPorts,
): ProcessBox {
  const isOpen = mode === 'none';
  const watches: { ended(): Outcome<null> }[] = [];
  let all: Descriptor = EMPTY;
  let marked: ReadonlySet<string> | undefined;

  const look = (marks: Descriptor, isNoted: boolean) =>
    watchProcess({
      records: labels,
      verify,
      named: namedFolders(),
      isOpen,
      mayWrite: isNoted,
      given: marks,
    });

  /** Marks the writable paths again only if there are new marks. */
  async function note(marks: Descriptor): Promise<Outcome<null>> {
    if (!(mayWrite || isOpen) || (marked && marks.taint.every((mark) => marked?.has(mark)))) {
      return ok(null);
    }
    marked = new Set([...(marked ?? []), ...marks.taint]);
    const watch = await look(mergeDescriptors(marks, hasNetwork ? NETWORK : UNTRUSTED), true);
    if (!watch.ok) return watch;
    watches.push(watch.output);
    return ok(null);
  }

  return {
    async give(given) {
      all = withFewSources(mergeDescriptors(all, given));
      const current = await look(all, false);
      if (!current.ok) return current;
      all = withFewSources(mergeDescriptors(all, current.output.marks));
      const recorded = await note(all);
      return recorded.ok ? ok(all) : recorded;
    },
    ended() {
      const faults = watches.map((watch) => watch.ended()).filter((one): one is Failure => !one.ok);
      // If the changed files cannot be determined, the whole folder stays marked.
      void labels.shared?.keep();
      return faults[0] ?? ok(null);
    },
  };
}
