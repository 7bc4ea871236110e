import { postgresStage } from '@kernmantle/test-support/store-suite/postgres-stage';
import { storeSuite } from '@kernmantle/test-support/store-suite/suite';
import { afterAll, describe, inject, test } from 'vitest';

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
