// Implements `keys export|import`. All machines of a fleet need the same token key to resume each
// other's threads. The key is copied in a file that a passphrase protects. No key is ever printed.
import { closeSync, constants, fchmodSync, openSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import {
  errnoOf,
  fail,
  type Outcome,
  ok,
  readRegularFile,
  systemRandom,
} from '@kernmantle/core/base';
import { noted, ownKey, personAuditRow, type Runtime } from '@kernmantle/core/runtime';
import { openKeys, sealKeys } from '@kernmantle/core/trust';
import { asText } from '../../command.ts';
import { commandActor, inProject } from '../../project.ts';
import { askUnseen, type Terminal, visible } from '../../terminal/terminal.ts';

const VARIABLE = 'KERNMANTLE_KEY_PASSPHRASE';
const MAX_BYTES = 16 * 1024;

/** Reads the passphrase from the environment or asks for it, twice if `isNew`. */
async function passphraseFor(terminal: Terminal, isNew: boolean): Promise<Outcome<string>> {
  const fromEnvironment = terminal.env[VARIABLE] ?? '';
  if (fromEnvironment !== '') return ok(fromEnvironment);
  const first = await askUnseen(terminal, isNew ? 'new passphrase' : 'passphrase');
  if (first === undefined || first === '') {
    const hint = `set \`${VARIABLE}\`, or run the command at a terminal`;
    return fail('usage', 'a passphrase is required', { hint });
  }
  if (!isNew || (await askUnseen(terminal, 'once more')) === first) return ok(first);
  return fail('usage', 'the two passphrases differ');
}

/** Creates the file with access for its owner only, before its first byte is written. */
function writeFor(file: string, text: string, force: boolean): Outcome<null> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_TRUNC, O_NOFOLLOW } = constants;
  try {
    const how = O_WRONLY | O_CREAT | O_NOFOLLOW | (force ? O_TRUNC : O_EXCL);
    const handle = openSync(file, how, 0o600);
    try {
      fchmodSync(handle, 0o600);
      if (writeSync(handle, text) !== Buffer.byteLength(text)) throw new Error('the disk is full');
    } finally {
      closeSync(handle);
    }
    return ok(null);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') {
      return fail('unavailable', `cannot write \`${file}\`: ${errnoOf(error)}`);
    }
    const hint = 'choose another file with `--out FILE`, or overwrite it with `--force`';
    return fail('conflict', `file \`${file}\` already exists`, { hint });
  }
}

export const exportKeys = inProject(async (runtime, call) => {
  const { options, terminal } = call;
  const file = resolve(terminal.cwd, asText(options.out) ?? 'kernmantle-keys.json');
  const [tokens, signing] = [runtime.keys.tokenKey(), ownKey(runtime)];
  if (!tokens.ok) return tokens;
  if (!signing.ok) return signing;
  const passphrase = await passphraseFor(terminal, true);
  if (!passphrase.ok) return passphrase;
  const { id, publicKey } = signing.output;
  const parcel = { tokens: tokens.output, signer: { id, key: publicKey } };
  const sealed = sealKeys(parcel, passphrase.output, systemRandom);
  if (!sealed.ok) return fail('usage', sealed.error.detail.message);
  const row = personAuditRow(commandActor(call), 'keys:export', tokens.output.id, `to ${file}`);
  const done = noted(runtime, row, writeFor(file, sealed.output, options.force === true));
  const output = { file, token_key: tokens.output.id, signing_key: id };
  return terminal.finish(done.ok ? ok(output) : done, () => {
    terminal.out(visible(`wrote the token key ${output.token_key} to ${file}`));
    terminal.note(
      'on another machine: `km keys import FILE`; any person with the file and the passphrase can act as you',
    );
  });
});

/** Trusts items signed by the owner of this key, unless the key was revoked. */
function trustSigner(
  { trustStore }: Runtime,
  signer: { id: string; key: string },
): Outcome<boolean> {
  const keyList = trustStore.list();
  if (!keyList.ok) return keyList;
  if (keyList.output.some(({ id }) => id === signer.id)) return ok(false);
  const added = trustStore.add({ ...signer, name: 'imported' });
  return added.ok ? ok(true) : added;
}

export const importKeys = inProject(async (runtime, call) => {
  const { args, options, terminal } = call;
  const file = resolve(terminal.cwd, asText(args[0]) ?? '');
  const read = readRegularFile(file, { max: MAX_BYTES, followsLinks: true });
  if ('problem' in read) return fail('usage', `\`${file}\`: ${read.problem.message}`);
  const passphrase = await passphraseFor(terminal, false);
  if (!passphrase.ok) return passphrase;
  const by = commandActor(call);
  const opened = openKeys(read.bytes.toString('utf8'), passphrase.output);
  if (!opened.ok) {
    noted(runtime, personAuditRow(by, 'keys:import', file), opened);
    return opened;
  }
  const { tokens, signer } = opened.output;
  const row = personAuditRow(by, 'keys:import', tokens.id, `from ${file}`);
  const stored = noted(runtime, row, runtime.keys.keepTokenKey(tokens, options.force === true));
  if (!stored.ok) {
    const hint = 'replace it with `--force`; the old key stays beside it';
    return stored.error.code === 'conflict'
      ? fail('conflict', stored.error.detail.message, { hint })
      : stored;
  }
  const trusted = noted(
    runtime,
    personAuditRow(by, 'trust:add', signer.id),
    trustSigner(runtime, signer),
  );
  if (!trusted.ok) return trusted;
  const { isNew, aside } = stored.output;
  const output = {
    token_key: tokens.id,
    is_new: isNew,
    signing_key: signer.id,
    trusted: trusted.output,
  };
  return terminal.finish(ok({ ...output, ...(aside !== undefined && { aside }) }), () => {
    terminal.out(isNew ? `imported the token key ${tokens.id}` : `${tokens.id} already exists`);
    if (aside !== undefined) terminal.note(visible(`the old key is in ${aside}`));
    if (trusted.output) terminal.note(`items signed by ${signer.id} are trusted from now on`);
  });
});
