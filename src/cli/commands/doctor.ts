// What `doctor` says about running threads: the registry and the providers. Nobody is asked over the
// network, and no registry is made.
import { existsSync } from 'node:fs';
import { getOwn, isObject, ok, plainText } from '../../base/index.ts';
import type { Runtime } from '../../runtime/index.ts';
import { type CommandRun } from '../command.ts';
import { withRuntime } from '../project.ts';
import { EXIT } from '../terminal/exit-code.ts';
import { type Colour, visible } from '../terminal/terminal.ts';
import { registryFile } from '../threads/open-threads.ts';

async function aboutRegistry(runtime: Runtime): Promise<Finding> {
  if (!existsSync(registryFile(runtime))) {
    return { about: 'store', state: 'good', message: 'no thread has run here yet' };
  }
  const opened = await runtime.threads();
  if (!opened.ok) return { about: 'store', state: 'bad', message: opened.error.detail.message };
  const { store } = opened.output;
  await store.sweep();
  const left = await store.query({ status: 'interrupted', limit: 500 });
  if (!left.ok) return { about: 'store', state: 'bad', message: left.error.detail.message };
  const count = left.output.rows.length;
  if (count === 0) return { about: 'store', state: 'good', message: registryFile(runtime) };
  return {
    about: 'store',
    state: 'note',
    message: `${count} threads were left behind by a process that ended`,
    fix: '`km threads ls --status interrupted`, then `km threads resume ID` or `km threads stop ID`',
  };
}

function aboutProviders(
  runtime: Runtime,
  env: Readonly<Record<string, string | undefined>>,
): Finding[] {
  const providers = getOwn(runtime.library.config('models').value, 'providers');
  return Object.entries(isObject(providers) ? providers : {}).map(([name, provider]): Finding => {
    const key = plainText(getOwn(provider, 'key'));
    const about = `provider ${name}`;
    if (key === '' || env[key]) {
      return { about, state: 'good', message: key === '' ? 'needs no key' : `\`${key}\` is set` };
    }
    const fix = `set \`${key}\` to run directives with its models`;
    return { about, state: 'note', message: 'has no key', fix };
  });
}

// `doctor`: what this installation can and cannot do, and how to mend what is missing.

type State = 'good' | 'note' | 'bad';
interface Finding {
  about: string;
  state: State;
  message: string;
  fix?: string;
}

const SURFACES = ['cli', 'mcp', 'library'];

function aboutKeys(runtime: Runtime): Finding[] {
  const keys = runtime.keys.list();
  const trusted = runtime.trustStore.list();
  return [
    !keys.ok
      ? { about: 'keys', state: 'bad', message: keys.error.detail.message }
      : keys.output.length === 0
        ? {
            about: 'keys',
            state: 'note',
            message: 'no signing key yet',
            fix: '`km keys` makes one',
          }
        : {
            about: 'keys',
            state: 'good',
            message: `${keys.output.length} in ${runtime.home}/keys`,
          },
    trusted.ok
      ? { about: 'trust', state: 'good', message: `${trusted.output.length} keys trusted` }
      : { about: 'trust', state: 'bad', message: trusted.error.detail.message },
  ];
}

async function aboutSandbox(runtime: Runtime): Promise<Finding> {
  const { kind, reason, version } = await runtime.sandbox();
  if (kind !== 'none') {
    const why = reason === undefined ? [] : [`(${reason})`];
    const message = [kind, version, ...why].filter(Boolean).join(' ');
    return { about: 'sandbox', state: 'good', message };
  }
  const without = runtime.policies().policy.sandbox === 'none';
  return {
    about: 'sandbox',
    state: 'note',
    message: `${reason ?? 'none found'}; ${without ? 'the policy lets tools run without one' : 'tools that start processes are refused'}`,
    fix:
      process.platform === 'linux'
        ? "`apt-get install bubblewrap` (or your system's package of that name), and allow user namespaces"
        : 'see docs/sandbox.md',
  };
}

function aboutPolicies(runtime: Runtime): Finding[] {
  const files =
    runtime
      .policies()
      .policy.levels.map(({ level }) => level)
      .join(', ') || 'none';
  const broken = runtime.policies().diagnostics.filter(({ severity }) => severity === 'error');
  const surfaces = SURFACES.map(
    (surface): Finding => ({
      about: `surface ${surface}`,
      state: 'good',
      message: `tools with effect ${runtime.policies().policy.effects(surface).join(', ') || 'none'}; directives: ${runtime.policies().policy.directives(surface)}`,
    }),
  );
  return [
    ...broken.map(
      ({ file, line, message }): Finding => ({
        about: 'policy',
        state: 'bad',
        message: `${file}:${line}: ${message}; until it is mended nothing is allowed`,
      }),
    ),
    {
      about: 'policy',
      state: 'good',
      message: `levels: ${files}; unsigned items: ${runtime.policies().policy.allowsUnsigned ? 'allowed' : 'restricted'}`,
    },
    ...surfaces,
  ];
}

function aboutItems(runtime: Runtime): Finding[] {
  const errors = runtime.library.check().filter(({ severity }) => severity === 'error');
  const changed = runtime.library
    .all()
    .filter(({ source, signature }) => source === 'bundle' && signature.state !== 'bundle');
  const findings: Finding[] = [
    errors.length === 0
      ? { about: 'items', state: 'good', message: `${runtime.library.all().length} items` }
      : {
          about: 'items',
          state: 'note',
          message: `${errors.length} errors`,
          fix: '`km check` lists them',
        },
  ];
  findings.push(
    changed.length === 0
      ? { about: 'bundle', state: 'good', message: 'as it was built' }
      : {
          about: 'bundle',
          state: 'bad',
          message: `changed since it was built: ${changed
            .map(({ id }) => id)
            .slice(0, 5)
            .join(', ')}`,
          fix: 'install the package again; in a clone, `npm run digests` after a wanted change',
        },
  );
  return findings;
}

export const run: CommandRun = (call) =>
  withRuntime(call, async (runtime) => {
    const { terminal } = call;
    const findings: Finding[] = [
      { about: 'node', state: 'good', message: process.version },
      { about: 'project', state: 'good', message: runtime.project },
      ...aboutKeys(runtime),
      await aboutSandbox(runtime),
      ...aboutPolicies(runtime),
      ...aboutItems(runtime),
      await aboutRegistry(runtime),
      ...aboutProviders(runtime, terminal.env),
    ];
    const isBad = findings.some(({ state }) => state === 'bad');
    terminal.finish(ok({ healthy: !isBad, findings }), () => {
      const marks: Record<State, [Colour, string]> = {
        good: ['green', 'ok'],
        note: ['yellow', '!'],
        bad: ['red', 'x'],
      };
      for (const { about, state, message, fix } of findings) {
        const [colour, mark] = marks[state];
        terminal.out(
          `${terminal.paint(colour, mark.padEnd(3))}${about.padEnd(16)} ${visible(message)}`,
        );
        if (fix) terminal.out(`   ${terminal.paint('blue', 'fix')}: ${fix}`);
      }
    });
    return isBad ? EXIT.failed : EXIT.done;
  });
