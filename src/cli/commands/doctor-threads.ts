// What `doctor` says about running threads: the registry and the providers. Nobody is asked over the
// network, and no registry is made.
import { existsSync } from 'node:fs';
import { getOwn, isObject, plainText } from '../../base/index.ts';
import type { Runtime } from '../../runtime.ts';
import { registryFile } from '../thread-access.ts';
import type { Finding } from './doctor.ts';

export async function aboutRegistry(runtime: Runtime): Promise<Finding> {
  if (!existsSync(registryFile(runtime))) {
    return { about: 'store', state: 'good', message: 'no thread has run here yet' };
  }
  const opened = await runtime.threads();
  if (!opened.ok) return { about: 'store', state: 'bad', message: opened.error.detail.message };
  const { store } = opened.output;
  store.interruptExpired();
  const left = store.query({ status: 'interrupted', limit: 500 });
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

export function aboutProviders(
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
