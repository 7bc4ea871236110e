// One database server for all tests that need one; they find it with `inject('postgres')`.
import type { TestProject } from 'vitest/node';
import { startPostgres } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Empty: no server could be started here. */
    postgres: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env['KERNMANTLE_TEST_POSTGRES'];
  const server = given === undefined ? await startPostgres() : undefined;
  project.provide('postgres', given ?? server?.url ?? '');
  return async () => {
    await server?.stop();
  };
}
