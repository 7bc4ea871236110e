// An address that is wrong says what, where and how to mend it; its password is said nowhere.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { runCommand } from '@kernmantle/test-support/command-line';
import { timeoutMs } from '@kernmantle/test-support/soak';
import { directive, READ, read } from '@kernmantle/test-support/thread-project';
import fc from 'fast-check';
import pg from 'pg';
import { describe, expect, inject, test } from 'vitest';
import { readPlace, shownPlace } from '../src/postgres/address.ts';
import { openCliStage } from './support/cli-stage.ts';
import { freePort } from './support/postgres-server.ts';

const server = inject('postgres');
const LOOK = directive('look', { permissions: READ });
const SEEN = [read('notes/a.txt'), { text: 'seen' }];

/** Characters that mean something to addresses, shells, formats and patterns. */
const ODD = fc.constantFrom(...Array.from('@:/?#[]%&=+$!*\'"\\ `<>|^~{}()äß€😀\t,;Qz7'));
const password = fc.string({ unit: ODD, minLength: 6, maxLength: 24 }).map((text) => `7${text}qZ`);

/** As it is, and as an address or JSON writes it. */
const formsOf = (secret: string): string[] => [
  secret,
  encodeURIComponent(secret),
  new URL(`x://a:${encodeURIComponent(secret)}@b/`).password,
  JSON.stringify(secret).slice(1, -1),
];

function expectUnsaid(text: string, secret: string): void {
  for (const form of formsOf(secret)) expect(text).not.toContain(form);
}

function* filesIn(folder: string): Generator<string> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) yield* filesIn(path);
    else yield path;
  }
}

test('an address is shown without its password, or not at all', () => {
  fc.assert(
    fc.property(password, fc.boolean(), (secret, isRaw) => {
      const written = isRaw ? secret : encodeURIComponent(secret);
      for (const text of [
        `postgres://ann:${written}@db.example:5432/agents?schema=x`,
        `postgres://ann@db.example/agents?password=${encodeURIComponent(secret)}`,
        `mysql://ann:${encodeURIComponent(secret)}@db.example/agents`,
        `postgres://ann:${encodeURIComponent(secret)}@db.example`,
        `postgres://ann:${encodeURIComponent(secret)}@db.example/agents?schema=No!`,
      ]) {
        const place = readPlace(text);
        if (!place.ok) expectUnsaid(JSON.stringify(place), secret);
        expectUnsaid(shownPlace(text), secret);
      }
    }),
  );
});

