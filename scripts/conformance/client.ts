// Which scenarios are put to our client, and what is started for each.
import { REVISIONS, type Revision, requirementsOf } from './suite.ts';

/** Started in the root of the repository; the suite splits it at spaces. */
export const CLIENT_DRIVER = 'node --no-warnings packages/mcp/tests/conformance/client-driver.ts';

/** Those about OAuth are left out: logging in is the SDK's, and needs a person. */
export function clientScenarios(): [string, Revision][] {
  return REVISIONS.flatMap((revision) =>
    requirementsOf(revision)
      .client.filter((name) => !name.startsWith('auth/'))
      .map((name): [string, Revision] => [name, revision]),
  );
}
