// Signs the settings of a schedule with the key of the person who adds it, and verifies them before each fire. So a
// change of the database starts nothing that a person did not sign.
import { hash } from 'node:crypto';
import {
  asJson,
  canonicalJson,
  fail,
  getOwn,
  isObject,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
} from '../../base/index.ts';
import type { DirectiveLimits } from '../../items/index.ts';
import type { NewSchedule } from '../../store/index.ts';
import {
  type ItemStatement,
  type KeyPair,
  signStatement,
  type TrustStore,
  verifyStatement,
} from '../../trust/index.ts';

export interface ScheduleSettings {
  readonly directive: string;
  readonly inputs: JsonObject;
  readonly cron: string;
  readonly tz: string;
  /** `once`: the latest tick that was missed within `grace_ms` runs later. */
  readonly missed: 'once' | 'skip';
  readonly grace_ms: number;
  /** Says if a tick is left out, waits or stops the run while an earlier run has not ended. */
  readonly overlap: 'skip' | 'wait' | 'stop';
  /** Largest spend of all runs of a day in the zone, in the currency of prices. */
  readonly spend_per_day?: string;
  readonly model?: string;
  readonly limits?: DirectiveLimits;
}

type Fixed = Pick<NewSchedule, 'id' | 'tenant' | 'name'>;

/** `project` is the id of the project, which a copy to another store keeps. */
export interface SignedSchedule extends ScheduleSettings, Fixed {
  readonly project: string;
  readonly by: string;
  readonly created: string;
  readonly key: string;
}

const statementOf = (id: string, body: string, created: string, key: string): ItemStatement => ({
  kind: 'schedule',
  id,
  version: '1',
  sha256: hash('sha256', body),
  rights: '',
  created,
  key,
});

export function signSchedule(
  settings: Omit<SignedSchedule, 'key'>,
  key: KeyPair,
): Pick<NewSchedule, 'body' | 'signature'> {
  const body = canonicalJson(asJson({ ...settings, key: key.id }));
  const { id, created } = settings;
  return { body, signature: signStatement(statementOf(id, body, created, key.id), key) };
}

const MAX_NESTING = 100;

/** Fails with `signature_invalid` unless a trusted key signed the settings for this row and project. */
export function verifySchedule(
  { id, tenant, name, body, signature }: Omit<NewSchedule, 'project' | 'next'>,
  project: string,
  trust: Pick<TrustStore, 'judge'>,
): Outcome<SignedSchedule> {
  const broken = (why: string) =>
    fail('signature_invalid', `schedule \`${name}\` ${why}; remove it and add it again`, { name });
  const json = parseJson(body, MAX_NESTING);
  const fields = json.ok && isObject(json.output) ? json.output : {};
  const [key, created] = [getOwn(fields, 'key'), getOwn(fields, 'created')];
  if (typeof key !== 'string' || typeof created !== 'string') return broken('cannot be read');
  const trusted = trust.judge(key, 'schedule', name);
  if (!trusted.ok) return broken(`has no valid signature: ${trusted.error.detail.message}`);
  const statement = statementOf(id, body, created, key);
  if (!verifyStatement(statement, signature, trusted.output.key)) return broken('was changed');
  const signed: SignedSchedule = JSON.parse(body);
  const isSame =
    signed.id === id &&
    signed.tenant === tenant &&
    signed.name === name &&
    signed.project === project;
  return isSame ? ok(signed) : broken('was signed for another project');
}
