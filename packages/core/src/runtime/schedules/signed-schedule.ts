// Signs the settings of a schedule with the key of the person who adds it, and verifies them before each fire. So a
// change of the database starts nothing that a person did not sign.
import { hash } from 'node:crypto';
import {
  asJson,
  canonicalJson,
  fail,
  type JsonObject,
  type Outcome,
  ok,
  parseJson,
  textAt,
} from '../../base/index.ts';
import type { DirectiveLimits } from '../../items/index.ts';
import type { ScheduleRow } from '../../store/index.ts';
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

/** Settings with the person who signed them. */
export interface SignedSchedule extends ScheduleSettings {
  readonly by: string;
  readonly created: string;
  readonly key: string;
}

/** Columns of a row that the signature names. `project` is the id of the project, which a copy to another store keeps. */
type SignedRow = Pick<ScheduleRow, 'id' | 'tenant' | 'name' | 'project'>;

const statementOf = (
  { id, tenant, name, project }: SignedRow,
  body: string,
  { created, key }: Pick<SignedSchedule, 'created' | 'key'>,
): ItemStatement => ({
  kind: 'schedule',
  id: canonicalJson([project, tenant, name, id]),
  version: '1',
  sha256: hash('sha256', body),
  rights: '',
  created,
  key,
});

export function signSchedule(
  row: SignedRow,
  settings: Omit<SignedSchedule, 'key'>,
  key: KeyPair,
): Pick<ScheduleRow, 'body' | 'signature'> {
  const signed = { ...settings, key: key.id };
  const body = canonicalJson(asJson(signed));
  return { body, signature: signStatement(statementOf(row, body, signed), key) };
}

const MAX_NESTING = 100;

/** Fails with `signature_invalid` unless a trusted key signed the settings for this row and project. */
export function verifySchedule(
  { body, signature, ...row }: SignedRow & Pick<ScheduleRow, 'body' | 'signature'>,
  trust: Pick<TrustStore, 'judge'>,
): Outcome<SignedSchedule> {
  const { name } = row;
  const broken = (why: string) =>
    fail('signature_invalid', `schedule \`${name}\` ${why}; remove it and add it again`, { name });
  const json = parseJson(body, MAX_NESTING);
  if (!json.ok) return broken('cannot be read');
  const facts = { created: textAt(json.output, 'created'), key: textAt(json.output, 'key') };
  const trusted = trust.judge(facts.key, 'schedule', name);
  if (!trusted.ok) return broken(`has no valid signature: ${trusted.error.detail.message}`);
  return verifyStatement(statementOf(row, body, facts), signature, trusted.output.key)
    ? ok(JSON.parse(body))
    : broken('was changed, or was signed for another project');
}
