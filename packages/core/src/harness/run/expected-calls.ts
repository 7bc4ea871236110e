// Checks `expect` of a directive: a run that would end `completed` ends `failed` if the listed calls did not succeed.
// The recorded result of a call counts, after all retries of tools and hooks. Calls that a rewind (`--from`) dropped
// do not count.
import { getOwn, type Json, type Outcome, ok } from '../../base/index.ts';
import { type DataOf, eventsInForce, readJournal } from '../../journal/index.ts';
import type { Ending } from '../loop.ts';
import type { OwnJournal } from '../thread/thread.ts';
import { COMPARE } from './runner.ts';

/** Success of each call, by tool and in order. */
type Results = ReadonlyMap<string, readonly boolean[]>;

/** True for a run of the tool itself. A dry run, a change of its file or a directive of its name cannot succeed. */
const isRun = ({ verb, arguments: request }: DataOf<'tool_call'>): boolean =>
  verb === 'execute' &&
  getOwn(request, 'item_type') === 'tool' &&
  (getOwn(request, 'action') ?? 'run') === 'run' &&
  isUnset(getOwn(request, 'dry_run'));
const isUnset = (value: Json | undefined): boolean => value === undefined || value === false;

async function resultsOf({ ports, place, journal }: OwnJournal): Promise<Outcome<Results>> {
  await journal.flush();
  const read = await readJournal(ports.store, place.id, ['tool_call', 'tool_result', 'signal']);
  if (!read.ok) return read;
  const calls = new Map<string, DataOf<'tool_call'>>();
  const results = new Map<string, boolean[]>();
  for (const event of eventsInForce(read.output)) {
    if (event.type === 'tool_call') calls.set(event.data.call_id, event.data);
    if (event.type !== 'tool_result' || event.data.tool === undefined) continue;
    const { call_id, tool, is_error } = event.data;
    const call = calls.get(call_id);
    calls.delete(call_id);
    if (!is_error && !(call && isRun(call))) continue;
    results.set(tool, [...(results.get(tool) ?? []), !is_error]);
  }
  return ok(results);
}

/** Returns the ending, or a failure if an expected call did not succeed. */
export async function checkExpected(thread: OwnJournal, ending: Ending): Promise<Ending> {
  const { directive, runner } = thread.place;
  const { expect } = directive;
  // A comparison makes no calls.
  if (ending.status !== 'completed' || expect.length === 0 || runner === COMPARE) return ending;
  const results = await resultsOf(thread);
  if (!results.ok) {
    const { code, detail } = results.error;
    return { ...ending, status: 'failed', reason: detail.message, code };
  }
  for (const { tool, succeeds } of expect) {
    const found = thread.ports.library.find('tool', tool);
    const all = results.output.get(found.ok ? found.output.id : tool) ?? [];
    const failed = all.filter((isGood) => !isGood).length;
    const isMet = succeeds === 'always' ? failed === 0 : all.at(-1) === true;
    if (isMet) continue;
    const summary = all.length === 0 ? 'none was made' : `${failed} of ${all.length} failed`;
    const expected = succeeds === 'always' ? 'every call' : 'the last call';
    const reason = `the directive expects ${expected} of \`${tool}\` to succeed; ${summary}`;
    return { ...ending, status: 'failed', reason, code: 'expectation_failed' };
  }
  return ending;
}
