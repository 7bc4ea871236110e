// Runs once before the tests that need the page: builds `dist/page` when a source is newer.
import { buildWhenOlder } from '@kernmantle/test-support/build-when-older';

export default (): void =>
  buildWhenOlder({
    folder: 'dist/page',
    last: 'index.html',
    sources: [
      'packages/web/src/page',
      'packages/web/src/model',
      'packages/core/src/journal',
      'scripts/page.js',
      'package-lock.json',
    ],
    program: 'scripts/page.js',
    // The page that is shipped, not one for tests.
    env: { NODE_ENV: 'production' },
  });
