// A process that is asked by many is a box that remembers: what went in with one call may come out with
// the answer to another, or be written to a file at any time. So all of it is marked with all that ever
// went in, and with what the process could see meanwhile. INVARIANT: until the process has ended every
// place that it may write counts as marked; then what it changed is.
import { type Failure, type Outcome, ok } from '@kernmantle/core/base';
import { type Descriptor, describe, EMPTY, mergeDescriptors } from '@kernmantle/core/flow';
import { type KeptProcess, watchProcess } from '@kernmantle/core/kernel';
import type { McpPoolPorts } from './ports.ts';

/** What a server writes is a stranger's, whatever it was given. */
const STRANGER = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:mcp'] });
const NETWORK = describe({ labels: ['untrusted'], taint: ['untrusted', 'src:mcp', 'src:network'] });
/** Marks only grow; where they came from is told as far as anybody would read it. */
const MAX_SOURCES = 64;

const withFewSources = (marks: Descriptor): Descriptor =>
  marks.sources.length <= MAX_SOURCES
    ? marks
    : describe({ ...marks, sources: marks.sources.slice(0, MAX_SOURCES) });

type BoxPorts = Pick<McpPoolPorts, 'labels' | 'namedFolders'>;
type BoxFacts = Pick<KeptProcess, 'mode' | 'verify'>;

export interface ProcessBox {
  /** To be called before anything is sent: marks of all that is in it, these included. */
  give(given: Descriptor): Promise<Outcome<Descriptor>>;
  /** To be called when the process has ended. */
  ended(): Outcome<null>;
}

/** To be made before the process runs, and given nothing: that notes what is there already. */
export function createProcessBox(
  { mode, verify }: BoxFacts,
  { mayWrite, hasNetwork }: { mayWrite: boolean; hasNetwork: boolean },
  { labels, namedFolders }: BoxPorts,
): ProcessBox {
  const isOpen = mode === 'none';
  const watches: { ended(): Outcome<null> }[] = [];
  let all: Descriptor = EMPTY;
  let noted: ReadonlySet<string> | undefined;

  const look = (given: Descriptor, isNoted: boolean) =>
    watchProcess({
      records: labels,
      verify,
      named: namedFolders(),
      isOpen,
      mayWrite: isNoted,
      given,
    });

  /** Places that may be written are marked anew only when there is something new to say. */
  async function note(marks: Descriptor): Promise<Outcome<null>> {
    if (!(mayWrite || isOpen) || (noted && marks.taint.every((mark) => noted?.has(mark)))) {
      return ok(null);
    }
    noted = new Set([...(noted ?? []), ...marks.taint]);
    const watch = await look(mergeDescriptors(marks, hasNetwork ? NETWORK : STRANGER), true);
    if (!watch.ok) return watch;
    watches.push(watch.output);
    return ok(null);
  }

  return {
    async give(given) {
      all = withFewSources(mergeDescriptors(all, given));
      const seen = await look(all, false);
      if (!seen.ok) return seen;
      all = withFewSources(mergeDescriptors(all, seen.output.marks));
      const kept = await note(all);
      return kept.ok ? ok(all) : kept;
    },
    ended() {
      const faults = watches.map((watch) => watch.ended()).filter((one): one is Failure => !one.ok);
      // What could not be told stays marked as a whole, until it is.
      void labels.shared?.keep();
      return faults[0] ?? ok(null);
    },
  };
}
