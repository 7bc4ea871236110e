// Selects the scenarios for the client of this repository, and the program that each scenario starts.
import { REVISIONS, type Revision, requirementsOf } from './suite.ts';

/** Command that starts the client in the root of the repository. The suite splits it at spaces. */
export const CLIENT_DRIVER = 'node --no-warnings packages/mcp/tests/conformance/client-driver.ts';

/** Returns the scenarios without those about OAuth, because the SDK implements the login and it needs a person. */
export function clientScenarios(): [string, Revision][] {
  return REVISIONS.flatMap((revision) =>
    requirementsOf(revision)
      .client.filter((name) => !name.startsWith('auth/'))
      .map((name): [string, Revision] => [name, revision]),
  );
}