describe.skipIf(server === '')('over a server (needs PostgreSQL)', () => {
  test('what is wrong with an address is said with its remedy', async () => {
    const { fixture, address } = await openCliStage(server, LOOK, SEEN);
    const [own, port] = [new URL(address), await freePort()];
    const other = (change: (url: URL) => void): string => {
      const url = new URL(own);
      change(url);
      return url.href;
    };
    const silent = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const place = silent.address();
    const cut = typeof place === 'object' && place ? place.port : 0;
    const cases: [what: string, given: string, code: number, says: RegExp][] = [
      ['no address', 'agents', 2, /invalid store address; use `postgres:\/\//],
      ['another kind', 'mysql://a:Secret77@b/c', 2, /unsupported store type `mysql`/],
      ['no database', 'postgres://a:Secret77@b', 2, /has no database/],
      ['a wrong schema', `${server}?schema=A-B`, 2, /schema/],
      ['nobody listens', other((url) => void (url.port = String(port))), 1, /cannot be reached/],
      ['it hangs up', other((url) => void (url.port = String(cut))), 1, /cannot be reached/],
      [
        'a wrong password',
        other((url) => void (url.password = 'Secret77')),
        1,
        /name and password/,
      ],
      ['no password', other((url) => void (url.password = '')), 1, /password/],
      [
        'another database',
        other((url) => void (url.pathname = '/none')),
        1,
        /no database of this name/,
      ],
      ['no tables', address, 1, /km store migrate/],
    ];
    for (const [what, given, code, says] of cases) {
      for (const more of [[], ['--json']]) {
        const words = ['threads', 'ls', '--store', given, ...more];
        const ran = await runCommand(words, fixture.root, fixture.env);
        expect(ran.code, `${what}: ${ran.output}`).toBe(code);
        if (more.length === 0) expect(ran.output, what).toMatch(says);
        expect(ran.output, what).not.toMatch(/Secret77|secret-of-tests|internal error:/);
      }
    }
    silent.close();
    // The environment and the settings are no words of the command.
    const env = { ...fixture.env, KERNMANTLE_STORE: 'mysql://a:Secret77@b/c' };
    const ran = await runCommand(['threads', 'ls'], fixture.root, env);
    expect(ran).toMatchObject({ code: 3, output: expect.stringContaining('KERNMANTLE_STORE') });
  });

  test('a registry of a newer version, or of another key, is named as that', async () => {
    const { fixture, address, km } = await openCliStage(server, LOOK, SEEN);
    await km('store', 'migrate');
    const env = { ...fixture.env, KERNMANTLE_HOME: join(fixture.home, 'other') };
    const foreign = await runCommand(['threads', 'ls'], fixture.root, env);
    expect(foreign.code).toBe(1);
    expect(foreign.output).toContain('km keys import');
    const client = new pg.Client(server);
    await client.connect();
    const schema = new URL(address).searchParams.get('schema');
    await client.query(
      `UPDATE ${schema}.about SET value = '999' WHERE name IN ('schema', 'oldest')`,
    );
    await client.end();
    const newer = await km('threads', 'ls');
    expect(newer.code).toBe(1);
    expect(newer.output).toContain('update kernmantle');
  });

  test(
    'a password full of odd characters is said nowhere, whatever is asked and whatever fails',
    async () => {
      const stage = await openCliStage(server, LOOK, SEEN);
      const { fixture, address } = stage;
      const [secret = ''] = fc.sample(password, { numRuns: 1, seed: 7 });
      const user = `km_${new URL(address).searchParams.get('schema')}`;
      const client = new pg.Client(server);
      await client.connect();
      await client.query(`CREATE ROLE ${user} LOGIN PASSWORD ${pg.escapeLiteral(secret)}`);
      await client.query(`GRANT CREATE ON DATABASE km TO ${user}`);
      const own = new URL(address);
      own.username = user;
      own.password = encodeURIComponent(secret);
      const wrong = new URL(own);
      wrong.pathname = '/none';
      const said: string[] = [];
      const km = async (...words: string[]): Promise<string> => {
        const { output } = await runCommand(words, fixture.root, fixture.env);
        said.push(output);
        return output;
      };
      try {
        for (const url of [wrong.href, own.href]) {
          fixture.env.KERNMANTLE_STORE = url;
          for (const more of [[], ['--json']]) {
            await km('store', 'migrate', ...more);
            await km('store', 'check', ...more);
            await km('run', 'look', '--no-wait', ...more);
            await km('run', 'none', ...more);
            await km('threads', 'ls', ...more);
            await km('threads', 'show', 'last', ...more);
            await km('threads', 'pause', 'last', ...more);
            await km('threads', 'stop', 'last', ...more);
            await km('approvals', 'ls', ...more);
            await km('approvals', 'approve', 'apr_none', ...more);
            await km('cost', ...more);
            await km('audit', ...more);
            await km('doctor', ...more);
            await km('store', 'limits', 'tenant:a', '--concurrent', '1', ...more);
          }
        }
        fixture.env.KERNMANTLE_STORE = undefined;
        await km('threads', 'ls', '--store', own.href);
        await km('threads', 'ls', `--stroe=${own.href}`);
        await km('threads', own.href);
        await km('threads', 'ls', `--stroe=${own.href}`, '--json');
        expect(said.join('')).toContain(user);
        for (const text of said) expectUnsaid(text, secret);
        for (const file of filesIn(join(fixture.root, '..'))) {
          expectUnsaid(readFileSync(file, 'latin1'), secret);
        }
        // Of a process that has the address from its environment nothing is seen from outside.
        const { stdout } = await promisify(execFile)('ps', ['-eo', 'args']);
        expectUnsaid(stdout, secret);
      } finally {
        await client.query(`DROP OWNED BY ${user} CASCADE; DROP ROLE ${user}`);
        await client.end();
      }
    },
    timeoutMs(120_000),
  );
});
