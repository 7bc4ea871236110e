// `expect` of a directive: a run that would end `completed` ends `failed` where the calls that it lists did not
// succeed. Counted is the result that the journal has of a call, after all retries of tools and hooks; what
// was gone back over (`--from`) does not count.
import { getOwn, type Json, type Outcome, ok } from '../../base/index.ts';
import { type DataOf, eventsInForce, readJournal } from '../../journal/index.ts';
import type { Ending } from '../loop.ts';
import type { OwnJournal } from '../thread/thread.ts';

/** In order: did each call of the tool succeed? */
type Results = ReadonlyMap<string, readonly boolean[]>;

/** Only a run of the tool itself can succeed: no dry run, no change of its file, no directive of its name. */
const isRun = ({ verb, arguments: given }: DataOf<'tool_call'>): boolean =>
  verb === 'execute' &&
  getOwn(given, 'item_type') === 'tool' &&
  (getOwn(given, 'action') ?? 'run') === 'run' &&
  isUnset(getOwn(given, 'dry_run'));
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

/** The ending, or the failure that it becomes. */
export async function checkExpected(thread: OwnJournal, ending: Ending): Promise<Ending> {
  const { expect } = thread.place.directive;
  if (ending.status !== 'completed' || expect.length === 0) return ending;
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
    const seen = all.length === 0 ? 'none was made' : `${failed} of ${all.length} failed`;
    const wanted = succeeds === 'always' ? 'every call' : 'the last call';
    const reason = `the directive expects ${wanted} of \`${tool}\` to succeed; ${seen}`;
    return { ...ending, status: 'failed', reason, code: 'expectation_failed' };
  }
  return ending;
}
