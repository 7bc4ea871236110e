// The policy files of all levels, as they are now. Looked at again when the last look is 20 ms old: a
// rule that was tightened holds from then on in every running process. A file that cannot be read, or has a mistake in
// it, closes everything: half a policy might be the half that allows.
import { statSync } from 'node:fs';
import {
  type Clock,
  createLooks,
  type Diagnostic,
  errnoOf,
  hasErrors,
  readRegularFile,
} from '../../base/index.ts';
import { type ComposedPolicy, composePolicies } from './compose.ts';
import { closedPolicy, type Policy, type PolicyLevel } from './policy.ts';
import { parsePolicy } from './read-policy.ts';

export interface PolicyPlace {
  level: PolicyLevel;
  file: string;
}

export interface PolicyState {
  policy: ComposedPolicy;
  diagnostics: readonly Diagnostic[];
}

export type PolicyFiles = ReturnType<typeof createPolicyFiles>;

/** Of a file's text: what a signature would cover, which is all that is read, and whether one holds. */
type ExaminePolicy = (text: string, file: string) => { covered: string; signed: boolean };

interface Read {
  policy: Policy;
  diagnostics: readonly Diagnostic[];
}

const MAX_BYTES = 1024 * 1024;
const MISSING: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR']);

/** Identity of the file's content as far as the file system tells; empty when there is no file. */
function stampOf(file: string): string {
  try {
    // Most levels have no file: saying so without an exception is much cheaper.
    const there = statSync(file, { throwIfNoEntry: false });
    return there ? `${there.ino}:${there.size}:${there.mtimeMs}:${there.ctimeMs}` : '';
  } catch (error) {
    const code = errnoOf(error);
    return MISSING.has(code) ? '' : `unreadable:${code}`;
  }
}

const broken = ({ level, file }: PolicyPlace, message: string): Read => ({
  policy: closedPolicy(level, file),
  diagnostics: [
    { file, line: 1, column: 1, code: 'policy_unreadable', severity: 'error', message },
  ],
});

function readPlace(place: PolicyPlace, examine: ExaminePolicy): Read | undefined {
  const { level, file } = place;
  const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: true });
  if ('problem' in read) {
    const { errno, message } = read.problem;
    return errno !== undefined && MISSING.has(errno) ? undefined : broken(place, message);
  }
  const text = read.bytes.toString('utf8');
  const { covered, signed } = examine(text, file);
  const { policy, diagnostics } = parsePolicy(covered, file, level);
  if (!policy || hasErrors(diagnostics)) return { policy: closedPolicy(level, file), diagnostics };
  return { policy: { ...policy, signed }, diagnostics };
}

/** `examine` is asked anew whenever a file changed. */
export function createPolicyFiles(
  places: readonly PolicyPlace[],
  examine: ExaminePolicy,
  clock: Pick<Clock, 'monotonic'>,
) {
  let known: { stamp: string; state: PolicyState } | undefined;
  const looks = createLooks(clock);
  return {
    current(): PolicyState {
      if (known && looks.isRecent()) return known.state;
      looks.begin();
      let stamp = '';
      for (const { file } of places) stamp += `${stampOf(file)}\n`;
      if (known?.stamp === stamp) return known.state;
      const read = places.flatMap((place) => readPlace(place, examine) ?? []);
      const state = {
        policy: composePolicies(read.map(({ policy }) => policy)),
        diagnostics: read.flatMap(({ diagnostics }) => diagnostics),
      };
      known = { stamp, state };
      return state;
    },
  };
}
