// Runs once before the tests that need the page: builds `dist/page` when a source is newer.
import { buildWhenOlder } from '../../support/build-when-older.ts';

export default (): void =>
  buildWhenOlder({
    folder: 'dist/page',
    last: 'index.html',
    sources: ['src/web/page', 'src/web/model', 'scripts/page.js', 'package-lock.json'],
    program: 'scripts/page.js',
    // The page that is shipped, not one for tests.
    env: { NODE_ENV: 'production' },
  });
