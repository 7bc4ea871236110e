// Builds `dist-tests/` once before the tests that start `km` or another program, if a source is newer. A bundle starts
// in half of the time. Node caches compiled code in `dist-tests/compile`.
import { buildWhenOlder } from './build-when-older.ts';
import { PROGRAMS } from './built.ts';

export default (): void =>
  buildWhenOlder({
    folder: 'dist-tests',
    last: 'known-yaml.json',
    sources: [
      'packages',
      'tests/support',
      'packages/fleet/tests/support',
      'packages/mcp/tests/support',
      'bundle/config',
      'bundle/policy.yaml',
      'scripts/bundle.js',
      'package-lock.json',
    ],
    program: 'scripts/bundle.js',
    args: Object.values(PROGRAMS),
  });
