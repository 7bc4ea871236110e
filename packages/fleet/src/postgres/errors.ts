// Converts errors of the server and of the network to codes that a caller can act on. INVARIANT: a message never
// contains more of an address than `shownPlace` returns.
import { type Failure, fail } from '@kernmantle/core/base';

/** The server's code for a transaction that can succeed if it is repeated. */
export const SERIALIZATION_FAILURE = '40001';

/** `busy`: the server rolled back because of others. `lost`: the connection broke. `final`: no retry helps. */
export interface Trouble {
  readonly kind: 'refused' | 'busy' | 'lost' | 'final';
  readonly failure: Failure;
}

/** Rolls back the transaction in which it is thrown. Its failure is the answer. */
export class RefusedWrite extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.error.detail.message);
    this.failure = failure;
  }
}

type ServerFault = readonly [kind: Trouble['kind'], code: string, what: string];
const BUSY: ServerFault = ['busy', 'store_busy', 'is in use by other processes; try again'];
const LOST: ServerFault = ['lost', 'store_failed', 'cannot be reached'];
const RIGHTS: ServerFault = ['final', 'store_failed', 'denies this user a required right'];
const ENTRY: ServerFault = [
  'final',
  'store_failed',
  'refuses the login of this user; check name and password',
];
const FORM: ServerFault = [
  'final',
  'store_failed',
  'does not have the required tables; run the migration',
];
const TEXT: ServerFault = ['final', 'invalid_input', 'cannot store a text with a NUL character'];
const FULL: ServerFault = [
  'final',
  'disk_full',
  'cannot grow: the disk is full; free some space and resume',
];

const FAULTS: ReadonlyMap<string, ServerFault> = new Map([
  ...[SERIALIZATION_FAILURE, '40P01', '55P03', '57014', '53300', '55006'].map(
    (code) => [code, BUSY] as const,
  ),
  ...['57P01', '57P02', '57P03', '57P05', '25P03', '25P04'].map((code) => [code, LOST] as const),
  ...['28P01', '28000'].map((code) => [code, ENTRY] as const),
  ...['42P01', '42883', '42703', '3F000'].map((code) => [code, FORM] as const),
  ...['22021', '22P05'].map((code) => [code, TEXT] as const),
  ['42501', RIGHTS],
  ['53100', FULL],
  ['53200', ['final', 'store_failed', 'is out of memory']],
  ['3D000', ['final', 'store_failed', 'has no database of this name']],
  ['25006', ['final', 'store_failed', 'refuses writes, because it is a replica or read-only']],
]);

/** Marks a failure to reach the server. A worker that starts waits for the server. */
export const UNREACHABLE = { unreachable: true } as const;

const NETWORK = /^(E[A-Z_]{3,}|08...)$/;
/** Messages of errors for which the library has no code. */
const CUT = /terminated|timeout|not queryable|closed the connection|socket/i;

function classify(code: string, message: string): ServerFault | undefined {
  const entry = FAULTS.get(code);
  if (entry) return entry;
  if (NETWORK.test(code) || (code === '' && CUT.test(message))) return LOST;
  return /^(53|58|XX)/.test(code)
    ? ['final', 'store_failed', `reports an error (${code})`]
    : undefined;
}

/** Converts an exception and never throws. `place`: the address without its password. */
export function troubleOf(error: unknown, place: string): Trouble {
  if (error instanceof RefusedWrite) return { kind: 'refused', failure: error.failure };
  const { code: state = '', message = String(error) } = Object(error);
  const code = String(state);
  const [kind, name, what] = classify(code, message) ?? [
    'final',
    'internal_error',
    `failed: ${message}`,
  ];
  const why = name === 'store_failed' && NETWORK.test(code) ? ` (${code})` : '';
  // A retry does not help against errors of Node and TLS, such as a wrong certificate.
  const detail = { place, ...(kind === 'lost' && !code.startsWith('ERR_') && UNREACHABLE) };
  return { kind, failure: fail(name, `the registry at ${place} ${what}${why}`, detail) };
}
