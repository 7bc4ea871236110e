// Reports the items and the rights of a thread at its start, as its journal recorded them, and marks the files
// that have changed since.
import { hash } from 'node:crypto';
import { resolve } from 'node:path';
import { getOwn, type JsonObject, type Outcome, ok, readRegularFile } from '../base/index.ts';
import { forkOf, type Recorded, readJournal, startOf } from '../journal/index.ts';
import type { Runtime } from '../runtime/index.ts';
import type { Store, ThreadRow } from '../store/index.ts';
import { grantName } from '../trust/index.ts';

type StartData = Extract<Recorded, { type: 'thread_start' }>['data'];
type Ran = NonNullable<StartData['ran']>;

const MAX_POLICY = 1024 * 1024;

const stateNow = (then: string | undefined, now: string | undefined): string =>
  now === undefined ? 'gone' : now === then ? 'same' : 'changed';

function itemNow({ library }: Runtime, { id, sha256, ...rest }: Ran['items'][number]): JsonObject {
  const result = library.find('directive', id);
  const now = result.ok ? hash('sha256', result.output.body) : undefined;
  return { id, sha256, ...rest, now: stateNow(sha256, now) };
}

function policyNow({ project }: Runtime, policy: Ran['policies'][number]): JsonObject {
  // The policy of the bundle belongs to the version of the program, so it is not compared.
  if (policy.level === 'bundle') return { ...policy };
  const read = readRegularFile(resolve(project, policy.file), {
    max: MAX_POLICY,
    followsLinks: true,
  });
  const now = 'bytes' in read ? hash('sha256', read.bytes) : undefined;
  return { ...policy, now: stateNow(policy.sha256, now) };
}

const grantOf = ({ capability, scope = {}, capped = [] }: Ran['granted'][number]): JsonObject => ({
  name: grantName({ capability, scope }),
  capability,
  scope,
  ...(capped.length > 0 && {
    capped: capped.map(({ level, ...cap }) => ({ ...cap, from: level })),
  }),
});

const couldDo = (runtime: Runtime, ran: Ran): JsonObject => ({
  by: { ...ran.by },
  provider: ran.provider,
  sandbox: ran.sandbox,
  items: ran.items.map((item) => itemNow(runtime, item)),
  permissions: { granted: ran.granted.map(grantOf) },
  policies: ran.policies.map((policy) => policyNow(runtime, policy)),
  guards: (ran.guards ?? []).map((on) => ({ on, from: 'directive' })),
  rules: Object.entries(ran.rules).map(([name, state]) => ({ name, state })),
});

/** Returns the report of `km explain --thread`. */
export async function explainThread(
  runtime: Runtime,
  store: Pick<Store, 'read'>,
  row: ThreadRow,
): Promise<Outcome<JsonObject>> {
  const { id, parent, status, directive, version, created } = row;
  const journal = await readJournal(store, id, ['thread_start', 'fork']);
  if (!journal.ok) return journal;
  const start = (forkOf(journal.output) ?? { data: startOf(journal.output) }).data;
  const { ran } = start ?? {};
  return ok({
    thread_id: id,
    ...(parent !== undefined && { parent }),
    status,
    directive,
    version,
    started: new Date(created).toISOString(),
    model: start?.model ?? '',
    ...(ran
      ? couldDo(runtime, ran)
      : { note: 'the version that started this thread did not record its items and keys' }),
    limits: withoutCurrency(start?.limits ?? {}),
  });
}

const withoutCurrency = (limits: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(limits).filter(([, limit]) => getOwn(limit, 'value') !== undefined),
  );
