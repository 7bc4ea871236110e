// The right a thread works with: what its directive declares, as a token that only narrows. A root's
// token is minted with the harness's key, a child's is one more block on its parent's chain.
import { fail, type Json, type Outcome, ok } from '../base/index.ts';
import type { Directive, Library } from '../items/index.ts';
import {
  attenuateToken,
  type CapabilityToken,
  encodeToken,
  type GrantedRights,
  grantName,
  grantsFromPermissions,
  type KeyPair,
  mintToken,
} from '../trust/index.ts';

export interface ThreadRights {
  token: CapabilityToken;
  /** What calls carry as `__auth`. The model never sees it. */
  auth: string;
  /** Names for `permissions.granted`. */
  granted: readonly string[];
}

export interface RightsRequest {
  thread: string;
  directive: Directive;
  project: string;
  /** Milliseconds since 1970. */
  expires: number;
  parent?: { thread: string; token: CapabilityToken };
  /** Signed and shipped: its system-only capabilities count. */
  core: boolean;
}

/** The grants a directive declares; every bare tool name is resolved once, here. */
export function declaredRights(
  directive: Directive,
  library: Library,
  project: string,
): Outcome<GrantedRights> {
  const rights = grantsFromPermissions(
    directive.permissions ?? { entries: [] },
    library.capabilities().catalog,
    (name) => {
      const found = library.find('tool', name);
      return found.ok ? ok(found.output.id) : found;
    },
    project,
  );
  const [problem] = rights.problems;
  if (!problem) return ok(rights);
  return fail('invalid_item', `permissions of \`${directive.name}\`: ${problem.message}`, {
    problems: rights.problems.map(({ code, message }) => ({ code, message })) as Json,
  });
}

export function mintRights(
  request: RightsRequest,
  library: Library,
  key: KeyPair,
): Outcome<ThreadRights> {
  const { thread, directive, project, expires, parent, core } = request;
  const declared = declaredRights(directive, library, project);
  if (!declared.ok) return declared;
  const { grants, filters } = declared.output;
  const block = {
    aud: 'kernmantle',
    project,
    thread,
    directive: directive.name,
    caps: grants,
    exp: expires,
    ...(Object.keys(filters).length > 0 ? { filters } : {}),
    ...(parent ? { parent: parent.thread } : {}),
  };
  const token = parent ? attenuateToken(parent.token, block) : mintToken(key, block, { core });
  if (!token.ok) return token;
  return ok({
    token: token.output,
    auth: encodeToken(token.output),
    granted: [...new Set(grants.map(grantName))],
  });
}
