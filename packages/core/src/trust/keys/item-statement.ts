// Signs and verifies the statement about an item: kind, id and version, body, rights, time and key. A
// domain tag separates the statement from all other data that keys sign.
import { canonicalJson } from '../../base/index.ts';
import {
  frame,
  fromBase64Url,
  KEY_BYTES,
  type KeyPair,
  keyIdOf,
  SIGNATURE_BYTES,
  toBase64Url,
  verifySignature,
} from './key.ts';

export interface ItemStatement {
  kind: string;
  id: string;
  version: string;
  /** Hash of the body without the signature line, in hex. */
  sha256: string;
  /** Digest of the item's permissions and hooks. */
  rights: string;
  /** Time of the signature in ISO format. */
  created: string;
  key: string;
}

const TAG = 'kernmantle/item-statement/v1';
const FIELDS = ['kind', 'id', 'version', 'sha256', 'rights', 'created', 'key'] as const;

/** Returns the signed bytes. Undefined unless the statement has exactly these fields, all texts. */
function bytesOf(statement: ItemStatement): Buffer | undefined {
  const isWhole =
    Object.keys(statement).length === FIELDS.length &&
    FIELDS.every((field) => typeof statement[field] === 'string');
  return isWhole ? frame(TAG, Buffer.from(canonicalJson({ ...statement }))) : undefined;
}

/** Returns the signature in base64url. Throws if the statement names another key. */
export function signStatement(statement: ItemStatement, key: KeyPair): string {
  const bytes = bytesOf(statement);
  if (!bytes || statement.key !== key.id) {
    throw new TypeError('a statement must have its seven fields and name the key that signs it');
  }
  return toBase64Url(key.sign(bytes));
}

/** Returns false for any invalid statement, signature or key. Never throws. */
export function verifyStatement(
  statement: ItemStatement,
  signature: string,
  publicKey: string,
): boolean {
  const bytes = bytesOf(statement);
  const id = keyIdOf(publicKey);
  if (!bytes || !id.ok || id.output !== statement.key) return false;
  const [raw, signed] = [
    fromBase64Url(publicKey, KEY_BYTES),
    fromBase64Url(signature, SIGNATURE_BYTES),
  ];
  return raw !== undefined && signed !== undefined && verifySignature(raw, bytes, signed);
}
