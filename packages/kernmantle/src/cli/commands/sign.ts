import { existsSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { EXIT, ok } from '@kernmantle/core/base';
import { type SignatureState, verifyItem } from '@kernmantle/core/items';
import { noted, personAuditRow, signFiles } from '@kernmantle/core/runtime';
import { asList } from '../command.ts';
import { commandActor, inProject } from '../project.ts';
import { type Colour, visible } from '../terminal/terminal.ts';

/** Shows only public keys. The private key never leaves its file. */
export const showKeys = inProject(async (runtime, call) => {
  const { terminal } = call;
  const before = runtime.keys.list();
  const isNew = before.ok && !before.output.some(({ name }) => name === 'signing');
  const signing = runtime.keys.signingKey();
  const row = personAuditRow(
    commandActor(call),
    'keys',
    signing.ok ? signing.output.id : '',
    'made a key',
  );
  const key = isNew ? noted(runtime, row, signing) : signing;
  if (!key.ok) return key;
  const { id, publicKey } = key.output;
  return terminal.finish(ok({ id, public_key: publicKey }), () => {
    if (isNew) terminal.note(`created a new key in ${runtime.home}/keys`);
    terminal.out(`${terminal.paint('dim', 'id        ')} ${id}`);
    terminal.out(`${terminal.paint('dim', 'public key')} ${publicKey}`);
    terminal.note('others accept your signatures after `km trust add <public key> --name <you>`');
  });
});

export const signItems = inProject(async (runtime, call) => {
  const { args, terminal } = call;
  const files = asList(args[0]).map((file) => resolve(terminal.cwd, file));
  const signed = signFiles(runtime, files, commandActor(call));
  if (!signed.ok) return signed;
  const rows = signed.output.map(({ file, statement }) => ({
    file: relative(terminal.cwd, file),
    kind: statement.kind,
    id: statement.id,
    key: statement.key,
  }));
  return terminal.finish(ok(rows), () => {
    for (const { file, kind, id } of rows) terminal.out(`signed ${kind} ${id} (${file})`);
  });
});

const COLOURS: Readonly<Record<string, Colour>> = {
  signed: 'green',
  bundle: 'green',
  unsigned: 'yellow',
  untrusted: 'red',
  changed: 'red',
};

export const verifyItems = inProject(async (runtime, { args, terminal }) => {
  const paths = asList(args[0]).map((file) => resolve(terminal.cwd, file));
  const own = runtime.library.all().filter(({ source }) => source === 'project');
  const policy = join(runtime.project, '.ai', 'policy.yaml');
  const there = existsSync(policy) ? [policy] : [];
  const files = paths.length > 0 ? paths : [...own.map(({ file }) => file), ...there];
  const rows: (SignatureState & { file: string })[] = [];
  for (const file of files) {
    const verified = verifyItem(file, runtime.trustStore, runtime.library.roots());
    if (!verified.ok) return verified;
    rows.push({ file: relative(terminal.cwd, file), ...verified.output });
  }
  terminal.finish(ok(rows), () => {
    for (const { file, state, key = '', reason = '' } of rows) {
      const label = terminal.paint(COLOURS[state] ?? 'dim', state.padEnd(10));
      terminal.out(
        `${label} ${visible(file)} ${terminal.paint('dim', visible([key, reason].filter(Boolean).join(' ')))}`,
      );
    }
    if (rows.length === 0) terminal.note('the project has no items');
  });
  const isBroken = rows.some(({ state }) => state === 'changed' || state === 'untrusted');
  return isBroken ? EXIT.denied : EXIT.done;
});
