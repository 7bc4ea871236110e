import { afterAll, describe, inject, test } from 'vitest';
import { postgresStage } from '../support/store-suite/postgres-stage.ts';
import { storeSuite } from '../support/store-suite/suite.ts';

const url = inject('postgres');

if (url === '') {
  test.skip('the store port: PostgreSQL (skipped: there is no server for this platform)', () => {});
} else {
  describe('on a server', () => {
    const stage = postgresStage(url);
    afterAll(() => stage.drop());
    storeSuite('PostgreSQL', stage.open);
  });
}
